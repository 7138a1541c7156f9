//! Values by key, on the host.

use super::{Op, op};
use crate::call::{Call, Outs, bounded, fail, give};
use crate::value::{Key, Strings, Value};
use frit_tensor::{Result, Tensor};
use std::collections::{BTreeMap, BTreeSet};

pub(super) const OPS: &[Op] = &[
    op("CastMap", 1, cast_map),
    op("CategoryMapper", 1, category_mapper),
    op("DictVectorizer", 1, dict_vectorizer),
    op("ZipMap", 1, zip_map),
];

/// Keys of a list of texts or integers.
fn keys(c: &Call, texts: &str, ints: &str) -> Result<Vec<Key>> {
    let texts = c.texts(texts)?.unwrap_or_default().iter().cloned().map(Key::Text);
    let ints = c.list(ints)?.unwrap_or_default().into_iter().map(Key::Int);
    Ok(texts.chain(ints).collect())
}

/// A map for each row of scores.
fn zip_map(c: &Call) -> Result<Outs> {
    let keys = keys(c, "classlabels_strings", "classlabels_int64s")?;
    let (x, n) = (c.tensor(0)?, keys.len());
    if n == 0 || x.dims()?.last() != Some(&n) {
        return fail(format!("{n} labels for scores of shape {}", x.shape()));
    }
    let row = |row: &[f32]| {
        let pairs = keys.iter().cloned().zip(row.iter().map(|v| Value::from(Tensor::new(*v))));
        Value::Map(pairs.collect())
    };
    let scores = x.float().to_vec::<f32>()?;
    give(Value::Sequence(scores.chunks_exact(n).map(row).collect()))
}

fn map<'a>(c: &'a Call) -> Result<&'a BTreeMap<Key, Value>> {
    match c.input(0)? {
        Value::Map(m) => Ok(m),
        other => fail(format!("{} where a map is wanted", other.kind())),
    }
}

/// The values of a vocabulary's keys in its order, zero where a key is not there.
fn dict_vectorizer(c: &Call) -> Result<Outs> {
    let (keys, map) = (keys(c, "string_vocabulary", "int64_vocabulary")?, map(c)?);
    let Some(first) = map.values().next() else { return give(Tensor::zeros([1, keys.len()])) };
    let zero = || first.tensor().map(|t| t.zeros_like().reshape([1]));
    let value = |k: &Key| map.get(k).map_or_else(zero, |v| Ok(v.tensor()?.reshape([1])));
    give(Tensor::cat(&keys.iter().map(value).collect::<Result<Vec<_>>>()?, 0).unsqueeze(0))
}

/// The values in order of keys; sparse ones at their keys.
fn cast_map(c: &Call) -> Result<Outs> {
    let to = c.text_or("cast_to", "TO_FLOAT")?;
    let (sparse, length) =
        (c.text_or("map_form", "DENSE")? == "SPARSE", c.int_or("max_map", 1)?.max(0) as usize);
    let mut entries = vec![];
    for (key, value) in map(c)? {
        let number = match value {
            Value::Strings(s) => {
                let text = s.texts.first().map_or("", String::as_str);
                text.parse().or_else(|_| fail(format!("{text:?} is no number")))?
            }
            other => other.tensor()?.double().reshape(()).item::<f64>()?,
        };
        entries.push((key, number));
    }
    let mut row: Vec<f64> = entries.iter().map(|(_, v)| *v).collect();
    let mut known = BTreeSet::new();
    if sparse {
        row = vec![0.0; bounded(&[length])?];
        for (key, v) in entries {
            let &Key::Int(i) = key else { return fail("a sparse map has integers as keys") };
            if let Some(i) = usize::try_from(i).ok().filter(|i| *i < row.len()) {
                row[i] = v;
                known.insert(i);
            }
        }
    }
    let n = row.len();
    let t = Tensor::from_vec(row.clone(), [1, n]);
    give(match to {
        "TO_FLOAT" => Value::from(t.float()),
        "TO_INT64" => t.long().into(),
        "TO_STRING" => {
            // what has no value is written as onnxruntime writes it, the one who made this operator
            let missing = |i: usize| sparse && !known.contains(&i);
            let text = |(i, v): (usize, &f64)| if missing(i) { "0.f".into() } else { format!("{v:.6}") };
            Strings::new(vec![1, n], row.iter().enumerate().map(text).collect()).into()
        }
        other => return fail(format!("attribute \"cast_to\" is {other:?}")),
    })
}

/// Texts to integers or back, by a table of both.
fn category_mapper(c: &Call) -> Result<Outs> {
    let texts = c.texts("cats_strings")?.unwrap_or_default();
    let ints = c.list("cats_int64s")?.unwrap_or_default();
    let (text, int) = (c.text_or("default_string", "_Unused")?, c.int_or("default_int64", -1)?);
    if texts.len() != ints.len() {
        return fail(format!("{} texts for {} integers", texts.len(), ints.len()));
    }
    match c.input(0)? {
        Value::Strings(s) => {
            let number = |t: &String| texts.iter().position(|k| k == t).map_or(int, |i| ints[i]);
            give(Tensor::from_vec(s.texts.iter().map(number).collect::<Vec<_>>(), &s.dims))
        }
        x => {
            let name =
                |v: &i64| ints.iter().position(|k| k == v).map_or(text, |i| texts[i].as_str()).to_string();
            give(Strings::new(x.dims()?, x.ints()?.iter().map(name).collect()))
        }
    }
}
