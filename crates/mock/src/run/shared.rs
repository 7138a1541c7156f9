//! The shared memory of a block, which knows which lane touched each byte since the last barrier.

/// Bits of a lane's number in its block.
const LANE: u32 = 10;
/// Set where several lanes have read.
const MANY: u32 = 1 << LANE;
/// Barriers that fit beside them.
const MOST: u32 = 1 << 20;

/// A block's shared memory.
pub struct Shared {
    data: Vec<u8>,
    /// The last write of each byte: barriers before it, and its lane.
    writes: Vec<u32>,
    /// The last reads.
    reads: Vec<u32>,
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
    /// Another lane wrote it since the last barrier.
    Written(u32),
    /// Another lane has read it since the last barrier.
    Read(Option<u32>),
}

impl Shared {
    /// So many bytes.
    pub fn new(bytes: usize) -> Shared {
        Shared { data: vec![0; bytes], writes: vec![0; bytes], reads: vec![0; bytes], epoch: 1, start: 1 }
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
        for (w, r) in self.writes[at..end].iter().zip(&mut self.reads[at..end]) {
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
        let mut value = [0; 8];
        value[..bytes].copy_from_slice(&self.data[at..end]);
        Ok(u64::from_le_bytes(value))
    }
    /// Aligned bytes that a lane writes.
    #[inline]
    pub fn set(&mut self, lane: u32, at: usize, bytes: usize, value: u64) -> Result<(), Wrong> {
        let end = at + bytes;
        if end > self.data.len() {
            return Err(Wrong::Outside);
        }
        let mine = self.epoch << LANE | lane;
        for (w, r) in self.writes[at..end].iter_mut().zip(&self.reads[at..end]) {
            if *w >> LANE == self.epoch && *w != mine {
                return Err(Wrong::Written(*w & (MANY - 1)));
            }
            if *r >> (LANE + 1) == self.epoch && r & (2 * MANY - 1) != lane {
                return Err(Wrong::Read((r & MANY == 0).then_some(r & (MANY - 1))));
            }
            *w = mine;
        }
        self.data[at..end].copy_from_slice(&value.to_le_bytes()[..bytes]);
        Ok(())
    }
}
