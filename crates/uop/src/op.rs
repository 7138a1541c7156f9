//! The op table: every op there is, what it means, what it takes.
//!
//! **Broadcasting.** An elementwise op takes sources of its own shape or of shape `()`: a scalar is broadcast at every
//! level, so a constant is one node whether it meets a tensor, a kernel value or a vector register. Everything else
//! about shapes is explicit.
//!
//! **Dims are sources.** The sizes a movement op needs are scalar `Index` nodes among its sources, so symbolic sizes
//! need no second mechanism and every walk over a graph sees them.
//!
//! | op | sources | arg | value |
//! |---|---|---|---|
//! | *leaves* | | | |
//! | `Const` | | `Scalar` | a constant, shape `()` |
//! | `Invalid` | | | an index that must not be accessed; only inside an index expression, as `Where(gate, i, Invalid)` |
//! | `Variable` | | `Var` | an integer known only at launch, between its min and max; dtype `Index` |
//! | `Bind` | variable, const | | the variable, with the value it has this time (tensor level only) |
//! | `Buffer` | | `Buffer` | memory owned by a device, shape `(len,)` |
//! | `Param` | | `Param` | the n-th buffer handed to a graph or kernel, shape `(len,)` |
//! | `Define` | | `Define` | memory that lives inside a kernel: an array `(len,)` in local memory, or a register variable of `len` lanes |
//! | `Range` | extent | `Range` | a loop variable `0..extent`, dtype `Index`; a smaller id is an outer loop |
//! | `Special` | extent | `Name` | a hardware id: `gidx0..2`, `lidx0..2` (0 fastest) |
//! | *tensor* | | | |
//! | `Iota` | n | | `0, 1, … n-1` in the node's dtype, shape `(n,)` |
//! | `Reshape` | x, dims… | | same elements, row-major |
//! | `Permute` | x | `Axes` | dim i of the result is dim `axes[i]` of x |
//! | `Expand` | x, dims… | | dims of size 1 repeated |
//! | `Pad` | x, before…, after… | | zeros around (false, 0, 0.0) |
//! | `Shrink` | x, begin…, size… | | a box cut out |
//! | `Flip` | x | `Axes` | reversed along the axes |
//! | `ReduceAxis` | x | `ReduceAxes` | combined over the axes, which become size 1 |
//! | `ScanAxis` | x | `ReduceAxes` (one axis) | inclusive prefix combination along the axis |
//! | `Gather` | x `(n, rest…)`, idx `(m…)` | `Site` | `x[idx]`: shape `(m…, rest…)`; an index outside `0..n` is an error at run time |
//! | `Scatter` | base `(n, rest…)`, idx `(m,)`, val `(m, rest…)` | `Scatter` | base with `base[idx[i]] (+)= val[i]` for i in order |
//! | `Contiguous` | x | | x, materialised in row-major order |
//! | `Detach` | x | | x, opaque to gradients |
//! | `Leaf` | x | `Scalar` (a number of its own) | x, told apart from equal values: what a gradient is asked for |
//! | `Copy` | x | `Device` | x on another device |
//! | `Loop` | count, inits…, captures…, body | `Loop` | `body(i, carry) -> (carry', y)` count times; the body is a `Sink` over `LoopIn`s and the iteration's `Variable` |
//! | `LoopIn` | dims… | `LoopIn` | in the body of a loop of that level: its carries, then its captures |
//! | `LoopOut` | loop | `Lane(i)` | the last carries, then the ys stacked along a new first axis |
//! | *effects* | | | |
//! | `Store` | target, value [, gate] | `None`/`Site` | tensor: target is a view of a buffer; kernel: an `Index` or a register `Define` |
//! | `After` | x, deps… | | x, but only once deps are done; ranges among deps put it inside those loops |
//! | `End` | x, ranges… | | x is done and the ranges are closed |
//! | `Sink` | anything… | | the root |
//! | `Barrier` | deps… | | all lanes of a block have come here |
//! | `CopyAsync` | target, source [, gate] | | what is at the source's address is on its way to the target's in local memory; zeros where the gate is false. Until a `Wait` says that it is there, nobody may touch the target |
//! | `Commit` | copies… | | the copies of this lane since the last one are a group |
//! | `Wait` | deps… | `Lanes(n)` | of this lane's groups all but the last n are there, for this lane |
//! | *memory* | | | |
//! | `Index` | buf, idx | `Lanes(w)`, `Tile` or `None` | an address; with `Lanes(w)` of w consecutive elements, shape `(w,)`; with `Tile` of rows of elements, shape `(rows * lanes,)` |
//! | `Load` | address [, alt, gate] | `None`/`Site` | the element(s) there; alt where the gate is false. With a site, a miss sets the status word |
//! | `LoadMatrix` | address | `Fragment` | matrices of 8 rows of 16 bytes in local memory, spread over a warp as matrix units want them: lane l says where row l mod 8 of matrix l / 8 begins, and gets of each the word l mod 4 of row l / 4, or if transposed the two elements of column l / 4 in rows 2 (l mod 4) and the next |
//! | *kernel* | | | |
//! | `Reduce` | x, ranges… | `Alu` | x combined over the ranges, in any order; once expanded there may be several x, taken in turn |
//! | `Reduce` | x…, ranges… | `Fold` | one of several values that are carried together over the ranges ([`fold`](crate::fold)) |
//! | `Scan` | x, range | `Alu` | x combined over the iterations of the ordered range up to this one |
//! | `Stage` | x, ranges… | `Stage` | x put in a buffer over the ranges, in some address space; read through `Index` with one index per range; in a staged graph it fills the global `Define` of its number, read by one flat index |
//! | *shaped values in a program* | | | |
//! | `Stack` | scalars… | | a vector of them |
//! | `Lane` | vector | `Lane(i)` | its i-th element |
//! | `LaneShuffle` | x | `Lanes(d)` | x of the lane of the warp whose number is this one's xor d; all lanes of a warp are there |
//! | `Matrix` | a, b, c | `Name(unit)` | what one operation of a matrix unit makes of its operands: c + a b. In a kernel c is zero, and a reduce around it sums |
//! | `Shuffle` | vectors a, b of one length n | `Axes` | a vector whose i-th element is lane `axes[i]` of a and b side by side: of a below n, of b from there on |
//! | `Words` | bytes `(4 n,)` | | n words of 32 bits that each have four of them, the first lowest |
//! | *elementwise* | operands | | `Cast`, `Bitcast` and one op for each [`Alu`] |

use frit_abi::Alu;

macro_rules! ops {
    ([$($name:ident)*] $($alu:ident $arity:literal $weight:literal $types:ident $meaning:literal;)*) => {
        /// What a node does; the module's table defines each.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
        #[repr(u8)]
        #[allow(missing_docs)]
        pub enum Op { $($name,)* $($alu),* }
        impl Op {
            /// All ops, in order of their numbers.
            pub const ALL: &'static [Op] = &[$(Op::$name,)* $(Op::$alu),*];
            /// The op's name as it is printed.
            pub const fn name(self) -> &'static str {
                match self { $(Op::$name => stringify!($name),)* $(Op::$alu => stringify!($alu)),* }
            }
        }
        /// Each op alone, as rules name it.
        #[allow(non_upper_case_globals, missing_docs)]
        impl OpSet {
            $(pub const $name: OpSet = OpSet::of(&[Op::$name]);)*
            $(pub const $alu: OpSet = OpSet::of(&[Op::$alu]);)*
        }
        /// The names that a rule's pattern may begin with, each standing for where it is written.
        #[doc(hidden)]
        #[allow(non_upper_case_globals, missing_docs)]
        pub mod names {
            use crate::written::Here;
            $(pub const $name: &Here = &Here;)*
            $(pub const $alu: &Here = &Here;)*
            pub const Unary: &Here = &Here;
            pub const Binary: &Here = &Here;
            pub const Comparison: &Here = &Here;
            pub const Movement: &Here = &Here;
        }
    };
}
frit_abi::elementwise!(ops [
    Const Invalid Variable Bind Buffer Param Define Range Special
    Iota Reshape Permute Expand Pad Shrink Flip ReduceAxis ScanAxis Gather Scatter Contiguous Detach Leaf Copy
    Loop LoopIn LoopOut
    Store After End Sink Barrier CopyAsync Commit Wait
    Index Load LoadMatrix
    Reduce Scan Stage
    Stack Lane Shuffle LaneShuffle Matrix Words
    Cast Bitcast
]);

/// The classes of ops, as rules name them: `(Unary)(x)`.
#[allow(non_upper_case_globals)]
impl OpSet {
    /// Elementwise ops of one operand, without `Cast` and `Bitcast`.
    pub const Unary: OpSet = OpSet::elementwise(1, false);
    /// Elementwise ops of two operands, without the comparisons.
    pub const Binary: OpSet = OpSet::elementwise(2, false);
    /// Ops of two operands that give a bool.
    pub const Comparison: OpSet = OpSet::elementwise(2, true);
    /// The six ops that only move elements.
    pub const Movement: OpSet =
        OpSet::of(&[Op::Reshape, Op::Permute, Op::Expand, Op::Pad, Op::Shrink, Op::Flip]);

    const fn elementwise(arity: usize, compares: bool) -> OpSet {
        let (mut m, mut i) = (0u128, 0);
        while i < Alu::ALL.len() {
            if Alu::ALL[i].arity() == arity && Alu::ALL[i].is_comparison() == compares {
                m |= 1 << Op::of(Alu::ALL[i]) as u32;
            }
            i += 1;
        }
        OpSet(m)
    }
}

impl Op {
    /// The elementwise operation this op is, if it is one (not `Cast` or `Bitcast`).
    pub const fn alu(self) -> Option<Alu> {
        let first = Op::Neg as u8;
        if (self as u8) < first { None } else { Some(Alu::ALL[(self as u8 - first) as usize]) }
    }
    /// The op of an elementwise operation.
    pub const fn of(alu: Alu) -> Op {
        Op::ALL[Op::Neg as usize + alu as usize]
    }
    /// The op with this name.
    pub fn from_name(name: &str) -> Option<Op> {
        Op::ALL.iter().copied().find(|o| o.name() == name)
    }
    /// Elementwise, `Cast` and `Bitcast` included.
    pub const fn is_elementwise(self) -> bool {
        self as u8 >= Op::Cast as u8
    }
    /// One of the six movement ops.
    pub const fn is_movement(self) -> bool {
        OpSet::Movement.has(self)
    }
    /// What computing it costs, compared with an addition.
    pub const fn weight(self) -> u32 {
        match self.alu() {
            Some(a) => a.weight(),
            None => 0,
        }
    }
}

/// A set of ops.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct OpSet(pub u128);

impl OpSet {
    /// No op.
    pub const EMPTY: OpSet = OpSet(0);
    /// The set of these.
    pub const fn of(ops: &[Op]) -> OpSet {
        let (mut m, mut i) = (0u128, 0);
        while i < ops.len() {
            m |= 1 << ops[i] as u32;
            i += 1;
        }
        OpSet(m)
    }
    /// Whether `op` is in it.
    #[inline]
    pub const fn has(self, op: Op) -> bool {
        self.0 >> op as u32 & 1 == 1
    }
    /// Whether all of `o` are in it.
    #[inline]
    pub const fn has_all(self, o: OpSet) -> bool {
        self.0 & o.0 == o.0
    }
    /// Both together.
    pub const fn or(self, o: OpSet) -> OpSet {
        OpSet(self.0 | o.0)
    }
    /// All of these together.
    pub const fn any(sets: &[OpSet]) -> OpSet {
        let (mut all, mut i) = (OpSet::EMPTY, 0);
        while i < sets.len() {
            all = all.or(sets[i]);
            i += 1;
        }
        all
    }
    /// Its ops, in order of their numbers.
    pub fn iter(self) -> impl Iterator<Item = Op> {
        Op::ALL.iter().copied().filter(move |o| self.has(*o))
    }
}

const _: () = assert!(Op::ALL.len() <= 128 && Op::ALL.len() == Op::Neg as usize + Alu::ALL.len());

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_alu_has_its_op() {
        for a in Alu::ALL {
            assert_eq!(Op::of(a).name(), format!("{a:?}"));
            assert_eq!(Op::of(a).alu(), Some(a));
        }
    }
}
