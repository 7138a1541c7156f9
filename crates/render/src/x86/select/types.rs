//! What a value is in registers.

use super::Select;
use crate::x86::program::{Reg, Size};
use frit_abi::DType;
use frit_abi::target::Isa;
use smallvec::{SmallVec, smallvec};

/// A value in registers.
#[derive(Clone, Debug)]
pub struct Val {
    /// One register, or several where the value is wider than a vector.
    pub parts: SmallVec<[Reg; 2]>,
    /// What a lane is: the value's type; for truth values a signed integer as wide as what was compared (0 or -1 in
    /// each lane), or `Bool` for a mask register.
    pub elem: DType,
    /// Lanes of all parts together.
    pub lanes: usize,
}

impl Val {
    /// In one register.
    pub fn one(reg: Reg, elem: DType, lanes: usize) -> Val {
        Val { parts: smallvec![reg], elem, lanes }
    }
    /// Lanes of one part.
    pub fn per_part(&self) -> usize {
        self.lanes / self.parts.len()
    }
    /// The register size of one part.
    pub fn size(&self) -> Size {
        Size::of_bytes(self.per_part() * self.elem.size())
    }
}

/// Whether scalars of this type live in vector registers.
pub fn is_real(d: DType) -> bool {
    matches!(d, DType::F32 | DType::F64)
}

/// The size of a general register for a type.
pub fn int_size(d: DType) -> Size {
    if d.size() == 8 { Size::Q } else { Size::D }
}

/// The bits of an integer as its register has them: narrow types extended to 32 bits by their sign, zeros above.
pub fn extended(bits: u64, d: DType) -> i64 {
    match d {
        DType::I8 => bits as i8 as i32 as u32 as i64,
        DType::I16 => bits as i16 as i32 as u32 as i64,
        DType::I64 | DType::U64 | DType::Index => bits as i64,
        _ => bits as u32 as i64,
    }
}

impl Select<'_> {
    /// The lanes of a vector of a type as it is kept: truth values are masks, or 32 bits wide.
    pub fn stored_elem(&self, d: DType, lanes: usize) -> DType {
        match d {
            DType::Bool if lanes > 1 && self.isa != Isa::Avx512 => DType::I32,
            d => d,
        }
    }
}
