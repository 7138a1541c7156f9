//! Gradients by tensors that were computed between a loss and its gradients.

use frit_tensor::*;

fn floats(t: &Tensor) -> Vec<f32> {
    t.to_vec().unwrap()
}
/// The gradient of something by one tensor.
fn by(y: &Tensor, x: &Tensor) -> Vec<f32> {
    floats(&y.gradient(&[x]).unwrap()[0])
}
fn refused(y: &Tensor, x: &Tensor) -> String {
    y.gradient(&[x]).map(drop).unwrap_err().to_string()
}

/// Tensors of two floats that no memory is below, and some that have it below.
fn made() -> Vec<(&'static str, Tensor)> {
    manual_seed(7);
    vec![
        ("full", Tensor::full([2], 3.0)),
        ("zeros", Tensor::zeros([2])),
        ("ones", Tensor::ones([2])),
        ("zeros_like", Tensor::ones([2]).zeros_like()),
        ("arange", Tensor::arange(2).cast(DType::F32)),
        ("arange_step", Tensor::arange_step(0.5, 2.5, 1.0)),
        ("linspace", Tensor::linspace(0.0, 1.0, 2)),
        ("eye", Tensor::eye([2]).at(0)),
        ("a sum of constants", Tensor::ones([2]) + Tensor::full([2], 2.0)),
        ("what is repeated", (Tensor::ones([1]) + 1.0).expand([2])),
        ("what is turned", (Tensor::arange(2).cast(DType::F32) + 1.0).flip([0])),
        ("rand", Tensor::rand([2])),
        ("randn", Tensor::randn([2])),
        ("uniform", Tensor::uniform(1.0, 2.0, [2])),
        ("kaiming_uniform", Tensor::kaiming_uniform([2, 1], 0.0).reshape([2])),
        ("a computed value", Tensor::new([1.0, 2.0]) * 3.0),
    ]
}

#[test]
fn what_is_computed_meanwhile_keeps_its_gradients() {
    for (name, x) in made() {
        let y = (&x * &x * 3.0).sum(..);
        x.realize().unwrap();
        let want: Vec<f32> = floats(&x).iter().map(|v| v * 6.0).collect();
        assert_eq!(by(&y, &x), want, "{name}");
        // twice is still that
        x.realize().unwrap();
        assert_eq!(by(&y, &x), want, "{name}");
        // what is made of it now counts, too
        let both = &y + (&x * 10.0).sum(..);
        let want: Vec<f32> = want.iter().map(|v| v + 10.0).collect();
        assert_eq!(by(&both, &x), want, "{name}");
    }
}

#[test]
fn constants_that_are_read_meanwhile_have_gradients() {
    for (name, x) in made() {
        let y = (&x * 3.0).sum(..);
        y.item::<f32>().unwrap();
        floats(&x);
        assert_eq!(by(&y, &x), [3.0, 3.0], "{name}");
    }
}

#[test]
fn views_of_constants_that_are_computed_meanwhile_have_gradients() {
    for (name, x) in made() {
        let (first, column) = (x.at(..1), x.reshape([2, 1]));
        let y = (&first * 5.0).sum(..) + (&column * 2.0).sum(..);
        x.realize().unwrap();
        assert_eq!(by(&y, &first), [5.0], "{name}");
        assert_eq!(by(&y, &column), [2.0, 2.0], "{name}");
        assert_eq!(by(&y, &x), [7.0, 2.0], "{name}");
    }
}

#[test]
fn detached_views_that_are_computed_meanwhile_have_gradients() {
    let assigned = Tensor::new([2.0, 3.0]);
    assigned.detach().update(|x| x * 3.0);
    for (name, x) in made().into_iter().chain([("assigned to", assigned)]) {
        let (view, part) = (x.detach(), x.detach().at(1..));
        let y = (&view * 3.0).sum(..) + (&part * 2.0).sum(..);
        view.realize().unwrap();
        assert_eq!(by(&y, &view), [3.0, 5.0], "{name}");
        assert_eq!(by(&y, &part), [2.0], "{name}");
        let bits = x.bitcast(DType::U32).bitcast(DType::F32);
        let y = (&bits * 3.0).sum(..);
        x.realize().unwrap();
        assert_eq!(by(&y, &bits), [3.0, 3.0], "{name}");
    }
}

#[test]
fn views_as_wider_or_narrower_elements_have_gradients() {
    for (name, x) in made() {
        let (halves, apart) = (x.bitcast(DType::F16), x.detach().bitcast(DType::F16).at(1..));
        let y = (&halves * 3.0).sum(..) + (&apart * 2.0).sum(..);
        x.realize().unwrap();
        assert_eq!(by(&y, &halves), [3.0; 4], "{name}");
        assert_eq!(by(&y, &apart), [2.0; 3], "{name}");
    }
    let x = Tensor::full_dtype([4], 1.5, DType::F16);
    let wide = x.bitcast(DType::F32);
    let y = (&wide * 3.0).sum(..);
    x.realize().unwrap();
    assert_eq!(by(&y, &wide), [3.0, 3.0]);
}

#[test]
fn views_that_keep_what_they_see_for_themselves_have_gradients() {
    for before in [true, false] {
        for (name, x) in made() {
            let last = x.at(1..);
            let y = (&last * 5.0).sum(..);
            if before {
                x.realize().unwrap();
            }
            drop(x);
            last.realize().unwrap();
            assert_eq!(by(&y, &last), [5.0], "{name}, {before}");
        }
    }
}

#[test]
fn two_that_were_one_constant_have_its_gradient_each() {
    let x = Tensor::ones([2]);
    let same = x.float(); // no conversion: the value itself
    let y = (&x * 3.0).sum(..);
    x.realize().unwrap();
    let z = &y + (&x * 4.0).sum(..);
    let g = z.gradient(&[&x, &same]).unwrap();
    assert_eq!((floats(&g[0]), floats(&g[1])), (vec![7.0, 7.0], vec![3.0, 3.0]));
    // and apart from one that is only equal
    let other = Tensor::ones([2]);
    other.realize().unwrap();
    assert!(refused(&y, &other).contains("does not depend on target 0"));
}

#[test]
fn what_was_realised_itself_is_cut_off_from_a_constant() {
    for x_too in [true, false] {
        let x = Tensor::ones([2]);
        let y = &x * 3.0;
        let z = y.sum(..);
        if x_too {
            x.realize().unwrap();
        }
        y.realize().unwrap();
        // y is memory now; what was made of it before is not
        assert_eq!(by(&z, &x), [3.0, 3.0]);
        assert_eq!(by(&z, &y), [1.0, 1.0]);
        assert!(refused(&y.sum(..), &x).contains("realised at"), "{}", refused(&y.sum(..), &x));
    }
    let x = Tensor::ones([2]);
    let y = &x * 3.0;
    let z = y.sum(..);
    Tensor::realize_all(&[&x, &y]).unwrap();
    assert_eq!((by(&z, &x), by(&z, &y)), (vec![3.0, 3.0], vec![1.0, 1.0]));
}

#[test]
fn gradients_by_a_constant_that_was_assigned_to_are_refused() {
    let x = Tensor::ones([2]);
    let y = (&x * &x).sum(..);
    x.realize().unwrap();
    x.update(|x| x * 5.0);
    x.realize().unwrap();
    let text = "was assigned to since this was made of it";
    assert!(refused(&y, &x).contains(text), "{}", refused(&y, &x));
    assert!(y.gradient_or_zeros(&[&x]).err().unwrap().to_string().contains(text));
    let w = Tensor::ones([2]).requires_grad(true);
    let y = (&w * &w).sum(..);
    w.realize().unwrap();
    w.update(|w| w * 5.0);
    w.realize().unwrap();
    assert!(y.backward().unwrap_err().to_string().contains(text));
    // what is made of the new version knows nothing of the old one
    assert_eq!(by(&(&w * &w).sum(..), &w), [10.0, 10.0]);
    assert_eq!(y.item::<f32>().unwrap(), 2.0);
}

#[test]
fn backward_reaches_marked_constants_that_were_computed_meanwhile() {
    let (w, b) = (Tensor::ones([2]).requires_grad(true), Tensor::new([1.0, 2.0]).requires_grad(true));
    let y = (&w * &b * 3.0).sum(..);
    w.realize().unwrap();
    y.backward().unwrap();
    assert_eq!(floats(&w.grad().unwrap()), [3.0, 6.0]);
    assert_eq!(floats(&b.grad().unwrap()), [3.0, 3.0]);
}

#[test]
fn a_jit_has_gradients_of_constants_that_it_computes_meanwhile() {
    let outside = Tensor::ones([2]);
    let held = outside.clone();
    let jit = Jit::new(move |a: Tensor| {
        let x = Tensor::full([2], 3.0);
        let y = (&x * &a * &held).sum(..);
        Tensor::realize_all(&[&x, &held])?;
        let g = y.gradient(&[&x, &held])?;
        Ok((g[0].clone(), g[1].clone()))
    });
    for i in 0..5 {
        let a = Tensor::new([1.0 + i as f32, 2.0]);
        let (x, h) = jit.call(a).unwrap();
        assert_eq!(floats(&x), [1.0 + i as f32, 2.0]);
        assert_eq!(floats(&h), [3.0 + 3.0 * i as f32, 6.0]);
    }
}

#[test]
fn a_jit_has_gradients_of_what_was_computed_before_and_is_again() {
    let x = Tensor::new([1.0, 2.0]);
    let held = x.clone();
    let jit = Jit::new(move |a: Tensor| {
        let y = (&held * &held * &a).sum(..);
        held.realize()?;
        Ok(y.gradient(&[&held])?.swap_remove(0))
    });
    // called, recorded
    for i in 0..2 {
        x.replace(&(&x * 2.0));
        floats(&x);
        let a = Tensor::new([1.0 + i as f32, 1.0]);
        let want: Vec<f32> = floats(&(&x * &a * 2.0));
        assert_eq!(floats(&jit.call(a).unwrap()), want, "{i}");
    }
}

#[test]
fn what_is_made_of_foreign_memory_and_computed_meanwhile_has_gradients() {
    let bytes: Vec<u8> = [1.0f32, 2.0].iter().flat_map(|v| v.to_ne_bytes()).collect();
    let foreign = Tensor::from_blob(DType::F32, &Blob::volatile(bytes), [2]);
    let x = &foreign * 2.0;
    let y = (&x * &x).sum(..);
    x.realize().unwrap();
    assert_eq!(by(&y, &x), [4.0, 8.0]);
}

type Assign = fn(&Tensor, &Tensor);

/// Ways to assign to a tensor of two floats.
fn assignments() -> [(&'static str, Assign); 7] {
    [
        ("a constant", |x, _| drop(x.assign(5.0))),
        ("a value", |x, a| drop(x.assign(a * 2.0))),
        ("an update", |x, a| drop(x.update(|x| x * a))),
        ("through a view", |x, a| drop(x.at(1..).assign(a.at(1..)))),
        ("at places", |x, a| drop(x.set(Tensor::new([1]), a.at(1..)))),
        ("detached", |x, a| drop(x.detach().update(|x| x * a))),
        ("twice", |x, a| {
            x.update(|x| x * 5.0);
            x.assign(a);
        }),
    ]
}

#[test]
fn gradients_by_an_earlier_version_are_refused_also_while_the_assignment_waits() {
    let text = "was assigned to since this was made of it";
    // computed not at all, after the assignment, before it
    for (how, assign) in assignments() {
        for computed in 0..3 {
            let places = made().into_iter().filter(|(name, _)| *name != "what is repeated");
            for (name, x) in places.chain([("memory", Tensor::new([1.0, 2.0]))]) {
                let (a, view) = (Tensor::new([7.0, 9.0]), x.at(..1));
                let (whole, part) = ((&x * &x).sum(..), (&view * 2.0).sum(..));
                if computed == 2 {
                    x.realize().unwrap();
                }
                assign(&x, &a);
                let after = (&x * 3.0).sum(..);
                if computed > 0 {
                    x.realize().unwrap();
                }
                for (y, t) in [(&whole, &x), (&whole, &view), (&part, &view), (&part, &x)] {
                    assert!(refused(y, t).contains(text), "{name}, {how}, {computed}: {}", refused(y, t));
                    assert!(y.gradient_or_zeros(&[t]).is_err());
                }
                // what was made since knows the version of now, also where that is made of an earlier one
                assert_eq!(by(&after, &x), [3.0, 3.0], "{name}, {how}, {computed}");
                let other = x.at(1..);
                assert!(refused(&after, &other).contains("does not depend on target 0"));
            }
        }
    }
}

#[test]
fn backward_refuses_a_loss_that_is_in_part_of_an_earlier_version() {
    for computed in [false, true] {
        let w = Tensor::new([1.0, 2.0]).requires_grad(true);
        w.realize().unwrap();
        let before = (&w * 2.0).sum(..);
        w.update(|w| w * 5.0);
        if computed {
            w.realize().unwrap();
        }
        let loss = &before + (&w * 3.0).sum(..);
        let why = loss.backward().unwrap_err().to_string();
        assert!(why.contains("was assigned to since this was made of it"), "{why}");
        // a loss of the version of now is none, whatever that was made of
        (&w * 3.0).sum(..).backward().unwrap();
        assert_eq!(floats(&w.grad().unwrap()), [3.0, 3.0]);
    }
}
