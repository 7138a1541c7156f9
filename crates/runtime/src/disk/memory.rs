//! Files as memory. Nothing is mapped: a copy of a part reads that part, and what is read is a snapshot, whatever is
//! written to the file later.

use crate::memory::{Block, Memory};
use crate::{Error, sys};
use std::fs::{File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The first `bytes` bytes of a file, which is made, or made longer by zeros, where it has fewer. A file that cannot be
/// written to is read-only memory.
pub fn open(path: &Path, bytes: usize) -> Result<Memory, Error> {
    let (file, writable) = opened(path, bytes as u64).map_err(|e| failed(path, &e))?;
    Ok(Memory::new(Arc::new(Bytes { file, path: path.into(), len: bytes, writable })))
}

fn opened(path: &Path, bytes: u64) -> io::Result<(File, bool)> {
    let file = match OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path) {
        Ok(file) => file,
        Err(e) => {
            // why it cannot be written to says more than why it cannot be read
            let long_enough = |f: &File| f.metadata().is_ok_and(|m| m.is_file() && m.len() >= bytes);
            return File::open(path).ok().filter(long_enough).map(|f| (f, false)).ok_or(e);
        }
    };
    if file.metadata()?.len() < bytes {
        file.set_len(bytes)?;
    }
    Ok((file, true))
}

fn failed(path: &Path, e: &io::Error) -> Error {
    let path = path.display();
    Error::Device(match e.kind() {
        io::ErrorKind::UnexpectedEof => format!("{path}: the file became shorter while it was in use"),
        _ => format!("{path}: {e}"),
    })
}

/// A file, or its first bytes.
struct Bytes {
    file: File,
    path: PathBuf,
    len: usize,
    writable: bool,
}

// SAFETY: there is no address to follow, and `host_ptr` gives none.
unsafe impl Block for Bytes {
    fn len(&self) -> usize {
        self.len
    }
    fn address(&self) -> u64 {
        0
    }
    fn is_writable(&self) -> bool {
        self.writable
    }
    fn copy_in(&self, offset: usize, data: &[u8]) -> Result<(), Error> {
        sys::write_at(&self.file, offset as u64, data).map_err(|e| failed(&self.path, &e))
    }
    fn copy_out(&self, offset: usize, data: &mut [u8]) -> Result<(), Error> {
        sys::read_at(&self.file, offset as u64, data).map_err(|e| failed(&self.path, &e))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_memory_that_grows_and_is_read_and_written_by_parts() {
        let path = std::env::temp_dir().join(format!("frit-disk-{}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        let four = open(&path, 4).unwrap();
        four.copy_in(1, &[7, 8]).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), [0, 7, 8, 0]);
        let six = open(&path, 6).unwrap();
        let mut seen = [9; 3];
        six.view(2, 4).unwrap().copy_out(0, &mut seen).unwrap();
        assert_eq!(seen, [8, 0, 0]);
        assert!(six.copy_in(5, &[1, 1]).is_err() && six.host_ptr().is_none());
        // what is cut off is an error, never zeros
        File::options().write(true).open(&path).unwrap().set_len(3).unwrap();
        let message = six.copy_out(0, &mut [0; 6]).err().unwrap().to_string();
        assert!(message.contains("became shorter"), "{message}");
        std::fs::remove_file(&path).unwrap();
        assert!(open(&std::env::temp_dir(), 1).is_err() && open(&path.join("below"), 1).is_err());
    }
}
