//! Texts, on the host.

use super::regex::Regex;
use super::{Op, op};
use crate::call::{Call, Outs, bounded, fail, give};
use crate::value::{Strings, Value};
use frit_tensor::{DType, Result, Tensor};
use rustc_hash::FxHashMap;

pub(super) const OPS: &[Op] = &[
    op("RegexFullMatch", 20, full_match),
    op("StringConcat", 20, concat),
    op("StringNormalizer", 10, normalize),
    op("StringSplit", 20, split),
    op("TfIdfVectorizer", 9, tf_idf),
];

fn full_match(c: &Call) -> Result<Outs> {
    let pattern = c.text_or("pattern", "")?;
    let regex = Regex::new(pattern).or_else(|e| fail(format!("the pattern {pattern:?}: {e}")))?;
    let s = c.strings(0)?;
    give(Tensor::from_vec(s.texts.iter().map(|t| regex.matches(t)).collect::<Vec<_>>(), &s.dims))
}

fn concat(c: &Call) -> Result<Outs> {
    let (a, b) = (c.strings(0)?, c.strings(1)?);
    let place = |s: &Strings| Tensor::arange(s.texts.len()).long().reshape(&s.dims);
    let zero = Tensor::full_dtype((), 0, DType::I64);
    let (i, j) = (place(a) + (place(b) * &zero), place(b) + place(a) * &zero);
    let dims = i.dims()?;
    let text = |(i, j): (&i64, &i64)| format!("{}{}", a.texts[*i as usize], b.texts[*j as usize]);
    let texts = i.to_vec::<i64>()?.iter().zip(&j.to_vec::<i64>()?).map(text).collect();
    give(Strings::new(dims, texts))
}

fn normalize(c: &Call) -> Result<Outs> {
    c.ignore(&["locale"]);
    let case = c.text_or("case_change_action", "NONE")?;
    let exact = c.flag("is_case_sensitive")?;
    let stop = c.texts("stopwords")?.unwrap_or_default();
    let s = c.strings(0)?;
    let is_stop =
        |t: &String| stop.iter().any(|w| if exact { w == t } else { w.to_lowercase() == t.to_lowercase() });
    let changed = |t: &String| match case {
        "LOWER" => Ok(t.to_lowercase()),
        "UPPER" => Ok(t.to_uppercase()),
        "NONE" => Ok(t.clone()),
        other => fail(format!("attribute \"case_change_action\" is {other:?}")),
    };
    let mut texts = s.texts.iter().filter(|t| !is_stop(t)).map(changed).collect::<Result<Vec<_>>>()?;
    if texts.is_empty() {
        texts.push(String::new());
    }
    let n = texts.len();
    give(Strings::new(if s.dims.len() == 2 { vec![1, n] } else { vec![n] }, texts))
}

/// Parts of texts, filled up with empty ones, and how many there are of each.
fn split(c: &Call) -> Result<Outs> {
    let (delimiter, most) = (c.text_or("delimiter", "")?, c.int("maxsplit")?);
    let s = c.strings(0)?;
    let limit = most.and_then(|m| usize::try_from(m).ok());
    let parts: Vec<Vec<&str>> = s.texts.iter().map(|t| parts(t, delimiter, limit)).collect();
    let widest = parts.iter().map(Vec::len).max().unwrap_or(0);
    let counts: Vec<i64> = parts.iter().map(|p| p.len() as i64).collect();
    let fill = |p: Vec<&str>| (0..widest).map(|i| p.get(i).unwrap_or(&"").to_string()).collect::<Vec<_>>();
    let texts = parts.into_iter().flat_map(fill).collect();
    let dims: Vec<usize> = s.dims.iter().copied().chain([widest]).collect();
    give(vec![Value::Strings(Strings::new(dims, texts)), Tensor::from_vec(counts, &s.dims).into()])
}
/// As Python splits: runs of white space where there is no delimiter.
fn parts<'a>(text: &'a str, delimiter: &str, limit: Option<usize>) -> Vec<&'a str> {
    if !delimiter.is_empty() {
        return match limit {
            Some(n) => text.splitn(n + 1, delimiter).collect(),
            None => text.split(delimiter).collect(),
        };
    }
    let (mut out, mut rest) = (vec![], text.trim_start());
    while !rest.is_empty() {
        if limit == Some(out.len()) {
            out.push(rest.trim_end());
            break;
        }
        let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
        out.push(&rest[..end]);
        rest = rest[end..].trim_start();
    }
    out
}

/// How often n-grams of a pool occur in rows, counted, marked or weighted.
fn tf_idf(c: &Call) -> Result<Outs> {
    let (shortest, longest) = (c.count("min_gram_length", 1)?, c.count("max_gram_length", 1)?);
    let skips = c.int_or("max_skip_count", 0)?.max(0) as usize;
    let counts = c.list("ngram_counts")?.unwrap_or_default();
    let places = c.list("ngram_indexes")?.unwrap_or_default();
    let weights = c.floats("weights")?;
    let mode = c.text_or("mode", "TF")?;
    let mut known = vec![];
    let (ints, texts) = (c.list("pool_int64s")?, c.texts("pool_strings")?);
    let (pool, rows, dims) = match (texts, ints, c.input(0)?) {
        (Some(pool), _, Value::Strings(s)) => {
            let pool = Strings::new(vec![pool.len()], pool.to_vec()).numbered(&mut known).to_vec::<i64>()?;
            (pool, s.numbered(&mut known).to_vec::<i64>()?, s.dims.clone())
        }
        (_, Some(pool), v) => (pool, v.ints()?, v.dims()?),
        _ => return fail("the pool is not of the input's type"),
    };
    let grams = grams(&pool, &counts, &places)?;
    let width = places.iter().max().map_or(0, |m| (*m).max(0) as usize).saturating_add(1);
    let length = dims.last().copied().unwrap_or(1).max(1);
    bounded(&[rows.len().div_ceil(length), width])?;
    let mut out = vec![];
    for row in rows.chunks(length) {
        let mut found = vec![0f32; width];
        // no gram is longer than a row, and no gap wider
        for n in shortest..=longest.min(row.len()) {
            for step in 1..=skips.min(row.len()) + 1 {
                // a single word has no gaps to skip
                if n == 1 && step > 1 {
                    break;
                }
                for start in 0..row.len().saturating_sub((n - 1) * step) {
                    let gram: Vec<i64> = (0..n).map(|k| row[start + k * step]).collect();
                    if let Some((place, _)) = grams.get(&gram) {
                        found[*place] += 1.0;
                    }
                }
            }
        }
        let weight = |place: usize| {
            let nth = grams.values().find(|(p, _)| *p == place).map_or(0, |(_, nth)| *nth);
            weights.and_then(|w| w.get(nth)).copied().unwrap_or(1.0)
        };
        let scored = |(i, n): (usize, &f32)| match mode {
            "IDF" => {
                if *n > 0.0 {
                    weight(i)
                } else {
                    0.0
                }
            }
            "TFIDF" => n * weight(i),
            _ => *n,
        };
        out.extend(found.iter().enumerate().map(scored).collect::<Vec<f32>>());
    }
    let lead = &dims[..dims.len().saturating_sub(1)];
    give(Tensor::from_vec(out, [lead, &[width]].concat()))
}
/// The n-grams of a pool, with their places in the result and among themselves.
fn grams(pool: &[i64], counts: &[i64], places: &[i64]) -> Result<FxHashMap<Vec<i64>, (usize, usize)>> {
    let mut grams = FxHashMap::default();
    let mut nth = 0;
    for (k, start) in counts.iter().enumerate() {
        let end = counts.get(k + 1).copied().unwrap_or(pool.len() as i64);
        let Some(part) = pool.get(*start as usize..end as usize) else {
            return fail(format!("n-grams {start}..{end} of a pool of {}", pool.len()));
        };
        for gram in part.chunks(k + 1) {
            let Some(place) = places.get(nth).and_then(|p| usize::try_from(*p).ok()) else {
                return fail("fewer indexes than n-grams");
            };
            grams.insert(gram.to_vec(), (place, nth));
            nth += 1;
        }
    }
    Ok(grams)
}
