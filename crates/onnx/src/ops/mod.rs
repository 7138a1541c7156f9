//! The operators: a table for each family, and one function each.
//!
//! A row holds from its version until another row of the same name does.

mod activation;
mod attention;
mod cast;
mod control;
mod conv;
mod create;
mod elementwise;
mod encoder;
mod group_query;
mod image;
mod index;
mod linear;
mod loss;
mod maps;
mod microsoft;
mod ml;
mod norm;
mod pool;
pub(crate) mod quant;
mod recurrent;
mod reduce;
mod regex;
mod resize;
mod scores;
mod sequence;
mod shape;
mod signal;
mod svm;
mod text;
mod training;
mod trees;

use crate::call::{Call, Outs};
use frit_tensor::Result;
use rustc_hash::FxHashMap;
use std::sync::OnceLock;

/// The newest version of the operators of ONNX that is known here.
pub(crate) const NEWEST: i64 = 28;

/// A row: an operator from a version on.
pub(crate) struct Op {
    pub name: &'static str,
    pub since: i64,
    pub run: fn(&Call) -> Result<Outs>,
}

const fn op(name: &'static str, since: i64, run: fn(&Call) -> Result<Outs>) -> Op {
    Op { name, since, run }
}

const ONNX: &str = "";
const ML: &str = "ai.onnx.ml";
const PREVIEW: &str = "ai.onnx.preview";
const MICROSOFT: &str = "com.microsoft";
const TRAINING: &str = "ai.onnx.preview.training";

/// Every table, with its domain.
const FAMILIES: &[(&str, &[Op])] = &[
    (ONNX, elementwise::OPS),
    (ONNX, cast::OPS),
    (ONNX, activation::OPS),
    (ONNX, shape::OPS),
    (ONNX, create::OPS),
    (ONNX, index::OPS),
    (ONNX, reduce::OPS),
    (ONNX, linear::OPS),
    (ONNX, conv::OPS),
    (ONNX, pool::OPS),
    (ONNX, norm::OPS),
    (ONNX, resize::OPS),
    (ONNX, attention::OPS),
    (ONNX, recurrent::OPS),
    (ONNX, signal::OPS),
    (ONNX, quant::OPS),
    (ONNX, loss::OPS),
    (ONNX, control::OPS),
    (ONNX, sequence::OPS),
    (ONNX, text::OPS),
    (ONNX, image::OPS),
    (ONNX, microsoft::IN_ONNX),
    (ML, ml::OPS),
    (ML, maps::OPS),
    (ML, svm::OPS),
    (ML, trees::OPS),
    (PREVIEW, attention::PREVIEW),
    (TRAINING, training::OPS),
    (MICROSOFT, microsoft::OPS),
    (MICROSOFT, encoder::OPS),
    (MICROSOFT, group_query::OPS),
    (MICROSOFT, recurrent::MICROSOFT),
];

/// A domain by its proper name: the default one has two.
pub(crate) fn domain(name: &str) -> &str {
    if name == "ai.onnx" { ONNX } else { name }
}

/// Every row of the tables: a domain, an operator, and the version of the domain since which it means what it does there.
pub fn operators() -> impl Iterator<Item = (&'static str, &'static str, i64)> {
    FAMILIES.iter().flat_map(|(domain, rows)| rows.iter().map(move |row| (*domain, row.name, row.since)))
}

/// The row of an operator at a version of its domain.
pub(crate) fn find(domain: &str, name: &str, version: i64) -> Option<&'static Op> {
    type Rows = FxHashMap<&'static str, Vec<&'static Op>>;
    static TABLES: OnceLock<FxHashMap<&'static str, Rows>> = OnceLock::new();
    let tables = TABLES.get_or_init(|| {
        let mut tables: FxHashMap<&str, Rows> = FxHashMap::default();
        for (domain, rows) in FAMILIES {
            let table = tables.entry(domain).or_default();
            rows.iter().for_each(|row| table.entry(row.name).or_default().push(row));
        }
        tables
    });
    let rows = tables.get(domain)?.get(name)?;
    rows.iter().filter(|row| row.since <= version).max_by_key(|row| row.since).copied()
}
