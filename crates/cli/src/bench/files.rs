//! Opening large files.

use super::{Bench, Line};
use frit::nn::{StateDict, safetensors};
use frit::*;
use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

/// A file that is removed at the end.
struct Temp(PathBuf);
impl Drop for Temp {
    fn drop(&mut self) {
        std::fs::remove_file(&self.0).ok();
    }
}

fn failed(e: std::io::Error) -> Error {
    Error::elsewhere("bench", e.to_string())
}

/// A file of 1 GiB: 255 tensors of 4 MiB and one of 4 KiB in their middle. The large ones are a hole, which takes no
/// room on the disk.
fn large(path: &Path) -> Result<()> {
    let shapes = (0..255).map(|i| (format!("layer.{i:03}.weight"), vec![1024, 1024]));
    let mut header = String::from("{");
    let (mut at, mut small) = (0usize, 0);
    for (i, (name, shape)) in shapes.enumerate() {
        if i == 128 {
            header += &format!(
                "\"small\":{{\"dtype\":\"F32\",\"shape\":[1024],\"data_offsets\":[{at},{}]}},",
                at + 4096
            );
            (small, at) = (at, at + 4096);
        }
        let end = at + (4 << 20);
        header +=
            &format!("\"{name}\":{{\"dtype\":\"F32\",\"shape\":{shape:?},\"data_offsets\":[{at},{end}]}},");
        at = end;
    }
    header.pop();
    header.push('}');
    header += &" ".repeat(header.len().next_multiple_of(8) - header.len());
    let start = 8 + header.len() as u64;
    let write = || -> std::io::Result<()> {
        let mut f = File::create(path)?;
        f.write_all(&(header.len() as u64).to_le_bytes())?;
        f.write_all(header.as_bytes())?;
        f.set_len(start + at as u64)?;
        f.seek(SeekFrom::Start(start + small as u64))?;
        (0..1024).try_for_each(|i| f.write_all(&(i as f32).to_le_bytes()))
    };
    write().map_err(failed)
}

/// Opens the file, makes a tensor of each entry and reads the small one.
pub(crate) fn open_and_read(path: &Path) -> Result<f64> {
    let begun = Instant::now();
    let state: StateDict = safetensors::load(path)?;
    let values = state["small"].to_vec::<f32>()?;
    let ms = begun.elapsed().as_secs_f64() * 1e3;
    match values.iter().enumerate().all(|(i, v)| *v == i as f32) {
        true => Ok(ms),
        false => Err(Error::elsewhere("bench", "the small tensor has other values")),
    }
}

/// In a process of its own, which has done nothing else: the time it says, and the time the whole process took.
fn fresh_process(path: &Path) -> Result<(f64, f64)> {
    let begun = Instant::now();
    let mut child = Command::new(std::env::current_exe().map_err(failed)?)
        .args(["bench", "--open"])
        .arg(path)
        .stdout(Stdio::piped())
        .spawn()
        .map_err(failed)?;
    let mut said = String::new();
    if let Some(out) = &mut child.stdout {
        out.read_to_string(&mut said).map_err(failed)?;
    }
    child.wait().map_err(failed)?;
    let all = begun.elapsed().as_secs_f64() * 1e3;
    let ms =
        said.trim().parse().map_err(|_| Error::elsewhere("bench", format!("the process said {said:?}")))?;
    Ok((ms, all))
}

fn open_1g() -> Result<Line> {
    let file = Temp(std::env::temp_dir().join(format!("frit-bench-{}.safetensors", std::process::id())));
    large(&file.0)?;
    OpenOptions::new().read(true).open(&file.0).and_then(|f| f.sync_all()).map_err(failed)?;
    let mut runs = (0..7).map(|_| fresh_process(&file.0)).collect::<Result<Vec<_>>>()?;
    runs.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (ms, process) = runs[runs.len() / 2];
    let worst = runs.last().map_or(ms, |r| r.0);
    Ok(Line::new(ms)
        .with("worst_ms", worst)
        .with("process_ms", process)
        .with("again_ms", open_and_read(&file.0)?))
}

/// The benchmarks of this file.
pub fn benches() -> Vec<Bench> {
    vec![Bench::new("safetensors_open_1g", open_1g)]
}
