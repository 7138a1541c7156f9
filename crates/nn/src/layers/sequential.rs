//! Layers one after another.

use super::Layer;
use crate::{Module, visit_field};
use frit_tensor::Tensor;

/// Layers one after another, named by their position. A struct with a `forward` says the same and is checked by the
/// compiler; this is for what is put together at run time.
///
/// ```
/// # use frit_nn::{Linear, Sequential};
/// # use frit_tensor::Tensor;
/// let net = Sequential::new().then(Linear::new(4, 8)).then_fn(Tensor::relu).then(Linear::new(8, 2));
/// assert_eq!(net.forward(&Tensor::zeros([3, 4])).shape(), [3, 2]);
/// ```
#[derive(Default)]
pub struct Sequential {
    layers: Vec<Box<dyn Layer + Send + Sync>>,
}

impl Sequential {
    /// No layers: gives back its input.
    pub fn new() -> Sequential {
        Sequential::default()
    }
    /// One more layer.
    pub fn then(mut self, layer: impl Layer + Send + Sync + 'static) -> Sequential {
        self.layers.push(Box::new(layer));
        self
    }
    /// One more step that has no state; it counts as a position.
    pub fn then_fn(self, f: impl Fn(&Tensor) -> Tensor + Send + Sync + 'static) -> Sequential {
        self.then(Function(f))
    }
    /// Through all layers. An error says which one it was.
    #[track_caller]
    pub fn forward(&self, x: &Tensor) -> Tensor {
        let _c = frit_tensor::call("sequential");
        let mut x = x.clone();
        for (i, layer) in self.layers.iter().enumerate() {
            let y = layer.forward(&x);
            if let (Ok(()), Err(e)) = (x.check(), y.check()) {
                return Tensor::failed(e.within(&i.to_string()));
            }
            x = y;
        }
        x
    }
}

impl Module for Sequential {
    fn visit(&self, path: &str, f: &mut dyn FnMut(&str, &Tensor)) {
        for (i, layer) in self.layers.iter().enumerate() {
            visit_field(&**layer, path, &i.to_string(), f);
        }
    }
}

struct Function<F>(F);

impl<F> Module for Function<F> {
    fn visit(&self, _: &str, _: &mut dyn FnMut(&str, &Tensor)) {}
}
impl<F: Fn(&Tensor) -> Tensor> Layer for Function<F> {
    fn forward(&self, x: &Tensor) -> Tensor {
        (self.0)(x)
    }
}
