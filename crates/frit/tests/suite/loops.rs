//! Loops over a function body: values, gradients, caches, memory, errors.

use crate::support::{DEVICES, child, evaluate, is_child, on};
use frit::{DType, Device, Jit, Result, Tensor, Variable, engine};

fn vector(values: &[f64]) -> Tensor {
    let values: Vec<f32> = values.iter().map(|&v| v as f32).collect();
    Tensor::new(&values[..])
}
fn close(a: &[f32], b: &[f32]) {
    let near = |(x, y): (&f32, &f32)| (x - y).abs() <= 1e-5 * y.abs().max(1.0);
    assert!(a.len() == b.len() && a.iter().zip(b).all(near), "{a:?} is not {b:?}");
}
/// On every device, and by the evaluator.
fn everywhere(build: impl Fn() -> Vec<Tensor>, want: &[&[f32]]) {
    for device in DEVICES {
        on(device, || {
            for (t, w) in build().iter().zip(want) {
                close(&t.to_vec::<f32>().unwrap(), w);
            }
        });
    }
    on("INTERP", || {
        let nodes: Vec<_> = build().iter().map(|t| t.uop().unwrap()).collect();
        for (v, w) in evaluate(&nodes).unwrap().iter().zip(want) {
            close(&v.values.iter().map(|v| v.as_f64() as f32).collect::<Vec<_>>(), w);
        }
    });
}

#[test]
fn a_scan_carries_and_stacks() {
    everywhere(
        || {
            let x = vector(&[1.0, 2.0, 3.0, 4.0]).reshape([2, 2]);
            let (last, ys) = Tensor::scan(2, &[&vector(&[0.0, 1.0]), &Tensor::new(1.0)], |i, c| {
                let next = &c[0] + x.at(i) * &c[1];
                (vec![next.clone(), &c[1] + i], vec![next.sum(..), &c[0] * 10.0])
            });
            [last, ys].concat()
        },
        &[&[4.0, 7.0], &[2.0], &[4.0, 11.0], &[0.0, 10.0, 10.0, 30.0]],
    );
}

#[test]
fn no_steps_give_the_first_carries_and_nothing_stacked() {
    everywhere(
        || {
            let (last, ys) = Tensor::scan(0, &[&(vector(&[1.0, 2.0]) * 2.0)], |_, c| {
                (vec![&c[0] + 1.0], vec![c[0].clone()])
            });
            assert_eq!(ys[0].shape(), [0, 2]);
            vec![&last[0] + 1.0, ys[0].sum(0)]
        },
        &[&[3.0, 5.0], &[0.0, 0.0]],
    );
}

#[test]
fn loops_nest_and_use_the_outer_step() {
    // sum over i < 3 of sum over j < 2 of (i + j) * x[i], starting from 1
    everywhere(
        || {
            let x = vector(&[1.0, 2.0, 3.0]);
            Tensor::fori(3, &[&Tensor::new(1.0)], |i, outer| {
                Tensor::fori(2, &[&outer[0]], |j, c| vec![&c[0] + x.at(i) * (Tensor::from(i) + j)])
            })
        },
        &[&[1.0 + 1.0 + 2.0 * 3.0 + 3.0 * 5.0]],
    );
    // as many inner steps as the outer step says
    everywhere(
        || Tensor::fori(4, &[&Tensor::new(0.0)], |i, c| Tensor::fori(i, &[&c[0]], |_, c| vec![&c[0] + 1.0])),
        &[&[6.0]],
    );
}

#[test]
fn results_feed_kernels_and_other_loops() {
    everywhere(
        || {
            let x = vector(&[1.0, 2.0]);
            let a = Tensor::fori(3, &[&x], |_, c| vec![&c[0] * 2.0]);
            let b = Tensor::fori(2, &[&(&a[0] + 1.0)], |_, c| vec![&c[0] + &a[0]]);
            vec![&b[0] * &a[0], a[0].sum(..), b[0].clone()]
        },
        &[&[25.0 * 8.0, 49.0 * 16.0], &[24.0], &[25.0, 49.0]],
    );
}

/// c -> sin(c * w + x[i]) with y = c * w: gradients with respect to everything, against finite differences.
fn recurrent(c: &Tensor, w: &Tensor, x: &Tensor) -> Tensor {
    let (last, ys) = Tensor::scan(4, &[c], |i, s| {
        let next = (&s[0] * w + x.at(i)).sin();
        (vec![next.clone()], vec![next * w])
    });
    (&last[0] * 2.0).sum(..) + ys[0].square().sum(..)
}

fn finite(f: impl Fn(&[Tensor]) -> Tensor, at: &[Tensor], eps: f64) -> Vec<Vec<f64>> {
    let value = |ts: &[Tensor]| f(ts).item::<f64>().unwrap();
    let mut all = vec![];
    for (k, t) in at.iter().enumerate() {
        let (n, v) = (t.numel().unwrap(), t.to_vec::<f64>().unwrap());
        let mut grads = vec![];
        for e in 0..n {
            let moved = |by: f64| {
                let mut v = v.clone();
                v[e] += by;
                let mut ts = at.to_vec();
                ts[k] = doubles(&v).reshape(t.shape());
                value(&ts)
            };
            grads.push((moved(eps) - moved(-eps)) / (2.0 * eps));
        }
        all.push(grads);
    }
    all
}

fn doubles(values: &[f64]) -> Tensor {
    Tensor::from_slice(values)
}

#[test]
fn gradients_reach_carries_captures_and_rows() {
    let at = [
        doubles(&[0.3, -0.5]),
        doubles(&[0.7, 1.2]),
        doubles(&[0.1, 0.2, -0.3, 0.4, 0.5, -0.6, 0.7, 0.8]).reshape([4, 2]),
    ];
    let f = |t: &[Tensor]| recurrent(&t[0], &t[1], &t[2]);
    let want = finite(f, &at, 1e-6);
    let all: Vec<&Tensor> = at.iter().collect();
    for (g, w) in f(&at).gradient(&all).unwrap().iter().zip(&want) {
        let g = g.to_vec::<f64>().unwrap();
        assert!(g.iter().zip(w).all(|(a, b)| (a - b).abs() < 1e-8), "{g:?} is not {w:?}");
    }
    // and of the gradients themselves
    let h = |t: &[Tensor]| {
        let all: Vec<&Tensor> = t.iter().collect();
        let g = recurrent(&t[0], &t[1], &t[2]).gradient(&all).unwrap();
        g.iter().fold(Tensor::new(0.0).double(), |s, g| s + g.square().sum(..))
    };
    let want = finite(h, &at, 1e-5);
    for (g, w) in h(&at).gradient(&all).unwrap().iter().zip(&want) {
        let g = g.to_vec::<f64>().unwrap();
        assert!(g.iter().zip(w).all(|(a, b)| (a - b).abs() < 1e-6), "{g:?} is not {w:?}");
    }
}

#[test]
fn gradients_reach_the_parts_of_a_carry_that_a_step_names() {
    // elimination: rows, columns and elements at the step's place
    let f = |t: &[Tensor]| {
        let rows = Tensor::arange(3).unsqueeze(1);
        let (last, pivots) = Tensor::scan(2, &[&t[0]], |i, c| {
            let pivot = c[0].at((i, i));
            let top = c[0].at(i) / &pivot;
            let rest = &c[0] - c[0].at((.., i)).unsqueeze(1) * &top;
            (vec![rows.eq(i).where_(&top, rest)], vec![pivot])
        });
        last[0].sin().sum(..) + pivots[0].square().sum(..)
    };
    let at = [doubles(&[2.0, 0.3, -0.4, 0.5, 3.0, 0.6, -0.7, 0.8, 2.5]).reshape([3, 3])];
    let want = finite(f, &at, 1e-6);
    let g = f(&at).gradient(&[&at[0]]).unwrap()[0].to_vec::<f64>().unwrap();
    assert!(g.iter().zip(&want[0]).all(|(a, b)| (a - b).abs() < 1e-8), "{g:?} is not {:?}", want[0]);
}

#[test]
fn gradients_pass_through_nested_loops() {
    let f = |t: &[Tensor]| {
        let out = Tensor::fori(3, &[&t[0]], |i, c| {
            Tensor::fori(2, &[&c[0]], |j, d| {
                vec![(&d[0] * &t[1]).sin() + t[2].at(i) * (Tensor::from(j).cast(DType::F64) + 1.0)]
            })
        });
        out[0].square().sum(..)
    };
    let at = [doubles(&[0.3, -0.5]), doubles(&[0.7, 1.2]), doubles(&[0.1, -0.2, 0.4])];
    let want = finite(f, &at, 1e-6);
    let all: Vec<&Tensor> = at.iter().collect();
    for (g, w) in f(&at).gradient(&all).unwrap().iter().zip(&want) {
        let g = g.to_vec::<f64>().unwrap();
        assert!(g.iter().zip(w).all(|(a, b)| (a - b).abs() < 1e-7), "{g:?} is not {w:?}");
    }
}

#[test]
fn a_value_and_its_gradient_run_the_steps_once() {
    on("INTERP", || {
        let x = vector(&[0.5, 0.25]);
        let last = &Tensor::fori(10, &[&x], |_, c| vec![c[0].sin()])[0];
        let loss = last.sum(..);
        let g = loss.gradient(&[&x]).unwrap();
        let before = engine::stats::stats();
        Tensor::realize_all(&[&loss, &g[0]]).unwrap();
        let done = engine::stats::stats() - before;
        assert!(done.launches <= 10 * 2 + 10 + 4, "{done:?}");
    });
}

#[test]
fn the_second_call_plans_nothing() {
    on("INTERP", || {
        let run = |v: f64| {
            let x = vector(&[v, 1.0, 2.0]);
            let c = Tensor::fori(5, &[&x], |i, c| vec![&c[0] * 0.5 + x.at(0) * i]);
            let g = c[0].sum(..).gradient(&[&x]).unwrap();
            Tensor::realize_all(&[&c[0], &g[0]]).unwrap();
        };
        run(1.0);
        let before = engine::stats::stats();
        run(2.0);
        let done = engine::stats::stats() - before;
        assert_eq!((done.schedules, done.compiles), (0, 0));
    });
}

#[test]
fn what_the_steps_share_is_computed_once() {
    on("INTERP", || {
        let x = vector(&[1.0; 64]).reshape([8, 8]);
        let run = |n: i64| {
            let product = x.matmul(&x);
            let c = Tensor::fori(n, &[&x], |_, c| vec![&c[0] + &product]);
            let before = engine::stats::stats();
            c[0].realize().unwrap();
            (engine::stats::stats() - before).launches
        };
        assert_eq!(run(7) - run(3), 4);
    });
}

#[test]
fn a_symbolic_count() {
    let count = Variable::new("T", 0, 9).unwrap();
    let run = |n: i64| -> Result<(Vec<f32>, Vec<f32>)> {
        let t = count.bind(n)?;
        let (last, ys) =
            Tensor::scan(&t, &[&vector(&[1.0, 2.0])], |i, c| (vec![&c[0] + i], vec![&c[0] * 2.0]));
        Ok((last[0].to_vec()?, ys[0].sum(0).to_vec()?))
    };
    on("INTERP", || {
        assert_eq!(run(3).unwrap(), (vec![4.0, 5.0], vec![2.0 + 2.0 + 4.0, 4.0 + 4.0 + 6.0]));
        let before = engine::stats::stats();
        assert_eq!(run(4).unwrap().0, [7.0, 8.0]);
        assert_eq!(run(0).unwrap(), (vec![1.0, 2.0], vec![0.0, 0.0]));
        assert_eq!((engine::stats::stats() - before).compiles, 0);
    });
}

#[test]
fn a_loop_runs_where_its_tensors_are() {
    let x = on("INTERP", || vector(&[1.0, 2.0]));
    let c = Tensor::fori(2, &[&Tensor::zeros([2])], |_, c| vec![&c[0] + &x]);
    assert_eq!(&*c[0].device().unwrap(), "INTERP");
    assert_eq!(c[0].to_vec::<f32>().unwrap(), [2.0, 4.0]);
    let there = c[0].to("CPU") * 2.0;
    assert_eq!(there.to_vec::<f32>().unwrap(), [4.0, 8.0]);
    let _ = Device::current();
}

#[test]
fn mistakes_in_a_step_are_errors() {
    let x = vector(&[1.0, 2.0]);
    let message = |t: &[Tensor]| t[0].to_vec::<f32>().unwrap_err().message().to_string();
    assert_eq!(
        message(&Tensor::fori(2, &[&x], |_, c| vec![c[0].sum(..)])),
        "carry 0 is float32 [2] before a step and float32 [] after it"
    );
    assert_eq!(
        message(&Tensor::fori(2, &[&x], |_, c| vec![c[0].cast(DType::F64)])),
        "carry 0 is float32 [2] before a step and float64 [2] after it"
    );
    assert_eq!(message(&Tensor::fori(2, &[&x], |_, _| vec![])), "a step of 1 carries gives 0 back");
    assert!(message(&Tensor::fori(-1, &[&x], |_, c| c.to_vec())).contains("-1 steps"));
    assert!(message(&Tensor::fori(3, &[&x], |i, c| vec![&c[0] + x.at(i)])).contains("out of range"));
    // a step's value does not leave the loop
    let mut out = None;
    let _ = Tensor::fori(2, &[&x], |_, c| {
        out = Some(&c[0] * 2.0);
        c.to_vec()
    });
    assert_eq!(
        out.unwrap().to_vec::<f32>().unwrap_err().message(),
        "a value of a loop's step, or of a function's argument, has no numbers outside it"
    );
    assert!(
        message(&Tensor::fori(2, &[&x], |_, c| {
            let y = vector(&[0.0, 0.0]);
            y.assign(&c[0]);
            vec![y]
        }))
        .contains("cannot assign")
    );
}

#[test]
fn a_jit_replays_loops() {
    on("INTERP", || {
        let step = Jit::new(|x: Tensor| {
            let (last, ys) = Tensor::scan(3, &[&x], |i, c| (vec![&c[0] * 2.0 + i], vec![c[0].sum(..)]));
            (&last[0] + ys[0].sum(..)).realize()
        });
        for v in 1..6 {
            let v = v as f32;
            let got = step.call(vector(&[v as f64, 0.0])).unwrap().to_vec::<f32>().unwrap();
            let sums = v + (2.0 * v) + (4.0 * v + 2.0);
            assert_eq!(got, [8.0 * v + 4.0 + sums, 4.0 + sums]);
        }
    });
}

#[test]
fn loops_keep_no_nodes() {
    child("loops::child_many_loops", &[]);
}

#[test]
fn child_many_loops() {
    if !is_child() {
        return;
    }
    let x = vector(&[1.0; 100]);
    let run = || {
        let (last, ys) = Tensor::scan(5, &[&x], |_, c| (vec![c[0].sin()], vec![c[0].clone()]));
        let loss = last[0].sum(..) + ys[0].sum(..);
        loss.gradient(&[&x]).unwrap()[0].to_vec::<f32>().unwrap();
    };
    (0..3).for_each(|_| run());
    let before = frit_uop::node::live_nodes();
    (0..100).for_each(|_| run());
    assert_eq!(frit_uop::node::live_nodes(), before);
}
