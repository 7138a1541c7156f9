//! A part of some memory: where its elements lie, and what a step along movement makes of that.

use crate::program::Place;
use frit::DType;

/// A tensor: a part of some memory.
#[derive(Clone, Debug)]
pub struct Window {
    pub memory: usize,
    pub offset: isize,
    pub dims: Vec<usize>,
    pub strides: Vec<isize>,
    pub dtype: DType,
    /// No element is there twice.
    pub writable: bool,
    /// Made by a constructor.
    pub leaf: bool,
}

impl Window {
    pub fn place(&self, mut i: usize) -> usize {
        let mut at = self.offset;
        for (d, s) in self.dims.iter().zip(&self.strides).rev() {
            at += (i % d) as isize * s;
            i /= d;
        }
        at as usize
    }
    pub fn numel(&self) -> usize {
        self.dims.iter().product()
    }
}

pub fn row_major(dims: &[usize]) -> Vec<isize> {
    let mut strides = vec![1; dims.len()];
    for i in (1..dims.len()).rev() {
        strides[i - 1] = strides[i] * dims[i].max(1) as isize;
    }
    strides
}

pub fn within(i: i64, n: usize) -> Option<usize> {
    let i = if i < 0 { i + n as i64 } else { i };
    (i >= 0 && i < n as i64).then_some(i as usize)
}

/// A window repeated to dims, as if they were broadcast.
pub fn expanded(w: &Window, dims: &[usize]) -> Option<Window> {
    let lead = dims.len().checked_sub(w.dims.len())?;
    let mut strides = vec![0; lead];
    for ((&from, &to), &s) in w.dims.iter().zip(&dims[lead..]).zip(&w.strides) {
        strides.push(match from {
            _ if from == to => s,
            1 => 0,
            _ => return None,
        });
    }
    Some(Window { dims: dims.to_vec(), strides, ..w.clone() })
}

/// Integers and slices, for the first dims.
pub fn indexed(w: &Window, places: &[Place]) -> Option<Window> {
    if places.len() > w.dims.len() {
        return None;
    }
    let mut out = Window { dims: vec![], strides: vec![], ..w.clone() };
    for (axis, p) in places.iter().enumerate() {
        let (n, stride) = (w.dims[axis], w.strides[axis]);
        match *p {
            Place::At(i) => out.offset += within(i, n)? as isize * stride,
            Place::Slice(start, end, step) => {
                let (first, count) = slice(start, end, step, n as i64)?;
                if count > 0 {
                    out.offset += first as isize * stride;
                }
                out.dims.push(count as usize);
                out.strides.push(stride * step as isize);
            }
        }
    }
    out.dims.extend(&w.dims[places.len()..]);
    out.strides.extend(&w.strides[places.len()..]);
    Some(out)
}

/// The first place and how many there are, as Python has it.
fn slice(start: Option<i64>, end: Option<i64>, step: i64, n: i64) -> Option<(i64, i64)> {
    let wrap = |v: i64, lo: i64, hi: i64| if v < 0 { v + n } else { v }.clamp(lo, hi);
    match step {
        0 => None,
        1.. => {
            let (s, e) = (start.map_or(0, |v| wrap(v, 0, n)), end.map_or(n, |v| wrap(v, 0, n)));
            Some((s, ((e - s).max(0) + step - 1) / step))
        }
        _ => {
            let s = start.map_or(n - 1, |v| wrap(v, -1, n - 1));
            let e = end.map_or(-1, |v| wrap(v, -1, n - 1));
            Some((s, ((s - e).max(0) - step - 1) / -step))
        }
    }
}

/// The strides of a window in other dims, where one has them: torch's rule of when a reshape shares memory.
pub fn reshaped(w: &Window, dims: &[usize]) -> Option<Vec<isize>> {
    if w.numel() == 0 {
        return Some(row_major(dims));
    }
    // dims that lie in memory as one, outermost first
    let mut runs: Vec<(usize, isize)> = vec![];
    for (&d, &s) in w.dims.iter().zip(&w.strides).filter(|(d, _)| **d != 1) {
        match runs.last_mut() {
            Some((n, inner)) if *inner == s * d as isize => (*n, *inner) = (*n * d, s),
            _ => runs.push((d, s)),
        }
    }
    let mut strides = vec![1; dims.len()];
    let mut at = dims.len();
    for (n, s) in runs.into_iter().rev() {
        let mut taken = 1;
        while taken < n {
            at = at.checked_sub(1)?;
            strides[at] = s * taken as isize;
            taken *= dims[at];
        }
        if taken != n {
            return None;
        }
    }
    Some(strides)
}
