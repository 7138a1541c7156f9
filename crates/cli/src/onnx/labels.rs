//! What a classifier says: the likeliest classes, by name.

use super::feed::Options;
use frit::onnx::Value;
use frit::*;
use std::fmt::Write;

/// Lines of the likeliest classes, where an output is a row of them and someone wants to know.
pub fn likeliest(value: &Value, o: &Options) -> Result<Option<String>> {
    let wanted = o.top.is_some() || o.labels.is_some() || o.has_picture();
    let Value::Tensor(t, _) = value else { return Ok(None) };
    let dims = t.dims()?;
    let classes = dims.iter().product::<usize>();
    let is_row = t.dtype().is_float() && classes > 1 && dims.iter().filter(|d| **d != 1).count() == 1;
    if !wanted || !is_row {
        return Ok(None);
    }
    let names = match o.labels {
        Some(file) => {
            let text = std::fs::read_to_string(file);
            let text = text.map_err(|e| Error::elsewhere("onnx", format!("{file}: {e}")))?;
            text.lines().map(str::to_string).collect()
        }
        None => vec![],
    };
    let mut scores = t.flatten(0, -1).double().to_vec::<f64>()?;
    // a model whose last operator is a softmax gives probabilities already
    let is_done = scores.iter().all(|s| *s >= 0.0) && (scores.iter().sum::<f64>() - 1.0).abs() < 1e-2;
    if !is_done {
        scores = t.flatten(0, -1).double().softmax(0).to_vec::<f64>()?;
    }
    let mut order: Vec<usize> = (0..classes).collect();
    order.sort_by(|a, b| scores[*b].total_cmp(&scores[*a]));
    let mut lines = String::new();
    for i in order.into_iter().take(o.top.unwrap_or(5)) {
        let name = names.get(i).map_or("", String::as_str);
        writeln!(lines, "  {:5.1} %  {i:5}  {name}", scores[i] * 100.0).ok();
    }
    Ok(Some(lines))
}
