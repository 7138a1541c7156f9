//! Which unit a kernel may be given to, and along which of its axes.

use crate::kernel::access::{coefficient, is_vector, walk};
use crate::kernel::contraction::Product;
use crate::plan::opt::Opt;
use crate::plan::{Axis, Plan};
use frit_abi::MatrixUnit;
use frit_uop::{AxisKind, Op, UOp};

/// More than this many times the work it was is too much padding.
const MOST_PADDING: usize = 4;
/// Bytes of the least copy in the background.
const WORD: usize = 4;
/// What is packed must be used by so many rows.
const LEAST_ROWS: usize = 8;

/// A unit and the axes it would take.
pub struct Ways {
    pub unit: MatrixUnit,
    /// Origins of m, n and k.
    pub origins: [u32; 3],
    /// Their extents.
    pub sizes: [usize; 3],
    /// Accumulators kept along m and n where a core computes.
    pub kept: [usize; 2],
}

/// Rows and vectors of columns of accumulators of a unit whose operations are those of vectors: as many as load least for what
/// they compute, padding included.
fn kept_vectors(unit: MatrixUnit, [rows, columns]: [usize; 2]) -> [usize; 2] {
    let room = unit.accumulators();
    let all = (1..=columns.min(room)).flat_map(|n| (1..=rows.min(room / n)).map(move |m| [m, n]));
    let cost = |[m, n]: [usize; 2]| {
        let padded = rows.next_multiple_of(m) * columns.next_multiple_of(n);
        padded as f64 * (1.0 + 1.0 / m as f64 + 1.0 / n as f64)
    };
    all.min_by(|a, b| cost(*a).total_cmp(&cost(*b))).unwrap_or([1, 1])
}

impl Ways {
    pub fn of(plan: &Plan, product: &Product, unit: MatrixUnit) -> Option<Ways> {
        if !unit.accumulates(product.reduce.dtype) {
            return None;
        }
        let moves = |l: &UOp, a: &Axis| l.index().ranges.contains(&a.origin);
        let [x, y] = &product.loads;
        let alone = |l: &UOp, o: &UOp| {
            let of_one =
                plan.axes.iter().filter(|a| a.kind == AxisKind::Global && moves(l, a) && !moves(o, a));
            of_one.cloned().collect::<Vec<Axis>>()
        };
        let longest =
            |axes: Vec<Axis>| axes.into_iter().filter(|a| a.size().is_some()).max_by_key(|a| a.size());
        // columns are what is contiguous in the result
        let is_column = |a: &Axis| {
            let order = plan.ast.toposort();
            let stores = order.iter().filter(|n| n.op == Op::Store).filter_map(|n| n.buffer_and_index());
            stores.filter(|(_, idx)| walk(idx, a.origin).is_some_and(|w| w.step == 1)).count() > 0
        };
        let (of_x, of_y) = (longest(alone(x, y))?, longest(alone(y, x))?);
        let (m, n, a, b) = if is_column(&of_x) { (of_y, of_x, y, x) } else { (of_x, of_y, x, y) };
        let summed = plan.axes.iter().filter(|k| k.kind == AxisKind::Reduce && moves(x, k) && moves(y, k));
        let k = longest(summed.cloned().collect())?;
        if [a.dtype, b.dtype] != unit.operands {
            return None;
        }
        // elements that are packed one by one, each under a gate, cost more than the unit saves; a grid copies words and
        // vectors in the background
        let grid = plan.target.grid.as_ref();
        let near = |l: &UOp, across: &Axis| {
            let (idx, lanes) = (l.index(), (plan.target.vector_access_bytes / l.dtype.size()) as i64);
            let is_vector = |a: &Axis| {
                grid.is_some() && a.size().is_some_and(|n| is_vector(idx, a.origin, n as i64, lanes))
            };
            coefficient(idx, k.origin) == Some(1)
                || coefficient(idx, across.origin) == Some(1) && idx.op != Op::Where
                || is_vector(&k)
                || is_vector(across)
        };
        let has_words = grid.is_some() && a.dtype.size() >= WORD;
        if !has_words && (!near(a, &m) || !near(b, &n)) {
            return None;
        }
        let axes = [m, n, k];
        let sizes = [axes[0].size()?, axes[1].size()?, axes[2].size()?];
        let padded: Vec<usize> = sizes.iter().zip(unit.size).map(|(s, u)| s.next_multiple_of(u)).collect();
        let volume = |s: &[usize]| s.iter().product::<usize>();
        if volume(&padded) > MOST_PADDING * volume(&sizes)
            || sizes[0] < LEAST_ROWS
            || sizes[2] < unit.size[2] / 4
        {
            return None;
        }
        let blocks = [padded[0] / unit.size[0], padded[1] / unit.size[1]];
        let kept = match blocks {
            _ if unit.size[0] == 1 => kept_vectors(unit, blocks),
            [1, n] => [1, n.min(4)],
            [m, 1] => [m.min(4), 1],
            _ => [2, 2],
        };
        Some(Ways { unit, origins: axes.map(|a| a.origin), sizes, kept })
    }

    /// Products of one operation.
    pub fn work(&self) -> usize {
        self.unit.size.iter().product()
    }
    /// Give the axes to the unit.
    pub fn take_unit(&self, done: &mut Applied) -> Option<()> {
        let [m, n, k] = self.origins.map(|o| done.find(o, None));
        done.take(Opt::Matrix { unit: self.unit.name.into(), axes: [m?, n?, k?] })
    }
    /// Products beside each other.
    pub fn batches(&self, plan: &Plan) -> usize {
        let [m, n, _] = self.origins;
        let others =
            plan.axes.iter().filter(|a| a.kind == AxisKind::Global && a.origin != m && a.origin != n);
        others.filter_map(|a| a.size()).product()
    }
}

/// A plan, and the opts that were applied to it.
pub struct Applied<'p, 'a> {
    pub plan: &'p mut Plan<'a>,
    pub opts: Vec<Opt>,
}

impl Applied<'_, '_> {
    pub fn take(&mut self, opt: Opt) -> Option<()> {
        self.plan.apply(&opt).ok()?;
        self.opts.push(opt);
        Some(())
    }
    pub fn find(&self, origin: u32, kind: Option<AxisKind>) -> Option<usize> {
        let is = |a: &Axis| a.origin == origin && kind.is_none_or(|k| k == a.kind);
        self.plan.axes.iter().position(is)
    }
}
