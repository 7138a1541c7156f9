//! The idx format of MNIST: bytes of a few dims, usually gzipped.
//!
//! ```text
//! 0 0 8 R         the type (8: unsigned bytes) and the number of dims
//! R * 4 bytes     the dims, big endian
//! the rest        the values
//! ```

use flate2::read::GzDecoder;
use frit_tensor::{Error, Result};
use std::io::{self, Read};
use std::path::Path;

/// The content of an idx file.
#[derive(Clone, Debug, PartialEq)]
pub struct Idx {
    /// The dims, outermost first.
    pub dims: Vec<usize>,
    /// The values, row-major; as many as the dims say.
    pub values: Vec<u8>,
}

/// No data set of bytes is larger; a header that claims more is lying.
const MAX_VALUES: usize = 1 << 32;

/// Reads an idx file, gzipped or not. Errors name the file.
pub fn read(path: &Path) -> Result<Idx> {
    let parsed =
        std::fs::File::open(path).map_err(|e| e.to_string()).and_then(|f| decode(io::BufReader::new(f)));
    parsed.map_err(|e| Error::elsewhere("data", format!("{}: {e}", path.display())))
}

/// Reads idx from a stream, gzipped or not. Memory grows with what is there, not with what the header claims.
pub fn decode(mut stream: impl Read) -> std::result::Result<Idx, String> {
    let mut magic = [0; 2];
    stream.read_exact(&mut magic).map_err(|e| explain("the first bytes", e))?;
    let whole = magic.chain(stream);
    match magic {
        [0x1f, 0x8b] => parse(GzDecoder::new(whole)),
        _ => parse(whole),
    }
}

fn parse(mut stream: impl Read) -> std::result::Result<Idx, String> {
    let mut head = [0; 4];
    stream.read_exact(&mut head).map_err(|e| explain("the header", e))?;
    let rank = match head {
        [0, 0, 8, rank] if (1..=8).contains(&rank) => rank,
        [0, 0, 8, rank] => return Err(format!("{rank} dims, expected 1 to 8")),
        [0, 0, other, _] => {
            return Err(format!("values of idx type {other:#04x}, only 0x08 (bytes) is known"));
        }
        _ => return Err(format!("not an idx file: it starts with {head:02x?}")),
    };
    let mut dims = Vec::new();
    for _ in 0..rank {
        let mut dim = [0; 4];
        stream.read_exact(&mut dim).map_err(|e| explain("the dims", e))?;
        dims.push(u32::from_be_bytes(dim) as usize);
    }
    let count = dims.iter().try_fold(1usize, |n, d| n.checked_mul(*d)).filter(|n| *n <= MAX_VALUES);
    let count = count.ok_or_else(|| format!("dims {dims:?} are too large to be true"))?;
    let mut values = Vec::with_capacity(count.min(1 << 26));
    stream.take(count as u64 + 1).read_to_end(&mut values).map_err(|e| explain("the values", e))?;
    match values.len() {
        n if n < count => Err(format!("truncated: dims {dims:?} need {count} bytes, {n} are there")),
        n if n > count => Err(format!("more values follow than dims {dims:?} say")),
        _ => Ok(Idx { dims, values }),
    }
}

fn explain(where_: &str, e: io::Error) -> String {
    match e.kind() {
        io::ErrorKind::UnexpectedEof => format!("truncated in {where_}"),
        _ => format!("in {where_}: {e}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::{Compression, write::GzEncoder};
    use std::io::Write;

    fn plain(dims: &[u32], values: usize) -> Vec<u8> {
        let mut f = vec![0, 0, 8, dims.len() as u8];
        f.extend(dims.iter().flat_map(|d| d.to_be_bytes()));
        f.extend((0..values).map(|i| i as u8));
        f
    }
    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut e = GzEncoder::new(Vec::new(), Compression::fast());
        e.write_all(bytes).unwrap();
        e.finish().unwrap()
    }

    #[test]
    fn plain_and_gzipped_files_read_the_same() {
        let f = plain(&[2, 3], 6);
        let expected = Idx { dims: vec![2, 3], values: vec![0, 1, 2, 3, 4, 5] };
        assert_eq!(decode(&f[..]), Ok(expected.clone()));
        assert_eq!(decode(&gzip(&f)[..]), Ok(expected));
    }

    #[test]
    fn truncated_and_lying_files_are_errors() {
        let cases = [
            (vec![], "truncated in the first bytes"),
            (vec![0, 0, 8], "truncated in the header"),
            (vec![0, 0, 8, 2, 0, 0], "truncated in the dims"),
            (vec![0, 0, 13, 1, 0, 0, 0, 0], "idx type 0x0d"),
            (vec![0, 0, 8, 0], "0 dims"),
            (b"PNG image".to_vec(), "not an idx file"),
            (plain(&[2, 3], 5), "need 6 bytes, 5 are there"),
            (plain(&[2, 3], 7), "more values follow"),
            (plain(&[u32::MAX, u32::MAX, u32::MAX], 5), "too large to be true"),
            (plain(&[1 << 16, 1 << 16], 5), "need 4294967296 bytes, 5 are there"),
        ];
        for (f, part) in cases {
            let e = decode(&f[..]).unwrap_err();
            assert!(e.contains(part), "{e}");
            assert!(decode(&gzip(&f)[..]).is_err());
        }
    }

    #[test]
    fn a_broken_gzip_stream_never_panics() {
        let good = gzip(&plain(&[16, 16], 256));
        for n in 0..good.len() {
            assert!(decode(&good[..n]).is_err());
            let mut bad = good.clone();
            bad[n] ^= 0x55;
            let _ = decode(&bad[..]);
        }
    }

    #[test]
    fn a_missing_file_is_named() {
        let e = read(Path::new("/no/such/file.gz")).unwrap_err().to_string();
        assert!(e.contains("/no/such/file.gz"), "{e}");
    }
}
