//! Models that are not nets: encoders, scalers, trees.

use super::{Op, op};
use crate::call::{Call, Outs, fail, give};
use crate::value::{Strings, Value};
use frit_tensor::{DType, Result, Tensor};

pub(super) const OPS: &[Op] = &[
    op("ArrayFeatureExtractor", 1, |c| {
        let at = c.tensor(1)?.reshape([-1]);
        c.moved(|x| Ok(if x.rank() == 1 { x.unsqueeze(0) } else { x.clone() }.index_select(-1, &at)))
    }),
    op("Binarizer", 1, |c| {
        let at = c.float_or("threshold", 0.0)?;
        c.kept(|x| x.gt(at).cast(x.dtype()))
    }),
    op("LabelEncoder", 2, label_encoder),
];

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
