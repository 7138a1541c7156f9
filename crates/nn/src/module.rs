//! What has tensors in it: layers and the structs people build of them.
//!
//! ```
//! use frit_nn::{Linear, Module};
//!
//! #[derive(Module)]
//! struct Mlp {
//!     layers: Vec<Linear>,
//!     depth: usize,
//! }
//!
//! let net = Mlp { layers: vec![Linear::new(4, 8), Linear::new(8, 2)], depth: 2 };
//! let names: Vec<String> = net.named_parameters().into_iter().map(|(name, _)| name).collect();
//! assert_eq!(names, ["layers.0.weight", "layers.0.bias", "layers.1.weight", "layers.1.bias"]);
//! ```

use crate::state::{self, StateDict};
use frit_tensor::{DType, Error, Result, Tensor};

/// Has tensors in it, each under a name.
///
/// Derive it for structs; only [`visit`](Module::visit) is written by hand where a derive will not do. Tensors that
/// require gradients are parameters; the others (BatchNorm's running statistics) are state that is saved and loaded
/// but not trained.
pub trait Module {
    /// Hands every tensor to `f` in the order of the fields. A tensor's name is `path` and the names of the fields
    /// on the way to it, joined by dots.
    fn visit(&self, path: &str, f: &mut dyn FnMut(&str, &Tensor));

    /// Every tensor, with its name. A tensor that two fields share comes once for each.
    fn named_tensors(&self) -> Vec<(String, Tensor)> {
        let mut all = Vec::new();
        self.visit("", &mut |name, t| all.push((name.to_string(), t.clone())));
        all
    }
    /// Every tensor that requires gradients, with its name; one that is shared comes once, under its first name.
    fn named_parameters(&self) -> Vec<(String, Tensor)> {
        let mut all: Vec<(String, Tensor)> = Vec::new();
        self.visit("", &mut |name, t| {
            if t.is_requires_grad() && !all.iter().any(|(_, seen)| seen.is_same(t)) {
                all.push((name.to_string(), t.clone()));
            }
        });
        all
    }
    /// What an optimiser takes: every tensor that requires gradients, once.
    fn parameters(&self) -> Vec<Tensor> {
        self.named_parameters().into_iter().map(|(_, t)| t).collect()
    }
    /// Every tensor that does not require gradients (running statistics), with its name.
    fn named_buffers(&self) -> Vec<(String, Tensor)> {
        let mut all = self.named_tensors();
        all.retain(|(_, t)| !t.is_requires_grad());
        all
    }
    /// Every tensor by name: handles, not copies, so it follows later training until it is saved.
    fn state_dict(&self) -> StateDict {
        self.named_tensors().into_iter().collect()
    }
    /// Takes over the values of a state dict, cast to the types here. The names and shapes must be the same; the
    /// error names every one that is missing, unexpected or of another shape, and then nothing is changed.
    #[track_caller]
    fn load_state_dict(&self, state: &StateDict) -> Result<()> {
        state::load_into(&self.named_tensors(), state)
    }
    /// Moves every tensor to a device.
    #[track_caller]
    fn to_device(&self, device: &str) -> Result<()> {
        let _c = frit_tensor::call("to_device");
        replace_all(self.named_tensors(), |t| t.to(device))
    }
    /// Casts every tensor of floats; counts stay counts. Gradients of the old type are dropped.
    #[track_caller]
    fn to_dtype(&self, dtype: DType) -> Result<()> {
        let _c = frit_tensor::call("to_dtype");
        if !dtype.is_float() {
            return Err(Error::new("to_dtype", format!("{dtype} is not a float type")));
        }
        let mut floats = self.named_tensors();
        floats.retain(|(_, t)| t.dtype().is_float());
        floats.iter().for_each(|(_, t)| t.set_grad(None));
        replace_all(floats, |t| t.cast(dtype))
    }
    /// Computes every tensor that is only a description so far, all of them together.
    #[track_caller]
    fn realize_state(&self) -> Result<()> {
        let all = self.named_tensors();
        Tensor::realize_all(&all.iter().map(|(_, t)| t).collect::<Vec<_>>())
    }
}

/// Lets every tensor mean another value; if one of them fails, none is changed.
fn replace_all(tensors: Vec<(String, Tensor)>, f: impl Fn(&Tensor) -> Tensor) -> Result<()> {
    let pairs: Vec<(Tensor, Tensor)> = tensors.into_iter().map(|(_, t)| (f(&t), t)).collect();
    pairs.iter().try_for_each(|(value, _)| value.check())?;
    pairs.iter().for_each(|(value, here)| here.replace(value));
    Ok(())
}

/// Visits a field: what the derive writes for each.
pub fn visit_field<M: Module + ?Sized>(field: &M, path: &str, name: &str, f: &mut dyn FnMut(&str, &Tensor)) {
    match path {
        "" => field.visit(name, f),
        _ => field.visit(&format!("{path}.{name}"), f),
    }
}

impl Module for Tensor {
    fn visit(&self, path: &str, f: &mut dyn FnMut(&str, &Tensor)) {
        f(path, self);
    }
}
impl<M: Module> Module for Option<M> {
    fn visit(&self, path: &str, f: &mut dyn FnMut(&str, &Tensor)) {
        if let Some(m) = self {
            m.visit(path, f);
        }
    }
}
impl<M: Module> Module for [M] {
    fn visit(&self, path: &str, f: &mut dyn FnMut(&str, &Tensor)) {
        for (i, m) in self.iter().enumerate() {
            visit_field(m, path, &i.to_string(), f);
        }
    }
}
impl<M: Module> Module for Vec<M> {
    fn visit(&self, path: &str, f: &mut dyn FnMut(&str, &Tensor)) {
        self.as_slice().visit(path, f);
    }
}
impl<M: Module, const N: usize> Module for [M; N] {
    fn visit(&self, path: &str, f: &mut dyn FnMut(&str, &Tensor)) {
        self.as_slice().visit(path, f);
    }
}

macro_rules! pointers {
    ($($t:ty),*) => {$(
        impl<M: Module + ?Sized> Module for $t {
            fn visit(&self, path: &str, f: &mut dyn FnMut(&str, &Tensor)) {
                (**self).visit(path, f);
            }
        }
    )*};
}
pointers!(&M, Box<M>, std::rc::Rc<M>, std::sync::Arc<M>);

macro_rules! tuples {
    ($($M:ident $i:tt),*) => {
        impl<$($M: Module),*> Module for ($($M,)*) {
            fn visit(&self, path: &str, f: &mut dyn FnMut(&str, &Tensor)) {
                $(visit_field(&self.$i, path, stringify!($i), f);)*
            }
        }
    };
}
tuples!(A 0);
tuples!(A 0, B 1);
tuples!(A 0, B 1, C 2);
tuples!(A 0, B 1, C 2, D 3);
tuples!(A 0, B 1, C 2, D 3, E 4);
tuples!(A 0, B 1, C 2, D 3, E 4, F 5);
tuples!(A 0, B 1, C 2, D 3, E 4, F 5, G 6);
tuples!(A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7);

macro_rules! without_tensors {
    ($($t:ty),*) => {$(
        impl Module for $t {
            fn visit(&self, _: &str, _: &mut dyn FnMut(&str, &Tensor)) {}
        }
    )*};
}
without_tensors!(
    (),
    bool,
    char,
    i8,
    i16,
    i32,
    i64,
    isize,
    u8,
    u16,
    u32,
    u64,
    usize,
    f32,
    f64,
    str,
    String,
    frit_tensor::DType,
    frit_tensor::Window,
    fn(&Tensor) -> Tensor
);
impl<T: ?Sized> Module for std::marker::PhantomData<T> {
    fn visit(&self, _: &str, _: &mut dyn FnMut(&str, &Tensor)) {}
}
