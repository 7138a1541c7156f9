//! Recordings: made of a command, and shown.

mod peaks;
pub mod profile;
mod serve;
mod sha256;

use flate2::Compression;
use flate2::write::DeflateEncoder;
use frit_recording::trace::Form;
use frit_recording::writer;
use frit_viz::{Model, explain, pack, page};
use std::io::Write;
use std::path::Path;
use std::process::{Command, ExitStatus};

/// Where a command is recorded to, unless `-o` says where.
const FILE: &str = "frit.viz";

/// The words after `frit viz`.
pub fn run(words: &[&str]) -> Result<(), String> {
    match *words {
        ["dump", file] => dump(file),
        ["trace", file, out] => trace(file, out),
        ["export", file, out] => export(file, out),
        ["export", file] => export(file, &format!("{}.html", file.trim_end_matches(".viz"))),
        ["pack", file, out] => write(out, &packed(file, Compression::fast())?),
        ["--candidates", "-o", file, "--", ref command @ ..] => record(command, file, true),
        ["--candidates", "--", ref command @ ..] => record(command, FILE, true),
        ["-o", file, "--", ref command @ ..] => record(command, file, false),
        ["--", ref command @ ..] => record(command, FILE, false),
        ["--no-open", file] => show(file, false),
        [file] if !file.starts_with('-') => show(file, true),
        _ => Err("expected: frit viz FILE, frit viz export FILE [HTML], frit viz dump FILE, or frit viz [--candidates] [-o FILE] -- COMMAND"
            .into()),
    }
}

/// The bytes of a file.
pub fn bytes_of(file: &str) -> Result<Vec<u8>, String> {
    std::fs::read(file).map_err(|e| format!("{file}: {e}"))
}

fn write(file: &str, bytes: &[u8]) -> Result<(), String> {
    std::fs::write(file, bytes).map_err(|e| format!("{file}: {e}"))
}

/// A recording in parts, as the page takes it.
fn packed(file: &str, level: Compression) -> Result<Vec<u8>, String> {
    let with_peaks = peaks::measured(bytes_of(file)?).map_err(|e| format!("{file}: {e}"))?;
    let model = Model::of(&with_peaks).map_err(|e| format!("{file}: {e}"))?;
    let deflate = |bytes: &[u8]| {
        let mut encoder = DeflateEncoder::new(Vec::with_capacity(bytes.len() / 4), level);
        // a vector takes everything
        _ = encoder.write_all(bytes);
        encoder.finish().unwrap_or_default()
    };
    Ok(pack::pack(&model, &deflate))
}

/// The page as one file.
fn export(file: &str, out: &str) -> Result<(), String> {
    let html = page::whole(&packed(file, Compression::default())?, sha256::sha256);
    write(out, html.as_bytes())?;
    eprintln!("{out}: {:.1} MB", html.len() as f64 / 1e6);
    Ok(())
}

/// The page on localhost, opened in a browser.
fn show(file: &str, is_opened: bool) -> Result<(), String> {
    serve::serve(packed(file, Compression::fast())?, 0, |address| {
        println!("{address}");
        eprintln!("this is {file}; Ctrl-C ends it");
        if is_opened {
            let opener = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
            let quiet = || std::process::Stdio::null();
            // where nothing opens it, the address is there
            _ = Command::new(opener).arg(address).stdout(quiet()).stderr(quiet()).spawn();
        }
    })
}

/// Why the operations of a line became these kernels.
pub fn explained(file: &str, place: &str) -> Result<(), String> {
    let model = Model::of(&bytes_of(file)?).map_err(|e| format!("{file}: {e}"))?;
    print!("{}", explain::explain(&model, place)?);
    Ok(())
}

/// A recording as a trace that Perfetto opens.
fn trace(file: &str, out: &str) -> Result<(), String> {
    let form =
        Form::of(Path::new(out)).ok_or_else(|| format!("{out}: a trace is a .json or a .pftrace file"))?;
    write(out, &writer::as_trace(&bytes_of(file)?, form).map_err(|e| format!("{file}: {e}"))?)
}

/// Run a command that records to a file which a variable names, and say how it ended.
fn record_to(
    command: &[&str],
    variable: &str,
    path: &Path,
    others: &[(&str, &str)],
) -> Result<ExitStatus, String> {
    let (program, args) = command.split_first().ok_or("no command to record")?;
    let path = std::path::absolute(path).map_err(|e| format!("{}: {e}", path.display()))?;
    // what an earlier one left is not of this one
    std::fs::remove_file(&path).ok();
    let status = Command::new(program).args(args).env(variable, &path).envs(others.iter().copied()).status();
    let status = status.map_err(|e| format!("{program}: {e}"))?;
    if !path.exists() {
        let ended = if status.success() { String::new() } else { format!(", and ended with {status}") };
        return Err(format!("{program} recorded nothing: it ran no tensor program of frit's{ended}"));
    }
    Ok(status)
}

/// A command that failed fails here, too, with the status it had, once what it recorded is shown.
fn end_as(command: &[&str], status: ExitStatus) {
    if !status.success() {
        eprintln!("{} ended with {status}", command.first().unwrap_or(&""));
        _ = std::io::stdout().flush();
        std::process::exit(status.code().unwrap_or(1));
    }
}

/// Record a command; of searches the passes of the winners, or of all candidates.
fn record(command: &[&str], file: &str, has_candidates: bool) -> Result<(), String> {
    let others: &[(&str, &str)] = if has_candidates { &[("FRIT_VIZ_CANDIDATES", "1")] } else { &[] };
    let status = record_to(command, "FRIT_VIZ", Path::new(file), others)?;
    let bytes = peaks::measured(bytes_of(file)?)?;
    write(file, &bytes)?;
    eprintln!("{file}: {:.1} MB; frit viz {file} shows it", bytes.len() as f64 / 1e6);
    end_as(command, status);
    Ok(())
}

fn dump(file: &str) -> Result<(), String> {
    let bytes = bytes_of(file)?;
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    let mut failed = None;
    let extent = frit_recording::reader::dump(&bytes, |line| {
        if failed.is_none() {
            failed = writeln!(out, "{line}").err();
        }
    });
    let extent = extent.map_err(|e| format!("{file}: {e}"))?;
    if let Some(e) = failed.or_else(|| out.flush().err()) {
        return Err(e.to_string());
    }
    match extent.lost {
        0 => Ok(()),
        n => {
            eprintln!("{file}: the last {n} bytes are not a whole chunk: what was recorded last is missing");
            Ok(())
        }
    }
}
