//! The elementwise operations, as every room names them.
//!
//! The table in [`elementwise!`](crate::elementwise) is the only list of them: the enum, its arities and weights, `uop`'s
//! ops and the classes that rules match come from it. Semantics are in [`crate::scalar`].

/// Hands every elementwise operation to a macro, after what it is given in brackets: `elementwise!(m [a b])` is
/// `m! { [a b] Neg 1 1 Any "-x"; … }`. A row is: name, operands, cost compared with an addition, the types it is for, meaning.
#[macro_export]
macro_rules! elementwise {
    ($then:ident $given:tt) => {
        $then! { $given
            Neg       1   1 Any    "-x";
            Not       1   1 Bits   "the other truth value; of integers all bits turned";
            Recip     1   4 Float  "1 / x";
            Sqrt      1   4 Float  "square root";
            Rsqrt     1   4 Float  "1 / sqrt(x)";
            Exp2      1  16 Float  "2 to the x";
            Log2      1  16 Float  "logarithm to base 2";
            Exp       1  16 Float  "e to the x";
            Log       1  16 Float  "natural logarithm";
            Expm1     1  24 Float  "exp(x) - 1, without cancelling";
            Log1p     1  24 Float  "log(1 + x), without cancelling";
            Log10     1  24 Float  "logarithm to base 10";
            Sin       1  32 Float  "sine";
            Cos       1  32 Float  "cosine";
            Tan       1  32 Float  "tangent";
            Asin      1  24 Float  "inverse sine";
            Acos      1  24 Float  "inverse cosine";
            Sinh      1  32 Float  "hyperbolic sine";
            Cosh      1  32 Float  "hyperbolic cosine";
            Tanh      1  24 Float  "hyperbolic tangent";
            Sigmoid   1  24 Float  "1 / (1 + exp(-x))";
            Erf       1  24 Float  "error function";
            Erfc      1  32 Float  "1 - erf(x), without cancelling";
            Trunc     1   1 Float  "towards zero";
            Floor     1   1 Float  "downwards";
            Round     1   1 Float  "to the nearest, ties to even";
            Add       2   1 Any    "x + y";
            Sub       2   1 Any    "x - y";
            Mul       2   1 Any    "x * y";
            Fdiv      2   4 Float  "x / y";
            Idiv      2   4 Any    "x / y, rounded downwards";
            Mod       2   4 Any    "what is left of Idiv";
            Tdiv      2   1 Any    "x / y, rounded towards zero, as machines divide";
            Max       2   1 Any    "the greater; NaN wins";
            Min       2   1 Any    "the lesser; NaN wins";
            Pow       2  32 Float  "x to the y";
            Atan2     2  32 Float  "the angle of (y, x)";
            Lt        2   1 Any    "x < y";
            Eq        2   1 Any    "x == y";
            Ne        2   1 Any    "x != y";
            And       2   1 Bits   "both";
            Or        2   1 Bits   "either";
            Xor       2   1 Bits   "one of them";
            Shl       2   1 Int    "bits moved up";
            Shr       2   1 Int    "bits moved down";
            Threefry  2  64 Int    "random bits of a counter and a key";
            Where     3   1 Any    "the second where the first holds, else the third";
            MulAcc    3   1 Any    "x * y + z, rounded once";
            Exp2Near  1   4 Float  "2 to the x, to about 22 bits";
            RecipNear 1   2 Float  "1 / x to about 23 bits, for x far from the ends of its range";
            Dot4      3   2 Int    "the bytes of x times those of y taken with their signs, summed, plus z: four of them in 32 bits";
        }
    };
}

macro_rules! alus {
    ([] $($name:ident $arity:literal $weight:literal $types:ident $meaning:literal;)*) => {
        /// One elementwise operation; `uop` has an `Op` of the same name for each.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
        #[repr(u8)]
        pub enum Alu { $(#[doc = $meaning] $name),* }

        const ROWS: &[(Alu, usize, u32, AluTypes)] = &[$((Alu::$name, $arity, $weight, AluTypes::$types)),*];
    };
}
elementwise!(alus []);

/// The types an elementwise operation is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AluTypes {
    /// All of them.
    Any,
    /// Floats.
    Float,
    /// Integers.
    Int,
    /// Integers and bools.
    Bits,
}

impl Alu {
    /// All of them, in order of their numbers.
    pub const ALL: [Alu; ROWS.len()] = {
        let (mut all, mut i) = ([Alu::Neg; ROWS.len()], 0);
        while i < ROWS.len() {
            all[i] = ROWS[i].0;
            i += 1;
        }
        all
    };
    /// How many operands it takes.
    pub const fn arity(self) -> usize {
        ROWS[self as usize].1
    }
    /// What computing it costs, compared with an addition.
    pub const fn weight(self) -> u32 {
        ROWS[self as usize].2
    }
    /// The types it is for.
    pub const fn types(self) -> AluTypes {
        ROWS[self as usize].3
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
