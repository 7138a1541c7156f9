//! Copies that are under way from buffers to local arrays, and matrices that a warp loads from those.
//!
//! A lane's copies become groups, and arrive group by group when it waits for them. From its start to its arrival the target of
//! a copy belongs to it: whoever touches it is told. What has arrived is there for the lane that waited, and for others after the
//! next barrier.

use super::decode::{Copy, Fragments};
use super::memory::{Buffers, Locals};
use std::collections::VecDeque;

/// Bytes of a row of a matrix that a warp loads, and rows of one.
const ROW: usize = 16;
const ROWS: usize = 8;

/// An element that is under way: its array, its index, what it will be.
type Element = (u32, i64, u64);

/// The copies of a lane that have not arrived.
#[derive(Default)]
pub struct Copies {
    /// Those of no group yet.
    open: Vec<Element>,
    groups: VecDeque<Vec<Element>>,
}

impl Copies {
    /// Forget all of them.
    pub fn clear(&mut self) {
        self.open.clear();
        self.groups.clear();
    }
    /// A copy begins: elements from `from` on of the buffer, or zeros, go to those from `to` on.
    pub fn start(
        &mut self,
        copy: &Copy,
        (to, from): (i64, Option<i64>),
        (lane, agent): (u32, u32),
        buffers: &mut Buffers,
        locals: &mut Locals,
    ) -> Result<(), String> {
        let bytes = (copy.lanes * copy.size) as i64;
        let start = |from: i64| (buffers.address(copy.from) as i64).wrapping_add(from * copy.size as i64);
        if (to * copy.size as i64) % bytes != 0 || from.is_some_and(|f| start(f) % bytes != 0) {
            return Err(format!("a copy of {bytes} bytes at index {to} of l{} is not aligned", copy.to));
        }
        for i in 0..copy.lanes as i64 {
            let raw = from.map_or(Ok(0), |f| buffers.read(copy.from, f + i, agent))?;
            locals.claim(copy.to, to + i, lane)?;
            self.open.push((copy.to, to + i, raw));
        }
        Ok(())
    }
    /// What began since the last one is a group.
    pub fn commit(&mut self) {
        self.groups.push_back(std::mem::take(&mut self.open));
    }
    /// All groups but the last `left` arrive.
    pub fn wait(&mut self, left: usize, lane: u32, locals: &mut Locals) -> Result<(), String> {
        while self.groups.len() > left {
            for (array, idx, raw) in self.groups.pop_front().into_iter().flatten() {
                locals.arrive(array, idx, raw, lane)?;
            }
        }
        Ok(())
    }
}

/// What each lane of a warp gets of the matrices whose rows begin at these elements, a row for each lane: word by word, and on
/// failure the lane to blame.
pub fn fragments(
    f: &Fragments,
    rows: &[(i64, u32)],
    locals: &mut Locals,
) -> Result<Vec<Vec<u64>>, (usize, String)> {
    let (row_len, word) = (ROW / f.size as usize, 4 / f.size as usize);
    let mut all = vec![vec![]; rows.len()];
    for (m, rows) in rows.chunks(ROWS).take(f.matrices as usize).enumerate() {
        let mut matrix = vec![];
        for (r, &(first, lane)) in rows.iter().enumerate() {
            let r = m * ROWS + r;
            if first * f.size as i64 % ROW as i64 != 0 {
                return Err((r, format!("a row at index {first} of l{} is not aligned", f.array)));
            }
            for i in 0..row_len as i64 {
                matrix.push(locals.read(f.array, first + i, lane).map_err(|m| (r, m))?);
            }
        }
        for (l, to) in all.iter_mut().enumerate() {
            let (outer, inner) = (l / 4, l % 4 * word);
            to.extend((0..word).map(|i| match f.transposed {
                false => matrix[outer * row_len + inner + i],
                true => matrix[(inner + i) * row_len + outer],
            }));
        }
    }
    Ok(all)
}
