//! Opts: the ways a kernel may be walked, as data.
//!
//! An opt names axes by their place in the list as it stands when the opt is applied.
//!
//! ```text
//! Split { axis: 0, n: 4, kind: Vector, inner: true }     i -> i0 * 4 + i1, i1 the lanes of vectors
//! ```

use frit_uop::{AxisKind, Space};

/// The order of a staged tile in memory.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Order {
    /// As the kernel walks it: loops in their order, then copies, of those the contiguous one last.
    LoopOrder,
    /// The same, but what was one vector in memory stays together, though a loop inside takes it in parts; filled as
    /// memory lies, a few vectors of a row at once.
    RowMajor,
}

/// One decision about how a kernel is walked.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Opt {
    /// Take a part of `n` iterations out of an axis and walk it as `kind`. The `inner` part is the fast one
    /// (`axis * n + part`) and comes right after the axis; the outer one (`part * rest + axis`) right before. A part as
    /// large as the axis takes its place.
    Split {
        /// Which axis.
        axis: usize,
        /// Iterations of the part.
        n: usize,
        /// How the part is walked.
        kind: AxisKind,
        /// Whether the part is the fast one.
        inner: bool,
    },
    /// Put the axes in another order: the new i-th axis is the old `order[i]`-th.
    Reorder {
        /// A permutation of all axes.
        order: Vec<usize>,
    },
    /// Copy what a load reads to nearer memory first: a tile over the axes from `at` on that the load moves with (on a
    /// grid also over all lanes), filled where the axes before `at` stand. After all splits and reorders.
    Stage {
        /// Which load, in the order of [`Plan::operands`](super::Plan::operands).
        operand: usize,
        /// The first axis that is inside.
        at: usize,
        /// Where the tile lives.
        space: Space,
        /// How it lies there.
        order: Order,
        /// How many take turns: with two on a grid, one is filled while the other is read.
        buffers: u8,
    },
    /// Round the extent of an axis that is not split yet up to a multiple of `n`; what is beyond neither loads, nor
    /// stores, nor counts in a reduce.
    Pad {
        /// Which axis.
        axis: usize,
        /// The multiple.
        n: usize,
    },
    /// Give a sum of products to a matrix unit: parts of its extents of three axes become one operation of it.
    Matrix {
        /// The unit's name.
        unit: String,
        /// The axes that its m, n and k are parts of.
        axes: [usize; 3],
    },
    /// Run a chain of sums of products for blocks of `rows` rows, each a kernel of its own. Alone.
    TileAndFuse {
        /// Rows of a block.
        rows: usize,
    },
    /// Run attention with a matrix unit, carrying what is known of rows from one block of keys to the next. Alone.
    OnlineSoftmax {
        /// Warps of a block, each with as many rows as the unit has.
        warps: usize,
        /// Keys of a round.
        keys: usize,
    },
    /// Run a sum of what is made of products with a matrix unit that computes those again in each round. Alone.
    FuseProducts {
        /// Warps of a block, each with as many rows as the unit has.
        warps: usize,
        /// Keys of a round.
        keys: usize,
    },
    /// Reduces that need each other become one that carries several values. Before all others.
    Fold,
    /// Transpose the smaller factor of the kernel's product by a program before, where its sum walks across the rows of both.
    /// Before all but `Fold`: those are about the product.
    TransposeFactor,
    /// Cut the kernel's sum of products into `n` slices, whose sums another program adds up. Before all but `Fold` and
    /// `TransposeFactor`: those are
    /// about the program of the slices.
    SplitReduce {
        /// How many.
        n: usize,
    },
    /// Make one loop each of those that only the first factor of the kernel's product moves with, only the second, and of those
    /// of the sum, where that is said. Before all but `Fold` and `SplitReduce`.
    Collapse {
        /// Which kinds.
        of: [bool; 3],
    },
    /// Exchange two axes.
    Swap {
        /// One axis.
        a: usize,
        /// The other.
        b: usize,
    },
}

impl Opt {
    /// Whether no other goes with it.
    pub fn is_alone(&self) -> bool {
        matches!(self, Opt::TileAndFuse { .. } | Opt::OnlineSoftmax { .. } | Opt::FuseProducts { .. })
    }
    /// Whether it decides what the kernel is, before its axes are planned.
    pub fn is_first(&self) -> bool {
        self.is_alone()
            || matches!(
                self,
                Opt::Fold | Opt::TransposeFactor | Opt::SplitReduce { .. } | Opt::Collapse { .. }
            )
    }
}

impl std::fmt::Display for Opt {
    /// One line that parses back: `split 0 4 Vector inner`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Opt::Split { axis, n, kind, inner } => {
                write!(f, "split {axis} {n} {kind:?} {}", if *inner { "inner" } else { "outer" })
            }
            Opt::Reorder { order } => {
                f.write_str("reorder")?;
                order.iter().try_for_each(|a| write!(f, " {a}"))
            }
            Opt::Stage { operand, at, space, order, buffers } => {
                write!(f, "stage {operand} {at} {space:?} {order:?}")?;
                if *buffers == 1 { Ok(()) } else { write!(f, " {buffers}") }
            }
            Opt::Pad { axis, n } => write!(f, "pad {axis} {n}"),
            Opt::TileAndFuse { rows } => write!(f, "tile-and-fuse {rows}"),
            Opt::OnlineSoftmax { warps, keys } => write!(f, "online-softmax {warps} {keys}"),
            Opt::FuseProducts { warps, keys } => write!(f, "fuse-products {warps} {keys}"),
            Opt::Fold => f.write_str("fold"),
            Opt::TransposeFactor => f.write_str("transpose-factor"),
            Opt::SplitReduce { n } => write!(f, "split-reduce {n}"),
            Opt::Collapse { of } => {
                f.write_str("collapse")?;
                of.iter().try_for_each(|is_one| write!(f, " {}", u8::from(*is_one)))
            }
            Opt::Swap { a, b } => write!(f, "swap {a} {b}"),
            Opt::Matrix { unit, axes: [m, n, k] } => write!(f, "matrix {unit} {m} {n} {k}"),
        }
    }
}

impl std::str::FromStr for Opt {
    type Err = String;
    fn from_str(line: &str) -> Result<Opt, String> {
        let wrong = || format!("{line:?} is not an opt");
        let words: Vec<&str> = line.split_whitespace().collect();
        let number = |i: usize| words.get(i).and_then(|w| w.parse().ok()).ok_or_else(wrong);
        let word = |i: usize| words.get(i).copied().unwrap_or_default();
        Ok(match word(0) {
            "split" => {
                let kind = AxisKind::ALL.into_iter().find(|k| format!("{k:?}") == word(3));
                let inner = match word(4) {
                    "inner" => true,
                    "outer" => false,
                    _ => return Err(wrong()),
                };
                Opt::Split { axis: number(1)?, n: number(2)?, kind: kind.ok_or_else(wrong)?, inner }
            }
            "reorder" => Opt::Reorder { order: (1..words.len()).map(number).collect::<Result<_, _>>()? },
            "stage" => {
                let spaces = [Space::Global, Space::Local, Space::Reg];
                let space = spaces.into_iter().find(|s| format!("{s:?}") == word(3)).ok_or_else(wrong)?;
                let orders = [Order::LoopOrder, Order::RowMajor];
                let order = orders.into_iter().find(|l| format!("{l:?}") == word(4)).ok_or_else(wrong)?;
                let buffers = words.get(5).map_or(Ok(1), |w| w.parse().map_err(|_| wrong()))?;
                Opt::Stage { operand: number(1)?, at: number(2)?, space, order, buffers }
            }
            "pad" => Opt::Pad { axis: number(1)?, n: number(2)? },
            "tile-and-fuse" => Opt::TileAndFuse { rows: number(1)? },
            "online-softmax" => Opt::OnlineSoftmax { warps: number(1)?, keys: number(2)? },
            "fuse-products" => Opt::FuseProducts { warps: number(1)?, keys: number(2)? },
            "fold" if words.len() == 1 => Opt::Fold,
            "transpose-factor" if words.len() == 1 => Opt::TransposeFactor,
            "split-reduce" => Opt::SplitReduce { n: number(1)? },
            "collapse" => {
                let bit = |i: usize| number(i).map(|n: usize| n != 0);
                Opt::Collapse { of: [bit(1)?, bit(2)?, bit(3)?] }
            }
            "swap" => Opt::Swap { a: number(1)?, b: number(2)? },
            "matrix" => Opt::Matrix { unit: word(1).into(), axes: [number(2)?, number(3)?, number(4)?] },
            _ => return Err(wrong()),
        })
    }
}
