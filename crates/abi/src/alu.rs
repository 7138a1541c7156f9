//! The elementwise operations, as every room names them.

/// One elementwise operation. Semantics are in [`crate::scalar`]; `uop` has an `Op` of the same name for each.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
#[repr(u8)]
#[allow(missing_docs)] // the names say it; the scalar module defines each exactly
pub enum Alu {
    Neg,
    Not,
    Recip,
    Sqrt,
    Rsqrt,
    Exp2,
    Log2,
    Exp,
    Log,
    Expm1,
    Log1p,
    Log10,
    Sin,
    Cos,
    Tan,
    Asin,
    Acos,
    Sinh,
    Cosh,
    Tanh,
    Sigmoid,
    Erf,
    Erfc,
    Trunc,
    Floor,
    Round,
    Add,
    Sub,
    Mul,
    Fdiv,
    Idiv,
    Mod,
    Tdiv,
    Max,
    Min,
    Pow,
    Atan2,
    Lt,
    Eq,
    Ne,
    And,
    Or,
    Xor,
    Shl,
    Shr,
    Threefry,
    Where,
    MulAcc,
}

impl Alu {
    /// All of them, in order of their numbers.
    pub const ALL: [Alu; 48] = {
        use Alu::*;
        [
            Neg, Not, Recip, Sqrt, Rsqrt, Exp2, Log2, Exp, Log, Expm1, Log1p, Log10, Sin, Cos, Tan, Asin,
            Acos, Sinh, Cosh, Tanh, Sigmoid, Erf, Erfc, Trunc, Floor, Round, Add, Sub, Mul, Fdiv, Idiv, Mod,
            Tdiv, Max, Min, Pow, Atan2, Lt, Eq, Ne, And, Or, Xor, Shl, Shr, Threefry, Where, MulAcc,
        ]
    };
    /// How many operands it takes.
    pub const fn arity(self) -> usize {
        match self {
            Alu::Where | Alu::MulAcc => 3,
            a if (a as u8) < Alu::Add as u8 => 1,
            _ => 2,
        }
    }
    /// Whether the result is a bool whatever the operands are.
    pub const fn is_comparison(self) -> bool {
        matches!(self, Alu::Lt | Alu::Eq | Alu::Ne)
    }
}

/// A set of elementwise operations.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct AluSet(u64);

impl AluSet {
    /// The set of these.
    pub const fn of(ops: &[Alu]) -> AluSet {
        let (mut m, mut i) = (0, 0);
        while i < ops.len() {
            m |= 1 << ops[i] as u64;
            i += 1;
        }
        AluSet(m)
    }
    /// Whether `op` is in it.
    pub const fn has(self, op: Alu) -> bool {
        self.0 >> op as u64 & 1 == 1
    }
    /// Both sets together.
    pub const fn or(self, o: AluSet) -> AluSet {
        AluSet(self.0 | o.0)
    }
    /// This set less another.
    pub const fn without(self, o: AluSet) -> AluSet {
        AluSet(self.0 & !o.0)
    }
}
