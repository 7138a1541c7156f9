//! Sizes that change from run to run: a number at first, a variable once it has had another value, so that one recording
//! serves all of them. None and one stay numbers: they are other programs than several, and faster ones.

use crate::value::Value;
use frit_tensor::{Dim, Result, Tensor, Variable};
use rustc_hash::FxHashMap;

/// Variables reach at least this far, so that the steps of a decoder are one program,
const LEAST_REACH: usize = 256;
/// where the tensor has no more elements then.
const LEAST_ELEMENTS: usize = 1 << 20;
/// Elements of a tensor with variables, at the most that these can be.
const LARGEST: usize = 1 << 28;

/// What is known of sizes by name.
#[derive(Default)]
pub(crate) struct Sizes {
    /// What each was last.
    last: FxHashMap<String, usize>,
    /// Those that have changed, with the most each can be.
    reach: FxHashMap<String, usize>,
}

impl Sizes {
    /// A size as a number, or as a variable with that value where it has changed; of a tensor with so many elements.
    pub fn dim(&mut self, name: &str, n: usize, elements: usize) -> Result<Dim> {
        let last = self.last.insert(name.to_string(), n);
        if n <= 1 {
            return Ok(Dim::from(n));
        }
        let most = match self.reach.get(name) {
            Some(most) if n <= *most => *most,
            None if last.is_none_or(|last| last == n || last <= 1) => return Ok(Dim::from(n)),
            _ => {
                let room = LEAST_ELEMENTS / (elements / n).max(1);
                (2 * n).next_power_of_two().max(LEAST_REACH.min(room))
            }
        };
        self.reach.insert(name.to_string(), most);
        let letters = name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' });
        Variable::new(&letters.collect::<String>(), 2, most as i64)?.bind(n as i64)
    }
    /// A tensor in memory with sizes of these names, where they have one.
    pub fn settle(&mut self, v: Value, name: impl Fn(usize) -> Option<String>) -> Result<Value> {
        let Value::Tensor(t, _) = &v else { return Ok(v) };
        if t.shape().as_slice().iter().any(|d| d.as_int().is_none()) {
            return Ok(v);
        }
        let mut dims = vec![];
        let sizes = t.dims()?;
        let elements = sizes.iter().product();
        for (axis, n) in sizes.into_iter().enumerate() {
            dims.push(match name(axis) {
                Some(name) => self.dim(&name, n, elements)?,
                None => Dim::from(n),
            });
        }
        with_dims(v, dims)
    }
}

/// A value in the same sizes, some of them variables; all numbers where that could be too large.
pub(crate) fn with_dims(v: Value, dims: Vec<Dim>) -> Result<Value> {
    let most = dims.iter().try_fold(1usize, |n, d| n.checked_mul(usize::try_from(d.max().ok()?).ok()?));
    match (&v, most.filter(|n| *n <= LARGEST)) {
        (Value::Tensor(t, element), Some(most)) if dims.iter().any(|d| d.as_int().is_none()) => {
            Ok(Value::Tensor(seen_as(t, dims, most)?, *element))
        }
        _ => v.with_numbers(),
    }
}

/// What a name such as `past + length` or `2 * n` says, where all its words have a size; as exporters write it, from left
/// to right.
pub(crate) fn computed(name: &str, size: impl Fn(&str) -> Option<Dim>) -> Option<Dim> {
    let mut words = name.split_whitespace();
    let one = |word: &str| word.parse::<i64>().map(Dim::from).ok().or_else(|| size(word));
    let mut sum = one(words.next()?)?;
    while let Some(sign) = words.next() {
        let next = one(words.next()?)?;
        sum = match sign {
            "+" => sum + next,
            "-" => sum - next,
            "*" => sum * next,
            "/" | "//" => sum / next,
            _ => return None,
        };
    }
    Some(sum)
}

/// A tensor in dims of which some are variables that have its sizes, in memory for the most that they can be: so the same
/// kernels read it, whatever they are.
fn seen_as(t: &Tensor, dims: Vec<Dim>, most: usize) -> Result<Tensor> {
    let mut bytes = t.to_bytes()?;
    bytes.resize(most * t.dtype().size(), 0);
    let count = dims.iter().fold(Dim::from(1), |n, d| n * d);
    Ok(Tensor::from_bytes(t.dtype(), &bytes, [most]).at(..count).reshape(dims))
}
