//! Reader of `tests-data/goldens/*.bin`: what torch computes for awkward shapes, with gradients.
//!
//! `tests-data/goldens/writer.py` documents their layout; `FAMILY.py` writes `FAMILY.bin` and defines every op and
//! parameter of the family.
//! A case says: apply the recipe `pre.NAME` to each input that has one, apply `op` with `params`, and the
//! results are `outputs`; the gradient of `sum(outputs * weights)` with respect to each input (as stored,
//! before its recipe) is the tensor of that input's name in `grads`.

use crate::array::Array;

/// Element type of a stored tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// One byte, 0 or 1.
    Bool,
    /// Signed 8-bit integer.
    I8,
    /// Unsigned 8-bit integer.
    U8,
    /// Signed 32-bit integer.
    I32,
    /// IEEE single precision.
    F32,
    /// Signed 16-bit integer.
    I16,
    /// Unsigned 16-bit integer.
    U16,
    /// Unsigned 32-bit integer.
    U32,
    /// Signed 64-bit integer, of at most 53 bits.
    I64,
    /// IEEE half precision.
    F16,
    /// The upper half of a float32.
    BF16,
    /// IEEE double precision.
    F64,
}

impl Kind {
    /// Bits of the significand of a float type; `None` for others.
    pub fn precision(self) -> Option<i32> {
        match self {
            Kind::BF16 => Some(8),
            Kind::F16 => Some(11),
            Kind::F32 => Some(24),
            Kind::F64 => Some(53),
            _ => None,
        }
    }
}

/// A named array with the dtype it had.
#[derive(Clone, Debug)]
pub struct Tensor {
    /// `x0`, `x1`, … for inputs and gradients; `out0`, … for outputs and weights.
    pub name: String,
    /// Element type; every value of it is exact in float64.
    pub kind: Kind,
    /// Shape and values.
    pub array: Array,
}

/// One op applied once.
#[derive(Clone, Debug)]
pub struct Case {
    /// Unique, `op/variant`.
    pub name: String,
    /// The op, spelled as the method of [`Array`].
    pub op: String,
    /// `(key, value)`; lists are separated by commas.
    pub params: Vec<(String, String)>,
    /// Operands in order.
    pub inputs: Vec<Tensor>,
    /// Results in order.
    pub outputs: Vec<Tensor>,
    /// One weight per output where gradients are recorded, otherwise none.
    pub weights: Vec<Tensor>,
    /// Gradients, each named after its input.
    pub grads: Vec<Tensor>,
}

impl Case {
    /// Value of a parameter, if the case has it.
    pub fn param(&self, key: &str) -> Option<&str> {
        self.params.iter().find(|(k, _)| k == key).map(|(_, v)| v.as_str())
    }

    /// A number.
    pub fn number(&self, key: &str) -> Option<f64> {
        self.param(key).map(|v| v.parse().unwrap_or_else(|_| panic!("{}: {key}={v}", self.name)))
    }

    /// A list of integers; empty if the case does not have it.
    pub fn ints(&self, key: &str) -> Vec<isize> {
        let values = self.param(key).unwrap_or("").split(',').filter(|v| !v.is_empty());
        values.map(|v| v.parse().unwrap_or_else(|_| panic!("{}: {key}={v}", self.name))).collect()
    }

    /// Whether `key=true`.
    pub fn flag(&self, key: &str) -> bool {
        self.param(key) == Some("true")
    }

    /// Steps to apply to an input before the op: `permute:1,0;flip:0` is `[("permute", [1, 0]), ("flip", [0])]`.
    ///
    /// `permute:order`, `flip:axes`, `expand:shape`, `reshape:shape`, `slice:axis,start,stop,step`.
    pub fn recipe(&self, input: &str) -> Vec<(&str, Vec<isize>)> {
        let steps = self.param(&format!("pre.{input}")).unwrap_or("").split(';').filter(|s| !s.is_empty());
        steps
            .map(|step| {
                let (what, numbers) = step.split_once(':').unwrap_or((step, ""));
                (what, numbers.split(',').filter_map(|n| n.parse().ok()).collect())
            })
            .collect()
    }
}

macro_rules! families {
    ($($name:literal),* $(,)?) => {
        &[$(($name, include_bytes!(concat!("../../../tests-data/goldens/", $name, ".bin")))),*]
    };
}

/// Families of ops, each a file.
pub const FAMILIES: &[(&str, &[u8])] =
    families!["core", "indexing", "linalg", "moving", "neural", "sorting", "spectral"];

/// The cases of a family, in the order of its file.
pub fn family(name: &str) -> Vec<Case> {
    let (_, bytes) =
        FAMILIES.iter().find(|f| f.0 == name).unwrap_or_else(|| panic!("no golden family {name}"));
    parse(bytes)
}

/// The cases of every family.
pub fn all() -> Vec<Case> {
    FAMILIES.iter().flat_map(|(_, bytes)| parse(bytes)).collect()
}

/// Cases of a golden file; panics if it is damaged.
pub fn parse(bytes: &[u8]) -> Vec<Case> {
    let mut r = Reader { rest: bytes };
    assert_eq!(r.take(8), b"FRITGOLD", "not a golden file");
    assert_eq!(r.u32(), 1, "golden file of another version");
    let cases = r.list(Reader::case);
    assert!(r.rest.is_empty(), "{} bytes after the last golden", r.rest.len());
    cases
}

/// The value of an IEEE half.
fn half(bits: u16) -> f64 {
    let (exponent, fraction) = ((bits >> 10 & 31) as i32, (bits & 1023) as f64);
    let magnitude = match exponent {
        0 => fraction * 2f64.powi(-24),
        31 if fraction == 0.0 => f64::INFINITY,
        31 => f64::NAN,
        _ => (fraction + 1024.0) * 2f64.powi(exponent - 25),
    };
    if bits >> 15 == 1 { -magnitude } else { magnitude }
}

/// The value of a bfloat16.
fn brain(bits: u16) -> f64 {
    f32::from_bits((bits as u32) << 16).into()
}

struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    fn take(&mut self, n: usize) -> &'a [u8] {
        let (head, rest) = self.rest.split_at(n);
        self.rest = rest;
        head
    }

    fn array<const N: usize>(&mut self) -> [u8; N] {
        self.take(N).try_into().expect("so many bytes")
    }

    fn u32(&mut self) -> usize {
        u32::from_le_bytes(self.array()) as usize
    }

    fn list<T>(&mut self, item: impl Fn(&mut Self) -> T) -> Vec<T> {
        (0..self.u32()).map(|_| item(self)).collect()
    }

    fn string(&mut self) -> String {
        let n = self.u32();
        String::from_utf8(self.take(n).to_vec()).expect("golden strings are UTF-8")
    }

    fn param(&mut self) -> (String, String) {
        let text = self.string();
        let (key, value) = text.split_once('=').expect("a parameter is key=value");
        (key.into(), value.into())
    }

    fn tensor(&mut self) -> Tensor {
        let name = self.string();
        let kind = self.take(1)[0];
        let shape = self.list(Self::u32);
        let n = shape.iter().product();
        let (kind, data): (Kind, Vec<f64>) = match kind {
            0 => (Kind::Bool, self.take(n).iter().map(|&x| x.into()).collect()),
            1 => (Kind::I8, self.take(n).iter().map(|&x| (x as i8).into()).collect()),
            2 => (Kind::U8, self.take(n).iter().map(|&x| x.into()).collect()),
            3 => (Kind::I32, (0..n).map(|_| i32::from_le_bytes(self.array()).into()).collect()),
            4 => (Kind::F32, (0..n).map(|_| f32::from_le_bytes(self.array()).into()).collect()),
            5 => (Kind::I16, (0..n).map(|_| i16::from_le_bytes(self.array()).into()).collect()),
            6 => (Kind::U16, (0..n).map(|_| u16::from_le_bytes(self.array()).into()).collect()),
            7 => (Kind::U32, (0..n).map(|_| u32::from_le_bytes(self.array()).into()).collect()),
            8 => (Kind::I64, (0..n).map(|_| i64::from_le_bytes(self.array()) as f64).collect()),
            9 => (Kind::F16, (0..n).map(|_| half(u16::from_le_bytes(self.array()))).collect()),
            10 => (Kind::BF16, (0..n).map(|_| brain(u16::from_le_bytes(self.array()))).collect()),
            11 => (Kind::F64, (0..n).map(|_| f64::from_le_bytes(self.array())).collect()),
            other => panic!("{name}: dtype code {other}"),
        };
        Tensor { name, kind, array: Array::new(&shape, data) }
    }

    fn case(&mut self) -> Case {
        Case {
            name: self.string(),
            op: self.string(),
            params: self.list(Self::param),
            inputs: self.list(Self::tensor),
            outputs: self.list(Self::tensor),
            weights: self.list(Self::tensor),
            grads: self.list(Self::tensor),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_case_is_well_formed() {
        let cases = all();
        let mut names: Vec<&str> = cases.iter().map(|c| c.name.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), cases.len(), "names are unique");
        for case in &cases {
            assert!(!case.outputs.is_empty(), "{}: no output", case.name);
            assert_eq!(case.weights.is_empty(), case.grads.is_empty(), "{}", case.name);
            for (out, weight) in case.outputs.iter().zip(&case.weights) {
                assert_eq!(out.array.shape, weight.array.shape, "{}", case.name);
            }
            for grad in &case.grads {
                let input =
                    case.inputs.iter().find(|x| x.name == grad.name).expect("a gradient has its input");
                assert_eq!(input.array.shape, grad.array.shape, "{}", case.name);
            }
        }
    }

    #[test]
    fn sixteen_bit_floats_have_their_values() {
        let halves = [0x3c00, 0xc000, 0x0001, 0x7bff, 0xfc00].map(half);
        assert_eq!(halves, [1.0, -2.0, 2f64.powi(-24), 65504.0, f64::NEG_INFINITY]);
        assert_eq!([0x3f80, 0xc040].map(brain), [1.0, -3.0]);
    }

    #[test]
    fn recipes_parse() {
        let params = vec![("pre.x0".to_string(), "permute:1,0;flip:-1".to_string())];
        let none = Vec::new;
        let (inputs, outputs, weights, grads) = (none(), none(), none(), none());
        let case = Case { name: "a".into(), op: "a".into(), params, inputs, outputs, weights, grads };
        assert_eq!(case.recipe("x0"), [("permute", vec![1, 0]), ("flip", vec![-1])]);
        assert!(case.recipe("x1").is_empty());
    }
}
