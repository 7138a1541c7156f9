//! Functions as calls in the graph: values, gradients, nesting, Jits, and how often something is compiled.

use crate::tiny::on;
use frit_engine::stats::stats;
use frit_tensor::*;

fn weights() -> Tensor {
    Tensor::new([[1.0, -2.0], [0.5, 3.0]])
}

#[test]
fn a_call_gives_what_the_function_gives() {
    on(|| {
        let (x, w) = (Tensor::new([[1.0, 2.0], [3.0, 4.0]]), weights());
        let body = |x: &Tensor, b: &Tensor| vec![x.matmul(&w).tanh() + b, x.sum(0), x.clone(), w.clone()];
        let f = function(|a| body(&a[0], &a[1]));
        let b = Tensor::new(0.5);
        for (got, want) in f.call(&[&x, &b]).iter().zip(body(&x, &b)) {
            assert_eq!(got.shape(), want.shape());
            assert_eq!(got.to_vec::<f32>()?, want.to_vec::<f32>()?);
        }
        Ok(())
    });
}

#[test]
fn gradients_of_any_order_pass_through_to_arguments_and_captures() {
    on(|| {
        let (x, w) = (Tensor::new([[0.1, 0.2], [0.3, -0.4]]), weights());
        let f = function(|a| vec![(a[0].matmul(&w) * &a[0]).tanh()]);
        let plain = |x: &Tensor| (x.matmul(&w) * x).tanh();
        let (a, b) = (f.call(&[&x])[0].square().sum(..), plain(&x).square().sum(..));
        let (ga, gb) = (a.gradient(&[&x, &w])?, b.gradient(&[&x, &w])?);
        for (p, q) in ga.iter().zip(&gb) {
            assert!(p.allclose(q, 1e-5, 1e-6)?, "{p}\n{q}");
        }
        let again = |g: &[Tensor]| (&g[0] * &g[0]).sum(..) + g[1].sum(..);
        let (ha, hb) = (again(&ga).gradient(&[&x, &w])?, again(&gb).gradient(&[&x, &w])?);
        for (p, q) in ha.iter().zip(&hb) {
            assert!(p.allclose(q, 1e-4, 1e-5)?, "{p}\n{q}");
        }
        let p = weights().requires_grad(true);
        function(|a| vec![a[0].square()]).call(&[&p])[0].sum(..).backward()?;
        assert_eq!(p.grad().unwrap().to_vec::<f32>()?, [2.0, -4.0, 1.0, 6.0]);
        Ok(())
    });
}

#[test]
fn functions_call_functions() {
    on(|| {
        let w = weights();
        let inner = function(|a| vec![&a[0] * &w + 1.0]);
        let outer = function(|a| vec![inner.call(&[&inner.call(&[&a[0]])[0]])[0].sum(0) * &a[1]]);
        let (x, k) = (Tensor::ones([2, 2]), Tensor::new(3.0));
        let y = &outer.call(&[&x, &k])[0];
        assert_eq!(y.to_vec::<f32>()?, [14.25, 48.0]);
        let g = y.sum(..).gradient(&[&x, &k, &w])?;
        assert_eq!(g[0].to_vec::<f32>()?, [3.0, 12.0, 0.75, 27.0]);
        assert_eq!(g[1].item::<f32>()?, 20.75);
        assert_eq!(g[2].to_vec::<f32>()?, [9.0, -9.0, 6.0, 21.0]);
        Ok(())
    });
}

#[test]
fn a_body_is_compiled_once_whatever_it_is_called_with() {
    for device in ["INTERP", "CPU"] {
        Device::scope(device, || {
            let layer = function(|a| vec![(a[0].matmul(&a[1]) + 0.125).relu().softmax(-1)]);
            let w: Vec<Tensor> = (0..8).map(|i| Tensor::full([6, 6], 0.1 * i as f64).contiguous()).collect();
            let x = Tensor::ones([3, 6]).contiguous().realize()?;
            Tensor::realize_all(&w.iter().collect::<Vec<_>>())?;
            let before = stats();
            layer.call(&[&x, &w[0]])[0].to_vec::<f32>()?;
            let first = (stats() - before).compiles;
            assert!(first > 0, "{device}");
            let mut y = x;
            for w in &w {
                y = layer.call(&[&y, w]).remove(0);
            }
            y.to_vec::<f32>()?;
            assert_eq!((stats() - before).compiles, first, "{device}: compiled again");
            // another shape is another body
            layer.call(&[&Tensor::ones([4, 6]).contiguous(), &w[0]])[0].to_vec::<f32>()?;
            assert!((stats() - before).compiles > first, "{device}");
            Ok::<(), Error>(())
        })
        .unwrap()
        .unwrap();
    }
}

#[test]
fn a_jit_replays_calls() {
    for device in ["INTERP", "CPU"] {
        Device::scope(device, || {
            let w = weights().contiguous().realize()?;
            let jit = Jit::new(move |x: Tensor| {
                let f = function(|a| vec![a[0].matmul(&w).relu() + 1.0]);
                let y = f.call(&[&f.call(&[&x])[0]]).remove(0);
                let g = y.sum(..).gradient(&[&x])?.remove(0);
                Ok((y, g))
            });
            let w = weights();
            for i in 0..6 {
                let x = Tensor::full([1, 2], i as f64);
                let (y, g) = jit.call(x.contiguous())?;
                let layer = |x: &Tensor| x.matmul(&w).relu() + 1.0;
                let want = layer(&layer(&x));
                assert_eq!(y.to_vec::<f32>()?, want.to_vec::<f32>()?, "{device} {i}");
                assert_eq!(
                    g.to_vec::<f32>()?,
                    want.sum(..).gradient(&[&x])?[0].to_vec::<f32>()?,
                    "{device} {i}"
                );
            }
            Ok::<(), Error>(())
        })
        .unwrap()
        .unwrap();
    }
}

#[test]
fn what_a_function_cannot_do_is_an_error_that_says_so() {
    on(|| {
        let x = Tensor::new([1.0, 2.0]);
        let f = function(|a| {
            assert!(a[0].to_vec::<f32>().unwrap_err().to_string().contains("has no numbers outside"));
            a[0].assign(&a[0] + 1.0);
            vec![a[0].clone()]
        });
        let e = f.call(&[&x])[0].check().unwrap_err().to_string();
        assert!(e.contains("argument 0 is assigned to"), "{e}");
        let state = Tensor::new([0.0, 0.0]).realize()?;
        let f = function(|a| {
            state.assign(&state + &a[0]);
            vec![&state * 2.0]
        });
        let e = f.call(&[&x])[0].check().unwrap_err().to_string();
        assert!(e.contains("cannot assign"), "{e}");
        let e = function(|a| vec![a[0].matmul(&a[0]), a[0].reshape([7])]).call(&[&x]);
        assert!(e.len() == 2 && e[1].check().unwrap_err().to_string().contains("reshape"));
        Ok(())
    });
}
