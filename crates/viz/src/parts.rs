//! Parts of a pack: bytes one after the other, each made smaller by itself.

/// Makes bytes smaller (raw deflate): whoever makes a pack brings it.
pub type Deflate<'a> = &'a dyn Fn(&[u8]) -> Vec<u8>;

/// Where a part is, and how long.
pub type Place = [usize; 2];

/// Where the parts of a pack go.
pub struct Parts<'a> {
    bytes: Vec<u8>,
    deflate: Deflate<'a>,
}

impl<'a> Parts<'a> {
    /// None yet.
    pub fn new(deflate: Deflate<'a>) -> Parts<'a> {
        Parts { bytes: vec![], deflate }
    }
    /// One more.
    pub fn add(&mut self, part: &[u8]) -> Place {
        let small = (self.deflate)(part);
        let place = [self.bytes.len(), small.len()];
        self.bytes.extend(small);
        place
    }
    /// All of them.
    pub fn finish(self) -> Vec<u8> {
        self.bytes
    }
}
