//! The registers of a warp: a row of 32 lanes each.

/// Lanes of a warp.
pub const LANES: usize = 32;

/// A kind of register.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Class {
    /// A truth value.
    Pred,
    /// 16 bits.
    Half,
    /// 32 bits.
    Word,
    /// 64 bits.
    Long,
}

/// What an instruction takes a register for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A truth value.
    Pred,
    /// Bits, or halves.
    Bits(u32),
    /// A float32 or float64.
    Float(u32),
}

impl Kind {
    /// Where it is kept.
    pub const fn class(self) -> Class {
        match self {
            Kind::Pred => Class::Pred,
            Kind::Bits(16) => Class::Half,
            Kind::Bits(32) | Kind::Float(32) => Class::Word,
            Kind::Bits(_) | Kind::Float(_) => Class::Long,
        }
    }
}

/// All of them. Constants, parameters and hardware ids are rows too, so that an operand is always one.
#[derive(Clone, Default, Debug)]
pub struct Regs {
    /// Truth values, a bit a lane.
    pub p: Vec<u32>,
    /// 16 bits.
    pub h: Vec<[u16; LANES]>,
    /// 32 bits.
    pub w: Vec<[u32; LANES]>,
    /// 64 bits.
    pub d: Vec<[u64; LANES]>,
}

impl Regs {
    /// So many of each class, holding what no program should depend on.
    pub fn new(counts: [u32; 4]) -> Regs {
        let [p, h, w, d] = counts.map(|n| n as usize);
        Regs {
            p: vec![0x5555_5555; p],
            h: vec![[0xdead; LANES]; h],
            w: vec![[0xdead_beef; LANES]; w],
            d: vec![[0xdead_beef_dead_beef; LANES]; d],
        }
    }
}

/// A type of values in registers.
pub trait Lane: Copy {
    /// What it is.
    const KIND: Kind;
    /// A row.
    fn read(regs: &Regs, at: u32) -> [Self; LANES];
    /// The lanes of a row that a mask names.
    fn write(regs: &mut Regs, at: u32, v: [Self; LANES], mask: u32);
}

/// Lanes of a mask, the lowest first.
pub fn lanes(mut mask: u32) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let lane = mask.trailing_zeros() as usize;
        mask &= mask.wrapping_sub(1);
        (lane < LANES).then_some(lane)
    })
}

#[inline(always)]
fn blend<T: Copy>(row: &mut [T; LANES], v: [T; LANES], mask: u32) {
    if mask == !0 {
        *row = v;
    } else {
        for lane in 0..LANES {
            row[lane] = if mask >> lane & 1 == 1 { v[lane] } else { row[lane] };
        }
    }
}

impl Lane for bool {
    const KIND: Kind = Kind::Pred;
    #[inline(always)]
    fn read(regs: &Regs, at: u32) -> [bool; LANES] {
        let bits = regs.p[at as usize];
        std::array::from_fn(|lane| bits >> lane & 1 == 1)
    }
    #[inline(always)]
    fn write(regs: &mut Regs, at: u32, v: [bool; LANES], mask: u32) {
        let bits = (0..LANES).fold(0, |bits, lane| bits | u32::from(v[lane]) << lane);
        let row = &mut regs.p[at as usize];
        *row = *row & !mask | bits & mask;
    }
}

// The rows of integers and floats differ only in their file and the reading of their bits; a function cannot name a field.
macro_rules! lane {
    ($($type:ty, $kind:expr, $file:ident, $of:expr, $bits:expr;)*) => {
        $(impl Lane for $type {
            const KIND: Kind = $kind;
            #[inline(always)]
            fn read(regs: &Regs, at: u32) -> [$type; LANES] {
                regs.$file[at as usize].map($of)
            }
            #[inline(always)]
            fn write(regs: &mut Regs, at: u32, v: [$type; LANES], mask: u32) {
                blend(&mut regs.$file[at as usize], v.map($bits), mask);
            }
        })*
    };
}

lane! {
    u16, Kind::Bits(16),  h, |x| x,          |x| x;
    u32, Kind::Bits(32),  w, |x| x,          |x| x;
    i32, Kind::Bits(32),  w, |x| x as i32,   |x| x as u32;
    u64, Kind::Bits(64),  d, |x| x,          |x| x;
    i64, Kind::Bits(64),  d, |x| x as i64,   |x| x as u64;
    f32, Kind::Float(32), w, f32::from_bits, f32::to_bits;
    f64, Kind::Float(64), d, f64::from_bits, f64::to_bits;
}
