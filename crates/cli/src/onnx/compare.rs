//! Where two ways to run a model part: node by node on two devices, or values against stored ones.

use super::feed::{Options, feeds, load};
use super::{Done, timed};
use frit::nn::npy;
use frit::onnx::Value;
use frit::onnx::check::{Made, Tolerance, compare, every_node};
use frit::*;

pub fn run(path: &str, o: &Options) -> Done {
    differences(path, o).map_err(|e| e.to_string())?
}

fn differences(path: &str, o: &Options) -> Result<Done> {
    let tolerance = Tolerance { rtol: o.rtol.unwrap_or(1e-3), atol: o.atol.unwrap_or(1e-5) };
    let device = match o.device {
        Some(d) => d.to_string(),
        None => Device::current()?.to_string(),
    };
    // the same numbers for both
    let inputs = feeds(&load(path, o)?, o)?;
    let (nodes, got) = results(path, &device, &inputs)?;
    let against: Vec<(&Made, Value)> = if o.wanted.is_empty() {
        let (_, want) = results(path, o.with.unwrap_or("INTERP"), &inputs)?;
        nodes.iter().map(|n| (n, want[n.output].clone())).collect()
    } else {
        let find = |(name, file): &(&str, &str)| match nodes.iter().find(|n| n.value == *name) {
            Some(n) => Ok((n, Value::from(npy::load(file)?))),
            None => Err(Error::elsewhere("onnx", format!("no node gives a value {name:?}"))),
        };
        o.wanted.iter().map(find).collect::<Result<_>>()?
    };
    let differ = |(n, want): &(&Made, Value)| {
        Some((n.node.clone(), n.value.clone(), compare(&got[n.output], want, tolerance).err()?))
    };
    let bad: Vec<(String, String, Error)> = against.iter().filter_map(differ).collect();
    Ok(match bad.first() {
        None => {
            println!("all {} values agree", against.len());
            Ok(())
        }
        Some((node, value, e)) => {
            let all = against.len();
            Err(format!(
                "{} of {all} values differ, the first is {value:?} of {node}: {}",
                bad.len(),
                e.message()
            ))
        }
    })
}

/// What each node gives on a device.
fn results(path: &str, device: &str, inputs: &[(String, Value)]) -> Result<(Vec<Made>, Vec<Value>)> {
    let there = |v: &Value| match v {
        Value::Tensor(t, e) => Value::Tensor(t.to(device), *e),
        other => other.clone(),
    };
    let inputs: Vec<(String, Value)> = inputs.iter().map(|(name, v)| (name.clone(), there(v))).collect();
    Device::scope(device, || {
        let (session, nodes) = every_node(path)?;
        let (values, _) = timed(device, || session.run(inputs))?;
        Ok((nodes, values))
    })?
}
