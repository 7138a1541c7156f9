//! The shared memory of a block, which knows which lane touched what since the last barrier.

/// Bits of a lane's number in its block.
const LANE: u32 = 10;
/// Set where several lanes have read.
const MANY: u32 = 1 << LANE;
/// Barriers that fit beside them.
const MOST: u32 = 1 << 20;

/// A block's shared memory.
pub struct Shared {
    data: Vec<u8>,
    /// Bytes whose users are told apart, as a power of two.
    piece: u32,
    /// The last write of each piece: barriers before it, and its lane.
    writes: Vec<u32>,
    /// The last reads.
    reads: Vec<u32>,
    /// The epoch in which the block began that has a copy to each piece under way.
    claims: Vec<u32>,
    /// Barriers so far, and blocks.
    epoch: u32,
    /// The epoch in which this block began.
    start: u32,
}

/// What is wrong with an access.
pub enum Wrong {
    /// It ends beyond.
    Outside,
    /// A byte was not written.
    Unknown,
    /// A copy to it is under way.
    UnderWay,
    /// Another lane wrote it since the last barrier.
    Written(u32),
    /// Another lane has read it since the last barrier.
    Read(Option<u32>),
}

impl Shared {
    /// So many bytes, of which no access that writes is narrower than a piece.
    pub fn new(bytes: usize, piece: usize) -> Shared {
        let pieces = bytes.div_ceil(piece);
        let piece = piece.trailing_zeros();
        Shared {
            data: vec![0; bytes],
            piece,
            writes: vec![0; pieces],
            reads: vec![0; pieces],
            claims: vec![0; pieces],
            epoch: 1,
            start: 1,
        }
    }
    /// The pieces of a range.
    #[inline]
    fn pieces(&self, at: usize, end: usize) -> std::ops::Range<usize> {
        at >> self.piece..((end - 1) >> self.piece) + 1
    }
    /// How many.
    pub fn len(&self) -> usize {
        self.data.len()
    }
    /// All lanes have met.
    pub fn meet(&mut self) {
        self.epoch += 1;
    }
    /// Another block begins, for which nothing was written.
    pub fn begin(&mut self) {
        if self.epoch >= MOST / 2 {
            self.writes.fill(0);
            self.reads.fill(0);
            self.claims.fill(0);
            self.epoch = 0;
        }
        self.epoch += 1;
        self.start = self.epoch;
    }
    /// Whether the block has had so many barriers that more cannot be told apart.
    pub fn is_full(&self) -> bool {
        self.epoch >= MOST - 1
    }
    /// Aligned bytes that a lane reads.
    #[inline]
    pub fn get(&mut self, lane: u32, at: usize, bytes: usize) -> Result<u64, Wrong> {
        let end = at + bytes;
        if end > self.data.len() {
            return Err(Wrong::Outside);
        }
        let mine = self.epoch << (LANE + 1) | lane;
        let pieces = self.pieces(at, end);
        if self.claims[pieces.clone()].contains(&self.start) {
            return Err(Wrong::UnderWay);
        }
        for (w, r) in self.writes[pieces.clone()].iter().zip(&mut self.reads[pieces]) {
            let epoch = w >> LANE;
            if epoch < self.start {
                return Err(Wrong::Unknown);
            }
            if epoch == self.epoch && w & (MANY - 1) != lane {
                return Err(Wrong::Written(w & (MANY - 1)));
            }
            if *r != mine {
                *r = if *r >> (LANE + 1) == self.epoch { *r | MANY } else { mine };
            }
        }
        let data = &self.data[at..end];
        Ok(match *data {
            [a, b, c, d] => u32::from_le_bytes([a, b, c, d]).into(),
            _ => data.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte)),
        })
    }
    /// A copy to aligned bytes begins: nobody touches them until they arrive.
    pub fn claim(&mut self, lane: u32, at: usize, bytes: usize) -> Result<(), Wrong> {
        let pieces = self.written(lane, at, bytes)?;
        self.claims[pieces].fill(self.start);
        Ok(())
    }
    /// Bytes of a copy are there, for the lane that waited.
    pub fn arrive(&mut self, lane: u32, at: usize, bytes: usize, value: u64) -> Result<(), Wrong> {
        let pieces = self.pieces(at, at + bytes);
        self.claims[pieces.clone()].fill(0);
        self.writes[pieces].fill(self.epoch << LANE | lane);
        self.data[at..at + bytes].copy_from_slice(&value.to_le_bytes()[..bytes]);
        Ok(())
    }
    /// The pieces of aligned bytes, which a lane may write and has written now.
    #[inline]
    fn written(&mut self, lane: u32, at: usize, bytes: usize) -> Result<std::ops::Range<usize>, Wrong> {
        let end = at + bytes;
        if end > self.data.len() {
            return Err(Wrong::Outside);
        }
        let mine = self.epoch << LANE | lane;
        let pieces = self.pieces(at, end);
        if self.claims[pieces.clone()].contains(&self.start) {
            return Err(Wrong::UnderWay);
        }
        for (w, r) in self.writes[pieces.clone()].iter_mut().zip(&self.reads[pieces.clone()]) {
            if *w >> LANE == self.epoch && *w != mine {
                return Err(Wrong::Written(*w & (MANY - 1)));
            }
            if *r >> (LANE + 1) == self.epoch && r & (2 * MANY - 1) != lane {
                return Err(Wrong::Read((r & MANY == 0).then_some(r & (MANY - 1))));
            }
            *w = mine;
        }
        Ok(pieces)
    }
    /// Aligned bytes that a lane writes.
    #[inline]
    pub fn set(&mut self, lane: u32, at: usize, bytes: usize, value: u64) -> Result<(), Wrong> {
        self.written(lane, at, bytes)?;
        let end = at + bytes;
        let value = value.to_le_bytes();
        match &mut self.data[at..end] {
            data if bytes == 4 => data.copy_from_slice(&value[..4]),
            data => data.copy_from_slice(&value[..bytes]),
        }
        Ok(())
    }
}
