//! Many threads building and realising at once.

use crate::support::on;
use frit::Tensor;
use frit::nn::{Linear, Optimizer, Sgd};

const THREADS: usize = 8;

fn together(f: impl Fn(usize) + Sync) {
    let f = &f;
    std::thread::scope(|s| {
        let all: Vec<_> = (0..THREADS).map(|t| s.spawn(move || f(t))).collect();
        for t in all {
            t.join().unwrap_or_else(|p| std::panic::resume_unwind(p));
        }
    });
}

fn ramp(n: usize, by: f32) -> Vec<f32> {
    (0..n).map(|i| i as f32 * by).collect()
}

#[test]
fn the_same_graph_from_many_threads() {
    for device in ["INTERP", "INTERP:GPU", "CPU"] {
        together(|t| {
            on(device, || {
                for round in 0..10 {
                    let by = (t * 10 + round) as f32;
                    let x = Tensor::from_vec(ramp(24, by), [4, 6]);
                    let got = (&x * 2.0 + 1.0).sum(1).to_vec::<f32>().unwrap();
                    let want: Vec<f32> =
                        (0..4).map(|r| (0..6).map(|c| (r * 6 + c) as f32 * by * 2.0 + 1.0).sum()).collect();
                    assert_eq!(got, want, "{device} thread {t} round {round}");
                }
            });
        });
    }
}

#[test]
fn different_graphs_from_many_threads() {
    for device in ["INTERP", "INTERP:GPU"] {
        together(|t| {
            on(device, || {
                for round in 1..12 {
                    let n = t * 12 + round;
                    let x = Tensor::from_vec(ramp(n, 1.0), [n]);
                    let total = x.flip(0).cumsum(0).max(..).item::<f32>().unwrap();
                    assert_eq!(total, (n * (n - 1) / 2) as f32, "{device} thread {t} round {round}");
                }
            });
        });
    }
}

#[test]
fn one_lazy_tensor_read_by_many_threads() {
    for device in ["INTERP", "CPU"] {
        for _ in 0..10 {
            let x = on(device, || Tensor::from_vec(ramp(64, 0.5), [8, 8]));
            let y = x.matmul(&x.t());
            let first = (0..8).map(|k| (k as f32 * 0.5).powi(2)).sum::<f32>();
            together(|t| {
                on(device, || {
                    if t % 2 == 0 {
                        y.realize().unwrap();
                    }
                    let mine = &y + t as i64;
                    assert_eq!(mine.to_vec::<f32>().unwrap()[0], first + t as f32, "{device} thread {t}");
                });
            });
        }
    }
}

#[test]
fn each_thread_assigns_to_its_own() {
    for device in ["INTERP", "CPU"] {
        let shared = on(device, || Tensor::from_vec(vec![1i32, 2, 3, 4], [4]));
        together(|t| {
            on(device, || {
                let mine = Tensor::from_vec(vec![0i32; 4], [4]);
                for round in 0..20 {
                    let old = &mine + 0;
                    mine.assign(&mine + &shared);
                    mine.at(1..3).assign(mine.at(1..3) * 1);
                    if round % 3 == 0 {
                        mine.realize().unwrap();
                    }
                    assert_eq!(old.at(3).item::<i32>().unwrap(), 4 * round, "{device} thread {t}");
                }
                assert_eq!(mine.to_vec::<i32>().unwrap(), [20, 40, 60, 80], "{device} thread {t}");
            });
        });
    }
}

#[test]
fn each_thread_trains_its_own() {
    together(|t| {
        on("INTERP", || {
            let layer = Linear::new(3, 1);
            let mut opt = Sgd::new(&layer, 0.1).unwrap();
            let x = Tensor::new([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]);
            let y = Tensor::new([[1.0], [2.0], [3.0]]);
            let mut last = f32::MAX;
            for _ in 0..60 {
                let loss = (layer.forward(&x) - &y).square().sum(..);
                loss.backward().unwrap();
                opt.step_with(&[&loss]).unwrap();
                last = loss.item::<f32>().unwrap();
            }
            assert!(last < 0.05, "thread {t}: {last}");
        });
    });
}

#[test]
fn an_error_in_one_thread_is_only_its_own() {
    together(|t| {
        on("INTERP", || {
            let x = Tensor::new([1.0, 2.0, 3.0]);
            for _ in 0..20 {
                let at = Tensor::from_vec(vec![if t % 2 == 0 { 7i32 } else { 2 }], [1]);
                let got = x.at(at).to_vec::<f32>();
                match t % 2 {
                    0 => assert!(got.is_err(), "thread {t}"),
                    _ => assert_eq!(got.unwrap(), [3.0], "thread {t}"),
                }
            }
        });
    });
}
