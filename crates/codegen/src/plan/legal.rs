//! Which opts are legal, and applying them.

use super::axes::Plan;
use super::opt::{Opt, Order};
use crate::error::Error;
use frit_uop::{AxisKind, Space};

impl Plan<'_> {
    /// Apply one opt; an illegal one changes nothing.
    pub fn apply(&mut self, opt: &Opt) -> Result<(), Error> {
        let mut new = self.clone();
        let done = new.change(opt).and_then(|()| new.check());
        done.map_err(|why| Error::Opt { opt: format!("{opt:?}"), why })?;
        *self = new;
        Ok(())
    }

    fn change(&mut self, opt: &Opt) -> Result<(), String> {
        match opt {
            Opt::Split { axis, n, kind, inner } => self.split(*axis, *n, *kind, *inner),
            Opt::Reorder { order } => self.reorder(order),
            Opt::Swap { a, b } => self.swap(*a, *b),
            Opt::Pad { axis, n } => self.pad(*axis, *n),
            Opt::Stage { operand, at, space, order, buffers } => {
                self.stage(*operand, *at, *space, *order, *buffers)
            }
            Opt::Matrix { unit, axes } => self.give_to_unit(unit, *axes),
            // those that are first
            _ => Err("a kernel is folded and cut before anything else".into()),
        }
    }

    /// What holds between opts: loops nest, lanes fit a block, a matrix unit has its accumulators.
    fn check(&self) -> Result<(), String> {
        self.check_order()?;
        self.check_lanes()?;
        self.check_matrix()
    }

    /// Every single opt that is legal now, with the usual sizes.
    pub fn legal(&self) -> Vec<Opt> {
        use AxisKind::*;
        let mut all = vec![];
        for (axis, a) in self.axes.iter().enumerate() {
            for n in [2, 3, 4, 5, 7, 8, 16, 32] {
                for kind in [Global, Thread, Local, Loop, Reduce, GroupReduce, Vector, Upcast, Unroll] {
                    all.extend([true, false].map(|inner| Opt::Split { axis, n, kind, inner }));
                }
                if n <= 8 {
                    all.push(Opt::Pad { axis, n });
                }
            }
            if let Some(n) = a.size().filter(|n| *n > 8 && *n <= 64) {
                all.extend([Vector, Upcast, Unroll, Local, GroupReduce].map(|kind| Opt::Split {
                    axis,
                    n,
                    kind,
                    inner: true,
                }));
            }
            all.extend((axis + 1..self.axes.len()).map(|b| Opt::Swap { a: axis, b }));
        }
        let n = self.axes.len();
        if n > 2 {
            all.push(Opt::Reorder { order: (1..n).chain([0]).collect() });
            all.push(Opt::Reorder { order: [n - 1].into_iter().chain(0..n - 1).collect() });
        }
        for operand in 0..self.operands.len() {
            for order in [Order::LoopOrder, Order::RowMajor] {
                for buffers in [1, 2] {
                    let space = Space::Local;
                    all.extend((0..n).map(|at| Opt::Stage { operand, at, space, order, buffers }));
                }
            }
        }
        all.extend(self.matrix_opts());
        all.retain(|o| {
            let mut new = self.clone();
            new.change(o).and_then(|()| new.check()).is_ok()
        });
        all
    }
}
