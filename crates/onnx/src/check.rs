//! A model against stored inputs and outputs: the folders of ONNX's own tests; and what each of its nodes gives.
//!
//! ```text
//! model.onnx, test_data_set_0/{input_0.pb, …, output_0.pb, …}, test_data_set_1/…
//! ```

use crate::proto;
use crate::session::{Kind, Port, Session};
use crate::value::Value;
use crate::weights::Source;
use crate::wire::Writer;
use frit_tensor::{Blob, Error, Result};
use std::path::{Path, PathBuf};

/// How far a number may be from the stored one: `atol + rtol * |stored|`.
#[derive(Clone, Copy, Debug)]
pub struct Tolerance {
    /// Relative.
    pub rtol: f64,
    /// Absolute.
    pub atol: f64,
}

impl Default for Tolerance {
    fn default() -> Tolerance {
        Tolerance { rtol: 1e-3, atol: 1e-7 }
    }
}

/// Runs a folder's model on each of its data sets; an error says what differs first. Gives how many there were.
#[track_caller]
pub fn folder(dir: impl AsRef<Path>, tolerance: Tolerance) -> Result<usize> {
    let _c = frit_tensor::call("onnx");
    let dir = dir.as_ref();
    data_sets(&Session::load(dir.join("model.onnx"))?, dir, tolerance)
}

/// The same for a model that is loaded.
pub fn data_sets(session: &Session, dir: &Path, tolerance: Tolerance) -> Result<usize> {
    let mut n = 0;
    while let set = dir.join(format!("test_data_set_{n}"))
        && set.is_dir()
    {
        data_set(session, &set, tolerance).map_err(|e| e.within(&format!("test_data_set_{n}")))?;
        n += 1;
    }
    Ok(n)
}

fn data_set(session: &Session, set: &Path, tolerance: Tolerance) -> Result<()> {
    let mut feeds = vec![];
    for (i, port) in session.inputs().iter().enumerate() {
        let path = set.join(format!("input_{i}.pb"));
        if path.exists() {
            feeds.push((port.name.as_str(), stored(&path, port)?));
        }
    }
    let outputs = session.run(feeds)?;
    for (i, (port, value)) in session.outputs().iter().zip(&outputs).enumerate() {
        let path = set.join(format!("output_{i}.pb"));
        if path.exists() {
            compare(value, &stored(&path, port)?, tolerance).map_err(|e| e.within(&port.name))?;
        }
    }
    Ok(())
}

/// A result of a node.
#[derive(Clone, Debug)]
pub struct Made {
    /// The operator and the node's name.
    pub node: String,
    /// The value's name.
    pub value: String,
    /// Its place among the outputs.
    pub output: usize,
}

/// A model with the results of all its nodes among its outputs, and these in the order they are computed.
#[track_caller]
pub fn every_node(path: impl AsRef<Path>) -> Result<(Session, Vec<Made>)> {
    let _c = frit_tensor::call("onnx");
    let path = path.as_ref();
    let named = |e: String| Error::new("onnx", format!("{}: {e}", path.display()));
    let blob = Blob::open(path).map_err(|e| named(e.to_string()))?;
    let model: proto::Model = proto::parse(&blob).map_err(named)?;
    let graph = model.graph.unwrap_or_default();
    let mut outputs: Vec<&str> = graph.output.iter().map(|o| o.name).collect();
    let (mut made, mut more) = (vec![], Writer::new());
    for node in &graph.node {
        for value in node.output.iter().filter(|v| !v.is_empty()) {
            let output = outputs.iter().position(|o| o == value).unwrap_or_else(|| {
                outputs.push(value);
                more = std::mem::take(&mut more).message(12, Writer::new().bytes(1, value));
                outputs.len() - 1
            });
            made.push(Made {
                node: format!("{} {:?}", node.op_type, node.name),
                value: value.to_string(),
                output,
            });
        }
    }
    // parts of one message are merged, so more outputs are more bytes
    let bytes = [&blob[..], &Writer::new().message(7, more).into_bytes()].concat();
    let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    Ok((Session::parse(&Blob::new(bytes), Some(folder)).map_err(named)?, made))
}

/// A value in a file, of the kind its place in the model says.
pub fn stored(path: &PathBuf, port: &Port) -> Result<Value> {
    let named = |e: String| Error::new("onnx", format!("{}: {e}", path.display()));
    let blob = Blob::open(path).map_err(|e| named(e.to_string()))?;
    let mut source = Source::new(&blob, path.parent());
    let value = match port.kind {
        Kind::Sequence => proto::parse(&blob).and_then(|s| source.sequence(&s)),
        Kind::Optional => proto::parse(&blob).and_then(|o| source.optional(&o)),
        Kind::Map => proto::parse(&blob).and_then(|m| source.map(&m)),
        _ => proto::parse(&blob).and_then(|t| source.value(&t)),
    };
    value.map_err(named)
}

fn differ<T>(what: String) -> Result<T> {
    Err(Error::elsewhere("onnx", what))
}

/// An error where a value is not the wanted one.
pub fn compare(got: &Value, want: &Value, tolerance: Tolerance) -> Result<()> {
    match (got, want) {
        (Value::Optional(Some(got)), want) => compare(got, want, tolerance),
        (got, Value::Optional(Some(want))) => compare(got, want, tolerance),
        (Value::Optional(None), Value::Optional(None)) => Ok(()),
        (Value::Sequence(a), Value::Sequence(b)) if a.len() == b.len() => {
            a.iter().zip(b).try_for_each(|(a, b)| compare(a, b, tolerance))
        }
        (Value::Map(a), Value::Map(b)) if a.keys().eq(b.keys()) => {
            a.values().zip(b.values()).try_for_each(|(a, b)| compare(a, b, tolerance))
        }
        (Value::Strings(a), Value::Strings(b)) if a == b => Ok(()),
        (Value::Tensor(a, e), Value::Tensor(b, f)) => {
            if e != f {
                return differ(format!("{} elements, {} are wanted", e.name(), f.name()));
            }
            if a.dims()? != b.dims()? {
                return differ(format!("shape {}, {} is wanted", a.shape(), b.shape()));
            }
            let rtol = if a.dtype() == frit_tensor::DType::BF16 {
                tolerance.rtol.max(2f64.powi(-6))
            } else {
                tolerance.rtol
            };
            let close = |a: f64, b: f64| {
                a == b || (a.is_nan() && b.is_nan()) || (a - b).abs() <= tolerance.atol + rtol * b.abs()
            };
            let (a, b) = (a.double().to_vec::<f64>()?, b.double().to_vec::<f64>()?);
            let bad: Vec<usize> = (0..a.len()).filter(|i| !close(a[*i], b[*i])).collect();
            match bad.first() {
                None => Ok(()),
                Some(&i) => differ(format!(
                    "{} of {} elements differ, the first at {i}: {} for {}",
                    bad.len(),
                    a.len(),
                    a[i],
                    b[i]
                )),
            }
        }
        (got, want) => differ(format!("{got:?}, {want:?} is wanted")),
    }
}
