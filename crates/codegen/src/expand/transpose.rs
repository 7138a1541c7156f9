//! Accesses that are side by side while their lanes are far apart: together they are rows, each contiguous, which are
//! moved whole and transposed in registers.
//!
//! ```text
//! Load(p[l*S]), Load(p[l*S + 1]), …    ->   row i = Load(p[i*S] x n), for each lane i;  the columns are the loads
//! Store(p[l*S], a), Store(p[l*S + 1], b), …    ->    rows of the columns a, b, …;  Store(p[i*S] x n, row i)
//! ```
//!
//! A gate is a condition on the row, or on the column, or both: each row is loaded under its own.

use super::shuffle;
use crate::error::Error;
use crate::kernel::access::{coefficient, substitute_open};
use frit_abi::{Costs, Target};
use frit_uop::symbolic::simplify;
use frit_uop::{Arg, DType, Op, UOp};
use rustc_hash::FxHashMap;
use smallvec::{SmallVec, smallvec};
use std::cell::OnceCell;
use std::rc::Rc;

/// Accesses that become rows.
pub struct TransposedAccess {
    /// The columns, in the order of their places.
    accesses: Vec<UOp>,
    /// The index of the first column, as a function of the lane.
    idx: UOp,
    lane: u32,
    rows: usize,
    /// Conditions on the row, as functions of the lane.
    of_row: Vec<UOp>,
    /// Conditions on each column.
    of_column: Vec<Vec<UOp>>,
    /// Bytes of a vector register.
    register: usize,
    costs: &'static Costs,
    loaded: OnceCell<Vec<UOp>>,
}

/// All of them.
pub struct TransposedAccesses {
    all: Vec<Rc<TransposedAccess>>,
    place: FxHashMap<UOp, (usize, usize)>,
    register: usize,
    costs: &'static Costs,
}

/// What accesses must have in common: the effect they are part of, buffer, index without its constant, conditions on the
/// row, and what is read where they do not hold.
type Key = (Option<UOp>, UOp, UOp, Vec<UOp>, Option<UOp>);

/// Makes all lanes of a value one vector.
pub type Widen<'w> = &'w mut dyn FnMut(&UOp) -> Result<UOp, Error>;

/// An address and the gate of an access to it.
type Place = (UOp, Option<UOp>);

/// A column on its own: its place, its conditions, itself.
type Column = (i64, Vec<UOp>, UOp);

/// Those among accesses with lanes of these widths.
pub fn find(order: &[UOp], widths: &FxHashMap<u32, u32>, target: &Target) -> TransposedAccesses {
    let mut keys: Vec<(Key, u32)> = vec![];
    let mut groups: FxHashMap<Key, Vec<Column>> = FxHashMap::default();
    let mut add = |n: &UOp, sink: Option<&UOp>| {
        let Some((lane, step)) = strided(n, widths) else { return };
        // what goes by a few is picked from whole vectors
        if n.op == Op::Load && (2..=4).contains(&step) {
            return;
        }
        let Some((buf, idx)) = n.buffer_and_index() else { return };
        let (rest, offset) = match (idx.op, idx.src.get(1).and_then(|c| c.as_int())) {
            (Op::Add, Some(c)) => (idx.src[0].clone(), c),
            _ => (idx.clone(), 0),
        };
        let (row, column): (Vec<UOp>, Vec<UOp>) =
            conditions(n.gate()).into_iter().partition(|c| c.ranges.contains(&lane));
        let alt = (n.op == Op::Load).then(|| n.src.get(1).cloned().unwrap_or_else(|| n.const_like(0)));
        let key = (sink.cloned(), buf.clone(), rest, row, alt);
        let group = groups.entry(key.clone()).or_insert_with(|| {
            keys.push((key, lane));
            vec![]
        });
        group.push((offset, column, n.clone()));
    };
    for n in order {
        match n.op {
            Op::Load => add(n, None),
            // stores that are done together are sources of one `Sink`
            Op::Sink => n.src.iter().filter(|s| s.op == Op::Store).for_each(|s| add(s, Some(n))),
            _ => {}
        }
    }
    let mut found = TransposedAccesses {
        all: vec![],
        place: FxHashMap::default(),
        register: target.vector_bytes,
        costs: target.costs,
    };
    for (key, lane) in keys {
        let Some(group) = groups.remove(&key) else { continue };
        let rows = widths[&lane] as usize;
        found.cut(key, lane, rows, group);
    }
    found
}

/// The lane an access moves with, and how far in each step; unless that is side by side.
fn strided(n: &UOp, widths: &FxHashMap<u32, u32>) -> Option<(u32, i64)> {
    let (buf, idx) = n.buffer_and_index()?;
    let plain = n.arg == Arg::None && n.src[0].arg == Arg::None && buf.dtype != DType::Bool;
    let lane = *idx.ranges.iter().find(|r| widths.contains_key(r)).filter(|_| plain)?;
    let step = coefficient(idx, lane).filter(|s| s.abs() > 1)?;
    Some((lane, step))
}

/// A gate as conditions that must all hold.
fn conditions(gate: Option<&UOp>) -> Vec<UOp> {
    let (mut open, mut found): (Vec<&UOp>, Vec<UOp>) = (gate.into_iter().collect(), vec![]);
    while let Some(g) = open.pop() {
        if g.op == Op::And {
            open.extend(g.src.iter().rev());
        } else if g.as_int() != Some(1) {
            found.push(g.clone());
        }
    }
    found
}

/// All conditions together; `None` where there is nothing to hold.
fn together(conditions: impl IntoIterator<Item = UOp>) -> Option<UOp> {
    conditions.into_iter().reduce(|a, b| a.and_(&b)).map(|g| simplify(&g)).filter(|g| g.as_int() != Some(1))
}

impl TransposedAccesses {
    /// The rows an access is in, and which column it is.
    pub fn of(&self, n: &UOp) -> Option<(Rc<TransposedAccess>, usize)> {
        let (group, column) = self.place.get(n)?;
        Some((self.all[*group].clone(), *column))
    }

    /// Cut a group of accesses into runs that are as long as a row may be.
    fn cut(&mut self, key: Key, lane: u32, rows: usize, mut group: Vec<Column>) {
        group.sort_by_key(|(o, ..)| *o);
        let (sink, _, rest, of_row, _) = key;
        let step = coefficient(&rest, lane).map_or(0, i64::unsigned_abs) as usize;
        // rows that overlap are written in the order of the program
        let most = if sink.is_some() { rows.min(step) } else { rows };
        let mut at = 0;
        while at < group.len() {
            let is_run = |n: &usize| {
                let run = group.get(at..at + n);
                *n <= most && run.is_some_and(|r| r.windows(2).all(|w| w[1].0 == w[0].0 + 1))
            };
            let lengths = [64, 32, 16, 8, 4, 2].into_iter().filter(|n| rows.is_multiple_of(*n));
            let Some(n) = lengths.into_iter().find(is_run) else {
                at += 1;
                continue;
            };
            let run = &group[at..at + n];
            self.place.extend(run.iter().enumerate().map(|(c, (_, _, a))| (a.clone(), (self.all.len(), c))));
            self.all.push(Rc::new(TransposedAccess {
                accesses: run.iter().map(|(_, _, a)| a.clone()).collect(),
                idx: rest.fold_add(&UOp::index(run[0].0)),
                lane,
                rows,
                of_row: of_row.clone(),
                of_column: run.iter().map(|(_, c, _)| c.clone()).collect(),
                register: self.register,
                costs: self.costs,
                loaded: OnceCell::new(),
            }));
            at += n;
        }
    }
}

impl TransposedAccess {
    fn bytes(&self) -> usize {
        self.accesses[0].src[0].dtype.size()
    }

    /// Address and gate of each of the first rows.
    fn places(&self, widen: Widen, rows: usize) -> Result<Vec<Place>, Error> {
        let n = self.accesses.len();
        let Some((buf, _)) = self.accesses[0].buffer_and_index() else {
            return Err(Error::Kernel("rows of something that is no access".into()));
        };
        let buf = widen(buf)?;
        let columns: Vec<Option<UOp>> = self.of_column.iter().map(|c| together(c.iter().cloned())).collect();
        let columns = match columns.iter().all(|c| *c == columns[0]) {
            true => columns[0].clone(),
            false => Some(UOp::stack(columns.into_iter().map(|c| c.unwrap_or_else(|| UOp::boolean(true))))),
        };
        let mut places = vec![];
        for row in 0..rows {
            let here: FxHashMap<u32, UOp> = [(self.lane, UOp::index(row as i64))].into_iter().collect();
            let idx = widen(&substitute_open(&self.idx, &here))?;
            let gate = together(self.of_row.iter().map(|c| substitute_open(c, &here)));
            let gate = match (gate, &columns) {
                (Some(g), Some(c)) => Some(c.and_(&g)),
                (g, c) => g.or_else(|| c.clone()),
            };
            places.push((buf.at_lanes(&idx, n as u32), gate));
        }
        Ok(places)
    }

    /// Rows side by side, each `n` further, as one access each: address and gate. None where rows have gates of their
    /// own, or do not fit a register.
    fn sides(&self, widen: Widen) -> Result<Option<Vec<Place>>, Error> {
        let (n, count) = (self.accesses.len(), self.rows / self.accesses.len());
        if count > 1 && n * self.bytes() > self.register {
            return Ok(None);
        }
        let is_one = self.of_row.is_empty() && self.of_column.iter().all(|c| *c == self.of_column[0]);
        let reach = coefficient(&self.idx, self.lane).and_then(|step| step.checked_mul(n as i64));
        let Some(stride) = reach.filter(|s| is_one && s.abs() <= self.costs.address_reach) else {
            return Ok(None);
        };
        let places = self.places(widen, n)?;
        Ok(Some(places.into_iter().map(|(row, gate)| (beside(&row, count, n, stride), gate)).collect()))
    }

    fn load_at(&self, (place, gate): Place) -> UOp {
        let first = &self.accesses[0];
        let alt = first.src.get(1).cloned().unwrap_or_else(|| first.const_like(0));
        let mut src: SmallVec<[UOp; 4]> = smallvec![place];
        src.extend(gate.into_iter().flat_map(|g| [alt.clone(), g]));
        UOp::new(Op::Load, first.dtype, src, Arg::None)
    }

    /// A column, from rows that are loaded once.
    pub fn load(&self, column: usize, widen: Widen) -> Result<UOp, Error> {
        if let Some(columns) = self.loaded.get() {
            return Ok(columns[column].clone());
        }
        // as many side by side as a vector holds
        let n = self.accesses.len();
        let joined: Vec<UOp> = match self.sides(widen)? {
            Some(sides) => sides.into_iter().map(|side| self.load_at(side)).collect(),
            None => {
                let rows: Vec<UOp> =
                    self.places(widen, self.rows)?.into_iter().map(|row| self.load_at(row)).collect();
                (0..n).map(|i| shuffle::join(rows.iter().skip(i).step_by(n).cloned().collect())).collect()
            }
        };
        let columns =
            self.loaded.get_or_init(|| shuffle::transpose(&joined, self.bytes(), self.costs.shuffle_bytes));
        Ok(columns[column].clone())
    }

    /// All the rows.
    pub fn store(&self, widen: Widen) -> Result<UOp, Error> {
        let (n, w) = (self.accesses.len(), self.rows);
        let mut columns = vec![];
        for a in &self.accesses {
            let x = widen(&a.src[1])?;
            columns.push(if x.lanes() > 1 { x } else { UOp::stack((0..w).map(|_| x.clone())) });
        }
        let turned = shuffle::transpose(&columns, self.bytes(), self.costs.shuffle_bytes);
        if let Some(sides) = self.sides(widen)? {
            return Ok(UOp::sink(sides.into_iter().zip(turned).map(|(side, value)| store_at(side, value))));
        }
        let stores = self
            .places(widen, w)?
            .into_iter()
            .enumerate()
            .map(|(row, place)| store_at(place, shuffle::cut(&turned[row % n], row / n * n, n)));
        Ok(UOp::sink(stores))
    }
}

/// The address of `count` rows like this one, so far apart.
fn beside(row: &UOp, count: usize, n: usize, stride: i64) -> UOp {
    match count {
        1 => row.clone(),
        _ => row.src[0].at_tile(&row.src[1], count as u32, n as u32, stride),
    }
}

fn store_at((place, gate): Place, value: UOp) -> UOp {
    let mut src: SmallVec<[UOp; 4]> = smallvec![place, value];
    src.extend(gate);
    UOp::new(Op::Store, DType::Void, src, Arg::None)
}
