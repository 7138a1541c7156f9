//! Sizes that change from run to run: a number at first, a variable once it has had another value, so that one recording
//! serves all of them. None and one stay numbers: they are other programs than several, and faster ones.

use crate::packed::{Given, integers};
use crate::value::Value;
use frit_tensor::{Dim, Result, Tensor, Variable};
use rustc_hash::{FxHashMap, FxHashSet};

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
    /// Pairs that have once been different, of those that could be one.
    different: FxHashSet<(String, String)>,
}

/// Sizes of one step that have been given names: their own, those that they have, and their values.
#[derive(Default)]
pub(crate) struct Beside(Vec<(String, String, usize)>);

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
    /// The name of a size that is computed: that of one beside it which has had the same value every time, so that what is
    /// made of both fits.
    fn shared(&mut self, own: String, n: usize, beside: &mut Beside) -> String {
        let mut name = None;
        for (other, shared, m) in &beside.0 {
            let pair = (other.clone(), own.clone());
            if *m != n {
                self.different.insert(pair);
            } else if name.is_none() && !self.different.contains(&pair) {
                name = Some(shared.clone());
            }
        }
        let name = name.unwrap_or_else(|| own.clone());
        // should they part, it is known to vary
        if let Some(most) = self.reach.get(&name) {
            self.reach.insert(own.clone(), *most);
        }
        beside.0.push((own, name.clone(), n));
        name
    }
    /// A tensor in memory whose sizes have names that begin so.
    pub fn settle(&mut self, v: Value, name: &str, beside: &mut Beside) -> Result<Value> {
        let Value::Tensor(t, _) = &v else { return Ok(v) };
        if t.shape().as_slice().iter().any(|d| d.as_int().is_none()) || Given::is_known(&v) {
            return Ok(v);
        }
        let mut dims = vec![];
        let sizes = t.dims()?;
        let elements = sizes.iter().product();
        for (axis, n) in sizes.into_iter().enumerate() {
            let name = self.shared(format!("{name}_{axis}"), n, beside);
            dims.push(self.dim(&name, n, elements)?);
        }
        with_dims(v, dims)
    }
    /// Remembers what sizes a value has, or is, under names that begin so, for a run in which they vary.
    pub fn note(&mut self, v: &Value, name: &str) {
        let Value::Tensor(t, _) = v else { return };
        let known = Given::is_known(v).then(|| t.as_sizes()).flatten();
        let sizes = known.unwrap_or_else(|| t.shape().as_slice().to_vec());
        for (i, d) in sizes.iter().enumerate() {
            if let Some(n) = d.as_int().and_then(|n| usize::try_from(n).ok()) {
                self.last.entry(format!("{name}_{i}")).or_insert(n);
            }
        }
    }
    /// Integers that are sizes: variables where they have changed.
    pub fn integers(&mut self, t: &Tensor, name: &str) -> Result<Tensor> {
        let mut dims = vec![];
        for (i, v) in Value::from(t.clone()).ints()?.into_iter().enumerate() {
            dims.push(match usize::try_from(v) {
                Ok(n) => self.dim(&format!("{name}_{i}"), n, n)?,
                Err(_) => Dim::from(v),
            });
        }
        Ok(integers(t.dtype(), &t.dims()?, &dims))
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
