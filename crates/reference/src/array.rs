//! A shape and its row-major data, in float64 whatever the dtype of the thing modelled.

/// A dense row-major array. A scalar has shape `[]` and one element.
#[derive(Clone, Debug, PartialEq)]
pub struct Array {
    /// Length of each axis.
    pub shape: Vec<usize>,
    /// Elements, last axis fastest; as many as the product of `shape`.
    pub data: Vec<f64>,
}

impl Array {
    /// Array of `shape` from row-major `data`.
    pub fn new(shape: &[usize], data: impl Into<Vec<f64>>) -> Array {
        let data = data.into();
        assert_eq!(shape.iter().product::<usize>(), data.len(), "shape {shape:?} does not fit the data");
        Array { shape: shape.to_vec(), data }
    }

    /// Array of shape `[]`.
    pub fn scalar(value: f64) -> Array {
        Array::new(&[], [value])
    }

    /// Array of `shape` whose element at each index is `f(index)`.
    pub fn from_fn(shape: &[usize], mut f: impl FnMut(&[usize]) -> f64) -> Array {
        let mut idx = vec![0; shape.len()];
        let mut data = Vec::new();
        for _ in 0..shape.iter().product() {
            data.push(f(&idx));
            for axis in (0..shape.len()).rev() {
                idx[axis] += 1;
                if idx[axis] < shape[axis] {
                    break;
                }
                idx[axis] = 0;
            }
        }
        Array::new(shape, data)
    }

    /// Array of `shape` filled with `value`.
    pub fn full(shape: &[usize], value: f64) -> Array {
        Array::from_fn(shape, |_| value)
    }

    /// Array of zeros.
    pub fn zeros(shape: &[usize]) -> Array {
        Array::full(shape, 0.0)
    }

    /// Array of ones.
    pub fn ones(shape: &[usize]) -> Array {
        Array::full(shape, 1.0)
    }

    /// `start, start + step, …`, as long as before `stop`.
    pub fn arange(start: f64, stop: f64, step: f64) -> Array {
        let n = ((stop - start) / step).ceil().max(0.0) as usize;
        Array::from_fn(&[n], |i| start + i[0] as f64 * step)
    }

    /// `steps` evenly spaced values from `start` to `stop`, both included.
    pub fn linspace(start: f64, stop: f64, steps: usize) -> Array {
        let width = (stop - start) / (steps.max(2) - 1) as f64;
        Array::from_fn(&[steps], |i| start + i[0] as f64 * width)
    }

    /// Ones on the diagonal of a `rows` by `cols` array of zeros.
    pub fn eye(rows: usize, cols: usize) -> Array {
        Array::from_fn(&[rows, cols], |i| f64::from(i[0] == i[1]))
    }

    /// Class numbers of shape `s` to `[s.., classes]`, one where the last index is the class.
    pub fn one_hot(&self, classes: usize) -> Array {
        let shape = [&self.shape[..], &[classes]].concat();
        Array::from_fn(&shape, |i| {
            let (class, outer) = i.split_last().expect("has the class axis");
            f64::from(self.at(outer) == *class as f64)
        })
    }

    /// Number of axes.
    pub fn rank(&self) -> usize {
        self.shape.len()
    }

    /// Number of elements.
    pub fn numel(&self) -> usize {
        self.data.len()
    }

    /// Element at `idx`, one number per axis.
    pub fn at(&self, idx: &[usize]) -> f64 {
        self.data[self.offset(idx)]
    }

    /// Element at `idx`, to write.
    pub fn at_mut(&mut self, idx: &[usize]) -> &mut f64 {
        let offset = self.offset(idx);
        &mut self.data[offset]
    }

    /// The only element of a one-element array.
    pub fn item(&self) -> f64 {
        assert_eq!(self.numel(), 1, "item() of shape {:?}", self.shape);
        self.data[0]
    }

    /// Apply `f` to every element.
    pub fn map(&self, f: impl Fn(f64) -> f64) -> Array {
        Array::new(&self.shape, self.data.iter().map(|&x| f(x)).collect::<Vec<_>>())
    }

    /// Apply `f` to the elements of two arrays, broadcast against each other.
    pub fn zip(&self, other: &Array, f: impl Fn(f64, f64) -> f64) -> Array {
        let shape = broadcast_shapes(&self.shape, &other.shape);
        Array::from_fn(&shape, |i| f(self.at_broadcast(i), other.at_broadcast(i)))
    }

    /// Element that broadcasting puts at `idx` of a larger shape: trailing axes line up, length 1 repeats.
    pub(crate) fn at_broadcast(&self, idx: &[usize]) -> f64 {
        let tail = &idx[idx.len() - self.rank()..];
        let own: Vec<usize> =
            tail.iter().zip(&self.shape).map(|(&i, &n)| if n == 1 { 0 } else { i }).collect();
        self.at(&own)
    }

    fn offset(&self, idx: &[usize]) -> usize {
        assert_eq!(idx.len(), self.rank(), "index {idx:?} into shape {:?}", self.shape);
        idx.iter().zip(&self.shape).fold(0, |offset, (&i, &n)| {
            assert!(i < n, "index {idx:?} outside shape {:?}", self.shape);
            offset * n + i
        })
    }
}

/// Axis number from one that may count from the end.
pub fn axis_of(axis: isize, rank: usize) -> usize {
    let resolved = if axis < 0 { axis + rank as isize } else { axis };
    assert!(resolved >= 0 && resolved < rank as isize, "axis {axis} of rank {rank}");
    resolved as usize
}

/// Shape of an elementwise op of two shapes: trailing axes line up, length 1 stretches.
pub fn broadcast_shapes(a: &[usize], b: &[usize]) -> Vec<usize> {
    let rank = a.len().max(b.len());
    let dim = |s: &[usize], axis: usize| if axis + s.len() < rank { 1 } else { s[axis + s.len() - rank] };
    (0..rank)
        .map(|axis| match (dim(a, axis), dim(b, axis)) {
            (x, 1) => x,
            (1, y) => y,
            (x, y) if x == y => x,
            _ => panic!("cannot broadcast {a:?} with {b:?}"),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_are_row_major() {
        let a = Array::new(&[2, 3], [0., 1., 2., 3., 4., 5.]);
        assert_eq!(a.at(&[1, 0]), 3.0);
        assert_eq!(Array::from_fn(&[2, 3], |i| (i[0] * 3 + i[1]) as f64), a);
    }

    #[test]
    fn broadcasting_stretches_ones_and_aligns_trailing_axes() {
        assert_eq!(broadcast_shapes(&[3, 1], &[2, 1, 4]), [2, 3, 4]);
        assert_eq!(broadcast_shapes(&[], &[0, 1]), [0, 1]);
        assert_eq!(broadcast_shapes(&[1], &[0]), [0]);
        let col = Array::new(&[2, 1], [10., 20.]);
        let sum = col.zip(&Array::new(&[3], [1., 2., 3.]), |x, y| x + y);
        assert_eq!(sum, Array::new(&[2, 3], [11., 12., 13., 21., 22., 23.]));
    }

    #[test]
    fn constructors() {
        assert_eq!(Array::arange(5.0, 0.0, -2.0).data, [5., 3., 1.]);
        assert_eq!(Array::linspace(0.0, 1.0, 3).data, [0., 0.5, 1.]);
        assert_eq!(Array::eye(2, 3).data, [1., 0., 0., 0., 1., 0.]);
        assert_eq!(Array::new(&[2], [2., 0.]).one_hot(3).data, [0., 0., 1., 1., 0., 0.]);
        assert_eq!(Array::full(&[0, 2], 1.0).numel(), 0);
        assert_eq!(Array::scalar(7.0).item(), 7.0);
    }

    #[test]
    #[should_panic(expected = "cannot broadcast")]
    fn shapes_that_do_not_fit_are_refused() {
        broadcast_shapes(&[2], &[3]);
    }
}
