//! A function recorded and replayed gives what it gives when it is called.

use frit_tensor::{Device, Jit, Result, Tensor, Variable, manual_seed};
use std::time::Duration;

fn floats(t: &Tensor) -> Vec<f32> {
    t.to_vec().unwrap()
}

/// Call a Jit often enough that the last calls are replays.
fn calls<O>(jit: &Jit<Tensor, O>, n: usize) -> Vec<O>
where
    O: frit_tensor::Bundle,
{
    (0..n).map(|i| jit.call(Tensor::full([3], i as f64)).unwrap()).collect()
}

#[test]
fn replays_compute_with_new_inputs_and_results_stay_valid() {
    for device in ["CPU", "INTERP", "INTERP:GPU"] {
        let got = Device::scope(device, || {
            let jit = Jit::new(|x: Tensor| Ok((&x * 2.0 + 1.0, x.sum(..))));
            let all = calls(&jit, 6);
            assert_eq!(jit.kernels().len(), 1);
            all.iter().map(|(a, b)| (floats(a), b.item::<f32>().unwrap())).collect::<Vec<_>>()
        })
        .unwrap();
        for (i, (a, b)) in got.iter().enumerate() {
            assert_eq!((a, *b), (&vec![i as f32 * 2.0 + 1.0; 3], i as f32 * 3.0), "{device}");
        }
    }
}

#[test]
fn state_is_written_in_place() {
    let total = Tensor::new([0.0f32; 3]).realize().unwrap();
    let held = total.clone();
    let jit = Jit::new(move |x: Tensor| {
        held.assign(&held + &x);
        Ok(&held * 10.0)
    });
    let all = calls(&jit, 6);
    let sums: Vec<f32> = all.iter().map(|t| floats(t)[0]).collect();
    assert_eq!(sums, [0.0, 10.0, 30.0, 60.0, 100.0, 150.0]);
    assert_eq!(floats(&total), [15.0; 3]);
    assert_eq!(jit.kernels().len(), 1);
}

#[test]
fn a_value_held_elsewhere_does_not_change() {
    let w = Tensor::new([1.0f32; 3]).realize().unwrap();
    let held = w.clone();
    let jit = Jit::new(move |x: Tensor| {
        held.assign(&held + &x);
        Ok(held.sum(..))
    });
    calls(&jit, 4);
    let (lazy, now) = (&w * 1.0, floats(&w));
    let after = jit.call(Tensor::full([3], 1.0)).unwrap();
    assert_eq!(floats(&lazy), now);
    assert_eq!(after.item::<f32>().unwrap(), (now[0] + 1.0) * 3.0);
    let (view, copy) = (w.at(0..2), w.at(0..2).contiguous());
    let before = floats(&copy);
    jit.call(Tensor::full([3], 1.0)).unwrap();
    assert_eq!(floats(&copy), before);
    assert_eq!(floats(&view), [before[0] + 1.0; 2]); // a view is a window
}

#[test]
fn an_assignment_made_outside_is_seen() {
    let w = Tensor::new([1.0f32; 3]).realize().unwrap();
    let held = w.clone();
    let jit = Jit::new(move |x: Tensor| Ok(&held * &x));
    calls(&jit, 3);
    w.assign(Tensor::full([3], 5.0));
    assert_eq!(floats(&jit.call(Tensor::full([3], 2.0)).unwrap()), [10.0; 3]);
    w.replace(&Tensor::full([3], 7.0).realize().unwrap());
    assert_eq!(floats(&jit.call(Tensor::full([3], 2.0)).unwrap()), [14.0; 3]);
    assert_eq!(floats(&jit.call(Tensor::full([3], 3.0)).unwrap()), [21.0; 3]);
}

#[test]
fn assigned_inputs_are_written_back() {
    let jit = Jit::new(|(cache, x): (Tensor, Tensor)| {
        cache.set(1, x);
        Ok(cache.sum(..))
    });
    for i in 0..5 {
        let cache = Tensor::zeros([4]).contiguous().realize().unwrap();
        let sum = jit.call((cache.clone(), Tensor::full((), i as f64))).unwrap();
        assert_eq!(floats(&cache), [0.0, i as f32, 0.0, 0.0]);
        assert_eq!(sum.item::<f32>().unwrap(), i as f32);
    }
}

#[test]
fn random_numbers_go_on() {
    let run = |jit: bool| -> Vec<Vec<f32>> {
        manual_seed(3);
        let f = |x: Tensor| Ok(Tensor::rand([3]) + x + Tensor::randn([3]));
        let j = Jit::new(f);
        let step = |x: Tensor| -> Result<Tensor> { if jit { j.call(x) } else { f(x)?.realize() } };
        (0..5).map(|i| floats(&step(Tensor::full([3], i as f64)).unwrap())).collect()
    };
    assert_eq!(run(true), run(false));
}

#[test]
fn variables_take_their_new_values() {
    let data = Tensor::arange(10).float().contiguous().realize().unwrap();
    let n = Variable::new("n", 1, 10).unwrap();
    let jit = Jit::new(|x: Tensor| Ok((x.sum(..), &x * 2.0)));
    for len in [3, 4, 5, 10, 1] {
        let x = data.at(..n.bind(len).unwrap());
        let (sum, double) = jit.call(x).unwrap();
        assert_eq!(sum.item::<f32>().unwrap(), (0..len).sum::<i64>() as f32);
        assert_eq!(floats(&double), (0..len).map(|i| 2.0 * i as f32).collect::<Vec<_>>());
    }
    assert_eq!(jit.kernels().len(), 1);
}

#[test]
fn sizes_beside_the_inputs_take_their_new_values() {
    let data = Tensor::arange(10).float().contiguous().realize().unwrap();
    let n = Variable::new("n", 1, 10).unwrap();
    let now = std::sync::Arc::new(std::sync::Mutex::new(n.bind(1).unwrap()));
    let held = now.clone();
    let jit = Jit::new(move |x: Tensor| Ok(x.at(..held.lock().unwrap().clone()).sum(..)));
    for len in [3, 4, 5, 10, 1] {
        *now.lock().unwrap() = n.bind(len).unwrap();
        let sum = jit.call_with(data.clone(), &[n.bind(len).unwrap()]).unwrap();
        assert_eq!(sum.item::<f32>().unwrap(), (0..len).sum::<i64>() as f32);
    }
    assert_eq!(jit.kernels().len(), 1);
}

#[test]
fn a_variable_that_only_the_function_binds_is_an_error() {
    let data = Tensor::arange(10).float().contiguous().realize().unwrap();
    let n = Variable::new("n", 1, 10).unwrap();
    let jit = Jit::new(move |x: Tensor| Ok(x.sum(..) + data.at(..n.bind(3)?).sum(..)));
    assert!(jit.call(Tensor::ones([2])).is_ok());
    let why = jit.call(Tensor::ones([2])).err().unwrap().to_string();
    assert!(why.contains("variable n would stay 3"), "{why}");
}

#[test]
fn the_number_of_a_size_is_not_frozen() {
    let data = Tensor::arange(10).float().contiguous().realize().unwrap();
    let n = Variable::new("n", 1, 10).unwrap();
    let jit = Jit::new(|x: Tensor| Ok(&x + x.shape()[0].value()?));
    jit.call(data.at(..n.bind(2).unwrap())).unwrap();
    let why = jit.call(data.at(..n.bind(3).unwrap())).err().unwrap().to_string();
    assert!(why.contains("in a Jit the number would be frozen"), "{why}");
    // `get` and comparisons have no error to give: what they decided is looked at in every call
    let jit = Jit::new(|x: Tensor| {
        let n = x.shape()[0].clone();
        let more = if n.is_less(5)? { 100.0 } else { 0.0 };
        Ok(x.sum(..) + more + n.get() as f64)
    });
    for len in [2, 2, 3, 2, 7, 5, 2, 7] {
        let got = jit.call(data.at(..n.bind(len).unwrap())).unwrap().item::<f32>().unwrap();
        let more = if len < 5 { 100 } else { 0 };
        assert_eq!(got, ((0..len).sum::<i64>() + more + len) as f32, "{len}");
    }
}

#[test]
fn sizes_that_agree_only_now_are_checked_in_every_call() {
    let data = Tensor::arange(10).float().contiguous().realize().unwrap();
    let n = Variable::new("n", 1, 10).unwrap();
    let jit = Jit::new(|x: Tensor| Ok((x + Tensor::new([1.0, 2.0, 3.0])).reshape([3, 1])));
    let three = || data.at(..n.bind(3).unwrap());
    for _ in 0..3 {
        assert_eq!(floats(&jit.call(three()).unwrap()), [1.0, 3.0, 5.0]);
    }
    assert!(jit.call(data.at(..n.bind(4).unwrap())).err().unwrap().to_string().contains("do not broadcast"));
    assert_eq!(floats(&jit.call(three()).unwrap()), [1.0, 3.0, 5.0]);
}

#[test]
fn parts_of_one_size_are_inputs_of_one_kind() {
    let data = Tensor::arange(12).float().contiguous().realize().unwrap();
    let jit = Jit::new(|x: Tensor| Ok(x.sum(..)));
    for at in [0, 3, 6, 9, 0, 3] {
        let sum = jit.call(data.at(at..at + 3)).unwrap();
        assert_eq!(sum.item::<f32>().unwrap(), (3 * at + 3) as f32);
    }
    assert_eq!(jit.kernels().len(), 1);
}

#[test]
fn another_signature_is_an_error_or_another_recording() {
    let jit = Jit::new(|x: Tensor| Ok(x + 1.0));
    jit.call(Tensor::zeros([2, 3])).unwrap();
    let e = jit.call(Tensor::zeros([4])).err().unwrap().to_string();
    assert!(e.contains("float32 (2, 3)") && e.contains("float32 (4)") && e.contains("jit.rs"), "{e}");
    let jit = Jit::new(|x: Tensor| Ok(x + 1.0)).recapture();
    for n in [2, 3, 2, 3, 2, 3] {
        assert_eq!(floats(&jit.call(Tensor::zeros([n])).unwrap()), vec![1.0; n]);
    }
    assert_eq!(jit.kernels().len(), 2);
}

#[test]
fn reading_data_while_recording_is_an_error() {
    let jit = Jit::new(|x: Tensor| Ok(&x + x.sum(..).item::<f32>()? as f64));
    jit.call(Tensor::ones([2])).unwrap();
    let e = jit.call(Tensor::ones([2])).err().unwrap().to_string();
    assert!(e.contains("while a Jit records"), "{e}");
}

#[test]
fn keeping_what_was_computed_is_an_error_in_the_end() {
    let kept = std::sync::Arc::new(std::sync::Mutex::new(None));
    let k = kept.clone();
    let jit = Jit::new(move |x: Tensor| {
        *k.lock().unwrap() = Some((&x + 1.0).realize()?);
        Ok(x * 2.0)
    });
    let outcomes: Vec<bool> = (0..6).map(|_| jit.call(Tensor::ones([2])).is_ok()).collect();
    assert_eq!(outcomes, [true, true, true, false, false, false]);
    drop(kept);
}

#[test]
fn errors_in_the_data_come_out_of_a_replay() {
    let table = Tensor::arange(4).float().realize().unwrap();
    let jit = Jit::new(move |i: Tensor| Ok(table.at(i)));
    for i in [0, 1, 2, 3] {
        jit.call(Tensor::new([i])).unwrap();
    }
    assert!(jit.call(Tensor::new([7])).is_err());
    assert_eq!(floats(&jit.call(Tensor::new([3])).unwrap()), [3.0]);
}

#[test]
fn what_depends_on_nothing_is_computed_once() {
    let w = Tensor::rand([64]).realize().unwrap();
    let jit = Jit::new(move |x: Tensor| Ok(&x + w.exp().sum(..).contiguous()));
    calls(&jit, 3);
    assert_eq!(jit.kernels(), [1]);
    // and a result that depends on nothing is fresh each time
    let jit = Jit::new(|_: Tensor| Ok(Tensor::arange(3).float() * 2.0));
    let all = calls(&jit, 4);
    all[2].assign(9.0);
    all[2].realize().unwrap();
    assert_eq!(floats(&jit.call(Tensor::ones([3])).unwrap()), [0.0, 2.0, 4.0]);
}

#[test]
fn the_same_tensor_may_be_given_and_returned_twice() {
    let jit = Jit::new(|(x, y): (Tensor, Tensor)| {
        let z = &x + &y;
        Ok((z.clone(), z, x))
    });
    for i in 0..5 {
        let x = Tensor::full([2], i as f64).realize().unwrap();
        let (a, b, c) = jit.call((x.clone(), x.clone())).unwrap();
        assert_eq!(
            (floats(&a), floats(&b), floats(&c)),
            (vec![2.0 * i as f32; 2], vec![2.0 * i as f32; 2], vec![i as f32; 2])
        );
    }
    // recorded for one tensor given twice: two different ones are another signature
    assert!(jit.call((Tensor::ones([2]), Tensor::zeros([2]))).is_err());
}

#[test]
fn threads_take_turns() {
    let total = Tensor::new([0.0f32]).realize().unwrap();
    let held = total.clone();
    let jit = Jit::new(move |x: Tensor| {
        held.assign(&held + x.sum(..));
        Ok(x * 2.0)
    });
    std::thread::scope(|s| {
        for t in 0..4 {
            let jit = &jit;
            s.spawn(move || {
                for i in 0..50 {
                    let out = jit.call(Tensor::full([2], (t * 50 + i) as f64)).unwrap();
                    assert_eq!(floats(&out), [2.0 * (t * 50 + i) as f32; 2]);
                }
            });
        }
    });
    assert_eq!(total.item::<f32>().unwrap(), (0..200).sum::<i32>() as f32 * 2.0);
}

#[test]
fn a_jit_inside_a_jit_belongs_to_the_outer_recording() {
    let inner = Jit::new(|x: Tensor| Ok(x * 3.0));
    let outer = Jit::new(move |x: Tensor| inner.call(x + 1.0));
    for (i, out) in calls(&outer, 5).iter().enumerate() {
        assert_eq!(floats(out), [(i as f32 + 1.0) * 3.0; 3]);
    }
}

#[test]
fn captures_that_are_dropped_leave_nothing() {
    let live = || frit_uop::node::live_nodes();
    let round = || {
        let jit = Jit::new(|x: Tensor| Ok((&x + 1.0).contiguous() * 2.0));
        calls(&jit, 4);
    };
    round();
    // other tests make nodes in the same process meanwhile: they end, a leak does not
    let grown = || {
        let before = live();
        (0..20).for_each(|_| round());
        live().saturating_sub(before)
    };
    let quiet = (0..50).any(|_| {
        grown() <= 8 || {
            std::thread::sleep(Duration::from_millis(100));
            false
        }
    });
    assert!(quiet, "{} nodes more after each 20 captures", grown());
}

type Step = Jit<(Tensor, Tensor), (Tensor, Vec<Tensor>)>;

fn recorded() -> (Step, Tensor) {
    let total = Tensor::new([0.0f32; 3]).realize().unwrap();
    let (held, w) = (total.clone(), Tensor::arange(3).float().realize().unwrap());
    let jit = Jit::new(move |(x, y): (Tensor, Tensor)| {
        held.assign(&held + &x * &w);
        Ok((&held + &y, vec![x.sum(..), Tensor::rand([2])]))
    });
    for i in 0..3 {
        jit.call((Tensor::full([3], i as f64), Tensor::ones([3]))).unwrap();
    }
    (jit, total)
}

#[test]
fn a_saved_recording_goes_on_where_it_was() {
    let path = std::env::temp_dir().join(format!("frit-jit-{}.jit", std::process::id()));
    let (jit, _) = recorded();
    jit.save(&path).unwrap();
    let loaded = Step::load(&path).unwrap();
    for i in 3..6 {
        let call = |j: &Step| {
            manual_seed(i as u64);
            let (a, b) = j.call((Tensor::full([3], i as f64), Tensor::ones([3]))).unwrap();
            (floats(&a), b.iter().map(floats).collect::<Vec<_>>())
        };
        assert_eq!(call(&jit), call(&loaded));
    }
    assert!(loaded.call((Tensor::ones([4]), Tensor::ones([3]))).is_err());
    // a damaged file is an error, wherever it is damaged
    let good = std::fs::read(&path).unwrap();
    for at in (0..good.len()).step_by(7) {
        let mut bad = good.clone();
        bad[at] ^= 0x41;
        std::fs::write(&path, &bad).unwrap();
        assert!(Step::load(&path).is_err(), "byte {at}");
        std::fs::write(&path, &good[..at]).unwrap();
        assert!(Step::load(&path).is_err(), "cut at {at}");
    }
    std::fs::remove_file(path).unwrap();
}
