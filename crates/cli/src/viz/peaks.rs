//! What a device can do: a large product and a large copy, timed, for the roofline.

use frit::engine::{devices, peaks as engine_peaks};
use frit::{Device, Tensor};
use std::time::Instant;

/// Rows and columns of the product, elements of the copy; on a GPU more, so that it has something to do.
const CPU: (usize, usize) = (1024, 16 << 20);
const CUDA: (usize, usize) = (4096, 64 << 20);
/// Runs of each, of which the fastest counts.
const RUNS: usize = 5;

/// A recording that was made on this machine with the peaks of the devices it ran on, where it has none: those that were
/// measured before, or else now.
pub fn measured(mut bytes: Vec<u8>) -> Result<Vec<u8>, String> {
    let model = frit_viz::Model::of(&bytes)?;
    let is_known = |d: &&frit_viz::model::Device| d.flops > 0 && d.bytes > 0;
    let known: Vec<&str> = model.devices.iter().filter(is_known).map(|d| model.text(d.name)).collect();
    let mut devices: Vec<(&str, &str)> =
        model.devices.iter().map(|d| (model.text(d.name), model.text(d.about))).collect();
    // a profile tells devices by their launches alone
    for l in &model.launches {
        let name = model.text(l.device);
        if !devices.iter().any(|d| d.0 == name) {
            devices.push((name, ""));
        }
    }
    for (name, about) in devices {
        let is_real = name.starts_with("CPU") || name.starts_with("CUDA");
        if !is_real || known.contains(&name) {
            continue;
        }
        // a recording of another machine has none of this one's
        let Ok(here) = devices::describe(name) else { continue };
        if !about.is_empty() && about != here {
            continue;
        }
        let found = engine_peaks::known(&here).or_else(|| {
            let found = Device::scope(name, || peaks(name)).ok()?.ok()?;
            engine_peaks::keep(&here, found);
            Some(found)
        });
        if let Some([flops, moved]) = found {
            bytes = frit_recording::writer::with_peaks(bytes, name, &here, flops, moved)?;
        }
    }
    Ok(bytes)
}

/// Operations and bytes in a second.
fn peaks(device: &str) -> frit::Result<[u64; 2]> {
    let (size, length) = if device.starts_with("CUDA") { CUDA } else { CPU };
    let (a, b) = (Tensor::ones([size, size]).contiguous(), Tensor::ones([size, size]).contiguous());
    let x = Tensor::ones([length]).contiguous();
    Tensor::realize_all(&[&a, &b, &x])?;
    let product = fastest(device, || a.matmul(&b).realize())?;
    let copy = fastest(device, || (&x + 1.0).realize())?;
    let operations = 2.0 * (size as f64).powi(3);
    Ok([(operations / product) as u64, (8.0 * length as f64 / copy) as u64])
}

/// Seconds of the fastest of some runs.
fn fastest(device: &str, run: impl Fn() -> frit::Result<Tensor>) -> frit::Result<f64> {
    let mut least = f64::INFINITY;
    for _ in 0..=RUNS {
        let begun = Instant::now();
        let made = run()?;
        Device::synchronize(device)?;
        least = least.min(begun.elapsed().as_secs_f64());
        drop(made);
    }
    Ok(least.max(1e-9))
}
