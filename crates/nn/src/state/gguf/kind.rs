//! The types of llama.cpp's tensors: how many elements a block has, how many bytes, and how to read it.

use super::{blocks, grids};
use frit_tensor::{DType, Error, Tensor};

/// How the values of a tensor are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, non_camel_case_types)]
pub enum Kind {
    F32,
    F16,
    Q4_0,
    Q4_1,
    Q5_0,
    Q5_1,
    Q8_0,
    Q8_1,
    Q2_K,
    Q3_K,
    Q4_K,
    Q5_K,
    Q6_K,
    Q8_K,
    IQ2_XXS,
    IQ2_XS,
    IQ3_XXS,
    IQ1_S,
    IQ4_NL,
    IQ3_S,
    IQ2_S,
    IQ4_XS,
    I8,
    I16,
    I32,
    I64,
    F64,
    IQ1_M,
    BF16,
    TQ1_0,
    TQ2_0,
    MXFP4,
    NVFP4,
    Q1_0,
}

/// What is in a block.
enum Content {
    /// One element of a type there is.
    Plain(DType),
    /// Quantised elements: from `(n, bytes)` to `(n, elements)`.
    Blocks(fn(&blocks::Blocks) -> Tensor),
}

struct Row {
    kind: Kind,
    number: u32,
    len: usize,
    bytes: usize,
    content: Content,
}

const fn plain(kind: Kind, number: u32, dtype: DType) -> Row {
    Row { kind, number, len: 1, bytes: dtype.size(), content: Content::Plain(dtype) }
}
const fn row(kind: Kind, number: u32, len: usize, bytes: usize, read: fn(&blocks::Blocks) -> Tensor) -> Row {
    Row { kind, number, len, bytes, content: Content::Blocks(read) }
}

#[rustfmt::skip]
const ROWS: [Row; 34] = [
    //   type          number  elements  bytes  how to read them
    plain(Kind::F32,       0,  DType::F32),
    plain(Kind::F16,       1,  DType::F16),
    row(Kind::Q4_0,        2,   32,   18,  blocks::q4_0),
    row(Kind::Q4_1,        3,   32,   20,  blocks::q4_1),
    row(Kind::Q5_0,        6,   32,   22,  blocks::q5_0),
    row(Kind::Q5_1,        7,   32,   24,  blocks::q5_1),
    row(Kind::Q8_0,        8,   32,   34,  blocks::q8_0),
    row(Kind::Q8_1,        9,   32,   36,  blocks::q8_1),
    row(Kind::Q2_K,       10,  256,   84,  blocks::q2_k),
    row(Kind::Q3_K,       11,  256,  110,  blocks::q3_k),
    row(Kind::Q4_K,       12,  256,  144,  blocks::q4_k),
    row(Kind::Q5_K,       13,  256,  176,  blocks::q5_k),
    row(Kind::Q6_K,       14,  256,  210,  blocks::q6_k),
    row(Kind::Q8_K,       15,  256,  292,  blocks::q8_k),
    row(Kind::IQ2_XXS,    16,  256,   66,  grids::iq2_xxs),
    row(Kind::IQ2_XS,     17,  256,   74,  grids::iq2_xs),
    row(Kind::IQ3_XXS,    18,  256,   98,  grids::iq3_xxs),
    row(Kind::IQ1_S,      19,  256,   50,  grids::iq1_s),
    row(Kind::IQ4_NL,     20,   32,   18,  blocks::iq4_nl),
    row(Kind::IQ3_S,      21,  256,  110,  grids::iq3_s),
    row(Kind::IQ2_S,      22,  256,   82,  grids::iq2_s),
    row(Kind::IQ4_XS,     23,  256,  136,  blocks::iq4_xs),
    plain(Kind::I8,       24,  DType::I8),
    plain(Kind::I16,      25,  DType::I16),
    plain(Kind::I32,      26,  DType::I32),
    plain(Kind::I64,      27,  DType::I64),
    plain(Kind::F64,      28,  DType::F64),
    row(Kind::IQ1_M,      29,  256,   56,  grids::iq1_m),
    plain(Kind::BF16,     30,  DType::BF16),
    row(Kind::TQ1_0,      34,  256,   54,  blocks::tq1_0),
    row(Kind::TQ2_0,      35,  256,   66,  blocks::tq2_0),
    row(Kind::MXFP4,      39,   32,   17,  blocks::mxfp4),
    row(Kind::NVFP4,      40,   64,   36,  blocks::nvfp4),
    row(Kind::Q1_0,       41,  128,   18,  blocks::q1_0),
];

/// What to say of a type that is not in the table.
pub(super) fn explain(number: u32) -> String {
    match number {
        4 | 5 | 31..=33 | 36..=38 => format!("type {number} was removed from the format"),
        _ => format!("type {number} is not known"),
    }
}

impl Kind {
    /// Every type.
    pub fn all() -> impl Iterator<Item = Kind> {
        ROWS.iter().map(|r| r.kind)
    }
    /// The type with this number in files.
    pub fn from_number(number: u32) -> Option<Kind> {
        ROWS.iter().find(|r| r.number == number).map(|r| r.kind)
    }
    /// The type with this name.
    pub fn from_name(name: &str) -> Option<Kind> {
        Kind::all().find(|k| k.to_string() == name)
    }
    /// The type in which elements of this type are stored as they are.
    pub fn of(dtype: DType) -> Option<Kind> {
        Kind::all().find(|k| k.dtype() == Some(dtype))
    }
    fn row(self) -> &'static Row {
        // the table has the order of the enum, which a test checks
        &ROWS[self as usize]
    }
    /// Its number in files.
    pub fn number(self) -> u32 {
        self.row().number
    }
    /// Elements in a block.
    pub fn block_len(self) -> usize {
        self.row().len
    }
    /// Bytes of a block.
    pub fn block_bytes(self) -> usize {
        self.row().bytes
    }
    /// The type of the elements, if they are not quantised.
    pub fn dtype(self) -> Option<DType> {
        match self.row().content {
            Content::Plain(dtype) => Some(dtype),
            Content::Blocks(_) => None,
        }
    }
    /// The values of raw bytes whose last dim is made of whole blocks, as float32 where they are quantised.
    ///
    /// ```
    /// # use frit_nn::gguf::Kind;
    /// # use frit_tensor::Tensor;
    /// // 1.0 as float16, then 32 signed bytes
    /// let block: Vec<u8> = [0x00, 0x3c].into_iter().chain(0..32).collect();
    /// let x = Kind::Q8_0.dequantize(&Tensor::from_vec(block, [1, 34]));
    /// assert_eq!(x.at((0, ..3)).to_vec::<f32>()?, [0.0, 1.0, 2.0]);
    /// # Ok::<(), frit_tensor::Error>(())
    /// ```
    #[track_caller]
    pub fn dequantize(self, raw: &Tensor) -> Tensor {
        let _c = frit_tensor::call("dequantize");
        let fail = |message: String| Tensor::failed(Error::new("dequantize", message));
        let dims = match raw.dims() {
            Ok(dims) => dims,
            Err(e) => return Tensor::failed(e),
        };
        let (len, bytes) = (self.block_len(), self.block_bytes());
        let Some((row, lead)) = dims.split_last().filter(|(row, _)| row.is_multiple_of(bytes)) else {
            return fail(format!("shape {} is not made of whole {self} blocks ({bytes} bytes)", raw.shape()));
        };
        if raw.dtype() != DType::U8 {
            return fail(format!("of {} values; the raw bytes are uint8", raw.dtype()));
        }
        let shape: Vec<usize> = lead.iter().copied().chain([row / bytes * len]).collect();
        match self.row().content {
            Content::Plain(dtype) => raw.bitcast(dtype),
            Content::Blocks(read) => {
                let n = lead.iter().product::<usize>() * (row / bytes);
                read(&blocks::Blocks::new(raw.reshape([n, bytes]))).reshape(shape)
            }
        }
    }
}

impl std::fmt::Display for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{self:?}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_has_the_order_of_the_enum() {
        assert!(ROWS.iter().enumerate().all(|(i, r)| r.kind as usize == i));
        assert_eq!(Kind::from_name("IQ2_XXS"), Some(Kind::IQ2_XXS));
        assert_eq!(Kind::from_number(4), None);
    }
}
