//! Ops that move elements and compute nothing: views, joins, and reads and writes at given places.

use crate::array::{Array, axis_of, broadcast_shapes};

impl Array {
    /// Same elements in another shape; one length may be -1 and is inferred.
    pub fn reshape(&self, shape: &[isize]) -> Array {
        let known: usize = shape.iter().filter(|&&n| n >= 0).map(|&n| n as usize).product();
        let full = shape.iter().map(|&n| if n < 0 { self.numel() / known } else { n as usize });
        Array::new(&full.collect::<Vec<_>>(), self.data.clone())
    }

    /// Axis `k` of the result is axis `order[k]` of the input.
    pub fn permute(&self, order: &[isize]) -> Array {
        assert_eq!(order.len(), self.rank(), "permute {order:?} of shape {:?}", self.shape);
        let order: Vec<usize> = order.iter().map(|&a| axis_of(a, self.rank())).collect();
        let shape: Vec<usize> = order.iter().map(|&a| self.shape[a]).collect();
        Array::from_fn(&shape, |i| {
            let mut from = vec![0; i.len()];
            for (k, &a) in order.iter().enumerate() {
                from[a] = i[k];
            }
            self.at(&from)
        })
    }

    /// Exchange two axes.
    pub fn transpose(&self, a: isize, b: isize) -> Array {
        let mut order: Vec<isize> = (0..self.rank() as isize).collect();
        order.swap(axis_of(a, self.rank()), axis_of(b, self.rank()));
        self.permute(&order)
    }

    /// Repeat axes of length 1, and add leading axes, up to `shape`.
    pub fn expand(&self, shape: &[usize]) -> Array {
        assert_eq!(broadcast_shapes(&self.shape, shape), shape, "expand of {:?}", self.shape);
        Array::from_fn(shape, |i| self.at_broadcast(i))
    }

    /// Insert an axis of length 1, so that it becomes `axis` of the result.
    pub fn unsqueeze(&self, axis: isize) -> Array {
        let mut shape = self.shape.clone();
        shape.insert(axis_of(axis, self.rank() + 1), 1);
        Array::new(&shape, self.data.clone())
    }

    /// Remove an axis of length 1.
    pub fn squeeze(&self, axis: isize) -> Array {
        let mut shape = self.shape.clone();
        assert_eq!(shape.remove(axis_of(axis, self.rank())), 1, "squeeze of {:?}", self.shape);
        Array::new(&shape, self.data.clone())
    }

    /// Put `(before, after)` copies of `value` around each axis.
    pub fn pad(&self, around: &[(usize, usize)], value: f64) -> Array {
        assert_eq!(around.len(), self.rank(), "pad {around:?} of shape {:?}", self.shape);
        let shape: Vec<usize> = around.iter().zip(&self.shape).map(|((lo, hi), n)| lo + n + hi).collect();
        Array::from_fn(&shape, |i| {
            let inside = (0..i.len()).all(|a| i[a] >= around[a].0 && i[a] < around[a].0 + self.shape[a]);
            if !inside {
                return value;
            }
            self.at(&(0..i.len()).map(|a| i[a] - around[a].0).collect::<Vec<_>>())
        })
    }

    /// Keep `start..stop` of each axis.
    pub fn shrink(&self, keep: &[(usize, usize)]) -> Array {
        assert_eq!(keep.len(), self.rank(), "shrink {keep:?} of shape {:?}", self.shape);
        let shape: Vec<usize> = keep.iter().map(|(start, stop)| stop - start).collect();
        Array::from_fn(&shape, |i| self.at(&(0..i.len()).map(|a| i[a] + keep[a].0).collect::<Vec<_>>()))
    }

    /// Python's `x[start:stop:step]` along one axis; `step` may be negative.
    pub fn slice(&self, axis: isize, start: Option<isize>, stop: Option<isize>, step: isize) -> Array {
        let n = self.shape[axis_of(axis, self.rank())] as isize;
        let (low, high) = if step > 0 { (0, n) } else { (-1, n - 1) };
        let clamp = |k: isize| (if k < 0 { k + n } else { k }).clamp(low, high);
        let first = start.map_or(if step > 0 { low } else { high }, clamp);
        let end = stop.map_or(if step > 0 { high } else { low }, clamp);
        let inside = |&k: &isize| if step > 0 { k < end } else { k > end };
        let places = std::iter::successors(Some(first), |&k| Some(k + step)).take_while(inside);
        let places: Vec<f64> = places.map(|k| k as f64).collect();
        self.index_select(axis, &Array::new(&[places.len()], places))
    }

    /// Reverse the given axes.
    pub fn flip(&self, axes: &[isize]) -> Array {
        let axes: Vec<usize> = axes.iter().map(|&a| axis_of(a, self.rank())).collect();
        let from = |a: usize, i: usize| if axes.contains(&a) { self.shape[a] - 1 - i } else { i };
        Array::from_fn(&self.shape, |i| self.at(&(0..i.len()).map(|a| from(a, i[a])).collect::<Vec<_>>()))
    }

    /// Join arrays along an axis they all have.
    pub fn cat(parts: &[&Array], axis: isize) -> Array {
        let axis = axis_of(axis, parts[0].rank());
        let mut shape = parts[0].shape.clone();
        shape[axis] = parts.iter().map(|p| p.shape[axis]).sum();
        Array::from_fn(&shape, |i| {
            let mut from = i.to_vec();
            for part in parts {
                if from[axis] < part.shape[axis] {
                    return part.at(&from);
                }
                from[axis] -= part.shape[axis];
            }
            unreachable!("the joined axis is as long as its parts")
        })
    }

    /// Join arrays of equal shape along an axis that the result gains.
    pub fn stack(parts: &[&Array], axis: isize) -> Array {
        let parts: Vec<Array> = parts.iter().map(|p| p.unsqueeze(axis)).collect();
        Array::cat(&parts.iter().collect::<Vec<_>>(), axis)
    }

    /// Tile the whole array `times[a]` times along each axis; extra leading counts add axes.
    pub fn repeat(&self, times: &[usize]) -> Array {
        let added = times.len() - self.rank();
        let shape: Vec<usize> =
            (0..times.len()).map(|a| times[a] * if a < added { 1 } else { self.shape[a - added] }).collect();
        Array::from_fn(&shape, |i| {
            self.at(&(0..self.rank()).map(|a| i[a + added] % self.shape[a]).collect::<Vec<_>>())
        })
    }

    /// Shift elements along axes; those pushed over the end come back at the start.
    pub fn roll(&self, shifts: &[isize], axes: &[isize]) -> Array {
        let mut out = self.clone();
        for (&shift, &axis) in shifts.iter().zip(axes) {
            let axis = axis_of(axis, self.rank());
            let n = self.shape[axis] as isize;
            let from = out.clone();
            out = Array::from_fn(&self.shape, |i| {
                let mut i = i.to_vec();
                i[axis] = (i[axis] as isize - shift).rem_euclid(n) as usize;
                from.at(&i)
            });
        }
        out
    }

    /// Keep elements on and below diagonal `k` of the last two axes, zero the others.
    pub fn tril(&self, k: isize) -> Array {
        self.keep_where(|row, col| col - row <= k)
    }

    /// Keep elements on and above diagonal `k` of the last two axes, zero the others.
    pub fn triu(&self, k: isize) -> Array {
        self.keep_where(|row, col| col - row >= k)
    }

    fn keep_where(&self, keep: impl Fn(isize, isize) -> bool) -> Array {
        let r = self.rank();
        let kept = |i: &[usize]| keep(i[r - 2] as isize, i[r - 1] as isize);
        Array::from_fn(&self.shape, |i| if kept(i) { self.at(i) } else { 0.0 })
    }

    /// Slices of `axis` at the places `index` (one axis) lists, in its order.
    pub fn index_select(&self, axis: isize, index: &Array) -> Array {
        let axis = axis_of(axis, self.rank());
        let mut shape = self.shape.clone();
        shape[axis] = index.numel();
        Array::from_fn(&shape, |i| {
            let mut from = i.to_vec();
            from[axis] = index.data[i[axis]] as usize;
            self.at(&from)
        })
    }

    /// Rows (slices of axis 0) named by `index` of any shape: the result is `[index.shape.., row..]`.
    pub fn gather_rows(&self, index: &Array) -> Array {
        let shape = [&index.shape[..], &self.shape[1..]].concat();
        Array::from_fn(&shape, |i| {
            let (place, inner) = i.split_at(index.rank());
            self.at(&[&[index.at(place) as usize], inner].concat())
        })
    }

    /// `out[i, j, k] = self[i, index[i, j, k], k]` for axis 1, and so on for the others.
    pub fn gather(&self, axis: isize, index: &Array) -> Array {
        let axis = axis_of(axis, self.rank());
        Array::from_fn(&index.shape, |i| {
            let mut from = i.to_vec();
            from[axis] = index.at(i) as usize;
            self.at(&from)
        })
    }

    /// `out[i, index[i, j, k], k] += src[i, j, k]` for axis 1, on a copy of `self`.
    pub fn scatter_add(&self, axis: isize, index: &Array, src: &Array) -> Array {
        let axis = axis_of(axis, self.rank());
        let mut out = self.clone();
        Array::from_fn(&index.shape, |i| {
            let mut to = i.to_vec();
            to[axis] = index.at(i) as usize;
            *out.at_mut(&to) += src.at(i);
            0.0
        });
        out
    }

    /// Add slice `j` of `src` to slice `index[j]` of `axis`, on a copy of `self`.
    pub fn index_add(&self, axis: isize, index: &Array, src: &Array) -> Array {
        let axis_no = axis_of(axis, self.rank());
        let wide = Array::from_fn(&src.shape, |i| index.data[i[axis_no]]);
        self.scatter_add(axis, &wide, src)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn six() -> Array {
        Array::arange(0.0, 6.0, 1.0).reshape(&[2, -1])
    }

    #[test]
    fn views_move_elements_where_they_belong() {
        assert_eq!(six().shape, [2, 3]);
        assert_eq!(six().permute(&[1, 0]), Array::new(&[3, 2], [0., 3., 1., 4., 2., 5.]));
        assert_eq!(six().transpose(0, -1), six().permute(&[1, 0]));
        assert_eq!(six().flip(&[-1]).data, [2., 1., 0., 5., 4., 3.]);
        assert_eq!(Array::new(&[2, 1], [1., 2.]).expand(&[2, 2]).data, [1., 1., 2., 2.]);
        assert_eq!(six().shrink(&[(1, 2), (0, 2)]), Array::new(&[1, 2], [3., 4.]));
        assert_eq!(Array::new(&[1], [5.]).pad(&[(1, 2)], 9.0).data, [9., 5., 9., 9.]);
        assert_eq!(six().unsqueeze(-1).shape, [2, 3, 1]);
        assert_eq!(six().unsqueeze(1).squeeze(1), six());
    }

    #[test]
    fn slices_follow_python() {
        let x = Array::arange(0.0, 7.0, 1.0);
        assert_eq!(x.slice(0, Some(1), None, 3).data, [1., 4.]);
        assert_eq!(x.slice(0, Some(-2), None, 1).data, [5., 6.]);
        assert_eq!(x.slice(0, None, None, -3).data, [6., 3., 0.]);
        assert_eq!(x.slice(0, Some(4), Some(1), -2).data, [4., 2.]);
        assert_eq!(x.slice(0, Some(3), Some(3), 1).shape, [0]);
        assert_eq!(x.slice(0, Some(-100), Some(100), 5).data, [0., 5.]);
    }

    #[test]
    fn joins_repeats_and_rolls() {
        let (a, b) = (Array::new(&[2], [1., 2.]), Array::new(&[1], [3.]));
        assert_eq!(Array::cat(&[&a, &b], 0).data, [1., 2., 3.]);
        assert_eq!(Array::stack(&[&a, &a], 1).data, [1., 1., 2., 2.]);
        assert_eq!(a.repeat(&[2, 2]), Array::new(&[2, 4], [1., 2., 1., 2., 1., 2., 1., 2.]));
        assert_eq!(Array::arange(0.0, 4.0, 1.0).roll(&[1], &[0]).data, [3., 0., 1., 2.]);
        assert_eq!(six().roll(&[1, -1], &[0, 1]).data, [4., 5., 3., 1., 2., 0.]);
    }

    #[test]
    fn triangles() {
        assert_eq!(Array::ones(&[2, 3]).tril(0).data, [1., 0., 0., 1., 1., 0.]);
        assert_eq!(Array::ones(&[2, 3]).triu(1).data, [0., 1., 1., 0., 0., 1.]);
    }

    #[test]
    fn indexed_reads_and_writes() {
        let index = Array::new(&[2, 2], [2., 0., 1., 1.]);
        assert_eq!(six().gather(1, &index).data, [2., 0., 4., 4.]);
        assert_eq!(six().index_select(0, &Array::new(&[3], [1., 0., 1.])).data[..4], [3., 4., 5., 0.]);
        assert_eq!(six().gather_rows(&Array::new(&[1, 1], [1.])), Array::new(&[1, 1, 3], [3., 4., 5.]));
        let added = Array::zeros(&[2, 3]).scatter_add(1, &index, &Array::new(&[2, 2], [1., 2., 3., 4.]));
        assert_eq!(added.data, [2., 0., 1., 0., 7., 0.]);
        let rows = Array::zeros(&[2, 1]).index_add(0, &Array::new(&[3], [1., 1., 0.]), &Array::ones(&[3, 1]));
        assert_eq!(rows.data, [1., 2.]);
    }
}
