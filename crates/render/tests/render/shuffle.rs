//! Shuffles of two vectors, on every machine against the definition: lane `from[i]` of both side by side.

use crate::build::*;
use frit_abi::DType;
use frit_uop::{Linear, UOp};

/// Orders of lanes of two vectors of `w`: the ones that machines have instructions for, and others.
pub fn tables(w: usize) -> Vec<Vec<u8>> {
    let mut all: Vec<Vec<usize>> = vec![(0..w).collect(), (w..2 * w).collect(), (0..2 * w).collect()];
    all.push((0..w).rev().collect());
    all.push((0..w).map(|i| 2 * i).collect());
    all.push((0..w).map(|i| 2 * i + 1).collect());
    for n in [w / 2, w / 4].into_iter().filter(|n| *n > 1) {
        all.extend((0..w / n).map(|k| (k * n..(k + 1) * n).collect()));
    }
    let mut size = 2;
    while size <= w {
        let mut g = 1;
        while 2 * g <= size {
            // groups of g of the lower and upper halves of blocks, in turn; and with the vectors exchanged
            for upper in [0, 1] {
                let lane = |l: usize| {
                    let k = l % size;
                    l / size * size + upper * size / 2 + k / g / 2 * g + k % g + k / g % 2 * w
                };
                all.push((0..w).map(lane).collect());
                all.push((0..w).map(|l| (lane(l) + w) % (2 * w)).collect());
            }
            g *= 2;
        }
        for odd in [0, 1] {
            let half = (w / size / 2).max(1);
            let of =
                |l: usize| (l % size + (l / size % half * 2 + odd) * size + l / size / half * w) % (2 * w);
            all.push((0..w).map(of).collect());
        }
        size *= 2;
    }
    let mut state = 12345usize;
    for k in 0..6 {
        let mut random = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            state >> 33
        };
        let most = if k < 2 { w } else { 2 * w };
        all.push((0..w).map(|_| random() % most).collect());
    }
    all.retain(|t| t.len() <= 64);
    all.into_iter().map(|t| t.into_iter().map(|l| l as u8).collect()).collect()
}

/// A kernel that shuffles its last two buffers in all these ways.
pub fn kernel(d: DType, w: usize, tables: &[Vec<u8>]) -> Linear {
    let k = tables.len() as u32;
    let source = |slot: u32| UOp::param(slot, w, d).at_lanes(&int(0), w as u32).load();
    let (a, b) = (source(k), source(k + 1));
    let stores: Vec<UOp> = tables
        .iter()
        .enumerate()
        .map(|(i, t)| {
            let n = t.len();
            UOp::param(i as u32, n, d).at_lanes(&int(0), n as u32).store(&a.shuffle(&b, t))
        })
        .collect();
    linear(crate::c::straight(&stores))
}

#[cfg(target_arch = "x86_64")]
#[test]
fn lanes_of_two_vectors_come_in_any_order() {
    use DType::*;
    for target in crate::x86::levels() {
        for d in [U8, BF16, F32, I64, Bool] {
            for w in [2usize, 4, 8, 16, 32] {
                let tables = tables(w);
                let size = d.size();
                let mut bufs: Vec<Vec<u8>> = tables.iter().map(|t| vec![0xaa; t.len() * size]).collect();
                let byte = |i: usize| if d == Bool { (i * 7 % 3 == 1) as u8 } else { i as u8 };
                let source: Vec<u8> = (0..2 * w * size).map(byte).collect();
                bufs.extend(source.chunks(w * size).map(|c| c.to_vec()));
                let got = crate::x86::run_native(&kernel(d, w, &tables), &target, &bufs, &[], 1).unwrap();
                for (t, got) in tables.iter().zip(&got) {
                    let want: Vec<u8> =
                        t.iter().flat_map(|&l| source[l as usize * size..][..size].to_vec()).collect();
                    assert_eq!(*got, want, "{} {d} x{w} {t:?}", target.name);
                }
            }
        }
    }
}

#[test]
fn the_interpreter_shuffles_too() {
    let (w, d) = (4, DType::I32);
    let table = vec![vec![0, 4, 1, 5], vec![7, 6, 5, 4], vec![0, 1, 2, 3, 4, 5, 6, 7]];
    for t in table {
        let n = t.len();
        let source = |slot: u32| UOp::param(slot, w, d).at_lanes(&int(0), w as u32).load();
        let (a, b) = (source(1), source(2));
        let x = a.shuffle(&b, &t);
        let store = UOp::param(0, n, d).at_lanes(&int(0), n as u32).store(&x);
        let bufs = [vec![0i32; n], (0..4).collect(), (4..8).collect()];
        let got = launch(&cpu_kernel(run(&[&a, &b, &x, &store])), &bufs, &[], threads(1)).unwrap();
        assert_eq!(got, t.iter().map(|&l| l as i32).collect::<Vec<_>>());
    }
}
