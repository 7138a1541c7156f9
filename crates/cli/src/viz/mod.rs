//! Recordings: made of a command, and shown.

use std::io::Write;
use std::path::Path;
use std::process::Command;

/// Where a command is recorded to, unless `-o` says where.
const FILE: &str = "frit.viz";

/// The words after `frit viz`.
pub fn run(words: &[&str]) -> Result<(), String> {
    match *words {
        ["dump", file] => dump(file),
        ["-o", file, "--", ref command @ ..] => record(command, file),
        ["--", ref command @ ..] => record(command, FILE),
        _ => Err("expected: frit viz dump FILE, or frit viz [-o FILE] -- COMMAND".into()),
    }
}

/// The bytes of a file.
pub fn bytes_of(file: &str) -> Result<Vec<u8>, String> {
    std::fs::read(file).map_err(|e| format!("{file}: {e}"))
}

fn record(command: &[&str], file: &str) -> Result<(), String> {
    let (program, args) = command.split_first().ok_or("no command to record")?;
    let path = std::path::absolute(file).map_err(|e| format!("{file}: {e}"))?;
    let status = Command::new(program).args(args).env("FRIT_VIZ", &path).status();
    let status = status.map_err(|e| format!("{program}: {e}"))?;
    if !Path::new(&path).exists() {
        return Err(format!("{program} recorded nothing: it ran no tensor program of frit's"));
    }
    let size = std::fs::metadata(&path).map_or(0, |m| m.len());
    eprintln!("{file}: {:.1} MB; frit viz {file} shows it", size as f64 / 1e6);
    if status.success() { Ok(()) } else { Err(format!("{program} ended with {status}")) }
}

fn dump(file: &str) -> Result<(), String> {
    let bytes = bytes_of(file)?;
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    let mut failed = None;
    let extent = frit_viz::reader::dump(&bytes, |line| {
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
