//! Machine code as text, through the system's `objdump`: for `FRIT_DEBUG=6` only.

use crate::Error;
use crate::sys::ScratchFile;
use std::io::Write;
use std::process::Command;

/// A listing of x86-64 code; an error that says so where there is no `objdump`.
pub fn disassemble(code: &[u8]) -> Result<String, Error> {
    let failed = |why: String| Error::Device(format!("no disassembly: {why}"));
    let scratch = ScratchFile::create().map_err(|e| failed(e.to_string()))?;
    scratch.file().write_all(code).map_err(|e| failed(e.to_string()))?;
    let mut command = Command::new("objdump");
    command
        .args(["-D", "-b", "binary", "-m", "i386:x86-64", "-M", "intel", "--no-show-raw-insn"])
        .arg(scratch.path());
    let output = command.output().map_err(|e| failed(format!("objdump: {e}")))?;
    if !output.status.success() {
        return Err(failed(String::from_utf8_lossy(&output.stderr).trim().to_string()));
    }
    // the lines that are instructions: an address, a colon, the rest
    let text = String::from_utf8_lossy(&output.stdout);
    let is_instruction =
        |l: &&str| l.trim_start().split_once(':').is_some_and(|(a, _)| u64::from_str_radix(a, 16).is_ok());
    Ok(text.lines().filter(is_instruction).map(|l| format!("{}\n", l.trim_end())).collect())
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_return_is_a_return() {
        match super::disassemble(&[0xc3]) {
            Ok(text) => assert_eq!(text.split_whitespace().collect::<Vec<_>>(), ["0:", "ret"]),
            Err(e) => assert!(e.to_string().contains("objdump"), "{e}"),
        }
    }
}
