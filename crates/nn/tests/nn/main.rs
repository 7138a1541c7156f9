//! Modules, layers, optimisers and state files, through their public interface.

mod derive;
mod files;
mod goldens;
mod hostile;
mod layers;
mod moves;
mod optim;
mod optim_goldens;
mod real;
mod safetensors;
mod state;
mod words;

use frit_tensor::Tensor;

/// The values are those expected, within float32 rounding of a few operations.
#[track_caller]
fn assert_close(t: &Tensor, expected: &[f64]) {
    let got = t.double().to_vec::<f64>().unwrap();
    assert_eq!(got.len(), expected.len(), "{got:?}");
    for (g, e) in got.iter().zip(expected) {
        assert!((g - e).abs() <= 1e-6 + 1e-5 * e.abs(), "{got:?} is not {expected:?}");
    }
}
