//! The environment variables this room reads. A value that means nothing is an error.

use crate::Error;
use std::sync::OnceLock;

/// Every variable read here, with what it accepts and does: for help texts.
pub const FLAGS: [(&str, &str, &str); 5] = [
    ("FRIT_DEVICE", "a device name, such as CPU or INTERP", "the device tensors are made on; CPU by default"),
    ("FRIT_DEBUG", "0 to 6", "1 totals, 2 a line a kernel, 3 schedule, 4 source, 5 UOps, 6 disassembly"),
    (
        "FRIT_BEAM",
        "0 to 64",
        "search for the best opts of each kernel, so many states wide; found ones are kept",
    ),
    ("FRIT_BEAM_CHECK", "0 or 1", "1 compares what a search found with the kernel as it came"),
    ("FRIT_SPEC", "0, 1 or 2", "1 checks every graph against its spec, 2 also the text form's round trip"),
];

fn number(name: &str, max: u8, cell: &'static OnceLock<Result<u8, Error>>) -> Result<u8, Error> {
    cell.get_or_init(|| parse(name, std::env::var(name).ok().as_deref(), max)).clone()
}

fn parse(name: &str, value: Option<&str>, max: u8) -> Result<u8, Error> {
    let Some(v) = value.filter(|v| !v.is_empty()) else { return Ok(0) };
    v.parse()
        .ok()
        .filter(|n| *n <= max)
        .ok_or_else(|| Error::Env(format!("{name}={v}: expected a number from 0 to {max}")))
}

/// How much to print.
pub fn debug() -> Result<u8, Error> {
    static CELL: OnceLock<Result<u8, Error>> = OnceLock::new();
    number("FRIT_DEBUG", 6, &CELL)
}

/// How wide to search; 0 not at all.
pub fn beam() -> Result<u8, Error> {
    static CELL: OnceLock<Result<u8, Error>> = OnceLock::new();
    number("FRIT_BEAM", 64, &CELL)
}

/// Whether what a search finds is compared with the kernel as it came.
pub fn beam_check() -> Result<bool, Error> {
    static CELL: OnceLock<Result<u8, Error>> = OnceLock::new();
    Ok(number("FRIT_BEAM_CHECK", 1, &CELL)? == 1)
}

/// How much to check; always at least 1 in debug builds.
pub fn spec() -> Result<u8, Error> {
    static CELL: OnceLock<Result<u8, Error>> = OnceLock::new();
    Ok(number("FRIT_SPEC", 2, &CELL)?.max(cfg!(debug_assertions) as u8))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_that_means_nothing_is_an_error() {
        assert_eq!(parse("FRIT_DEBUG", Some("3"), 6).ok(), Some(3));
        assert_eq!(parse("FRIT_DEBUG", None, 6).ok(), Some(0));
        let e = parse("FRIT_DEBUG", Some("lots"), 6).unwrap_err();
        assert_eq!(e.to_string(), "FRIT_DEBUG=lots: expected a number from 0 to 6");
        assert!(parse("FRIT_DEBUG", Some("7"), 6).is_err());
    }
}
