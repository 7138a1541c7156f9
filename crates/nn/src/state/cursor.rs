//! Reading bytes in order, never beyond their end: what every binary format here is parsed with.

/// A place in some bytes. Errors say where they are.
#[derive(Clone)]
pub(crate) struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

macro_rules! numbers {
    ($($name:ident $t:ty),*) => {$(
        /// A little-endian number.
        pub fn $name(&mut self) -> Result<$t, String> {
            self.array().map(<$t>::from_le_bytes)
        }
    )*};
}

impl<'a> Cursor<'a> {
    pub fn new(bytes: &'a [u8]) -> Cursor<'a> {
        Cursor { bytes, at: 0 }
    }
    /// One that starts at `at`, which may be anywhere.
    pub fn starting(bytes: &'a [u8], at: usize) -> Cursor<'a> {
        Cursor { bytes, at }
    }
    /// How many bytes were passed.
    pub fn at(&self) -> usize {
        self.at
    }
    /// How many bytes are left.
    pub fn left(&self) -> usize {
        self.bytes.len().saturating_sub(self.at)
    }
    /// The next `n` bytes.
    pub fn take(&mut self, n: usize) -> Result<&'a [u8], String> {
        let end = self.at.checked_add(n);
        let Some(part) = end.and_then(|end| self.bytes.get(self.at..end)) else {
            return Err(format!("{n} bytes at byte {} are beyond the end ({})", self.at, self.bytes.len()));
        };
        self.at += n;
        Ok(part)
    }
    /// As many bytes as a file says, which may be more than there are addresses.
    pub fn take_long(&mut self, n: u64) -> Result<&'a [u8], String> {
        self.take(usize::try_from(n).unwrap_or(usize::MAX))
    }
    /// The next `N` bytes.
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], String> {
        let mut out = [0; N];
        out.copy_from_slice(self.take(N)?);
        Ok(out)
    }
    /// The bytes up to a newline, which is passed too.
    pub fn line(&mut self) -> Result<&'a [u8], String> {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let Some(n) = rest.iter().position(|b| *b == b'\n') else {
            return Err(format!("the line at byte {} has no end", self.at));
        };
        self.at += n + 1;
        Ok(&rest[..n])
    }
    numbers!(u8 u8, u16 u16, u32 u32, u64 u64, i8 i8, i16 i16, i32 i32, i64 i64, f32 f32, f64 f64);
}

/// Bytes as text.
pub(crate) fn text<'a>(bytes: &'a [u8], what: &str) -> Result<&'a str, String> {
    std::str::from_utf8(bytes).map_err(|e| format!("{what} is not UTF-8: {e}"))
}

/// How many bytes elements of a size and shape take; `None` beyond the address space.
pub(crate) fn byte_size(size: usize, shape: &[usize]) -> Option<usize> {
    // zeros apart, so that no product that is too large hides behind one
    let all = shape.iter().try_fold(size, |n, d| n.checked_mul((*d).max(1)))?;
    let is_empty = shape.contains(&0);
    (all <= isize::MAX as usize).then_some(if is_empty { 0 } else { all })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_read_beyond_the_end() {
        let mut c = Cursor::new(&[1, 2, 3, b'\n', 5]);
        assert_eq!(c.u16(), Ok(0x201));
        assert_eq!(c.line(), Ok(&[3][..]));
        assert_eq!(c.clone().u32().unwrap_err(), "4 bytes at byte 4 are beyond the end (5)");
        assert!(c.take_long(u64::MAX).is_err() && c.line().is_err());
        assert_eq!((c.u8(), c.left()), (Ok(5), 0));
        let mut beyond = Cursor::starting(&[1, 2], usize::MAX);
        assert!(beyond.u8().is_err() && beyond.line().is_err() && beyond.left() == 0);
    }

    #[test]
    fn sizes_that_overflow_are_seen_even_beside_a_zero() {
        assert_eq!(byte_size(4, &[2, 3]), Some(24));
        assert_eq!(byte_size(4, &[0, 3]), Some(0));
        assert_eq!(byte_size(4, &[usize::MAX, 0]), None);
        assert_eq!(byte_size(4, &[usize::MAX / 4, 2]), None);
    }
}
