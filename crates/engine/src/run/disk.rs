//! Files that values are written to.

use super::read::lend;
use super::tape;
use crate::Error;
use crate::devices::only_holds_bytes;
use crate::memory::file::{opened, place, sizes};
use crate::memory::view::element_count;
use frit_uop::UOp;
use std::path::Path;

pub use crate::memory::file::{NAME, bits_as, is_place, open, path_of};

/// Write a value, of the same type and as many elements, to a place in a file. What was to be computed from the bytes that
/// were there is an error from now on.
pub fn store(target: &UOp, value: &UOp) -> Result<(), Error> {
    tape::check_files()?;
    let new = lend(value)?;
    let (buffer, memory) = place(target)?.ok_or_else(only_holds_bytes)?;
    if new.len() != memory.len_bytes() {
        let (has, takes) = (new.len(), memory.len_bytes());
        return Err(Error::Graph(format!("{has} bytes for a place of {takes}")));
    }
    let written = memory.copy_in(0, &new);
    buffer.versions().bump();
    Ok(written?)
}

/// A value as the first bytes of a file. What follows them in one that is there stays.
pub fn save(path: &Path, value: &UOp) -> Result<UOp, Error> {
    tape::check_files()?;
    let new = lend(value)?;
    let file = open(path, value.dtype, element_count(value)?)?;
    opened(&file)?.memory.copy_in(0, &new)?;
    let dims: Vec<UOp> = sizes(value.shape())?.iter().map(|d| UOp::index(*d as i64)).collect();
    Ok(file.reshape(&dims))
}
