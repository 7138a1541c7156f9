//! Arrays in row-major order, and the movement ops on them. Written with coordinates, without strides or indices.

/// Elements in row-major order.
#[derive(Clone, PartialEq, Debug)]
pub struct Array<T> {
    /// Sizes of the dims.
    pub shape: Vec<usize>,
    /// As many as the product of the sizes.
    pub values: Vec<T>,
}

/// A step along an array: call `f` with every coordinate of a shape, in row-major order.
pub fn for_each_coordinate(shape: &[usize], mut f: impl FnMut(&[usize])) {
    if shape.contains(&0) {
        return;
    }
    let mut at = vec![0; shape.len()];
    loop {
        f(&at);
        // the last dim that has room goes one further, those behind it start again
        let Some(dim) = (0..shape.len()).rev().find(|&d| at[d] + 1 < shape[d]) else { return };
        at[dim] += 1;
        at[dim + 1..].fill(0);
    }
}

impl<T: Clone> Array<T> {
    /// One element of shape `()`.
    pub fn scalar(v: T) -> Array<T> {
        Array { shape: vec![], values: vec![v] }
    }
    /// The element at a coordinate.
    pub fn at(&self, coordinate: &[usize]) -> &T {
        &self.values[place(&self.shape, coordinate)]
    }
    /// The array of a shape whose elements are found by their coordinates.
    pub fn build(shape: &[usize], mut f: impl FnMut(&[usize]) -> T) -> Array<T> {
        let mut values = Vec::with_capacity(shape.iter().product());
        for_each_coordinate(shape, |c| values.push(f(c)));
        Array { shape: shape.to_vec(), values }
    }
    /// Of another shape with as many elements.
    pub fn reshape(&self, shape: &[usize]) -> Option<Array<T>> {
        let same = shape.iter().product::<usize>() == self.values.len();
        same.then(|| Array { shape: shape.to_vec(), values: self.values.clone() })
    }
    /// Dim `i` of the result is dim `axes[i]`.
    pub fn permute(&self, axes: &[usize]) -> Option<Array<T>> {
        let mut sorted = axes.to_vec();
        sorted.sort_unstable();
        if !sorted.into_iter().eq(0..self.shape.len()) {
            return None;
        }
        let shape: Vec<usize> = axes.iter().map(|&a| self.shape[a]).collect();
        let mut from = vec![0; axes.len()];
        Some(Array::build(&shape, |c| {
            axes.iter().zip(c).for_each(|(&a, &i)| from[a] = i);
            self.at(&from).clone()
        }))
    }
    /// Dims of size 1 repeated.
    pub fn expand(&self, shape: &[usize]) -> Option<Array<T>> {
        let fits = |(&have, &want): (&usize, &usize)| have == want || have == 1;
        if shape.len() != self.shape.len() || !self.shape.iter().zip(shape).all(fits) {
            return None;
        }
        let mut from = vec![0; shape.len()];
        Some(Array::build(shape, |c| {
            for (d, &i) in c.iter().enumerate() {
                from[d] = if self.shape[d] == 1 { 0 } else { i };
            }
            self.at(&from).clone()
        }))
    }
    /// `fill` around.
    pub fn pad(&self, before: &[usize], after: &[usize], fill: T) -> Option<Array<T>> {
        let n = self.shape.len();
        if before.len() != n || after.len() != n {
            return None;
        }
        let shape: Vec<usize> = (0..n).map(|d| before[d] + self.shape[d] + after[d]).collect();
        let mut from = vec![0; n];
        Some(Array::build(&shape, |c| {
            for d in 0..n {
                match c[d].checked_sub(before[d]).filter(|&i| i < self.shape[d]) {
                    Some(i) => from[d] = i,
                    None => return fill.clone(),
                }
            }
            self.at(&from).clone()
        }))
    }
    /// A box cut out.
    pub fn shrink(&self, begin: &[usize], size: &[usize]) -> Option<Array<T>> {
        let n = self.shape.len();
        if begin.len() != n || size.len() != n || (0..n).any(|d| begin[d] + size[d] > self.shape[d]) {
            return None;
        }
        let mut from = vec![0; n];
        Some(Array::build(size, |c| {
            (0..n).for_each(|d| from[d] = begin[d] + c[d]);
            self.at(&from).clone()
        }))
    }
    /// Reversed along axes.
    pub fn flip(&self, axes: &[usize]) -> Option<Array<T>> {
        if axes.iter().any(|&a| a >= self.shape.len()) {
            return None;
        }
        let mut from = vec![0; self.shape.len()];
        Some(Array::build(&self.shape, |c| {
            from.copy_from_slice(c);
            axes.iter().for_each(|&a| from[a] = self.shape[a] - 1 - c[a]);
            self.at(&from).clone()
        }))
    }
}

/// Where a coordinate lies in row-major order.
pub fn place(shape: &[usize], coordinate: &[usize]) -> usize {
    shape.iter().zip(coordinate).fold(0, |at, (&size, &i)| at * size + i)
}
