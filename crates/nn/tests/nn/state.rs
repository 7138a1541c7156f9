//! State dicts: round trips, and errors that name everything at once.

use frit_nn::{BatchNorm, Linear, Module, StateDict, is_training, training};
use frit_tensor::{DType, Tensor};

#[derive(Module)]
struct Net {
    a: Linear,
    bn: BatchNorm,
    b: Linear,
}
fn net() -> Net {
    Net { a: Linear::new(3, 4), bn: BatchNorm::new(4), b: Linear::without_bias(4, 2) }
}

#[test]
fn a_state_dict_has_parameters_and_buffers() {
    let names: Vec<String> = net().state_dict().into_keys().collect();
    let expected =
        "a.bias a.weight b.weight bn.bias bn.num_batches_tracked bn.running_mean bn.running_var bn.weight";
    assert_eq!(names, expected.split(' ').collect::<Vec<_>>());
    assert_eq!(net().parameters().len(), 5);
}

#[test]
fn values_are_taken_over_and_cast() {
    let (from, to) = (net(), net());
    let mut state = from.state_dict();
    let narrow = state["a.weight"].cast(DType::F64);
    state.insert("a.weight".into(), narrow);
    to.load_state_dict(&state).unwrap();
    assert_eq!(to.a.weight.dtype(), DType::F32);
    assert!(to.a.weight.is_requires_grad());
    for (name, t) in to.state_dict() {
        assert_eq!(
            t.to_vec::<f32>().unwrap(),
            state[&name].cast(t.dtype()).to_vec::<f32>().unwrap(),
            "{name}"
        );
    }
}

#[test]
fn everything_that_does_not_fit_is_named_and_nothing_changes() {
    let net = net();
    let before = net.b.weight.to_vec::<f32>().unwrap();
    let mut state: StateDict = self::net().state_dict();
    state.remove("a.weight");
    state.remove("bn.bias");
    state.insert("extra.weight".into(), Tensor::zeros([1]));
    state.insert("a.bias".into(), Tensor::zeros([2, 2]));
    let e = net.load_state_dict(&state).unwrap_err().to_string();
    let expected = "load_state_dict: 2 missing: a.weight, bn.bias; 1 unexpected: extra.weight; \
                    1 of another shape: a.bias is [4] here and [2, 2] in the state at ";
    assert!(e.starts_with(expected) && e.contains("state.rs"), "{e}");
    assert_eq!(net.b.weight.to_vec::<f32>().unwrap(), before);
}

#[test]
fn training_is_a_scope_of_one_thread_that_ends_on_panic() {
    training(true, || {
        assert!(is_training());
        std::thread::scope(|s| s.spawn(|| assert!(!is_training())).join()).unwrap();
        training(false, || assert!(!is_training()));
        assert!(is_training());
    });
    let _ = std::panic::catch_unwind(|| training(true, || panic!("on purpose")));
    assert!(!is_training());
}
