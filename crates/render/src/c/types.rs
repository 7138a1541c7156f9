//! What a value is in the text: its types, its parts, its constants.

use frit_abi::DType;

/// A value as C text.
#[derive(Clone, Debug)]
pub struct Val {
    /// One expression, or several where the value is wider than a machine vector.
    pub parts: Vec<String>,
    /// What C's elements are: the value's type, or a signed integer for a vector of truth values.
    pub elem: DType,
    /// Lanes of all parts together.
    pub lanes: usize,
    /// The expressions are names, calls or literals, which need no parentheses.
    pub atomic: bool,
}

impl Val {
    /// A scalar that needs no parentheses.
    pub fn scalar(text: String, elem: DType) -> Val {
        Val { parts: vec![text], elem, lanes: 1, atomic: true }
    }
    /// Expressions with an operator outside.
    pub fn compound(parts: Vec<String>, elem: DType, lanes: usize) -> Val {
        Val { parts, elem, lanes, atomic: false }
    }
    /// Lanes of one part.
    pub fn per_part(&self) -> usize {
        self.lanes / self.parts.len()
    }
    /// Part `k`, in parentheses if it needs them.
    pub fn atom(&self, k: usize) -> String {
        let p = &self.parts[if self.lanes == 1 { 0 } else { k }];
        if self.atomic || is_call(p) { p.clone() } else { format!("({p})") }
    }
    /// Lane `k` as a scalar.
    pub fn lane(&self, k: usize) -> String {
        match self.lanes {
            1 => self.atom(0),
            _ => format!("{}[{}]", self.atom(k / self.per_part()), k % self.per_part()),
        }
    }
}

/// Whether the text is one call or name: an operator outside parentheses would need them.
fn is_call(text: &str) -> bool {
    let mut depth = 0;
    for (i, c) in text.char_indices() {
        match c {
            '(' | '[' => {
                // a cast at the start
                if i == 0 {
                    return false;
                }
                depth += 1;
            }
            ')' | ']' => depth -= 1,
            c if depth == 0 && !(c.is_ascii_alphanumeric() || c == '_') => return false,
            _ => {}
        }
    }
    true
}

/// The name of an element type in the source.
pub fn scalar(d: DType) -> &'static str {
    use DType::*;
    match d {
        Void => "void",
        Bool => "b8",
        I8 => "i8",
        I16 => "i16",
        I32 => "i32",
        I64 | Index => "i64",
        U8 => "u8",
        U16 => "u16",
        U32 => "u32",
        U64 => "u64",
        F8E4M3 => "f8e4m3",
        F8E5M2 => "f8e5m2",
        F8E4M3Fnuz => "f8e4m3fnuz",
        F8E5M2Fnuz => "f8e5m2fnuz",
        F16 => "f16",
        BF16 => "bf16",
        F32 => "f32",
        F64 => "f64",
    }
}

/// The signed integer as wide as `d`: what a lane of a vector of truth values is (0 or -1).
pub fn mask(d: DType) -> DType {
    match d.size() {
        1 => DType::I8,
        2 => DType::I16,
        4 => DType::I32,
        _ => DType::I64,
    }
}

/// An integer constant of a type.
pub fn int_literal(v: i128, d: DType) -> String {
    match d {
        DType::I64 | DType::Index if v == i64::MIN as i128 => "(-9223372036854775807ll - 1)".into(),
        DType::I32 if v == i32::MIN as i128 => "(-2147483647 - 1)".into(),
        DType::I64 | DType::Index => format!("{v}ll"),
        DType::U32 => format!("{v}u"),
        DType::U64 => format!("{v}ull"),
        _ => v.to_string(),
    }
}
