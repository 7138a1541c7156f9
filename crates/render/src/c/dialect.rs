//! What differs between the languages that are like C: a [`Dialect`] each, and one writer for all.

use frit_abi::DType;

/// How a language says things.
pub struct Dialect {
    /// What it calls an element type; `None` where it has none. Small floats are their bits.
    pub element: fn(DType) -> Option<&'static str>,
    /// Whether it has vectors as GCC has them; else every value of a program must be a scalar.
    pub has_vectors: bool,
    /// What stands before a function that must be inlined.
    pub inline: &'static str,
    /// Its own function for `sqrt`, `trunc`, `floor`, `round` (to even) or `fma` on scalars of a type, if it has one that
    /// follows the numeric contract; else the prelude defines it.
    pub function: fn(&str, DType) -> Option<&'static str>,
    /// NaN and infinity, float32 and float64.
    pub nan: [&'static str; 2],
    /// See [`Dialect::nan`].
    pub infinity: [&'static str; 2],
    /// How a kernel is entered.
    pub entry: Entry,
}

/// How a kernel is entered: the two conventions of `abi::kernel`.
pub enum Entry {
    /// Called for a slice of the thread axis, with arrays of buffers and variables and with scratch memory.
    Slice,
    /// Run by the machine for every lane of every block, each parameter by itself.
    Grid(Grid),
}

/// How a language with a grid says so.
pub struct Grid {
    /// What stands before the kernel's name.
    pub kernel: &'static str,
    /// What stands before the type of a buffer.
    pub global: &'static str,
    /// What stands before the type of a local array.
    pub local: &'static str,
    /// The statement at which the lanes of a block meet.
    pub barrier: &'static str,
    /// The number of the block in a dimension, and of the lane in its block.
    pub ids: [fn(u8) -> String; 2],
}

/// C for gcc and clang on a CPU.
pub const CPU: Dialect = Dialect {
    element: |d| Some(on_cpu(d)),
    has_vectors: true,
    inline: "static inline __attribute__((always_inline))",
    function: |name, d| match (name, d) {
        ("fma", DType::F32) => Some("__builtin_fmaf"),
        ("fma", _) => Some("__builtin_fma"),
        _ => None,
    },
    nan: ["__builtin_nanf(\"\")", "__builtin_nan(\"\")"],
    infinity: ["__builtin_inff()", "__builtin_inf()"],
    entry: Entry::Slice,
};

fn on_cpu(d: DType) -> &'static str {
    use DType::*;
    match d {
        I8 => "signed char",
        I16 => "short",
        I32 => "int",
        I64 | Index => "long long",
        U16 | F16 | BF16 => "unsigned short",
        U32 => "unsigned int",
        U64 => "unsigned long long",
        F32 => "float",
        F64 => "double",
        _ => "unsigned char",
    }
}

impl Dialect {
    /// A float constant: the shortest decimal that reads back as the same value.
    pub fn float(&self, v: f64, d: DType) -> String {
        let wide = (d != DType::F32) as usize;
        let sign = if v < 0.0 { "-" } else { "" };
        match (v.is_nan(), v.is_infinite(), d) {
            (true, ..) => self.nan[wide].into(),
            (_, true, _) => format!("{sign}{}", self.infinity[wide]),
            (.., DType::F32) => format!("{:?}f", v as f32),
            _ => format!("{v:?}"),
        }
    }
}
