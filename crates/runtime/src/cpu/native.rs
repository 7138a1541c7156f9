//! Machine code -> executable memory: kernels that are loaded together share pages.
//!
//! The memory is written first, then made executable and read-only, never both at once. It is freed when the last
//! kernel in it is dropped.

use super::image::LoadedImage;
use crate::Error;
use crate::sys::CodePages;
use std::sync::Arc;

/// Kernels start at multiples of this, a line of the cache.
const ALIGN: usize = 64;
const PAGE: usize = super::image::PAGE;

/// Put kernels in executable memory, in order. Their bytes refer to nothing outside themselves.
pub fn load(kernels: &[&[u8]]) -> Result<Vec<LoadedImage>, Error> {
    let mut starts = vec![];
    let mut len = 0usize;
    for k in kernels {
        starts.push(len);
        len = (len + k.len()).next_multiple_of(ALIGN);
    }
    if kernels.is_empty() {
        return Ok(vec![]);
    }
    let fill = |memory: &mut [u8], _: usize| {
        for (k, &at) in kernels.iter().zip(&starts) {
            memory[at..at + k.len()].copy_from_slice(k);
        }
    };
    let len = len.next_multiple_of(PAGE);
    let pages =
        CodePages::build(len, len, fill).map_err(|e| Error::Object(format!("no executable memory: {e}")))?;
    let pages = Arc::new(pages);
    Ok(kernels
        .iter()
        .zip(&starts)
        .map(|(k, &at)| LoadedImage::part(pages.clone(), at, at + k.len()))
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_loaded_together_share_pages_and_keep_their_bytes() {
        let (a, b) = ([0xc3u8; 3], [0x90u8, 0xc3]);
        let loaded = load(&[&a, &b]).unwrap();
        assert_eq!(loaded[1].entry() - loaded[0].entry(), ALIGN);
        assert_eq!((loaded[0].code(), loaded[1].code()), (&a[..], &b[..]));
        assert!(load(&[]).unwrap().is_empty());
    }
}
