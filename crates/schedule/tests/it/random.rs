//! Random graphs: chains of movement ops, pads, reduces, scans, shared subgraphs, assigns.

use crate::build::*;
use frit_abi::{Alu, DType, Target};
use frit_uop::UOp;

struct Rng(u64);
impl Rng {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % n.max(1)
    }
    fn pick<'a, T>(&mut self, v: &'a [T]) -> &'a T {
        let i = self.below(v.len());
        &v[i]
    }
}

fn numel(x: &UOp) -> i64 {
    sizes(x).iter().product()
}

/// One random movement op.
fn moved(r: &mut Rng, x: &UOp) -> UOp {
    let s = sizes(x);
    let rank = s.len();
    match r.below(6) {
        0 => {
            let mut order: Vec<usize> = (0..rank).collect();
            for i in (1..rank).rev() {
                order.swap(i, r.below(i + 1));
            }
            x.permute(&order)
        }
        1 if rank > 0 => {
            let a = r.below(rank);
            x.flip(&[a])
        }
        2 if rank > 0 && numel(x) < 300 => {
            let side: Vec<Vec<i64>> = (0..2)
                .map(|_| s.iter().map(|_| r.below(3) as i64 / 2 * r.below(3) as i64).collect())
                .collect();
            x.pad(&dims(&side[0]), &dims(&side[1]))
        }
        3 => {
            let begin: Vec<i64> = s.iter().map(|&d| if d > 2 { r.below(2) as i64 } else { 0 }).collect();
            let size: Vec<i64> = s
                .iter()
                .zip(&begin)
                .map(|(d, b)| if d - b > 2 { d - b - r.below(2) as i64 } else { d - b })
                .collect();
            x.shrink(&dims(&begin), &dims(&size))
        }
        4 => reshaped(r, x),
        _ if rank < 4 && numel(x) < 100 => {
            let mut one = s.clone();
            let at = r.below(rank + 1);
            one.insert(at, 1);
            let mut many = one.clone();
            many[at] = 1 + r.below(3) as i64;
            expand(&reshape(x, &one), &many)
        }
        _ => reshaped(r, x),
    }
}
fn reshaped(r: &mut Rng, x: &UOp) -> UOp {
    let mut n = numel(x);
    let mut out = vec![];
    while n > 1 && out.len() < 3 {
        let divisors: Vec<i64> = (1..=n).filter(|d| n % d == 0).collect();
        let d = *r.pick(&divisors);
        out.push(d);
        n /= d;
    }
    out.push(n);
    reshape(x, &out)
}
/// `x` brought to the shape of `y` by cutting and padding, or repeating.
fn shaped_like(r: &mut Rng, x: &UOp, y: &UOp) -> UOp {
    let (n, m) = (numel(x), numel(y));
    let flat = reshape(x, &[n]);
    let flat = if n >= m {
        let at = r.below((n - m + 1) as usize) as i64;
        flat.shrink(&dims(&[at]), &dims(&[m]))
    } else {
        let before = r.below((m - n + 1) as usize) as i64;
        flat.pad(&dims(&[before]), &dims(&[m - n - before]))
    };
    flat.reshape(y.shape())
}

fn random_graph(seed: u64) -> UOp {
    let r = &mut Rng(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let mut pool: Vec<UOp> = vec![f(0, &[4, 6]), f(1, &[3, 2, 4]), f(2, &[12]), f(3, &[5, 1, 2])];
    let mut bases: Vec<UOp> = vec![f(0, &[4, 6]), f(1, &[3, 2, 4])];
    let mut versions: Vec<UOp> = vec![];
    for _ in 0..4 + r.below(12) {
        let x = r.pick(&pool).clone();
        let rank = sizes(&x).len();
        let new = match r.below(12) {
            0..=3 => moved(r, &x),
            4 | 5 => {
                let y = r.pick(&pool).clone();
                let y = shaped_like(r, &y, &x);
                x.bin(*r.pick(&[Alu::Add, Alu::Mul, Alu::Max, Alu::Sub]), &y)
            }
            6 => (&x * c(0.5)).un(*r.pick(&[Alu::Exp, Alu::Sin, Alu::Neg])).bin(Alu::Min, &c(3.0)),
            7 | 8 if rank > 0 => {
                let mut axes: Vec<usize> = (0..rank).filter(|_| r.below(2) == 0).collect();
                if axes.is_empty() {
                    axes.push(r.below(rank));
                }
                let y = reduce(&x, *r.pick(&[Alu::Add, Alu::Max]), &axes) * c(0.25);
                if r.below(2) == 0 { &x - like(&y, &x) } else { y }
            }
            9 if rank > 0 => {
                let a = r.below(rank);
                x.scan_axis(*r.pick(&[Alu::Add, Alu::Max]), a) * c(0.2)
            }
            10 if rank > 0 => match r.below(3) {
                0 => x.contiguous(),
                1 => {
                    let rows = sizes(&x)[0];
                    let idx = (input(7, &[3], DType::I32)).bin(Alu::Min, &UOp::int(rows - 1, DType::I32));
                    x.gather(&idx, 0)
                }
                _ => {
                    let rows = sizes(&x)[0];
                    let idx = (input(7, &[3], DType::I32)).bin(Alu::Min, &UOp::int(rows - 1, DType::I32));
                    let mut s = sizes(&x);
                    s[0] = 3;
                    let y = r.pick(&pool).clone();
                    let val = shaped_like(r, &y, &c(0.0).reshape(&dims(&vec![1; s.len()])).expand(&dims(&s)));
                    x.scatter(&idx, &val, frit_uop::ScatterMode::Combine(Alu::Add), 0)
                }
            },
            _ => {
                // assign to a view of a base
                let b = r.below(bases.len());
                let base = bases[b].clone();
                let s = sizes(&base);
                let mut view = base.clone();
                for _ in 0..r.below(3) {
                    view = match r.below(3) {
                        0 => {
                            let begin: Vec<i64> =
                                sizes(&view).iter().map(|&d| (d > 2 && r.below(2) == 0) as i64).collect();
                            let size: Vec<i64> =
                                sizes(&view).iter().zip(&begin).map(|(d, b)| d - b).collect();
                            view.shrink(&dims(&begin), &dims(&size))
                        }
                        1 => {
                            let a = r.below(s.len());
                            view.flip(&[a])
                        }
                        _ => {
                            let order: Vec<usize> = (0..s.len()).rev().collect();
                            view.permute(&order)
                        }
                    };
                }
                let v = shaped_like(r, &x, &view);
                let new = base.after([view.store(&v)]);
                bases[b] = new.clone();
                versions.push(new.clone());
                new
            }
        };
        if numel(&new) > 0 && numel(&new) <= 400 {
            pool.push(new);
        }
    }
    let n = 1 + r.below(3);
    let mut outs: Vec<UOp> = (0..n).map(|_| r.pick(&pool).clone()).collect();
    outs.push(pool[pool.len() - 1].clone());
    let out = outputs(&outs);
    let last: Vec<UOp> = bases.iter().filter(|b| versions.contains(b)).cloned().collect();
    UOp::sink(last.into_iter().chain(out.src.iter().cloned()))
}

#[test]
fn random_graphs_give_the_same_values() {
    let count: u64 = std::env::var("FRIT_FUZZ").ok().and_then(|v| v.parse().ok()).unwrap_or(400);
    let from: u64 = std::env::var("FRIT_FUZZ_FROM").ok().and_then(|v| v.parse().ok()).unwrap_or(0);
    for seed in from..from + count {
        let sink = random_graph(seed);
        let run = || {
            check_on(&sink, &cpu());
            check_on(&sink, &Target::interp_gpu());
        };
        if let Err(e) = std::panic::catch_unwind(std::panic::AssertUnwindSafe(run)) {
            eprintln!("seed {seed}");
            std::panic::resume_unwind(e);
        }
    }
}
