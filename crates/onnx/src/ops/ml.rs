//! Models that are not nets: encoders, scalers, trees.

use super::scores::{After, Opposite, classes, classified, greatest};
use super::{Op, op};
use crate::call::{Call, Outs, fail, give};
use crate::value::{Strings, Value};
use frit_tensor::{DType, Result, Tensor, keepdim};

pub(super) const OPS: &[Op] = &[
    op("ArrayFeatureExtractor", 1, |c| {
        let at = c.tensor(1)?.reshape([-1]);
        c.moved(|x| Ok(if x.rank() == 1 { x.unsqueeze(0) } else { x.clone() }.index_select(-1, &at)))
    }),
    op("Binarizer", 1, |c| {
        let at = c.float_or("threshold", 0.0)?;
        c.kept(|x| x.gt(at).cast(x.dtype()))
    }),
    op("FeatureVectorizer", 1, feature_vectorizer),
    op("Imputer", 1, imputer),
    op("LabelEncoder", 1, class_encoder),
    op("LabelEncoder", 2, label_encoder),
    op("LinearClassifier", 1, linear_classifier),
    op("LinearRegressor", 1, linear_regressor),
    op("Normalizer", 1, normalizer),
    op("OneHotEncoder", 1, one_hot_encoder),
    op("Scaler", 1, scaler),
];

/// Numbers of an attribute as a vector.
fn vector(v: Option<&[f32]>) -> Option<Tensor> {
    v.filter(|v| !v.is_empty()).map(Tensor::from_slice)
}

fn scaler(c: &Call) -> Result<Outs> {
    let (offset, scale) = (vector(c.floats("offset")?), vector(c.floats("scale")?));
    c.map(|x| {
        let moved = offset.map_or(x.float(), |o| x.float() - o);
        scale.map_or(moved.clone(), |s| moved * s)
    })
}

fn normalizer(c: &Call) -> Result<Outs> {
    let x = c.tensor(0)?.float();
    let by = match c.text_or("norm", "MAX")? {
        "MAX" => x.max(keepdim(-1)),
        "L1" => x.abs().sum(keepdim(-1)),
        "L2" => x.square().sum(keepdim(-1)).sqrt(),
        other => return fail(format!("attribute \"norm\" is {other:?}")),
    };
    give(by.eq(0.0).where_(&x, &x / &by))
}

fn linear_regressor(c: &Call) -> Result<Outs> {
    let targets = c.count("targets", 1)?;
    let after = After::of(c)?;
    let y = planes(c, targets as i64)?;
    if after == After::None {
        return give(y);
    }
    let mut scores = y.double().to_vec::<f64>()?;
    scores.chunks_mut(targets).for_each(|row| after.apply(row));
    give(Tensor::from_vec(scores, y.shape()).float())
}
/// Features times coefficients and the intercepts.
fn planes(c: &Call, targets: i64) -> Result<Tensor> {
    let Some(weights) = vector(c.floats("coefficients")?) else { return fail("no coefficients") };
    let bias = vector(c.floats("intercepts")?);
    let y = c.tensor(0)?.float().matmul(&weights.reshape((targets, -1)).t());
    Ok(bias.map_or(y.clone(), |b| y + b))
}

fn linear_classifier(c: &Call) -> Result<Outs> {
    c.ignore(&["multi_class"]);
    let after = After::of(c)?;
    let targets = c.floats("intercepts")?.map_or(0, <[f32]>::len).max(1);
    let labels = classes(c, "classlabels_ints")?;
    let scores = planes(c, targets as i64)?.double().to_vec::<f64>()?;
    let (mut chosen, mut table) = (vec![], vec![]);
    for row in scores.chunks_exact(targets) {
        // one score for two labels is that of the second
        if let ([score], 2) = (row, labels) {
            chosen.push(usize::from(*score > 0.0));
            table.push(after.of_two(*score, Opposite::Rest));
            continue;
        }
        let mut row = row.to_vec();
        chosen.push(greatest(&row));
        after.apply(&mut row);
        table.push(row);
    }
    classified(c, "classlabels_ints", &chosen, table)
}

/// One value put in the place of another that stands for none.
fn imputer(c: &Call) -> Result<Outs> {
    let x = c.tensor(0)?;
    if x.dtype().is_float() {
        let missing = c.float_or("replaced_value_float", 0.0)?;
        let Some(values) = vector(c.floats("imputed_value_floats")?) else {
            return fail("no values to impute");
        };
        let gone = if missing.is_nan() { x.isnan() } else { x.eq(missing) };
        return give(gone.where_(values.cast(x.dtype()), &x));
    }
    let missing = c.int_or("replaced_value_int64", 0)?;
    match c.list("imputed_value_int64s")? {
        Some(values) => give(x.eq(missing).where_(Tensor::from_slice(&values).cast(x.dtype()), &x)),
        None => fail("no values to impute"),
    }
}

fn one_hot_encoder(c: &Call) -> Result<Outs> {
    let zeros = c.int_or("zeros", 1)? != 0;
    let hot = match (c.input(0)?, c.list("cats_int64s")?, c.texts("cats_strings")?) {
        (Value::Strings(s), _, Some(cats)) => {
            let mut known = vec![];
            let cats = Strings::new(vec![cats.len()], cats.to_vec()).numbered(&mut known);
            s.numbered(&mut known).unsqueeze(-1).eq(cats)
        }
        (x, Some(cats), _) => x.tensor()?.long().unsqueeze(-1).eq(Tensor::from_slice(&cats)),
        _ => return fail("no categories of the input's type"),
    };
    if !zeros && !hot.any(-1).all(..).item::<bool>()? {
        return fail("a value is none of the categories");
    }
    give(hot.float())
}

fn feature_vectorizer(c: &Call) -> Result<Outs> {
    c.ignore(&["inputdimensions"]);
    let rows = |t: &Tensor| if t.rank() == 1 { t.unsqueeze(0) } else { t.clone() }.float();
    give(Tensor::cat(&c.tensors()?.iter().map(rows).collect::<Vec<_>>(), -1))
}

/// Texts as their places in a list, or places as texts.
fn class_encoder(c: &Call) -> Result<Outs> {
    let texts = c.texts("classes_strings")?.unwrap_or_default();
    let (text, int) = (c.text_or("default_string", "_Unused")?, c.int_or("default_int64", -1)?);
    match c.input(0)? {
        Value::Strings(s) => {
            let place = |t: &String| texts.iter().position(|k| k == t).map_or(int, |i| i as i64);
            give(Tensor::from_vec(s.texts.iter().map(place).collect::<Vec<_>>(), &s.dims))
        }
        x => {
            let at =
                |i: &i64| usize::try_from(*i).ok().and_then(|i| texts.get(i)).map_or(text, String::as_str);
            give(Strings::new(x.dims()?, x.ints()?.iter().map(|i| at(i).to_string()).collect()))
        }
    }
}

/// Keys or values of a table, of whatever type it has.
fn column(c: &Call, what: &str) -> Result<Option<Value>> {
    if let Some(v) = c.texts(&format!("{what}_strings"))? {
        return Ok(Some(Strings::new(vec![v.len()], v.to_vec()).into()));
    }
    if let Some(v) = c.list(&format!("{what}_int64s"))? {
        return Ok(Some(Tensor::from_slice(&v).into()));
    }
    if let Some(v) = c.floats(&format!("{what}_floats"))? {
        return Ok(Some(Tensor::from_slice(v).into()));
    }
    Ok(c.constant(&format!("{what}_tensor"))?.cloned())
}

fn label_encoder(c: &Call) -> Result<Outs> {
    let (Some(keys), Some(values)) = (column(c, "keys")?, column(c, "values")?) else {
        return fail("no keys or no values");
    };
    if keys.dims()? != values.dims()? {
        return fail(format!("{:?} keys for {:?} values", keys.dims()?, values.dims()?));
    }
    let text = c.text_or("default_string", "_Unused")?.to_string();
    let (int, float) = (c.int_or("default_int64", -1)?, c.float_or("default_float", 0.0)?);
    let default = c.constant("default_tensor")?;
    // (elements, keys): which key each element is
    let hit = match (c.input(0)?, &keys) {
        (Value::Strings(s), Value::Strings(k)) => {
            let mut known = vec![];
            s.numbered(&mut known).unsqueeze(-1).eq(k.numbered(&mut known))
        }
        (x, k) => {
            let (x, k) = (x.tensor()?.unsqueeze(-1), k.tensor()?);
            // an element that is no number is the key that is none
            let nan = |t: &Tensor| if t.dtype().is_float() { t.isnan() } else { t.ne(t) };
            x.eq(&k).logical_or(nan(&x).logical_and(nan(&k)))
        }
    };
    let (found, at) = (hit.any(-1), hit.int().argmax(-1));
    match values {
        Value::Strings(v) => {
            let (found, at) = (found.to_vec::<bool>()?, at.to_vec::<i32>()?);
            let one = |(f, i): (&bool, &i32)| if *f { v.texts[*i as usize].clone() } else { text.clone() };
            give(Strings::new(c.input(0)?.dims()?, found.iter().zip(&at).map(one).collect()))
        }
        other => {
            let v = other.tensor()?;
            let missing = match default {
                Some(d) => d.tensor()?.reshape(()),
                None if v.dtype() == DType::I64 => Tensor::full_dtype((), int, v.dtype()),
                None => Tensor::full_dtype((), float, v.dtype()),
            };
            give(found.where_(v.take(&at), missing))
        }
    }
}
