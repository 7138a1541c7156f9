//! One step of many sequences as a captured program: token ids, positions, places and tables of blocks are its data.
//!
//! ```text
//! tokens     r r r r | c c c c c c c c        rows: one token each of as many sequences; chunk: tokens of one
//! products   over all of them
//! attention  rows over their own blocks | the chunk over its blocks
//! logits     of each row | of the last token of the chunk, or of all of them
//! ```

use crate::blocks::BLOCK;
use crate::cache::{Cache, CacheType};
use crate::config::Config;
use crate::decoder::{Attend, Decoder};
use crate::layers::{attend, seen};
use frit_tensor::{Error, Jit, Result, Tensor, Variable};
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// The next token of a sequence.
#[derive(Clone, Copy, Debug)]
pub struct Row<'a> {
    /// Its number.
    pub token: u32,
    /// Where it stands.
    pub position: usize,
    /// The blocks of its sequence, up to the one that it goes to.
    pub blocks: &'a [u32],
}

/// Several tokens of a sequence.
#[derive(Clone, Copy, Debug)]
pub struct Chunk<'a> {
    /// Their numbers.
    pub tokens: &'a [u32],
    /// Where the first stands.
    pub begin: usize,
    /// The blocks of the sequence, up to the one that the last goes to.
    pub blocks: &'a [u32],
    /// Whether logits of all are wanted, and not only of the last.
    pub all: bool,
}

/// The sizes of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Shape {
    rows: usize,
    chunk: usize,
    all: bool,
}

/// Sizes of steps that there are programs for.
#[derive(Clone, Debug, PartialEq)]
pub struct Sizes {
    /// Rows of a step without a chunk, ascending; with one there are none or the most.
    pub rows: Vec<usize>,
    /// Tokens of a chunk, ascending.
    pub chunks: Vec<usize>,
}

impl Sizes {
    /// For at most so many sequences and tokens a step.
    pub fn up_to(sequences: usize, tokens: usize) -> Sizes {
        let below = |most: usize, first: usize, by: usize| -> Vec<usize> {
            let mut sizes: Vec<usize> =
                std::iter::successors(Some(first), |n| Some(n * by)).take_while(|n| *n < most).collect();
            sizes.push(most);
            sizes
        };
        Sizes { rows: below(sequences.max(1), 1, 2), chunks: below(tokens.max(1), 16, 4) }
    }
    /// The most tokens of a chunk.
    pub fn longest_chunk(&self) -> usize {
        self.chunks.last().copied().unwrap_or(0)
    }
    /// The most rows.
    pub fn most_rows(&self) -> usize {
        self.rows.last().copied().unwrap_or(0)
    }
    fn of(&self, rows: usize, chunk: usize, all: bool) -> Option<Shape> {
        let fit = |sizes: &[usize], n: usize| {
            if n == 0 { Some(0) } else { sizes.iter().copied().find(|s| *s >= n) }
        };
        let rows = match (rows, chunk) {
            (0, _) => 0,
            (_, 0) => fit(&self.rows, rows)?,
            _ => Some(self.most_rows()).filter(|most| *most >= rows)?,
        };
        Some(Shape { rows, chunk: fit(&self.chunks, chunk)?, all: all && chunk > 0 })
    }
}

/// Logits, and the most likely token of each row.
type Program = Jit<Vec<Tensor>, Vec<Tensor>>;

/// What a step says about the tokens that come next: a row of logits each, which stay on their device until they are asked for.
/// The next step writes over them.
pub struct Logits {
    /// (rows, tokens)
    values: Tensor,
    /// The most likely token of each row, -1 where no logit is a number.
    best: Tensor,
    /// Rows that are not padding.
    wanted: Vec<usize>,
    tokens: usize,
}

impl Logits {
    /// All of them, row after row.
    pub fn to_vec(&self) -> Result<Vec<f32>> {
        let all = self.values.to_vec::<f32>()?;
        let row = |r: &usize| all.get(r * self.tokens..(r + 1) * self.tokens).unwrap_or(&[]);
        match self.wanted.len() * self.tokens == all.len() {
            true => Ok(all),
            false => Ok(self.wanted.iter().flat_map(row).copied().collect()),
        }
    }
    /// The most likely token of each row, the first of several; none where no logit is a number.
    pub fn most_likely(&self) -> Result<Vec<Option<u32>>> {
        let best = self.best.to_vec::<i32>()?;
        Ok(self.wanted.iter().map(|r| best.get(*r).and_then(|t| u32::try_from(*t).ok())).collect())
    }
}

/// Runs steps of a decoder over keys and values in blocks.
pub struct Stepper {
    model: Arc<Decoder>,
    cache: Arc<Cache>,
    sizes: Sizes,
    /// Blocks of the longest sequence.
    longest: usize,
    programs: FxHashMap<Shape, Program>,
}

impl Stepper {
    /// With memory for so many blocks, number 0 being one that no sequence has.
    pub fn new(model: Arc<Decoder>, blocks: usize, kind: CacheType, sizes: Sizes) -> Result<Stepper> {
        let longest = Stepper::longest(model.config(), blocks);
        let cache = Arc::new(Cache::new(model.config(), blocks, kind)?);
        Ok(Stepper { model, cache, sizes, longest, programs: FxHashMap::default() })
    }
    /// Blocks of the longest sequence where there are so many blocks, number 0 among them.
    pub fn longest(config: &Config, blocks: usize) -> usize {
        config.context.div_ceil(BLOCK).min(blocks.saturating_sub(1)).max(1)
    }
    /// What it runs.
    pub fn model(&self) -> &Arc<Decoder> {
        &self.model
    }
    /// The sizes there are programs for.
    pub fn sizes(&self) -> &Sizes {
        &self.sizes
    }
    /// Compiles and records every program that a step may need, so that no later step waits for it.
    pub fn warm_up(&mut self, all_of: &[usize]) -> Result<()> {
        let nothing = Row { token: 0, position: 0, blocks: &[0] };
        let (rows, chunks) = (self.sizes.rows.clone(), self.sizes.chunks.clone());
        let most = vec![nothing; self.sizes.most_rows()];
        let mut steps: Vec<(usize, usize, bool)> = rows.iter().map(|n| (*n, 0, false)).collect();
        steps.extend(chunks.iter().flat_map(|c| [(0, *c, false), (most.len(), *c, false)]));
        steps.extend(chunks.iter().filter(|c| all_of.contains(c)).map(|c| (0, *c, true)));
        for (rows, chunk, all) in steps {
            let tokens = vec![0; chunk];
            let blocks = vec![0; chunk.div_ceil(BLOCK)];
            let chunk = (chunk > 0).then_some(Chunk { tokens: &tokens, begin: 0, blocks: &blocks, all });
            // called, recorded, replayed
            for _ in 0..3 {
                self.run(&most[..rows], chunk)?;
            }
        }
        Ok(())
    }
    /// The logits of each row, then those of the chunk, one after the other.
    pub fn run(&mut self, rows: &[Row], chunk: Option<Chunk>) -> Result<Vec<f32>> {
        self.step(rows, chunk)?.to_vec()
    }
    /// The same where they were computed.
    pub fn step(&mut self, rows: &[Row], chunk: Option<Chunk>) -> Result<Logits> {
        let all = chunk.is_some_and(|c| c.all);
        let length = chunk.map_or(0, |c| c.tokens.len());
        let Some(shape) = self.sizes.of(rows.len(), length, all) else {
            let message = format!("a step of {} rows and a chunk of {length}", rows.len());
            return Err(Error::new("step", message));
        };
        let inputs = self.inputs(shape, rows, chunk)?;
        if !self.programs.contains_key(&shape) {
            let (model, cache) = (self.model.clone(), self.cache.clone());
            self.programs.insert(shape, Jit::new(move |inputs| step(&model, &cache, shape, inputs)));
        }
        let found = self.programs[&shape].call(inputs)?;
        let [values, best] = <[Tensor; 2]>::try_from(found)
            .map_err(|found| Error::new("step", format!("{} results, not two", found.len())))?;
        // what was padded goes
        let of_chunk = if shape.chunk == 0 {
            0
        } else if all {
            length
        } else {
            1
        };
        let wanted = (0..rows.len()).chain(shape.rows..shape.rows + of_chunk).collect();
        Ok(Logits { values, best, wanted, tokens: self.model.tokens() })
    }
    fn inputs(&self, shape: Shape, rows: &[Row], chunk: Option<Chunk>) -> Result<Vec<Tensor>> {
        let total = shape.rows + shape.chunk;
        let [mut ids, mut positions, mut places] = [vec![0i32; total], vec![0i32; total], vec![0i32; total]];
        let mut put = |at: usize, token: u32, position: usize, blocks: &[u32]| -> Result<()> {
            let Some(block) = blocks.get(position / BLOCK).filter(|_| blocks.len() <= self.longest) else {
                let message = format!("position {position} in {} blocks", blocks.len());
                return Err(Error::new("step", message));
            };
            ids[at] = token as i32;
            positions[at] = position as i32;
            places[at] = (*block as usize * BLOCK + position % BLOCK) as i32;
            Ok(())
        };
        for (i, r) in rows.iter().enumerate() {
            put(i, r.token, r.position, r.blocks)?;
        }
        for (i, token) in chunk.iter().flat_map(|c| c.tokens.iter().enumerate()) {
            let c = chunk.as_ref().map_or((0, &[][..]), |c| (c.begin, c.blocks));
            put(shape.rows + i, *token, c.0 + i, c.1)?;
        }
        let mut inputs = vec![];
        for list in [&ids, &positions, &places] {
            inputs.push(Tensor::from_slice(list).realize()?);
        }
        if shape.rows > 0 {
            let tables: Vec<&[u32]> = rows.iter().map(|r| r.blocks).collect();
            inputs.push(table("row_blocks", &tables, shape.rows, [1, self.longest, 1])?);
        }
        if let Some(c) = chunk {
            let least = shape.chunk.div_ceil(BLOCK);
            inputs.push(table("chunk_blocks", &[c.blocks], 1, [least, self.longest, CHUNK_STEP])?);
            inputs.push(Tensor::from_slice(&[c.tokens.len() as i32 - 1]).realize()?);
        }
        Ok(inputs)
    }
}

/// Blocks by which the table of a chunk grows: their positions are what a block of a GPU's lanes attends to in a round.
const CHUNK_STEP: usize = 2;

/// Tables of blocks, one a line, in memory for `most` blocks each. As many are seen as the longest has, in whole steps and no
/// fewer than `least`, which is a variable; what is beyond a sequence's own is block 0.
fn table(name: &str, lines: &[&[u32]], count: usize, [least, most, step]: [usize; 3]) -> Result<Tensor> {
    let most = most.next_multiple_of(step);
    let least = least.min(most).div_ceil(step).max(1);
    let longest = lines.iter().map(|l| l.len()).max().unwrap_or(1).div_ceil(step).max(least);
    let mut all = vec![0i32; count * most];
    for (line, blocks) in all.chunks_mut(most).zip(lines) {
        line.iter_mut().zip(*blocks).for_each(|(to, block)| *to = *block as i32);
    }
    let flat = Tensor::from_vec(&all, [count, most]).realize()?;
    let steps = Variable::new(name, least as i64, (most / step) as i64)?.bind(longest as i64)?;
    Ok(flat.at((.., ..steps * step as i64)))
}

fn step(model: &Decoder, cache: &Cache, shape: Shape, inputs: Vec<Tensor>) -> Result<Vec<Tensor>> {
    let mut inputs = inputs.into_iter();
    let mut next = || inputs.next().ok_or_else(|| Error::new("step", "fewer inputs than sizes say"));
    let (ids, positions, places) = (next()?, next()?, next()?);
    let row_table = (shape.rows > 0).then(&mut next).transpose()?;
    let chunk_table = (shape.chunk > 0).then(&mut next).transpose()?;
    let last = (shape.chunk > 0).then(&mut next).transpose()?;
    let config = model.config();
    let mut attend =
        Paged { config, cache, shape, positions: &positions, places: &places, row_table, chunk_table };
    let x = model.forward(&ids, &positions, &mut attend)?;
    let wanted = match last {
        Some(last) if !shape.all => {
            let of_chunk = x.narrow(0, shape.rows, shape.chunk).embedding(&last);
            match shape.rows {
                0 => of_chunk,
                n => Tensor::cat(&[x.narrow(0, 0, n), of_chunk], 0),
            }
        }
        _ => x,
    };
    let logits = model.logits(&wanted.contiguous()).contiguous();
    let numbers = logits.eq(&logits);
    let best = numbers.where_(&logits, f64::NEG_INFINITY).argmax(-1).int();
    let best = numbers.any(-1).where_(best, -1);
    Ok(vec![logits, best])
}

/// Attention over blocks.
struct Paged<'a> {
    config: &'a Config,
    cache: &'a Cache,
    shape: Shape,
    positions: &'a Tensor,
    places: &'a Tensor,
    row_table: Option<Tensor>,
    chunk_table: Option<Tensor>,
}

impl Paged<'_> {
    /// Tokens `begin..begin + R * C` of R sequences, over the blocks in a table.
    fn part(&self, layer: usize, q: &Tensor, begin: usize, [r, c]: [usize; 2], table: &Tensor) -> Tensor {
        let [k, v] = self.cache.read(layer, table);
        let of = |t: &Tensor| t.narrow(0, begin, r * c).unflatten(0, [r, c]);
        let keys = Tensor::arange(&k.shape()[1]).int();
        let seen = seen(&of(self.positions), &keys, self.config.windows[layer]);
        attend(self.config, &of(q), &k, &v, &seen).flatten(0, 1)
    }
}

impl Attend for Paged<'_> {
    fn attend(&mut self, layer: usize, q: &Tensor, k: &Tensor, v: &Tensor) -> Result<Tensor> {
        self.cache.write(layer, self.places, k, v);
        let Shape { rows, chunk, .. } = self.shape;
        let of_rows = self.row_table.as_ref().map(|t| self.part(layer, q, 0, [rows, 1], t));
        let of_chunk = self.chunk_table.as_ref().map(|t| self.part(layer, q, rows, [1, chunk], t));
        Ok(match (of_rows, of_chunk) {
            (Some(a), Some(b)) => Tensor::cat(&[a, b], 0),
            (Some(one), None) | (None, Some(one)) => one,
            (None, None) => return Err(Error::new("step", "nothing to attend")),
        })
    }
}
