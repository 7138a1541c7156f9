//! A scan that the lanes of a block share goes through local memory, and what rounds of a loop came to is carried on.
//!
//! ```text
//! Scan(x, t, lane)   ->   for t { carry (+) (what the lanes before have) (+) x;  carry (+)= what all lanes have }
//! ```
//! With many lanes, each looks at the few neighbours before it and at what whole groups before those came to: work that is
//! linear in the length.

use super::{barrier, linear_lane};
use crate::error::Error;
use crate::kernel::ranges;
use crate::pass::Ctx;
use frit_uop::{Alu, Arg, AxisKind, Op, Scalar, Space, UOp};

/// Parts that a lane looks at on each level.
const RADIX: i64 = 16;

/// The pass. Leaves only scans of one loop.
pub fn scan(sink: &UOp, ctx: &mut Ctx) -> Result<UOp, Error> {
    let is_shared = |n: &UOp| n.src[1..].iter().any(|r| r.op == Op::Special);
    let mut sink = sink.clone();
    loop {
        let order = sink.toposort();
        // the first has none below it
        let first = order.iter().filter(|n| n.op == Op::Scan).find_map(|n| match n.arg {
            Arg::Exclusive(alu) => Some((n, alu, true)),
            Arg::Alu(alu) if is_shared(n) => Some((n, alu, false)),
            _ => None,
        });
        let Some((n, alu, is_exclusive)) = first else { return Ok(sink) };
        let before = Shared::of(n, alu, &order)?.before(ctx);
        let new = if is_exclusive { before } else { before.bin(alu, &n.src[0]) };
        sink = sink.substitute(&[(n.clone(), new)].into_iter().collect());
    }
}

/// A scan over lanes, over rounds of a loop, or both.
struct Shared<'a> {
    x: &'a UOp,
    alu: Alu,
    identity: UOp,
    /// The number of a lane among those of its scan, and how many there are.
    lane: (UOp, i64),
    /// The first place of its row in local memory, and all places there are.
    row: UOp,
    places: i64,
    /// The loop around the lanes.
    rounds: Option<UOp>,
    /// Loops that the scan begins anew in.
    outer: Vec<UOp>,
    next: u32,
}

impl<'a> Shared<'a> {
    fn of(scan: &'a UOp, alu: Alu, order: &[UOp]) -> Result<Shared<'a>, Error> {
        let identity = Scalar::identity(alu, scan.dtype)
            .ok_or_else(|| Error::Kernel(format!("{alu:?} of {} has no identity", scan.dtype)))?;
        let (ids, rounds): (Vec<UOp>, Vec<UOp>) =
            scan.src[1..].iter().cloned().partition(|r| r.op == Op::Special);
        let lane = linear_lane(order, |s| ids.contains(s));
        let (row, rows) = linear_lane(order, |s| !ids.contains(s));
        let id_of = |r: &UOp| r.range_arg().map_or(0, |a| a.id);
        let mine: Vec<u32> = rounds.iter().map(id_of).collect();
        let mut around: Vec<u32> = scan.ranges.to_vec();
        let others = ranges::around_scans(order).into_iter().filter(|(id, _)| mine.contains(id));
        around.extend(others.flat_map(|(_, ids)| ids));
        let is_outer = |r: &&UOp| around.contains(&id_of(r)) && !mine.contains(&id_of(r));
        let outer = ranges::all(order).iter().filter(is_outer).cloned().collect();
        Ok(Shared {
            x: &scan.src[0],
            alu,
            identity: UOp::constant(identity, scan.dtype),
            row: row.fold_mul(&UOp::index(lane.1)),
            places: rows * lane.1,
            lane,
            rounds: rounds.into_iter().next(),
            outer,
            next: ranges::next_id(order),
        })
    }

    fn range(&mut self, n: i64) -> UOp {
        self.next += 1;
        UOp::range(&UOp::index(n), self.next - 1, AxisKind::Reduce)
    }

    /// What came before this lane in this round.
    fn before(mut self, ctx: &mut Ctx) -> UOp {
        let mine = self.x.clone();
        let (before, all) = match self.lane.1 {
            1 => (None, mine),
            _ => self.across(&mine, ctx),
        };
        let carried = self.rounds.as_ref().map(|rounds| self.carried(rounds, &all, ctx));
        match (carried, before) {
            (Some(c), Some(b)) => c.bin(self.alu, &b),
            (c, b) => c.or(b).unwrap_or(self.identity),
        }
    }

    /// What the lanes before this one have, and what all have.
    fn across(&mut self, mine: &UOp, ctx: &mut Ctx) -> (Option<UOp>, UOp) {
        let around: Vec<UOp> = self.outer.iter().chain(&self.rounds).cloned().collect();
        let free = if around.is_empty() { vec![] } else { vec![barrier(around)] };
        let (lane, n) = self.lane.clone();
        let first = self.shared(mine, free, ctx);
        if n <= RADIX || n % RADIX != 0 {
            let (before, all) = self.looked(&first, &UOp::index(0), 1, n, &lane);
            return (Some(before), all);
        }
        let radix = UOp::index(RADIX);
        let group = lane.bin(Alu::Idiv, &radix);
        let (near, sum) = self.looked(&first, &group.fold_mul(&radix), 1, RADIX, &lane.bin(Alu::Mod, &radix));
        let second = self.shared(&sum, vec![], ctx);
        let (far, all) = self.looked(&second, &UOp::index(0), RADIX, n / RADIX, &group);
        (Some(far.bin(self.alu, &near)), all)
    }

    /// What each lane brings, in local memory once all lanes have.
    fn shared(&self, x: &UOp, before: Vec<UOp>, ctx: &mut Ctx) -> UOp {
        let tile = UOp::define(Space::Local, ctx.fresh(), self.places as usize, x.dtype);
        let place = tile.after(before).at(&self.row.fold_add(&self.lane.0));
        tile.after([barrier(vec![place.store(x)])])
    }

    /// Of `n` places, `step` apart: what those before `me` come to, and what all do.
    fn looked(&mut self, tile: &UOp, from: &UOp, step: i64, n: i64, me: &UOp) -> (UOp, UOp) {
        let r = self.range(n);
        let at = self.row.fold_add(from).fold_add(&r.fold_mul(&UOp::index(step)));
        let part = tile.at(&at).load();
        let before = r.lt(me).select(&part, &self.identity);
        (before.reduce(self.alu, [r.clone()]), part.reduce(self.alu, [r]))
    }

    /// What the rounds before came to, kept in a register.
    fn carried(&self, rounds: &UOp, all: &UOp, ctx: &mut Ctx) -> UOp {
        let mut register = || UOp::define(Space::Reg, ctx.fresh(), 1, all.dtype);
        let (sum, last) = (register(), register());
        let load = |m: &UOp| UOp::new(Op::Load, all.dtype, [m.clone()], Arg::None);
        let begin = sum.after(self.outer.iter().cloned()).store(&self.identity);
        let sum = sum.after([begin, rounds.clone()]);
        let keep = last.after([rounds.clone()]).store(&load(&sum));
        let add = sum.store(&load(&last.after([keep])).bin(self.alu, all));
        load(&last.after([add]))
    }
}
