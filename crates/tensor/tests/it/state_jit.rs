//! The model of state where a Jit reads or writes it, statement by statement (decisions 004 and 008).

use frit_tensor::*;

fn floats(t: &Tensor) -> Vec<f32> {
    t.to_vec().unwrap()
}
fn memory(v: impl Nested) -> Tensor {
    Tensor::new(v).realize().unwrap()
}

#[test]
fn foreign_memory_is_volatile() {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU8, Ordering};
    struct Shared(Arc<[AtomicU8; 4]>);
    impl AsRef<[u8]> for Shared {
        fn as_ref(&self) -> &[u8] {
            // SAFETY: for this test only: nothing writes to the bytes while a kernel reads them
            unsafe { std::slice::from_raw_parts(self.0.as_ptr().cast(), 4) }
        }
    }
    let bytes = Arc::new([1, 2, 3, 4].map(AtomicU8::new));
    let x = Tensor::from_blob(DType::U8, &Blob::volatile(Shared(bytes.clone())), [4]);
    let sum = |x: &Tensor| (x.int() * 2).to_vec::<i32>().unwrap();
    let held = x.int() * 2;
    assert_eq!(held.to_vec::<i32>().unwrap(), [2, 4, 6, 8]);
    let jit = Jit::new({
        let x = x.clone();
        move |y: Tensor| Ok((x.int() + 1).contiguous() + y)
    });
    for i in 0..5u8 {
        bytes[0].store(i, Ordering::Relaxed);
        assert_eq!(sum(&x), [2 * i32::from(i), 4, 6, 8]);
        let y = jit.call(Tensor::zeros([4]).int().contiguous()).unwrap();
        assert_eq!(y.to_vec::<i32>().unwrap(), [i32::from(i) + 1, 3, 4, 5]);
    }
}

#[test]
fn a_closure_is_never_frozen() {
    let (w, x) = (memory([1.0, 2.0]), memory([1.0, 1.0]));
    let (held, input) = (w.clone(), x.clone());
    let eval = Jit::new(move |_: ()| Ok((&held * &input).sum(..)));
    let weight_only = Jit::new({
        let w = w.clone();
        move |x: Tensor| Ok(w.sum(..).contiguous() + x)
    });
    for _ in 0..5 {
        let want = floats(&w).iter().sum::<f32>();
        assert_eq!(eval.call(()).unwrap().item::<f32>().unwrap(), want);
        assert_eq!(weight_only.call(memory([1.0])).unwrap().to_vec::<f32>().unwrap(), [want + 1.0]);
        w.update(|w| w + 1.0);
    }
    assert_eq!(weight_only.kernels(), [1], "what depends on w alone is not part of a replay");
    w.replace(&memory([100.0, 1.0])); // other memory
    assert_eq!(weight_only.call(memory([1.0])).unwrap().to_vec::<f32>().unwrap(), [102.0]);
}

#[test]
fn results_are_what_they_were_in_the_function() {
    let state = memory([[0.0f32, 0.0], [0.0, 0.0]]);
    let held = state.clone();
    let jit = Jit::new(move |a: Tensor| {
        held.assign(&held + &a);
        Ok((held.reshape([4]), held.at(1), a.at(0), &a + 1.0))
    });
    for i in 1..6 {
        let a = memory([[1.0f32, 1.0], [1.0, 1.0]]);
        let (all, row, given, fresh) = jit.call(a.clone()).unwrap();
        assert_eq!(floats(&all), [i as f32; 4]);
        assert_eq!(floats(&fresh), [2.0; 4]);
        row.assign(&row + 0.0);
        a.set((0, 0), 7.0);
        assert_eq!((floats(&given), floats(&row)), (vec![7.0, 1.0], vec![i as f32; 2]));
    }
}

#[test]
fn state_that_someone_holds_moves_away() {
    let s = memory([0.0f32]);
    let held = s.clone();
    let jit = Jit::new(move |x: Tensor| {
        held.assign(&held + &x);
        Ok(())
    });
    let mut kept = vec![];
    for _ in 0..6 {
        jit.call(memory([1.0f32])).unwrap();
        kept.push(s.lend().unwrap());
    }
    let seen: Vec<u8> = kept.iter().map(|k| f32::from_le_bytes(k[..4].try_into().unwrap()) as u8).collect();
    assert_eq!(seen, [1, 2, 3, 4, 5, 6]);
    // a live local holds the old value in the function itself
    let (w, g) = (memory([10.0f32]), memory([1.0f32]));
    let (ws, gs) = (w.clone(), g.clone());
    let step = Jit::new(move |x: Tensor| {
        gs.assign(&gs + x);
        let d = &gs * 2.0;
        ws.assign(&ws - &d);
        gs.assign(gs.zeros_like());
        Tensor::realize_all(&[&ws, &gs])?;
        drop(d);
        Ok(())
    });
    for want in [6.0, 4.0, 2.0, 0.0, -2.0] {
        step.call(memory([1.0f32])).unwrap();
        assert_eq!((floats(&w), floats(&g)), (vec![want], vec![0.0]));
    }
}

#[test]
fn what_is_around_a_jit_is_part_of_its_signature() {
    let jit = Jit::new(|x: Tensor| Ok(if is_training() { x * 2.0 } else { x }));
    for _ in 0..4 {
        assert_eq!(floats(&training(true, || jit.call(memory([3.0]))).unwrap()), [6.0]);
        assert_eq!(floats(&jit.call(memory([3.0])).unwrap()), [3.0]);
    }
}

#[test]
fn parts_as_inputs_are_written_back() {
    let x = memory([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]);
    let jit = Jit::new(|v: Tensor| {
        v.assign(&v * 10.0);
        Ok(&v + 1.0)
    });
    for (i, want) in [(0, [11.0, 21.0]), (1, [31.0, 41.0]), (2, [51.0, 61.0]), (0, [101.0, 201.0])] {
        assert_eq!(floats(&jit.call(x.at(i)).unwrap()), want);
    }
    assert_eq!(floats(&x), [100.0, 200.0, 30.0, 40.0, 50.0, 60.0]);
}

#[test]
fn an_input_that_is_looked_at_from_outside_stays_apart() {
    let t = memory([3.0f32]);
    let held = t.clone();
    let jit = Jit::new(move |x: Tensor| Ok(&held * 10.0 + x));
    for _ in 0..3 {
        assert_eq!(floats(&jit.call(t.clone()).unwrap()), [33.0]);
    }
    for v in [1.0f32, 2.0] {
        assert_eq!(floats(&jit.call(memory([v])).unwrap()), [30.0 + v]);
    }
}

#[test]
fn an_input_is_the_tensor_outside_or_only_its_memory() {
    // recorded with the tensor outside itself, then called with a value that is its memory
    let state = memory([1.0]);
    let held = state.clone();
    let jit = Jit::new(move |x: Tensor| {
        x.update(|x| x + 2.0);
        Ok(held.cast(DType::F32))
    });
    let first = jit.call(memory([5.0])).unwrap();
    let value = jit.call(state.clone()).unwrap();
    assert_eq!((floats(&first), floats(&value)), (vec![1.0], vec![3.0]));
    let last = jit.call(value.clone()).unwrap();
    assert_eq!((floats(&value), floats(&state), floats(&last)), (vec![5.0], vec![3.0], vec![3.0]));
    // the same where only the one outside is assigned to
    let state = memory(1.0);
    let held = state.clone();
    let count = Jit::new(move |_: Tensor| {
        held.update(|x| x + 1.0);
        Ok(held.reshape(()))
    });
    let view = count.call(memory(0.0)).unwrap();
    count.call(view.clone()).unwrap();
    let value = view.sum(..);
    count.call(value.clone()).unwrap();
    assert_eq!((floats(&value), floats(&state)), (vec![3.0], vec![4.0]));
}

#[test]
fn two_inputs_are_one_tensor_or_only_one_memory() {
    let jit = Jit::new(|(x, y): (Tensor, Tensor)| {
        x.update(|x| x + 1.0);
        y.update(|y| y * 2.0);
        Ok(())
    });
    let x = memory([6.0]);
    for t in [memory([0.0]), x.clone()] {
        jit.call((t.clone(), t)).unwrap();
    }
    assert_eq!(floats(&x), [14.0]);
    let y = x.cast(DType::F32);
    jit.call((x.clone(), y.clone())).unwrap();
    assert_eq!((floats(&x), floats(&y)), (vec![15.0], vec![28.0]));
}

#[test]
fn a_view_that_a_jit_gives_back_stays_the_view_it_is() {
    let view = (memory([0.0, 1.0]) * 2.0).permute([0]); // which alone looks at what it is a view of
    view.at(1..).assign(1.0);
    let held = view.clone();
    let jit = Jit::new(move |x: Tensor| {
        x.assign(1.0);
        Ok(held.clone())
    });
    for _ in 0..2 {
        assert_eq!(floats(&jit.call(memory([5.0, 6.0])).unwrap()), [0.0, 1.0]);
    }
    let lent = view.lend().unwrap();
    jit.call(view.clone()).unwrap();
    assert_eq!(floats(&jit.call(memory([5.0, 6.0])).unwrap()), [1.0, 1.0]);
    drop(lent);
}

#[test]
fn a_jit_whose_results_are_memory_of_its_state_is_called_plainly() {
    let x = memory(2.0);
    let held = x.clone();
    let jit = Jit::new(move |(a, _b): (Tensor, Tensor)| {
        held.update(|x| x - 1.0);
        Ok(a.sum(..)) // of a scalar: the value itself
    });
    let mut last = x.clone();
    for i in 0..8 {
        last = jit.call((x.clone(), last)).unwrap();
        assert_eq!((floats(&last), floats(&x)), (vec![1.0 - i as f32], vec![1.0 - i as f32]));
    }
}

#[test]
fn what_was_computed_before_a_recording_is_part_of_it() {
    let w = memory([1.0f32, 2.0]);
    let total = w.sum(..); // the node that the function makes, too
    let held = w.clone();
    let jit = Jit::new(move |_: ()| Ok(held.sum(..)));
    for want in [3.0, 5.0, 7.0, 9.0] {
        assert_eq!(jit.call(()).unwrap().item::<f32>().unwrap(), want);
        w.update(|w| w + 1.0);
    }
    assert_eq!(total.item::<f32>().unwrap(), 3.0);
}

#[test]
fn what_a_call_reads_between_two_constants_is_the_first_of_them() {
    let x = memory([3.0f32, 4.0]);
    let held = x.clone();
    let jit = Jit::new(move |_: ()| {
        let old = &held * 2.0;
        held.assign(0.0);
        held.realize()?;
        let both = Tensor::cat(&[held.clone(), old], 0);
        held.assign(1.0);
        Ok(both)
    });
    for want in [[0.0, 0.0, 6.0, 8.0], [0.0, 0.0, 2.0, 2.0], [0.0, 0.0, 2.0, 2.0], [0.0, 0.0, 2.0, 2.0]] {
        assert_eq!(floats(&jit.call(()).unwrap()), want);
    }
    assert_eq!(floats(&x), [1.0, 1.0]);
}

#[test]
fn what_is_computed_once_and_then_assigned_to_is_computed_again_whole() {
    let w = memory([1.0f32, 2.0]);
    let held = w.clone();
    let jit = Jit::new(move |_: ()| {
        let x = (&held + 1.0).realize()?;
        x.assign(&x * 10.0);
        Ok(x)
    });
    for want in [[20.0, 30.0], [30.0, 40.0], [40.0, 50.0], [50.0, 60.0]] {
        assert_eq!(floats(&jit.call(()).unwrap()), want);
        w.update(|w| w + 1.0);
    }
}

#[test]
fn what_is_still_to_be_computed_outside_keeps_what_it_was_built_from() {
    let w = memory([1.0f32]);
    let double = &w * 2.0;
    let (held, lazy) = (w.clone(), double.clone());
    let jit = Jit::new(move |_: ()| Ok(&held + &lazy));
    for want in [3.0, 12.0, 22.0, 32.0] {
        assert_eq!(floats(&jit.call(()).unwrap()), [want]);
        w.assign(want + if want == 3.0 { 7.0 } else { 8.0 });
    }
    assert_eq!(floats(&double), [2.0]);
}

#[test]
fn an_assignment_that_is_another_tensors_value_is_done_by_each_replay() {
    let (from, to) = (memory([1.0f32]), memory([1.0f32]) * 1.0);
    let held = (from.clone(), to.clone());
    let jit = Jit::new(move |_: ()| {
        held.1.assign(&held.0);
        Ok(())
    });
    for v in 0..6 {
        from.assign(v as f32);
        jit.call(()).unwrap();
        assert_eq!(floats(&to), [v as f32]);
    }
}

#[test]
fn only_inputs_that_are_stored_to_are_written_back() {
    let repeated = memory([1.0f32]).expand([2]);
    let jit = Jit::new(|(a, b): (Tensor, Tensor)| {
        a.assign(&a + 1.0);
        Ok(&a + b)
    });
    let a = memory([0.0f32, 0.0]);
    for i in 1..5 {
        let sum = jit.call((a.clone(), repeated.clone())).unwrap();
        assert_eq!(floats(&sum), [i as f32 + 1.0; 2]);
    }
}

#[test]
fn an_input_that_moves_keeps_its_own_shape() {
    let jit = Jit::new(|x: Tensor| {
        x.assign(&x + 1.0);
        Ok(())
    });
    let flat = memory([1.0f32, 2.0]);
    let held = flat.lend().unwrap();
    for x in [memory([[1.0f32, 2.0]]), flat.reshape([1, 2]), memory([[1.0f32, 2.0]])] {
        let held = x.lend().unwrap();
        jit.call(x.clone()).unwrap();
        assert_eq!((x.dims().unwrap(), floats(&x)), (vec![1, 2], vec![2.0, 3.0]));
        drop(held);
    }
    drop(held);
}

#[test]
fn a_part_as_input_that_is_looked_at_from_outside_stays_apart() {
    let all = memory([1.0f32, 2.0, 3.0]);
    let (head, tail) = (all.at(..2), all.at(1..));
    let held = tail.clone();
    let jit = Jit::new(move |(a, b): (Tensor, Tensor)| Ok((&held + &a.sum(..)) * 10.0 + b));
    for (b, want) in
        [(&head, [81.0, 92.0]), (&tail, [82.0, 93.0]), (&head, [81.0, 92.0]), (&tail, [82.0, 93.0])]
    {
        assert_eq!(floats(&jit.call((all.clone(), b.clone())).unwrap()), want);
    }
}

#[test]
fn parts_of_varying_size_are_inputs_of_one_kind() {
    let n = Variable::new("n", 1, 2).unwrap();
    let jit = Jit::new(|x: Tensor| Ok(x.sum(..)));
    let (long, short) = (memory([1.0f32, 2.0, 4.0, 8.0]), memory([16.0f32, 32.0]));
    for (x, len, want) in [(&long, 1, 1.0), (&short, 2, 48.0), (&long, 2, 3.0), (&short, 1, 16.0)] {
        let part = x.at(..2).at(..n.bind(len).unwrap());
        assert_eq!(jit.call(part).unwrap().item::<f32>().unwrap(), want);
    }
}

#[test]
fn a_reshape_of_a_part_is_in_a_jit_what_it_is_outside() {
    let jit = Jit::new(|x: Tensor| {
        let flat = x.reshape([4]);
        flat.assign(0.0); // writes x where its rows lie one after the other
        Ok(())
    });
    for _ in 0..4 {
        let x = memory([[1.0f32, 2.0, 3.0], [4.0, 5.0, 6.0], [7.0, 8.0, 9.0]]);
        let columns = x.at((..2, ..2));
        jit.call(columns.clone()).unwrap();
        assert_eq!(floats(&columns), [1.0, 2.0, 4.0, 5.0]);
        let rows = memory([[1.0f32, 2.0], [4.0, 5.0]]);
        jit.call(rows.clone()).unwrap();
        assert_eq!(floats(&rows), [0.0; 4]);
    }
}

#[test]
fn assignments_that_another_thread_computes_meanwhile_count_once() {
    use std::sync::atomic::{AtomicBool, Ordering};
    let done = AtomicBool::new(false);
    std::thread::scope(|s| {
        // who records computes every assignment that waits, also those of others
        s.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                let jit = Jit::new(|x: Tensor| Ok(x + 1.0));
                (0..2).for_each(|_| drop(jit.call(memory([1.0f32])).unwrap()));
            }
        });
        let wrong = (0..500).find_map(|_| {
            let x = memory([1.0f32, 2.0]);
            x.update(|x| x * 2.0);
            x.update(|x| x - 1.0);
            let g = (&x * &x).sum(..).gradient(&[&x]).and_then(|g| g[0].to_vec::<f32>());
            g.map_or_else(|e| Some(Err(e)), |g| (g != [2.0, 6.0]).then_some(Ok(g)))
        });
        done.store(true, Ordering::Relaxed);
        assert!(wrong.is_none(), "{wrong:?}");
    });
}

#[test]
fn an_input_and_a_part_of_it_are_written_in_the_order_of_the_function() {
    let plain = |a: &Tensor, b: &Tensor| {
        a.update(|a| a * 2.0);
        b.assign(1.0);
        a.update(|a| a + 1.0);
    };
    // apart in the first calls: the one with a part of the other is the first, recorded or replayed
    for apart in 0..5 {
        let jit = Jit::new(move |(a, b): (Tensor, Tensor)| {
            plain(&a, &b);
            Ok(())
        });
        for _ in 0..apart {
            jit.call((memory([2.0, 3.0]), memory([4.0, 5.0, 6.0]))).unwrap();
        }
        for _ in 0..3 {
            let (x, y) = (memory([7.0, 8.0, 9.0]), memory([7.0, 8.0, 9.0]));
            plain(&x.at(1..), &x);
            jit.call((y.at(1..), y.clone())).unwrap();
            assert_eq!((floats(&x), floats(&y)), (vec![1.0, 2.0, 2.0], vec![1.0, 2.0, 2.0]), "{apart}");
        }
        let (a, b) = (memory([2.0, 3.0]), memory([4.0, 5.0, 6.0]));
        jit.call((a.clone(), b.clone())).unwrap();
        assert_eq!((floats(&a), floats(&b)), (vec![5.0, 7.0], vec![1.0, 1.0, 1.0]));
    }
}

#[test]
fn what_is_still_to_be_computed_outside_keeps_memory_that_is_an_input_later() {
    for known in [true, false] {
        let x = memory([1.0, 2.0, 3.0]);
        let sum = x.sum(..);
        let held = sum.clone();
        if known {
            // its node knows its value, and does not ask for x any more
            sum.sum(..).realize().unwrap();
        }
        let jit = Jit::new(move |a: Tensor| {
            a.assign(&held - 2.0);
            Ok(())
        });
        for i in 0..6 {
            let given = if i == 2 || i == 3 { x.clone() } else { memory([7.0, 8.0, 9.0]) };
            jit.call(given.clone()).unwrap();
            assert_eq!(floats(&given), [4.0, 4.0, 4.0], "{known}, {i}");
            if i == 1 {
                // in place: the only one that needs the old version is here
                x.assign(&sum * 10.0).realize().unwrap();
            }
        }
        assert_eq!(floats(&sum), [6.0]);
    }
}

#[test]
fn what_was_to_be_computed_and_is_a_value_then_is_recorded_as_that() {
    let state = memory([0.0, 1.0]);
    let held = state.clone();
    let next = Jit::new(move |()| {
        let new = &held + 1.0;
        held.assign(&new).realize()?;
        Ok(new)
    });
    for _ in 0..2 {
        next.call(()).unwrap();
    }
    let last = next.call(()).unwrap();
    state.replace(&(&last * 0.0));
    for i in 1..5 {
        assert_eq!(floats(&next.call(()).unwrap()), [i as f32; 2]);
        assert_eq!(floats(&state), [i as f32; 2]);
    }
}

#[test]
fn a_tensor_assigned_to_itself_is_still_one_that_is_assigned_to() {
    let x = memory([[3.0, 4.0], [5.0, 6.0]]);
    let (held, turned) = (x.clone(), x.permute([1, 0]));
    let f = Jit::new(move |part: Tensor| {
        held.at(..part.shape()[0].clone()).assign(&part);
        Ok(part * 3.0)
    })
    .recapture();
    let n = || Variable::new("n", 1, 2).unwrap().bind(2).unwrap();
    f.call(x.at(..n())).unwrap();
    // the part is a window of what was assigned to: turned once more
    let seen = f.call(turned.at(..n())).unwrap();
    assert_eq!(floats(&x), [3.0, 5.0, 4.0, 6.0]);
    assert_eq!(floats(&seen), [9.0, 12.0, 15.0, 18.0]);
}

#[test]
fn what_was_made_of_a_version_that_is_gone_stays_where_it_is() {
    let x = memory([2.0, 3.0]);
    x.set(1, 1.0);
    let turned = x.flip([0]);
    x.assign(&turned * 3.0);
    let held = turned.clone();
    let look = Jit::new(move |y: Tensor| Ok(&held + y));
    let one = memory([1.0, 1.0]);
    for _ in 0..4 {
        assert_eq!(floats(&look.call(one.clone()).unwrap()), [2.0, 3.0]);
        assert_eq!(floats(&turned), [1.0, 2.0]);
    }
    assert_eq!(floats(&x), [3.0, 6.0]);
}
