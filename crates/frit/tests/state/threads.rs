//! Item assignments to one tensor from several threads all land.

use crate::generate::Rng;
use frit::{DType, Tensor};

#[test]
fn item_assignments_from_several_threads_all_land() {
    for seed in 0..200 {
        let mut rng = Rng::new(seed);
        let (threads, each) = (2 + rng.below(3), 1 + rng.below(6));
        let n = threads * each;
        let device = if rng.below(2) == 0 { "CPU" } else { "INTERP" };
        let through_views = rng.below(2) == 0;
        let realise = rng.below(3) == 0;
        let run = || -> frit::Result<Vec<i32>> {
            let x = match rng.below(2) {
                0 => Tensor::full_dtype([n], -1, DType::I32),
                _ => Tensor::from_slice(&vec![-1i32; n]),
            };
            std::thread::scope(|s| {
                for t in 0..threads {
                    let x = &x;
                    s.spawn(move || {
                        _ = frit::Device::scope(device, || {
                            for i in 0..each {
                                let at = t * each + i;
                                if through_views {
                                    x.at(at..at + 1).assign(at as i64);
                                } else {
                                    x.set(at, at as i64);
                                }
                                if realise {
                                    _ = x.realize();
                                }
                            }
                        });
                    });
                }
            });
            x.to_vec()
        };
        let found = frit::Device::scope(device, run).and_then(|r| r);
        let expected: Vec<i32> = (0..n as i32).collect();
        match found {
            Ok(v) => assert_eq!(v, expected, "seed {seed}: {threads} threads, {each} items each"),
            Err(e) => panic!("seed {seed}: {threads} threads, {each} items each: {e}"),
        }
    }
}
