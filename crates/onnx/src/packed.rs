//! Values as tensors and sizes, and what is known of them besides: what a recording belongs to.

use crate::element::Element;
use crate::value::Value;
use crate::weights::constants;
use frit_tensor::{DType, Dim, Result, Tensor};

/// As many elements can be known on the host.
const FEW: usize = 16;

/// What is known of a value, tensors and sizes left out.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) enum Given {
    Nothing,
    /// A tensor in memory, its dims.
    Tensor(Element, Vec<Extent>),
    /// Integers that are known: in which dims, and themselves.
    Integers(DType, Element, Vec<usize>, Vec<Extent>),
    /// Numbers that are known, as bits.
    Numbers(DType, Element, Vec<usize>, Vec<u64>),
    Sequence(Vec<Given>),
    Optional(Option<Box<Given>>),
}

/// A size: a number, or an expression and the most it can be.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) enum Extent {
    Number(i64),
    Varying(String, i64),
}

impl Extent {
    fn of(d: &Dim) -> Option<Extent> {
        match d.as_int() {
            Some(n) => Some(Extent::Number(n)),
            None => Some(Extent::Varying(d.unbind().ok()?.0.to_string(), d.max().ok()?)),
        }
    }
}

/// The tensors and sizes of values, in order.
#[derive(Default)]
pub(crate) struct Packed {
    pub tensors: Vec<Tensor>,
    pub sizes: Vec<Dim>,
}

impl Given {
    /// Whether a value is known on the host.
    pub fn is_known(v: &Value) -> bool {
        matches!(
            Packed::default().pack(Some(v)),
            Some(Given::Nothing | Given::Integers(..) | Given::Numbers(..))
        )
    }
}

impl Packed {
    /// Adds a value; none where it is not of numbers.
    pub fn pack(&mut self, v: Option<&Value>) -> Option<Given> {
        Some(match v {
            None => Given::Nothing,
            Some(Value::Tensor(t, e)) => self.pack_tensor(t, *e)?,
            Some(Value::Sequence(all)) => {
                Given::Sequence(all.iter().map(|v| self.pack(Some(v))).collect::<Option<_>>()?)
            }
            Some(Value::Optional(None)) => Given::Optional(None),
            Some(Value::Optional(Some(v))) => Given::Optional(Some(Box::new(self.pack(Some(v))?))),
            Some(Value::Strings(_) | Value::Map(_)) => return None,
        })
    }
    fn pack_tensor(&mut self, t: &Tensor, e: Element) -> Option<Given> {
        let shape = t.shape();
        let dims =
            shape.as_slice().iter().map(|d| usize::try_from(d.as_int()?).ok()).collect::<Option<Vec<_>>>();
        let few =
            dims.filter(|d| d.iter().try_fold(1usize, |n, d| n.checked_mul(*d)).is_some_and(|n| n <= FEW));
        if let Some(dims) = few {
            if let Some(sizes) = t.as_sizes() {
                let extents = sizes.iter().map(Extent::of).collect::<Option<_>>()?;
                self.sizes.extend(sizes);
                return Some(Given::Integers(t.dtype(), e, dims, extents));
            }
            if let Some(numbers) = t.as_numbers() {
                return Some(Given::Numbers(
                    t.dtype(),
                    e,
                    dims,
                    numbers.iter().map(|v| v.to_bits()).collect(),
                ));
            }
        }
        let extents = shape.as_slice().iter().map(Extent::of).collect::<Option<_>>()?;
        self.tensors.push(t.clone());
        Some(Given::Tensor(e, extents))
    }
    /// The values again.
    pub fn unpack(self, all: &[Given]) -> Vec<Option<Value>> {
        let (mut tensors, mut sizes) = (self.tensors.into_iter(), self.sizes.into_iter());
        all.iter().map(|g| g.value(&mut tensors, &mut sizes)).collect()
    }
}

impl Given {
    fn value(
        &self,
        tensors: &mut impl Iterator<Item = Tensor>,
        sizes: &mut impl Iterator<Item = Dim>,
    ) -> Option<Value> {
        match self {
            Given::Nothing => None,
            Given::Tensor(e, _) => tensors.next().map(|t| Value::Tensor(t, *e)),
            Given::Integers(d, e, dims, extents) => {
                let sizes: Vec<Dim> = sizes.take(extents.len()).collect();
                Some(Value::Tensor(integers(*d, dims, &sizes), *e))
            }
            Given::Numbers(d, e, dims, bits) => {
                let values: Vec<f64> = bits.iter().map(|b| f64::from_bits(*b)).collect();
                Some(Value::Tensor(numbers(*d, dims, &values), *e))
            }
            Given::Sequence(all) => {
                Some(Value::Sequence(all.iter().filter_map(|g| g.value(tensors, sizes)).collect()))
            }
            Given::Optional(None) => Some(Value::Optional(None)),
            Given::Optional(Some(g)) => Some(Value::Optional(g.value(tensors, sizes).map(Box::new))),
        }
    }
}

impl Value {
    /// The same with numbers for sizes that have variables, in memory of its own: what is kept from a run in which they have
    /// other values.
    pub(crate) fn with_numbers(self) -> Result<Value> {
        Ok(match self {
            Value::Tensor(t, e) if t.shape().as_slice().iter().any(|d| d.as_int().is_none()) => {
                Value::Tensor(Tensor::from_bytes(t.dtype(), &t.to_bytes()?, t.dims()?), e)
            }
            Value::Tensor(t, e) => {
                match t.as_sizes().filter(|all| all.iter().any(|d| d.as_int().is_none())) {
                    Some(sizes) => {
                        let ints =
                            sizes.iter().map(|d| d.value().map(Dim::from)).collect::<Result<Vec<_>>>()?;
                        Value::Tensor(integers(t.dtype(), &t.dims()?, &ints), e)
                    }
                    None => Value::Tensor(t, e),
                }
            }
            Value::Sequence(all) => {
                Value::Sequence(all.into_iter().map(Value::with_numbers).collect::<Result<_>>()?)
            }
            Value::Optional(Some(v)) => Value::Optional(Some(Box::new(v.with_numbers()?))),
            other => other,
        })
    }
}

/// A tensor of integers that are known.
pub(crate) fn integers(d: DType, dims: &[usize], values: &[Dim]) -> Tensor {
    let one = |v: &Dim| match v.as_int() {
        Some(v) => Tensor::full_dtype((), v, DType::I64).cast(d),
        None => v.tensor().cast(d),
    };
    match values.is_empty() {
        true => constants(d, &[]).reshape(dims),
        false => Tensor::stack(&values.iter().map(one).collect::<Vec<_>>(), 0).reshape(dims),
    }
}

/// A tensor of numbers that are known.
pub(crate) fn numbers(d: DType, dims: &[usize], values: &[f64]) -> Tensor {
    let one = |v: &f64| Tensor::full_dtype((), *v, DType::F64).cast(d);
    match values.is_empty() {
        true => constants(d, &[]).reshape(dims),
        false => Tensor::stack(&values.iter().map(one).collect::<Vec<_>>(), 0).reshape(dims),
    }
}
