//! Turn vector ranges into vectors.
//!
//! Every value that depends on a vector range of extent w becomes a `(w,)` value; what does not stays a scalar and is
//! broadcast where it is used.
//!
//! ```text
//! Load(p[i*4 + l])   ->  Load(p[i*4] x4)                     contiguous: one vector
//! Load(p[l*9 + i])   ->  Load(p[i] 4x1 by 9)                 a constant distance apart: one vector
//! p[4*l] | p[4*l + 1] << 8 | …  ->  Words(Load(p[0] x4w))    bytes of words: one vector
//! Load(p[q[l]])      ->  Stack(Load(p[q[0]]), Load(p[q[1]]), …) each lane for itself
//! Reduce(x, l)       ->  the halves of x added, and the halves of that, …
//! ```
//!
//! Where several accesses are side by side and their lanes are not, all of them together are rows that are contiguous:
//! those are moved, and transposed in registers (`transpose`). Loads of stride 2 to 4 become contiguous
//! loads, under masks where they have gates, and a deinterleave; those of stride -1 are reversed.

use super::shuffle;
use super::transpose::{self, TransposedAccesses};
use super::{carried, merged, place_of};
use crate::error::Error;
use crate::kernel::access::{coefficient, substitute_open};
use crate::kernel::word::bytes_of_word;
use crate::pass::Ctx;
use frit_uop::rewrite::replaced;
use frit_uop::symbolic::simplify;
use frit_uop::{Arg, AxisKind, DType, Op, UOp};
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::{SmallVec, smallvec};

/// The pass. Leaves no vector range behind.
pub fn vectorise(sink: &UOp, ctx: &mut Ctx) -> Result<UOp, Error> {
    let order = sink.toposort();
    let widths: FxHashMap<u32, u32> = order
        .iter()
        .filter_map(|n| {
            let a = n.range_arg().filter(|a| a.kind == AxisKind::Vector)?;
            Some((a.id, n.src[0].as_int()? as u32))
        })
        .collect();
    if widths.is_empty() {
        return Ok(sink.clone());
    }
    let transposed = transpose::find(&order, &widths, ctx.target);
    let written = order
        .iter()
        .filter(|n| n.op == Op::Store)
        .filter_map(|n| Some(n.buffer_and_index()?.0.behind_after().clone()));
    let done = FxHashMap::with_capacity_and_hasher(order.len(), Default::default());
    let reach = ctx.target.costs.address_reach;
    let has_words = ctx.target.has_dot4();
    let most = ctx.target.vector_bytes;
    let mut v = Vectoriser { widths, transposed, written: written.collect(), done, reach, has_words, most };
    Ok(simplify(&v.vector(sink)?))
}

/// The walk from values to vectors.
struct Vectoriser {
    widths: FxHashMap<u32, u32>,
    transposed: TransposedAccesses,
    /// Memory that the kernel writes to.
    written: FxHashSet<UOp>,
    done: FxHashMap<UOp, UOp>,
    /// Elements from one lane to the next that an address reaches.
    reach: i64,
    /// Bytes of a vector can be taken as words.
    has_words: bool,
    /// Bytes of a vector.
    most: usize,
}

impl Vectoriser {
    /// The lane range a node depends on, and its width.
    fn lane_of(&self, n: &UOp) -> Option<(u32, u32)> {
        n.ranges.iter().find_map(|r| Some((*r, *self.widths.get(r)?)))
    }

    /// The node with all lanes side by side.
    fn vector(&mut self, root: &UOp) -> Result<UOp, Error> {
        let mut stack = vec![(root.clone(), false)];
        while let Some((n, expanded)) = stack.pop() {
            if self.done.contains_key(&n) {
                continue;
            }
            if expanded {
                let new = self.node(&n)?;
                if self.lane_of(&n).is_some() {
                    replaced("all lanes side by side", &n, &new);
                }
                self.done.insert(n, new);
            } else {
                stack.push((n.clone(), true));
                stack.extend(
                    n.src.iter().rev().filter(|s| !self.done.contains_key(*s)).map(|s| (s.clone(), false)),
                );
            }
        }
        Ok(self.done[root].clone())
    }

    fn node(&mut self, n: &UOp) -> Result<UOp, Error> {
        let lane = self.lane_of(n);
        match (n.op, lane) {
            (Op::Range, Some((id, w))) if n.range_arg().is_some_and(|a| a.id == id) => {
                Ok(UOp::stack((0..w).map(|i| UOp::index(i as i64))))
            }
            // addresses are made by the access that uses them
            (Op::Index, Some(_)) => Ok(n.clone()),
            (Op::Load, Some((id, w))) if n.buffer_and_index().is_some() => match self.transposed.of(n) {
                Some((rows, column)) => rows.load(column, &mut |n| self.vector(n)),
                None => self.access(n, id, w),
            },
            // each of the rows is stored with the first of the columns
            (Op::Store, Some((id, w))) if n.buffer_and_index().is_some() => match self.transposed.of(n) {
                Some((rows, 0)) => rows.store(&mut |n| self.vector(n)),
                Some(_) => Ok(UOp::sink([])),
                None => self.access(n, id, w),
            },
            (Op::Or, Some((id, w))) if self.has_words && n.dtype == DType::U32 => {
                match self.words(n, id, w)? {
                    Some(words) => Ok(words),
                    None => Ok(n.with_src(n.src.iter().map(|s| self.done[s].clone()).collect())),
                }
            }
            (Op::Reduce, _) => {
                let (mine, others): (Vec<&UOp>, Vec<&UOp>) = n
                    .closed_ranges()
                    .iter()
                    .partition(|r| r.range_arg().is_some_and(|a| self.widths.contains_key(&a.id)));
                let values: Vec<UOp> = n.bodies().iter().map(|x| self.done[x].clone()).collect();
                let others: Vec<UOp> = others.iter().map(|r| self.done[*r].clone()).collect();
                let Some(r) = mine.first() else {
                    let mut src: SmallVec<[UOp; 4]> = values.into_iter().chain(others).collect();
                    // the first value gives the shape, and one that a gate made constant has none
                    if let Arg::Alu(_) = n.arg {
                        src.sort_by_key(|s| (s.op == Op::Range, std::cmp::Reverse(s.lanes())));
                    }
                    return Ok(n.with_src(src));
                };
                let w = self.widths[&r.range_arg().map_or(0, |a| a.id)];
                let all = carried(n, across(n, values, w)?, &others);
                Ok(all[place_of(n)].clone())
            }
            (Op::End | Op::After, _) => {
                // lane ranges end with the vector
                let mine = |r: &&UOp| !r.range_arg().is_some_and(|a| self.widths.contains_key(&a.id));
                let src: SmallVec<[UOp; 4]> =
                    n.src.iter().filter(mine).map(|s| self.done[s].clone()).collect();
                Ok(if src.len() == 1 { src[0].clone() } else { n.with_src(src) })
            }
            (Op::Sink, _) => {
                let is_empty = |s: &UOp| s.op == Op::Sink && s.src.is_empty();
                let src: SmallVec<[UOp; 4]> = n.src.iter().map(|s| self.done[s].clone()).collect();
                Ok(n.with_src(src.into_iter().filter(|s| !is_empty(s)).collect()))
            }
            _ => Ok(n.with_src(n.src.iter().map(|s| self.done[s].clone()).collect())),
        }
    }

    /// The gate of `w` neighbours from `start` on, of which every `step`-th is that of a lane: others are not read, since
    /// nothing says that they are inside the buffer.
    fn gate_of_covering(&mut self, gate: &UOp, id: u32, start: i64, step: i64, w: u32) -> Result<UOp, Error> {
        let places = start..start + i64::from(w);
        let lanes = UOp::stack(places.clone().map(|e| UOp::index(e / step)));
        let is_lane = UOp::stack(places.map(|e| UOp::boolean(e % step == 0)));
        let of_lanes: FxHashMap<u32, UOp> = [(id, lanes)].into_iter().collect();
        Ok(self.vector(&substitute_open(gate, &of_lanes))?.and_(&is_lane))
    }

    /// Words put together from bytes that lie one after the other in all lanes.
    fn words(&mut self, n: &UOp, id: u32, w: u32) -> Result<Option<UOp>, Error> {
        let is_plain = |b: &UOp| b.op == Op::Load && b.src.len() == 1 && b.arg == Arg::None;
        let Some([a, b, c, d]) = bytes_of_word(n, is_plain).filter(|_| 4 * w as usize <= self.most) else {
            return Ok(None);
        };
        let Some((buf, idx)) = a.buffer_and_index() else { return Ok(None) };
        let follows = |(i, l): (i64, &UOp)| {
            let Some((other, at)) = l.buffer_and_index() else { return false };
            other == buf && simplify(&(at + idx * -1)).as_int() == Some(i)
        };
        if coefficient(idx, id) != Some(4) || !(1..).zip([&b, &c, &d]).all(follows) {
            return Ok(None);
        }
        let at_zero: FxHashMap<u32, UOp> = [(id, UOp::index(0))].into_iter().collect();
        let rest = self.vector(&substitute_open(idx, &at_zero))?;
        let bytes = self.done[buf].at_lanes(&rest, 4 * w).load();
        Ok(Some(UOp::new(Op::Words, DType::U32, [bytes], Arg::None)))
    }

    fn access(&mut self, n: &UOp, id: u32, w: u32) -> Result<UOp, Error> {
        let Some((buf, idx)) = n.buffer_and_index() else { return Ok(n.clone()) };
        let (buf, step) = (self.done[buf].clone(), coefficient(idx, id));
        let gate = n.gate().map(|g| self.done[g].clone());
        let value = (n.op == Op::Store).then(|| self.done[&n.src[1]].clone());
        // a miss of one lane alone is reported lane by lane
        let checked = matches!(n.arg, Arg::Site(_)) && gate.as_ref().is_none_or(|g| g.lanes() > 1);
        let rest = match step {
            Some(_) => {
                let at_zero: FxHashMap<u32, UOp> = [(id, UOp::index(0))].into_iter().collect();
                let rest = substitute_open(idx, &at_zero);
                Some(self.vector(&rest)?)
            }
            None => None,
        };
        let build = |address: UOp, value: Option<UOp>, gate: Option<UOp>| {
            let mut src: SmallVec<[UOp; 4]> = smallvec![address];
            match (value, gate) {
                (Some(v), gate) => {
                    src.push(v);
                    src.extend(gate);
                }
                (None, Some(g)) => src.extend([n.src[1].clone(), g]),
                (None, None) => {}
            }
            UOp::new(n.op, n.dtype, src, n.arg.clone())
        };
        let wide = |v: UOp| if v.lanes() > 1 { v } else { UOp::stack((0..w).map(|_| v.clone())) };
        if let (Some(1), Some(rest), false) = (step, &rest, checked) {
            return Ok(build(buf.at_lanes(rest, w), value.map(wide), gate));
        }
        if let (Some(-1), Some(rest), false, None) = (step, &rest, checked, &value) {
            // the last lane's element is the first
            let last = i64::from(w) - 1;
            let gate = match (n.gate(), &gate) {
                (Some(g), Some(lanes)) if lanes.lanes() > 1 => {
                    let backwards = UOp::stack((0..=last).rev().map(UOp::index));
                    Some(self.vector(&substitute_open(g, &[(id, backwards)].into_iter().collect()))?)
                }
                _ => gate.clone(),
            };
            let forwards = build(buf.at_lanes(&rest.fold_add(&UOp::index(-last)), w), None, gate);
            return Ok(forwards.shuffle(&forwards, &(0..w as u8).rev().collect::<Vec<_>>()));
        }
        if let (Some(step @ 2..=4), Some(rest), false, None) = (step, &rest, checked, &value)
            && !self.written.contains(buf.behind_after())
        {
            // what is between is read too, so no one may be writing it
            let mut vectors = vec![];
            for start in shuffle::covering(w as usize, step as usize) {
                let at = buf.at_lanes(&rest.fold_add(&UOp::index(start as i64)), w);
                let gate = match (n.gate(), &gate) {
                    (Some(g), Some(lanes)) if lanes.lanes() > 1 => {
                        Some(self.gate_of_covering(g, id, start as i64, step, w)?)
                    }
                    _ => gate.clone(),
                };
                vectors.push(build(at, None, gate));
            }
            return Ok(shuffle::every(&vectors, step as usize));
        }
        // lanes that were made one by one are stored so
        let is_apart = value.as_ref().is_some_and(|v| v.op == Op::Stack);
        if let (Some(step), Some(rest), false, false) = (step, &rest, checked, is_apart)
            && gate.as_ref().is_none_or(|g| g.lanes() == 1)
            && (1..=self.reach).contains(&step.abs())
        {
            return Ok(build(buf.at_tile(rest, w, 1, step), value.map(wide), gate));
        }
        let lane = |v: &UOp, i: u32| if v.lanes() > 1 { v.lane(i) } else { v.clone() };
        let scattered = if rest.is_none() { Some(self.done[idx].clone()) } else { None };
        let each = (0..w).map(|i| {
            let at = match (&rest, &scattered) {
                (Some(rest), _) => rest.fold_add(&UOp::index(step.unwrap_or(0) * i as i64)),
                (None, Some(v)) => lane(v, i),
                (None, None) => idx.clone(),
            };
            build(buf.at(&at), value.as_ref().map(|v| lane(v, i)), gate.as_ref().map(|g| lane(g, i)))
        });
        let mut each: Vec<UOp> = each.collect();
        Ok(match n.op {
            Op::Load => UOp::stack(each),
            // all lanes write one place: as in a loop, the last one stays
            _ if step == Some(0) && gate.is_none() => each.swap_remove(w as usize - 1),
            _ => UOp::sink(each),
        })
    }
}

/// All `w` lanes combined: the halves of the vectors, as long as there are halves.
fn across(n: &UOp, values: Vec<UOp>, w: u32) -> Result<Vec<UOp>, Error> {
    let widest = values.iter().map(|x| x.lanes()).max().unwrap_or(1);
    let bools = values.iter().any(|x| x.dtype == DType::Bool);
    if widest > 2 && widest.is_multiple_of(2) && !bools {
        let half = (w / 2) as u8;
        let part = |x: &UOp, from: u8| match x.lanes() {
            1 => x.clone(),
            _ => x.shuffle(x, &(from..from + half).collect::<Vec<u8>>()),
        };
        let halves = [0, half].map(|from| values.iter().map(|x| part(x, from)).collect());
        return across(n, merged(n, halves.into())?, w / 2);
    }
    let lane = |x: &UOp, i: u32| if x.lanes() > 1 { x.lane(i) } else { x.clone() };
    merged(n, (0..w).map(|i| values.iter().map(|x| lane(x, i)).collect()).collect())
}
