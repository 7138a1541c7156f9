//! Storages, and tensors as strided looks at them.

use crate::state::cursor::byte_size;
use crate::state::tensor;
use frit_tensor::{Blob, DType, Result, Tensor};

/// Classes of storages and the types of what is in them.
const STORAGES: [(&str, DType); 10] = [
    ("FloatStorage", DType::F32),
    ("DoubleStorage", DType::F64),
    ("HalfStorage", DType::F16),
    ("BFloat16Storage", DType::BF16),
    ("LongStorage", DType::I64),
    ("IntStorage", DType::I32),
    ("ShortStorage", DType::I16),
    ("CharStorage", DType::I8),
    ("ByteStorage", DType::U8),
    ("BoolStorage", DType::Bool),
];
/// Types by torch's names.
const DTYPES: [(&str, DType); 23] = [
    ("float32", DType::F32),
    ("float", DType::F32),
    ("float64", DType::F64),
    ("double", DType::F64),
    ("float16", DType::F16),
    ("half", DType::F16),
    ("bfloat16", DType::BF16),
    ("int64", DType::I64),
    ("long", DType::I64),
    ("int32", DType::I32),
    ("int", DType::I32),
    ("int16", DType::I16),
    ("short", DType::I16),
    ("int8", DType::I8),
    ("uint8", DType::U8),
    ("uint16", DType::U16),
    ("uint32", DType::U32),
    ("uint64", DType::U64),
    ("bool", DType::Bool),
    ("float8_e4m3fn", DType::F8E4M3),
    ("float8_e5m2", DType::F8E5M2),
    ("float8_e4m3fnuz", DType::F8E4M3Fnuz),
    ("float8_e5m2fnuz", DType::F8E5M2Fnuz),
];

/// The type of a storage's elements by its class; a storage without a type is bytes.
pub(super) fn storage_dtype(class: &str) -> Option<DType> {
    match class {
        "UntypedStorage" => Some(DType::U8),
        _ => STORAGES.iter().find(|(name, _)| *name == class).map(|(_, d)| *d),
    }
}
/// The type with torch's name.
pub(super) fn dtype(name: &str) -> Option<DType> {
    DTYPES.iter().find(|(n, _)| *n == name).map(|(_, d)| *d)
}

/// A storage and how a tensor looks at it, in elements.
#[derive(Debug)]
pub(super) struct Strided {
    pub storage: Blob,
    pub dtype: DType,
    pub offset: usize,
    pub shape: Vec<usize>,
    pub strides: Vec<usize>,
}

impl Strided {
    /// The tensor, or why it is not inside its storage.
    pub fn tensor(&self) -> std::result::Result<Result<Tensor>, String> {
        let end = self.end()?;
        let size = self.dtype.size();
        // the elements the tensor spans
        let span = self.storage.slice(self.offset * size..end * size).ok_or("outside its storage")?;
        let t = match self.is_contiguous() {
            true => tensor(self.dtype, &span, &self.shape),
            false => self.looked_at(&tensor(self.dtype, &span, &[end - self.offset])),
        };
        Ok(t.check().map(|()| t))
    }
    /// One past the last element that is looked at.
    fn end(&self) -> std::result::Result<usize, String> {
        let Strided { shape, strides, offset, .. } = self;
        let have = self.storage.len() / self.dtype.size();
        if shape.len() != strides.len() {
            return Err(format!("shape {shape:?} with strides {strides:?}"));
        }
        byte_size(self.dtype.size(), shape)
            .ok_or_else(|| format!("shape {shape:?} is too large to be true"))?;
        let last = match shape.contains(&0) {
            true => Some(*offset),
            false => {
                let steps = shape.iter().zip(strides).map(|(d, s)| (d - 1).checked_mul(*s));
                steps.fold(offset.checked_add(1), |n, s| n?.checked_add(s?))
            }
        };
        let fits = last.filter(|end| *end <= have);
        fits.ok_or_else(|| {
            format!(
                "shape {shape:?}, strides {strides:?}, offset {offset} leave its storage of {have} elements"
            )
        })
    }
    fn is_contiguous(&self) -> bool {
        let mut run = 1;
        self.shape.contains(&0)
            || self.shape.iter().zip(&self.strides).rev().all(|(&d, &s)| {
                let fits = d == 1 || s == run;
                run *= d;
                fits
            })
    }
    /// The tensor as movement of the span; where strides do not nest, as a lookup.
    fn looked_at(&self, span: &Tensor) -> Tensor {
        // dims that move, widest steps first
        let mut axes: Vec<usize> =
            (0..self.shape.len()).filter(|&a| self.shape[a] > 1 && self.strides[a] > 0).collect();
        axes.sort_by_key(|&a| std::cmp::Reverse(self.strides[a]));
        let nests = axes.windows(2).all(|w| {
            let (outer, inner) = (self.strides[w[0]], self.strides[w[1]]);
            outer.is_multiple_of(inner) && self.shape[w[1]] * inner <= outer
        });
        if nests { self.moved(span, &axes) } else { self.looked_up(span) }
    }
    /// ```text
    /// (span) -> pad to whole rows -> (d0, s0/s1, s1/s2, …, sk) -> cut to (d0, d1, …, dk, 1) -> the dims' own order
    /// ```
    fn moved(&self, span: &Tensor, axes: &[usize]) -> Tensor {
        let Some((&first, &last)) = axes.first().zip(axes.last()) else {
            return span.reshape(vec![1; self.shape.len()]).expand(&self.shape[..]);
        };
        let whole = self.shape[first] * self.strides[first];
        let have = span.shape()[0].get();
        let mut dims = vec![self.shape[first]];
        dims.extend(axes.windows(2).map(|w| self.strides[w[0]] / self.strides[w[1]]));
        dims.push(self.strides[last]);
        let mut cut: Vec<(usize, usize)> = axes.iter().map(|&a| (0, self.shape[a])).collect();
        cut.push((0, 1));
        let rows = span.pad(&[(0, whole as isize - have as isize)], 0).reshape(dims).shrink(&cut);
        // from the order of the strides to the order of the axes, then the dims that do not move
        let mut order: Vec<usize> = (0..axes.len()).collect();
        order.sort_by_key(|&i| axes[i]);
        let order: Vec<isize> = order.into_iter().chain([axes.len()]).map(|i| i as isize).collect();
        let ones = (0..self.shape.len()).map(|a| if axes.contains(&a) { self.shape[a] } else { 1 });
        rows.permute(order).reshape(ones.collect::<Vec<_>>()).expand(&self.shape[..])
    }
    fn looked_up(&self, span: &Tensor) -> Tensor {
        let mut place = Tensor::full_dtype((), 0, DType::I64);
        for (a, (&d, &s)) in self.shape.iter().zip(&self.strides).enumerate() {
            let mut dims = vec![1; self.shape.len()];
            dims[a] = d;
            place = place + Tensor::arange(d).long().reshape(dims) * s;
        }
        span.take(&place)
    }
}
