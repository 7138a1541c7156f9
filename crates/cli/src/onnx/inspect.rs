//! What a model is made of, and what running it once comes to: planned, on a device that computes nothing.

use super::Done;
use super::feed::{Options, feeds, load};
use frit::*;
use frit_viz::Model;
use std::collections::BTreeMap;

pub fn run(path: &str, o: &Options) -> Done {
    let model = load(path, o).map_err(|e| e.to_string())?;
    for (what, ports) in [("inputs", model.inputs()), ("outputs", model.outputs())] {
        println!("{what}");
        ports.iter().for_each(|p| println!("  {p}"));
    }
    let summary = model.summary();
    let planned = planned(path, o);
    let cost = planned.as_ref().map(|p| p.by_operator.clone()).unwrap_or_default();
    println!(
        "{:28} {:>6} {:>12} {:>9} {:>12} {:>9}",
        "operators", "nodes", "parameters", "MB", "Mop", "MB moved"
    );
    for (name, uses) in &summary.operators {
        let (flops, bytes) = cost.get(name).copied().unwrap_or_default();
        let [stored, moved, ops] = [uses.parameter_bytes as u64, bytes, flops].map(|n| n as f64 / 1e6);
        let (nodes, parameters) = (uses.nodes, uses.parameters);
        println!("  {name:26} {nodes:6} {parameters:12} {stored:9.2} {ops:12.2} {moved:9.2}");
    }
    println!("{} parameters, {:.1} MB", summary.parameters, summary.parameter_bytes as f64 / 1e6);
    match planned {
        Ok(p) => {
            let [ops, moved, peak] = [p.flops, p.bytes, p.peak].map(|n| n as f64 / 1e6);
            println!(
                "a run: {} kernels, {ops:.1} million operations, {moved:.1} MB moved, {peak:.1} MB at most besides the parameters",
                p.kernels
            );
            println!(
                "operations count for the first operator that a kernel belongs to; others are part of it"
            );
        }
        Err(why) => println!("what a run costs is not known: {why}"),
    }
    Ok(())
}

/// What one run comes to.
struct Planned {
    kernels: usize,
    flops: u64,
    bytes: u64,
    /// Bytes in use at most.
    peak: u64,
    /// Operations and bytes.
    by_operator: BTreeMap<String, (u64, u64)>,
}

/// Runs the model where nothing is computed, and adds up what is launched.
fn planned(path: &str, o: &Options) -> std::result::Result<Planned, String> {
    let file = std::env::temp_dir().join(format!("frit-inspect-{}.viz", std::process::id()));
    let recorded = Device::scope(o.device.unwrap_or("NULL:AVX512"), || -> std::result::Result<(), String> {
        let model = load(path, o).map_err(|e| e.to_string())?;
        let feeds = feeds(&model, o).map_err(|e| e.to_string())?;
        // the first run brings parameters to the device, and computes what is made of them alone
        model.run(feeds.clone()).map_err(|e| e.to_string())?;
        let recording = Recording::begin_profile(&file)?;
        let ran = model.run(feeds).map_err(|e| e.to_string());
        recording.end()?;
        ran.map(drop)
    });
    let bytes = std::fs::read(&file);
    std::fs::remove_file(&file).ok();
    recorded.map_err(|e| e.to_string())??;
    let m = Model::of(&bytes.map_err(|e| format!("{}: {e}", file.display()))?)?;
    let mut planned =
        Planned { kernels: m.launches.len(), flops: 0, bytes: 0, peak: 0, by_operator: BTreeMap::new() };
    for l in &m.launches {
        planned.flops += l.flops;
        planned.bytes += l.bytes;
        // `Conv "features.0"`, of several names the first
        let operator = m.text(l.origin).split(' ').next().unwrap_or_default();
        let sum = planned.by_operator.entry(operator.into()).or_default();
        (sum.0, sum.1) = (sum.0 + l.flops, sum.1 + l.bytes);
    }
    let before =
        m.memory.first().map_or(0, |e| e.in_use.saturating_sub(if e.is_taken { e.bytes } else { 0 }));
    planned.peak = m.memory.iter().map(|e| e.in_use).max().unwrap_or(before).saturating_sub(before);
    Ok(planned)
}
