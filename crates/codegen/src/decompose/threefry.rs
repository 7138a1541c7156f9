//! `Threefry` in 32-bit adds, rotations and exclusive ors: `abi::scalar::threefry2x32`.

use super::lacks;
use frit_abi::Target;
use frit_uop::{Alu, DType, UOp, rules};

rules! { pub THREEFRY(target: Target);
    Threefry(x, key) as n  if lacks(target, n)  => threefry(x, key);
}

const ROTATIONS: [[i64; 4]; 2] = [[13, 15, 26, 6], [17, 29, 16, 24]];

/// Low and high word.
fn words(x: &UOp) -> [UOp; 2] {
    let high = x.bin(Alu::Shr, &x.const_like(32));
    [x.cast(DType::U32), high.cast(DType::U32)]
}
fn rotate(x: &UOp, by: i64) -> UOp {
    x.bin(Alu::Shl, &x.const_like(by)).or_(&x.bin(Alu::Shr, &x.const_like(32 - by)))
}

fn threefry(counter: &UOp, key: &UOp) -> Option<UOp> {
    if counter.dtype != DType::U64 || key.dtype != DType::U64 {
        return None;
    }
    let [k0, k1] = words(key);
    let [c0, c1] = words(counter);
    let k2 = k0.bin(Alu::Xor, &k1).bin(Alu::Xor, &k0.const_like(0x1BD1_1BDA));
    let keys = [k0, k1, k2];
    let (mut x0, mut x1) = (c0 + &keys[0], c1 + &keys[1]);
    for round in 0..5 {
        for r in ROTATIONS[round % 2] {
            x0 = &x0 + &x1;
            x1 = rotate(&x1, r).bin(Alu::Xor, &x0);
        }
        x0 = x0 + &keys[(round + 1) % 3];
        x1 = x1 + &keys[(round + 2) % 3] + (round as i64 + 1);
    }
    let high = x1.cast(DType::U64);
    Some(high.bin(Alu::Shl, &high.const_like(32)).or_(&x0.cast(DType::U64)))
}
