//! The model of state, statement by statement (decisions 004 and 008).

use frit_tensor::*;

fn floats(t: &Tensor) -> Vec<f32> {
    t.to_vec().unwrap()
}
fn memory(v: impl Nested) -> Tensor {
    Tensor::new(v).realize().unwrap()
}

#[test]
fn a_view_is_a_window() {
    let x = memory([1.0, 2.0, 3.0, 4.0]);
    let (part, rows, turned) = (x.at(1..3), x.reshape([2, 2]), x.reshape([2, 2]).t());
    let every_second = x.at(step(.., -2));
    x.update(|x| x * 10.0);
    assert_eq!(floats(&part), [20.0, 30.0]);
    assert_eq!(floats(&turned), [10.0, 30.0, 20.0, 40.0]);
    assert_eq!(floats(&every_second), [40.0, 20.0]);
    rows.at(1).assign(7.0);
    every_second.assign(Tensor::new([1.0, 2.0]));
    part.at(0).update(|x| x + 0.5);
    assert_eq!(floats(&x), [10.0, 2.5, 7.0, 1.0]);
    // also of what is not memory yet, and when nobody else holds the base
    let lazy = Tensor::ones([4]) + 1.0;
    let window = lazy.at(..2);
    lazy.assign(5.0);
    assert_eq!(floats(&window), [5.0, 5.0]);
    let alone = Tensor::new([1.0, 2.0, 3.0, 4.0]).reshape([2, 2]);
    alone.set(1, 5.0);
    assert_eq!(floats(&alone), [1.0, 2.0, 5.0, 5.0]);
}

#[test]
fn views_realised_together_or_alone_show_the_same() {
    for together in [true, false] {
        let x = memory([1.0, 2.0]);
        let view = x.at(..);
        x.update(|x| x + 1.0);
        if together {
            Tensor::realize_all(&[&view, &x]).unwrap();
        }
        assert_eq!(floats(&view), [2.0, 3.0]);
    }
}

#[test]
fn bits_and_detached_values_are_written_through() {
    let x = memory([1.0, 2.0]);
    x.bitcast(DType::U32).at(0).assign(Tensor::from_slice(&[0x40400000u32]).at(0));
    assert_eq!(floats(&x), [3.0, 2.0]);
    x.bitcast(DType::U8).at(4..8).assign(Tensor::from_slice(&[0u8, 0, 0x80, 0x40]));
    assert_eq!(floats(&x), [3.0, 4.0]);
    x.detach().at(1).assign(9.0);
    assert_eq!(floats(&x), [3.0, 9.0]);
}

#[test]
fn a_reshape_that_must_copy_is_a_value() {
    let x = memory([[1.0, 2.0], [3.0, 4.0]]);
    let (copy, window) = (x.t().reshape([4]), x.t().reshape([2, 1, 2]));
    x.assign(0.0);
    assert_eq!(floats(&copy), [1.0, 3.0, 2.0, 4.0]);
    assert_eq!(floats(&window), [0.0; 4]);
    copy.set(0, 9.0);
    assert_eq!(floats(&x), [0.0; 4]);
    assert_eq!(floats(&copy), [9.0, 3.0, 2.0, 4.0]);
    assert!(x.expand([2, 2, 2]).try_assign(1.0).is_err());
    let flipped = x.flip(0);
    x.assign(8.0);
    assert_eq!(floats(&flipped), [0.0; 4]);
}

#[test]
fn a_reshape_that_merges_repeated_dims_is_a_view() {
    let x = memory([[1.0f32, 2.0, 3.0]]);
    let twice = x.expand([2, 2, 1, 3]);
    let views = [
        twice.reshape([4, 3]),
        twice.reshape([2, 2, 3, 1]),
        twice.reshape([1, 4, 1, 3]),
        x.expand([6, 3]).reshape([2, 3, 3]).reshape([3, 2, 3]),
        x.t().expand([3, 4]).reshape([3, 2, 2]).reshape([3, 4]),
        twice.at((.., .., .., 1)).reshape([4]),
    ];
    // what is repeated does not lie as one with what is repeated as a whole
    let values = [twice.reshape([12]), twice.reshape([2, 6]), x.t().expand([3, 4]).reshape([12])];
    let before: Vec<_> = values.iter().map(floats).collect();
    x.assign(9.0);
    assert!(views.iter().all(|v| floats(v).iter().all(|e| *e == 9.0)));
    assert_eq!(values.iter().map(floats).collect::<Vec<_>>(), before);
    assert!(views.iter().all(|v| v.try_assign(1.0).is_err()));
}

#[test]
fn a_reshape_of_every_second_element_is_a_view_where_steps_find_them() {
    let x = memory([[0.0f32, 1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0, 9.0]]);
    let even = x.at((.., step(..4, 2)));
    let whole = Tensor::arange(12).cast(DType::F32).realize().unwrap();
    let odd = whole.reshape([2, 6]).at((.., step(1.., 2)));
    let (copy, window) = (even.reshape([4]), odd.reshape([6]));
    x.assign(-1.0);
    window.set(step(.., 5), -1.0);
    assert_eq!(floats(&copy), [0.0, 2.0, 5.0, 7.0]);
    assert_eq!(floats(&whole), [0.0, -1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, -1.0]);
}

#[test]
fn computed_values_keep_what_they_were_built_from() {
    let x = memory([1.0, 2.0]);
    let (before, same) = (&x * 1.0, x.cast(DType::F32));
    let read = &x * 2.0;
    assert_eq!(floats(&read), [2.0, 4.0]);
    x.assign(5.0);
    x.realize().unwrap();
    assert_eq!((floats(&before), floats(&same)), (vec![1.0, 2.0], vec![1.0, 2.0]));
    assert_eq!((floats(&read), floats(&(&x * 2.0))), (vec![2.0, 4.0], vec![10.0, 10.0]));
    same.set(0, 7.0);
    assert_eq!((floats(&same), floats(&x)), (vec![7.0, 2.0], vec![5.0, 5.0]));
}

#[test]
fn what_was_overwritten_is_never_another_value() {
    let (w, x) = (memory([2.0, 3.0]), memory([1.0, 1.0]));
    let y = &w * &x;
    y.to_vec::<f32>().unwrap(); // so that nobody needs w any more
    w.assign(9.0);
    w.realize().unwrap();
    let g = y.sum(..).gradient(&[&x]).unwrap();
    match g[0].to_vec::<f32>() {
        Ok(v) => assert_eq!(v, [2.0, 3.0]),
        Err(e) => assert!(e.to_string().contains("an assignment has overwritten"), "{e}"),
    }
    assert!(y.sum(..).gradient(&[&w]).is_err());
}

#[test]
fn every_store_of_a_graph_that_runs_is_done() {
    let x = memory([1.0, 2.0, 3.0]);
    let held = &x * 1.0;
    x.update(|x| x + 10.0);
    (x.at(..0).sum(..) + 1.0).realize().unwrap();
    assert_eq!(floats(&x), [11.0, 12.0, 13.0]);
    assert_eq!(floats(&held), [1.0, 2.0, 3.0]);
    let y = &x * 10.0;
    x.set(3.., 0.0);
    assert_eq!(floats(&(y + &x)), [121.0, 132.0, 143.0]);
    let twice = x.contiguous();
    x.assign(&twice);
    x.assign(&twice);
    assert_eq!(floats(&x), [11.0, 12.0, 13.0]);
}

#[test]
fn values_assigned_are_cast_to_the_type_of_the_place() {
    let flags = Tensor::new([true, false, true]).logical_not();
    flags.set(0, 5);
    assert_eq!((flags.dtype(), flags.to_vec::<bool>().unwrap()), (DType::Bool, vec![true, true, false]));
    for base in [Tensor::arange(5).cast(DType::I8), Tensor::arange(5).cast(DType::I8).realize().unwrap()] {
        base.set(1..3, 9.7);
        base.set(step(.., 3), Tensor::new([-1.5, 2.5]));
        assert_eq!((base.dtype(), base.to_vec::<i8>().unwrap()), (DType::I8, vec![-1, 9, 9, 2, 4]));
    }
}

#[test]
fn each_constructor_call_makes_a_leaf_of_its_own() {
    let (a, b) = (Tensor::ones([2]), Tensor::ones([2]));
    let g = (&a * 2.0 + &b * 3.0).sum(..).gradient(&[&a, &b]).unwrap();
    assert_eq!((floats(&g[0]), floats(&g[1])), (vec![2.0; 2], vec![3.0; 2]));
}

#[test]
fn a_realise_that_fails_leaves_each_tensor_old_new_or_failed() {
    let (x, y) = (memory([1.0, 2.0]), memory([3.0, 4.0]));
    x.assign(x.at(Tensor::new([0, 7])));
    y.update(|y| y + 1.0);
    let failed = Tensor::realize_all(&[&x, &y]).unwrap_err().to_string();
    assert!(failed.contains("out of range"), "{failed}");
    for (t, good) in [(&x, [[1.0, 2.0]; 2]), (&y, [[3.0, 4.0], [4.0, 5.0]])] {
        match t.to_vec::<f32>() {
            Ok(v) => assert!(good.iter().any(|g| v == g), "{v:?}"),
            Err(e) => assert!(e.to_string().contains("out of range"), "{e}"),
        }
        t.replace(&memory([0.0, 0.0]));
        assert_eq!(floats(t), [0.0, 0.0]);
    }
}

#[test]
fn assignments_from_several_threads_all_land() {
    let total = memory([0.0f32; 8]);
    std::thread::scope(|s| {
        for k in 0..8i64 {
            let total = &total;
            s.spawn(move || {
                for _ in 0..10 {
                    total.at(k).update(|t| t + 1.0);
                    total.update(|t| t + 1.0);
                }
            });
        }
    });
    assert_eq!(floats(&total), [90.0; 8]);
    std::thread::scope(|s| {
        for k in 0..8i64 {
            let total = &total;
            s.spawn(move || total.set(k, k));
        }
    });
    assert_eq!(floats(&total), [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]);
}

#[test]
fn a_version_that_is_asked_for_stays_while_the_next_is_made() {
    let x = memory([2.0f32, 3.0]);
    x.update(|x| x + 1.0);
    let same = x.float(); // no conversion: the version itself
    x.assign(9.0);
    Tensor::realize_all(&[&same, &x]).unwrap();
    assert_eq!((floats(&same), floats(&x)), (vec![3.0, 4.0], vec![9.0, 9.0]));
}

#[test]
fn whether_a_view_is_a_window_does_not_depend_on_who_holds_its_base() {
    for dropped in [true, false] {
        let base = memory([[0.0, 1.0], [2.0, 3.0]]);
        let repeated = base.expand([2, 2, 2]);
        let kept = (!dropped).then_some(base);
        repeated.realize().unwrap();
        repeated.reshape([4, 2]).set(1, 7.0); // of what is repeated: a copy
        assert_eq!(floats(&repeated), [0.0, 1.0, 2.0, 3.0, 0.0, 1.0, 2.0, 3.0]);
        drop(kept);
    }
    // there and back again are the rows that were
    let x = memory([[2.0, 3.0], [4.0, 5.0]]);
    x.at(step(.., -1)).at(step(.., -1)).reshape([4]).set(0, 0.0);
    assert_eq!(floats(&x), [0.0, 3.0, 4.0, 5.0]);
}

#[test]
fn gradients_by_a_view_of_what_was_computed_meanwhile() {
    let x = memory([1.0f32, 2.0]);
    x.update(|x| x + 1.0);
    let rows = x.reshape([1, 2]);
    let y = (&rows * &rows).sum(..);
    x.realize().unwrap();
    assert_eq!(floats(&y.gradient(&[&rows]).unwrap()[0]), [4.0, 6.0]);
}

#[test]
fn gradients_count_the_last_of_the_versions_that_were_computed_together() {
    let x = memory([1.0f32, 2.0]);
    x.update(|x| x * 2.0);
    x.update(|x| x - 1.0);
    let y = (&x * &x).sum(..);
    x.realize().unwrap();
    assert_eq!(floats(&y.gradient(&[&x]).unwrap()[0]), [2.0, 6.0]);
}

#[test]
fn a_version_that_was_computed_together_with_the_next_is_never_another_value() {
    // of memory that is stored to in place, and of a copy of it
    for held in [false, true] {
        let (w, x) = (memory([2.0f32, 3.0]), memory([0.0f32, 0.0]));
        let _old = held.then(|| &x * 1.0);
        x.assign(&w * &w);
        x.update(|x| &x * &x);
        assert_eq!(floats(&x), [16.0, 81.0]);
        let g = x.sum(..).gradient(&[&w]).unwrap();
        match g[0].to_vec::<f32>() {
            Ok(v) => assert_eq!(v, [32.0, 108.0]),
            Err(e) => assert!(e.to_string().contains("an assignment has overwritten"), "{e}"),
        }
    }
}

#[test]
fn bits_of_a_nan_are_kept() {
    let x = Tensor::full_dtype([2], 0, DType::BF16);
    let bits = x.bitcast(DType::U16);
    bits.assign(Tensor::full_dtype([2], 0xfffd, DType::U16));
    assert_eq!(bits.to_vec::<u16>().unwrap(), [0xfffd; 2]);
}

#[test]
fn bits_of_two_nans_stay_apart() {
    let nans =
        [0xffff_fffdu32, 0x7fff_ffff].map(|b| Tensor::full_dtype([1], b, DType::U32).bitcast(DType::F32));
    let bits = Tensor::cat(&nans, 0).bitcast(DType::U32);
    assert_eq!(bits.to_vec::<u32>().unwrap(), [0xffff_fffd, 0x7fff_ffff]);
}

#[test]
fn two_versions_made_of_one_are_in_two_places() {
    let x = memory([1.0f32]);
    x.assign(1.0);
    let same = x.reshape(()).sum(..).reshape([1]).float(); // no more than x itself
    Tensor::realize_all(&[&same, &x]).unwrap();
    x.assign(0.0);
    same.assign(5.0);
    Tensor::realize_all(&[&same, &x]).unwrap();
    assert_eq!((floats(&same), floats(&x)), (vec![5.0], vec![0.0]));
}

#[test]
fn a_value_of_memory_that_was_stored_to_since_is_no_place() {
    let x = memory([2.0, 3.0, 4.0]);
    let turned = x.flip([0]);
    x.assign(&turned);
    assert_eq!(floats(&turned), [4.0, 3.0, 2.0]);
    x.at(..2).realize().unwrap();
    turned.set(-1, 1.0);
    assert_eq!((floats(&x), floats(&turned)), (vec![4.0, 3.0, 2.0], vec![4.0, 3.0, 1.0]));
}
