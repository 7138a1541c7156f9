//! Matrix units, as data: what one operation of theirs multiplies, and where each operand must be.
//!
//! One operation adds the product of A (m x k) and B (k x n) to an accumulator C (m x n). Where the elements are differs
//! from unit to unit, and a [`Home`] says it for each of the three: spread over the registers of a warp's lanes, or in a
//! tile register that is loaded from rows in memory.
//!
//! ```text
//! AMX          A: tile, 16 rows of 32 bf16         B: tile, 16 rows of 16 words, each of two bf16 below one another
//! VNNI         A: tile, one row of 4 bytes         B: tile, one row of 16 words, each of four bytes below one another
//! mma.sync     A: 8 halves in each of 32 lanes     B: 4 halves                   C: 4 floats
//! ```

use crate::DType;
use crate::layout::{Digit, Layout, Unit};

/// One of the three extents of a product.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Dim {
    /// Rows of A and C.
    M,
    /// Columns of B and C.
    N,
    /// What is summed over.
    K,
}

/// Where an operand is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Home {
    /// In the registers of a warp's lanes: a [`Layout`] of these digits, whose coordinates are m, n and k.
    Lanes(&'static [Digit]),
    /// In a tile register, which is loaded from rows in memory with any distance between them.
    Tile(Rows),
    /// In memory of that shape, where the unit itself reads it.
    Memory(Rows),
}

/// Rows of a tile.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Rows {
    /// The coordinate that tells rows apart.
    pub row: Dim,
    /// The coordinate along a row.
    pub column: Dim,
    /// So many elements that follow each other along `row` lie side by side in one column, as one word.
    pub pack: usize,
}

/// Elements of a row of results, or of what is summed over, that lanes keep in registers from one product to the next.
pub const MOST_HELD: usize = 128;

/// Who runs an operation.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Runner {
    /// A core, as one of its instructions.
    Core,
    /// So many lanes together.
    Warp(u32),
}

/// What must have happened before the first operation of a kernel.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Setup {
    /// Nothing.
    None,
    /// Tile registers have been given their shapes; they are handed back at the kernel's end.
    Tiles,
}

/// A matrix unit.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct MatrixUnit {
    /// Its name, by which opts and programs call it.
    pub name: &'static str,
    /// Extents of one operation: m, n, k.
    pub size: [usize; 3],
    /// The types of A and B.
    pub operands: [DType; 2],
    /// The type of C. An integer of the same width without sign is as good: it wraps alike.
    pub accumulator: DType,
    /// Where A, B and C are.
    pub homes: [Home; 3],
    /// Who runs it.
    pub runner: Runner,
    /// What comes before.
    pub setup: Setup,
    /// Tile registers there are, or registers of a lane that accumulators may take.
    pub registers: usize,
    /// Multiply-adds that a core or multiprocessor does in a cycle with it.
    pub rate: usize,
    /// Numbers below the normal range count as they are; else as zero, in operands and in results.
    pub keeps_subnormals: bool,
    /// Operands are rounded to floats of so many bits of fraction first, to nearest and ties away from zero.
    pub fraction: Option<u32>,
}

impl MatrixUnit {
    /// An operand as it counts.
    pub fn rounded(&self, x: f32) -> f32 {
        match self.fraction {
            Some(bits) if x.is_finite() => {
                let dropped = f32::MANTISSA_DIGITS - 1 - bits;
                f32::from_bits((x.to_bits() + (1 << (dropped - 1))) >> dropped << dropped)
            }
            _ => x,
        }
    }
    /// The extent of a coordinate.
    pub const fn extent(&self, d: Dim) -> usize {
        self.size[d as usize]
    }
    /// The coordinates of operand 0, 1 or 2.
    pub const fn coordinates(operand: usize) -> [Dim; 2] {
        [[Dim::M, Dim::K], [Dim::K, Dim::N], [Dim::M, Dim::N]][operand]
    }
    /// The type of an operand's elements.
    pub const fn dtype(&self, operand: usize) -> DType {
        if operand < 2 { self.operands[operand] } else { self.accumulator }
    }
    /// Elements of an operand.
    pub const fn elements(&self, operand: usize) -> usize {
        let [a, b] = MatrixUnit::coordinates(operand);
        self.extent(a) * self.extent(b)
    }
    /// Elements of an operand that one lane holds; all of them where a core holds it.
    pub const fn held(&self, operand: usize) -> usize {
        match self.runner {
            Runner::Warp(lanes) => self.elements(operand) / lanes as usize,
            Runner::Core => self.elements(operand),
        }
    }
    /// Where an operand lies that lanes hold, by m, n and k.
    pub fn layout(&self, operand: usize) -> Option<Layout> {
        match self.homes[operand] {
            Home::Lanes(digits) => Some(Layout::new(digits)),
            _ => None,
        }
    }
    /// Accumulators that there is room for; operands pass through two of the tile registers.
    pub const fn accumulators(&self) -> usize {
        match self.homes[2] {
            Home::Lanes(_) => self.registers / self.held(2),
            _ => self.registers - 2,
        }
    }
    /// Whether results of this type can be summed up in its accumulators.
    pub fn accumulates(&self, d: DType) -> bool {
        let wraps = |d: DType| d.is_int() && d.size() == self.accumulator.size();
        d == self.accumulator || wraps(self.accumulator) && wraps(d)
    }
}

const fn tile(row: Dim, column: Dim, pack: usize) -> Home {
    Home::Tile(Rows { row, column, pack })
}

const fn amx(name: &'static str, operands: [DType; 2], accumulator: DType, pack: usize) -> MatrixUnit {
    MatrixUnit {
        name,
        size: [16, 16, 16 * pack],
        operands,
        accumulator,
        homes: [tile(Dim::M, Dim::K, 1), tile(Dim::K, Dim::N, pack), tile(Dim::M, Dim::N, 1)],
        runner: Runner::Core,
        setup: Setup::Tiles,
        registers: 8,
        rate: 16 * 16 * pack,
        keeps_subnormals: accumulator.is_int(),
        fraction: None,
    }
}

/// Intel's tiles, bfloat16. Two chains of fused multiply-adds, over even and odd k, then their sum is added to C; each
/// step rounds to nearest even, and what is below the normal range counts as zero.
pub const AMX_BF16: MatrixUnit = amx("amx-bf16", [DType::BF16, DType::BF16], DType::F32, 2);
/// Intel's tiles, float16. As bfloat16, but numbers below the normal range of float16 count as they are, and no sum of their
/// products is below that of float32, since all are multiples of 2^-48.
pub const AMX_F16: MatrixUnit =
    MatrixUnit { keeps_subnormals: true, ..amx("amx-f16", [DType::F16, DType::F16], DType::F32, 2) };
/// Intel's tiles, bytes with and without sign.
pub const AMX_INT8: [MatrixUnit; 4] = [
    amx("amx-s8s8", [DType::I8, DType::I8], DType::I32, 4),
    amx("amx-s8u8", [DType::I8, DType::U8], DType::I32, 4),
    amx("amx-u8s8", [DType::U8, DType::I8], DType::I32, 4),
    amx("amx-u8u8", [DType::U8, DType::U8], DType::I32, 4),
];

/// Products of vectors of so many words, of `registers` there are: each word of B is four bytes, whose products with the four
/// bytes of A are added to C's. `operands` that the machine's one instruction takes need nothing else; others are made 16 bits
/// wide, which takes registers too.
const fn dot(name: &'static str, operands: [DType; 2], lanes: usize, registers: usize) -> MatrixUnit {
    MatrixUnit {
        name,
        size: [1, lanes, 4],
        operands,
        accumulator: DType::I32,
        homes: [tile(Dim::M, Dim::K, 1), tile(Dim::K, Dim::N, 4), tile(Dim::M, Dim::N, 1)],
        runner: Runner::Core,
        setup: Setup::None,
        registers,
        rate: lanes * 4,
        keeps_subnormals: true,
        fraction: None,
    }
}

/// The unit of VNNI, by which renderers know that a machine has the instruction.
pub const VNNI: &str = "vnni-u8s8";

/// Products of bytes in vectors of `bytes` bytes on a machine with so many vector registers, summed in int32: exact, also
/// where the machine has no instruction for them. With VNNI, bytes without sign times bytes with sign are one.
pub fn dots(bytes: usize, registers: usize, has_vnni: bool) -> Vec<MatrixUnit> {
    use DType::{I8, U8};
    let lanes = bytes / 4;
    // what operands pass through, besides the two that every unit has
    let (direct, widened) = (registers - 4, if registers > 16 { 20 } else { 10 });
    let of = |name, operands, registers| dot(name, operands, lanes, registers);
    let same = [of("dot-s8s8", [I8, I8], widened), of("dot-u8u8", [U8, U8], widened)];
    let mixed = match has_vnni {
        true => [of("vnni-s8u8", [I8, U8], direct), of(VNNI, [U8, I8], direct)],
        false => [of("dot-s8u8", [I8, U8], widened), of("dot-u8s8", [U8, I8], widened)],
    };
    same.into_iter().chain(mixed).collect()
}

/// Where `mma.sync` has its operands, `W` elements of A and B in each of a lane's registers of 32 bits: along k those of a word,
/// then four lanes, then another word.
struct Words<const W: i64>;

impl<const W: i64> Words<W> {
    const A: Home = Home::Lanes(&[
        Digit::new(Dim::M as usize, 8, Unit::Lane, 4),
        Digit::new(Dim::M as usize, 2, Unit::Register, W),
        Digit::new(Dim::K as usize, W, Unit::Register, 1),
        Digit::new(Dim::K as usize, 4, Unit::Lane, 1),
        Digit::new(Dim::K as usize, 2, Unit::Register, 2 * W),
    ]);
    const B: Home = Home::Lanes(&[
        Digit::new(Dim::K as usize, W, Unit::Register, 1),
        Digit::new(Dim::K as usize, 4, Unit::Lane, 1),
        Digit::new(Dim::K as usize, 2, Unit::Register, W),
        Digit::new(Dim::N as usize, 8, Unit::Lane, 4),
    ]);
    /// The accumulator is the same for all.
    const C: Home = Home::Lanes(&[
        Digit::new(Dim::M as usize, 8, Unit::Lane, 4),
        Digit::new(Dim::M as usize, 2, Unit::Register, 2),
        Digit::new(Dim::N as usize, 2, Unit::Register, 1),
        Digit::new(Dim::N as usize, 4, Unit::Lane, 1),
    ]);
    const ALL: [Home; 3] = [Self::A, Self::B, Self::C];
}

const fn mma_sync(
    name: &'static str,
    size: [usize; 3],
    operands: [DType; 2],
    accumulator: DType,
) -> MatrixUnit {
    let homes = match operands[0].size() {
        4 => Words::<1>::ALL,
        2 => Words::<2>::ALL,
        _ => Words::<4>::ALL,
    };
    MatrixUnit {
        name,
        size,
        operands,
        accumulator,
        homes,
        runner: Runner::Warp(32),
        setup: Setup::None,
        registers: 128,
        rate: 64 * size[2],
        keeps_subnormals: true,
        fraction: if operands[0].size() == 4 { Some(10) } else { None },
    }
}

const fn mma_halves(name: &'static str, d: DType) -> MatrixUnit {
    mma_sync(name, [16, 8, 16], [d, d], DType::F32)
}
const fn mma_bytes(name: &'static str, operands: [DType; 2]) -> MatrixUnit {
    mma_sync(name, [16, 8, 32], operands, DType::I32)
}

/// PTX's `mma.sync.aligned.m16n8k16`, float16 and bfloat16 into float32, and `m16n8k32`, bytes into int32, with the lane
/// layout that PTX documents.
pub const MMA_SYNC: [MatrixUnit; 6] = [
    mma_halves("mma-f16", DType::F16),
    mma_halves("mma-bf16", DType::BF16),
    mma_bytes("mma-s8s8", [DType::I8, DType::I8]),
    mma_bytes("mma-s8u8", [DType::I8, DType::U8]),
    mma_bytes("mma-u8s8", [DType::U8, DType::I8]),
    mma_bytes("mma-u8u8", [DType::U8, DType::U8]),
];
/// `m16n8k8` on float32 of which ten bits of the fraction count: for those who ask for it.
pub const MMA_TF32: MatrixUnit = mma_sync("mma-tf32", [16, 8, 8], [DType::F32, DType::F32], DType::F32);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lanes_hold_every_element_as_ptx_says() {
        for unit in MMA_SYNC.into_iter().chain([MMA_TF32]) {
            // elements of a register, of which a lane's follow each other along k
            let word = 4 / unit.operands[0].size();
            for operand in 0..3 {
                let mut seen = std::collections::HashSet::new();
                let layout = unit.layout(operand).unwrap();
                assert_eq!(layout.size(Unit::Register), unit.held(operand) as i64);
                for lane in 0..32 {
                    for r in 0..unit.held(operand) {
                        let (group, t) = (lane / 4, lane % 4);
                        let at: [i64; 3] = layout.coordinates(r as i64, lane as i64);
                        assert_eq!(layout.place(&at, Unit::Lane), lane as i64);
                        assert_eq!(layout.place(&at, Unit::Register), r as i64);
                        let [m, n, k] = at.map(|x| x as usize);
                        let (part, register) = (r % word, r / word);
                        let expected = match operand {
                            0 => [group + 8 * (register % 2), 0, t * word + part + 4 * word * (register / 2)],
                            1 => [0, group, t * word + part + 4 * word * register],
                            _ => [group + 8 * (r / 2), t * 2 + (r & 1), 0],
                        };
                        assert_eq!([m, n, k], expected);
                        assert!(seen.insert([m, n, k]));
                    }
                }
                assert_eq!(seen.len(), unit.elements(operand), "operand {operand} of {}", unit.name);
            }
        }
    }

    #[test]
    fn results_of_halves_are_operands_as_they_are() {
        let [m, n, k] = [Dim::M, Dim::N, Dim::K].map(|d| d as usize);
        for unit in MMA_SYNC.into_iter().chain([MMA_TF32]) {
            let tiles = unit.size[2] / unit.size[1];
            let results = unit.layout(2).unwrap().repeated(n, tiles as i64).renamed(n, k);
            let found = unit.layout(0).unwrap().registers_in(&results);
            // by enumeration: in every lane the element of A's register is that of the results'
            let holds = |a: i64, c: i64, lane: i64| {
                let [x, y]: [[i64; 3]; 2] =
                    [unit.layout(0).unwrap().coordinates(a, lane), results.coordinates(c, lane)];
                [x[m], x[k]] == [y[m], y[k]]
            };
            let same =
                |a: i64| (0..results.size(Unit::Register)).find(|c| (0..32).all(|lane| holds(a, *c, lane)));
            assert_eq!(found, (0..unit.held(0) as i64).map(same).collect(), "{}", unit.name);
            assert_eq!(found.is_some(), unit.operands[0].size() == 2, "{}", unit.name);
        }
    }

    #[test]
    fn a_row_of_results_lies_in_four_lanes() {
        let results = MMA_TF32.layout(2).unwrap();
        assert_eq!(results.distances(Dim::N as usize), [1, 2]);
        assert_eq!(results.distances(Dim::M as usize), [4, 8, 16]);
        assert_eq!(results.to_string(), "0: 8 lane*4, 2 register*2; 1: 2 register, 4 lane");
    }

    #[test]
    fn operands_are_rounded_to_ten_bits() {
        let one = 1.0f32;
        assert_eq!(MMA_TF32.rounded(one + 2f32.powi(-11)), one + 2f32.powi(-10));
        assert_eq!(MMA_TF32.rounded(-one - 2f32.powi(-11)), -one - 2f32.powi(-10));
        assert_eq!(MMA_TF32.rounded(one + 2f32.powi(-12)), one);
        assert_eq!(MMA_TF32.rounded(f32::MAX), f32::INFINITY);
        assert!(MMA_TF32.rounded(f32::NAN).is_nan());
        assert_eq!(MMA_SYNC[0].rounded(f32::MAX), f32::MAX);
    }

    #[test]
    fn tiles_are_of_the_size_a_register_holds() {
        for unit in AMX_INT8.into_iter().chain([AMX_BF16, AMX_F16]) {
            for operand in 0..3 {
                let Home::Tile(rows) = unit.homes[operand] else { panic!("{}", unit.name) };
                assert_eq!(unit.extent(rows.row) / rows.pack, 16);
                assert_eq!(unit.extent(rows.column) * rows.pack * unit.dtype(operand).size(), 64);
            }
            assert!(unit.accumulates(unit.accumulator) && !unit.accumulates(DType::F64));
        }
        assert!(AMX_INT8[3].accumulates(DType::U32) && !AMX_BF16.accumulates(DType::I32));
    }
}
