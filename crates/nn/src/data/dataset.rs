//! What batches can be made of, and how samples become one.

use frit_tensor::{Element, Error, Result, Tensor};

/// Something with samples that can be taken together.
#[allow(clippy::len_without_is_empty)]
pub trait Dataset: Send + Sync {
    /// What some samples are together: usually tensors.
    type Batch: Send + 'static;
    /// How many samples.
    fn len(&self) -> usize;
    /// Some samples, by index.
    fn batch(&self, samples: &[usize]) -> Result<Self::Batch>;
}

/// A sample that knows how several become a batch: numbers become a vector, tensors are stacked, vectors become the rows
/// of a matrix, and of tuples each part is batched by itself.
pub trait Sample: Sized + Send {
    /// Several together.
    type Batch: Send + 'static;
    /// Several together, in order.
    fn batch(samples: Vec<Self>) -> Result<Self::Batch>;
}

macro_rules! numbers {
    ($($t:ty),*) => {$(
        impl Sample for $t {
            type Batch = Tensor;
            fn batch(samples: Vec<$t>) -> Result<Tensor> {
                checked(Tensor::from_slice(&samples))
            }
        }
    )*};
}
numbers!(f32, f64, i32, i64, u8, bool);

impl<T: Element> Sample for Vec<T> {
    type Batch = Tensor;
    fn batch(samples: Vec<Vec<T>>) -> Result<Tensor> {
        let width = samples.first().map_or(0, Vec::len);
        if let Some(other) = samples.iter().find(|s| s.len() != width) {
            let message = format!("samples of {width} and of {} elements in one batch", other.len());
            return Err(Error::elsewhere("batch", message));
        }
        checked(Tensor::from_vec(samples.concat(), [samples.len(), width]))
    }
}

impl Sample for Tensor {
    type Batch = Tensor;
    fn batch(samples: Vec<Tensor>) -> Result<Tensor> {
        checked(Tensor::stack(&samples, 0))
    }
}

macro_rules! tuples {
    ($($T:ident $v:ident),*) => {
        impl<$($T: Sample),*> Sample for ($($T,)*) {
            type Batch = ($($T::Batch,)*);
            fn batch(samples: Vec<Self>) -> Result<Self::Batch> {
                $(let mut $v = Vec::with_capacity(samples.len());)*
                for sample in samples {
                    let ($($T,)*) = sample;
                    $($v.push($T);)*
                }
                Ok(($($T::batch($v)?,)*))
            }
        }
    };
}
#[allow(non_snake_case)]
mod tuples {
    use super::*;
    tuples!(A a);
    tuples!(A a, B b);
    tuples!(A a, B b, C c);
    tuples!(A a, B b, C c, D d);
}

fn checked(t: Tensor) -> Result<Tensor> {
    t.check().map(|()| t)
}

/// A data set of a function from an index to a sample.
pub struct Samples<F> {
    len: usize,
    get: F,
}

impl<S: Sample, F: Fn(usize) -> Result<S> + Send + Sync> Samples<F> {
    /// `len` samples; the function may be called from several threads.
    pub fn new(len: usize, get: F) -> Samples<F> {
        Samples { len, get }
    }
}

impl<S: Sample, F: Fn(usize) -> Result<S> + Send + Sync> Dataset for Samples<F> {
    type Batch = S::Batch;
    fn len(&self) -> usize {
        self.len
    }
    fn batch(&self, samples: &[usize]) -> Result<S::Batch> {
        S::batch(samples.iter().map(|i| (self.get)(*i)).collect::<Result<_>>()?)
    }
}
