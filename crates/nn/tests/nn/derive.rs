//! `#[derive(Module)]` on structs of every shape.

use frit_nn::Module;
use frit_tensor::{DType, Tensor};
use std::marker::PhantomData;

fn param(n: usize) -> Tensor {
    Tensor::from_vec(vec![0f32; n], [n]).requires_grad(true)
}
fn names(m: &impl Module) -> Vec<String> {
    m.named_tensors().into_iter().map(|(name, _)| name).collect()
}

#[derive(Module)]
struct Leaf {
    w: Tensor,
    b: Option<Tensor>,
}
fn leaf() -> Leaf {
    Leaf { w: param(2), b: Some(param(1)) }
}

#[test]
fn named_fields_come_in_order_with_dotted_paths() {
    /// Documented, with every kind of configuration beside the tensors.
    #[derive(Module)]
    #[allow(dead_code)]
    pub(crate) struct Net {
        pub last: Leaf,
        pub(crate) hidden: Vec<Leaf>,
        size: usize,
        rate: f32,
        name: String,
        flag: bool,
        dims: [usize; 2],
        dtype: DType,
        label: &'static str,
        act: fn(&Tensor) -> Tensor,
        pair: (Leaf, Tensor),
        boxed: Box<Leaf>,
        array: [Tensor; 2],
        none: Option<Leaf>,
        r#type: Tensor,
    }
    let net = Net {
        last: leaf(),
        hidden: vec![leaf(), Leaf { w: param(3), b: None }],
        size: 1,
        rate: 0.5,
        name: "net".into(),
        flag: true,
        dims: [1, 2],
        dtype: DType::F32,
        label: "net",
        act: Tensor::relu,
        pair: (leaf(), param(1)),
        boxed: Box::new(leaf()),
        array: [param(1), param(2)],
        none: None,
        r#type: param(1),
    };
    let expected = "last.w last.b hidden.0.w hidden.0.b hidden.1.w pair.0.w pair.0.b pair.1 boxed.w boxed.b \
                    array.0 array.1 type";
    assert_eq!(names(&net), expected.split_whitespace().collect::<Vec<_>>());
}

#[test]
fn tuple_structs_count_their_fields() {
    #[derive(Module)]
    struct Pair(Leaf, pub usize, Vec<Tensor>);
    let pair = Pair(leaf(), 7, vec![param(1)]);
    assert_eq!(names(&pair), ["0.w", "0.b", "2.0"]);
    assert_eq!(pair.1, 7);
}

#[test]
fn structs_without_fields_have_no_tensors() {
    #[derive(Module)]
    struct Unit;
    #[derive(Module)]
    struct Empty {}
    assert!(names(&Unit).is_empty() && names(&Empty {}).is_empty());
}

#[test]
fn generic_structs_ask_of_their_parameters_only_what_they_use() {
    #[derive(Module)]
    struct Wrap<'a, T: Clone, U = Leaf, const N: usize = 2>
    where
        U: Sized,
    {
        inner: &'a T,
        many: [U; N],
        kind: PhantomData<fn(T) -> Vec<U>>,
    }
    struct NotAModule;
    #[derive(Module)]
    struct Block<F: Fn(&Tensor) -> Tensor, X> {
        leaf: Leaf,
        #[module(skip)]
        act: F,
        tag: PhantomData<X>,
    }
    let t = param(1);
    let wrap = Wrap { inner: &t, many: [leaf(), leaf()], kind: PhantomData };
    assert_eq!(names(&wrap), ["inner", "many.0.w", "many.0.b", "many.1.w", "many.1.b"]);
    let block = Block { leaf: leaf(), act: |x: &Tensor| x.relu(), tag: PhantomData::<NotAModule> };
    assert_eq!(names(&block), ["leaf.w", "leaf.b"]);
    assert_eq!((block.act)(&t).shape(), [1]);

    #[derive(Module)]
    struct Tuple<T>(T, Option<T>)
    where
        T: Module;
    assert_eq!(names(&Tuple(leaf(), None)), ["0.w", "0.b"]);
}

#[test]
fn skipped_fields_and_another_home() {
    #[derive(Module)]
    #[module(crate = frit_nn)]
    struct Partly {
        a: Tensor,
        #[module(skip)]
        b: Tensor,
    }
    let partly = Partly { a: param(1), b: param(1) };
    assert_eq!(names(&partly), ["a"]);
    assert_eq!(partly.b.shape(), [1]);
}

#[test]
fn parameters_are_what_requires_gradients_and_come_once() {
    #[derive(Module)]
    struct Tied {
        embed: Tensor,
        stats: Tensor,
        head: Tensor,
    }
    let embed = param(4);
    let tied = Tied { head: embed.clone(), embed, stats: Tensor::from_vec([1f32], [1]) };
    let parameters: Vec<String> = tied.named_parameters().into_iter().map(|(name, _)| name).collect();
    assert_eq!(parameters, ["embed"]);
    assert_eq!(names(&tied), ["embed", "stats", "head"]);
    assert_eq!(tied.parameters().len(), 1);
}
