//! Keys and values of every layer, in blocks of positions.

use crate::blocks::BLOCK;
use crate::config::Config;
use frit_tensor::{DType, Result, Tensor, keepdim};

/// How keys and values are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[allow(missing_docs)]
pub enum CacheType {
    F32,
    #[default]
    F16,
    BF16,
    /// Whole numbers of 8 bits, with a scale for each head of a position.
    Int8,
}

/// Vectors of positions: `(positions, kv_heads, head)`.
struct Store {
    values: Tensor,
    scales: Option<Tensor>,
}

impl Store {
    fn new(c: &Config, positions: usize, kind: CacheType) -> Result<Store> {
        let zeros = |last: usize, dtype: DType| {
            Tensor::full_dtype([positions, c.kv_heads, last], 0.0, dtype).contiguous().realize()
        };
        let dtype = match kind {
            CacheType::F32 => DType::F32,
            CacheType::F16 => DType::F16,
            CacheType::BF16 => DType::BF16,
            CacheType::Int8 => DType::I8,
        };
        let scales = (kind == CacheType::Int8).then(|| zeros(1, DType::F32)).transpose()?;
        Ok(Store { values: zeros(c.head, dtype)?, scales })
    }
    /// Writes vectors `(T, kv_heads, head)` to places `(T)`.
    fn write(&self, places: &Tensor, x: &Tensor) {
        match &self.scales {
            None => _ = self.values.set(places, x),
            Some(scales) => {
                let scale = (x.abs().max(keepdim(-1)) / 127.0).maximum(1e-30).contiguous();
                self.values.set(places, (x / &scale).round());
                scales.set(places, scale);
            }
        }
    }
    /// The vectors of blocks `(R, n)`: `(R, n * BLOCK, kv_heads, head)`.
    fn read(&self, table: &Tensor) -> Tensor {
        let rows = |t: &Tensor| {
            t.unflatten(0, [t.shape()[0].get() / BLOCK, BLOCK]).embedding(table).flatten(1, 2).float()
        };
        match &self.scales {
            None => rows(&self.values),
            Some(scales) => rows(&self.values) * rows(scales),
        }
    }
}

/// Keys and values of every layer.
pub struct Cache {
    layers: Vec<[Store; 2]>,
}

impl Cache {
    /// Memory for so many blocks.
    pub fn new(c: &Config, blocks: usize, kind: CacheType) -> Result<Cache> {
        let one = |_| Ok([Store::new(c, blocks * BLOCK, kind)?, Store::new(c, blocks * BLOCK, kind)?]);
        Ok(Cache { layers: (0..c.layers).map(one).collect::<Result<_>>()? })
    }
    /// Writes keys and values `(T, kv_heads, head)` of a layer to places `(T)`.
    pub fn write(&self, layer: usize, places: &Tensor, k: &Tensor, v: &Tensor) {
        let [keys, values] = &self.layers[layer];
        keys.write(places, k);
        values.write(places, v);
    }
    /// Keys and values of a layer in blocks `(R, n)`: `(R, n * BLOCK, kv_heads, head)` each.
    pub fn read(&self, layer: usize, table: &Tensor) -> [Tensor; 2] {
        self.layers[layer].each_ref().map(|s| s.read(table))
    }
    /// Bytes that a block takes in all layers.
    pub fn block_bytes(c: &Config, kind: CacheType) -> usize {
        let element = match kind {
            CacheType::F32 => 4 * c.head,
            CacheType::F16 | CacheType::BF16 => 2 * c.head,
            CacheType::Int8 => c.head + 4,
        };
        2 * c.layers * BLOCK * c.kv_heads * element
    }
}
