//! Random streams, symbolic sizes, printing, second derivatives, indexing, threads.

use crate::tiny::on;
use frit_tensor::*;

#[test]
fn random_is_one_stream() {
    on(|| {
        manual_seed(7);
        let all = Tensor::rand([6]).to_vec::<f32>()?;
        manual_seed(7);
        let (a, b) = (Tensor::rand([2, 2]), Tensor::rand([2]));
        assert_eq!([a.to_vec::<f32>()?, b.to_vec::<f32>()?].concat(), all);
        let x = Tensor::rand([4000]);
        let (m, s) = (x.mean(..).item::<f32>()?, x.std(.., 1).item::<f32>()?);
        assert!((m - 0.5).abs() < 0.02 && (s - 0.2887).abs() < 0.02, "{m} {s}");
        let n = Tensor::randn([4000]);
        let (m, s) = (n.mean(..).item::<f32>()?, n.std(.., 1).item::<f32>()?);
        assert!(m.abs() < 0.06 && (s - 1.0).abs() < 0.05, "{m} {s}");
        let i = Tensor::randint(-2, 3, [500]).to_vec::<i32>()?;
        assert!(i.iter().all(|v| (-2..3).contains(v)) && (-2..3).all(|v| i.contains(&v)));
        let d = Tensor::ones([1000]).dropout(0.25).to_vec::<f32>()?;
        assert!(d.iter().all(|v| *v == 0.0 || (*v - 4.0 / 3.0).abs() < 1e-6));
        let kept = d.iter().filter(|v| **v != 0.0).count();
        assert!((690..810).contains(&kept), "{kept}");
        Ok(())
    });
}

#[test]
fn sizes_may_be_variables() {
    on(|| {
        let t = Variable::new("T", 1, 8)?;
        for n in [3, 5, 1, 8] {
            let len = t.bind(n)?;
            let x = Tensor::arange(&len).float() + 1.0;
            assert_eq!(x.shape().to_string(), format!("[T={n}]"));
            assert_eq!(x.sum(..).item::<f32>()?, (n * (n + 1) / 2) as f32);
            let m = x.reshape((&len, 1)) * x.reshape((1, &len));
            assert_eq!(m.sum(1).to_vec::<f32>()?.len(), n as usize);
            let w = Tensor::arange(16).reshape([8, 2]).float();
            let rows = w.narrow(0, 0, &len);
            let y = x.reshape((1, &len)).matmul(&rows).to_vec::<f32>()?;
            let want: f32 = (0..n).map(|i| ((i + 1) * 2 * i) as f32).sum();
            assert_eq!(y[0], want);
        }
        let e = (Tensor::zeros((t.bind(3)?, 2)) + Tensor::zeros([4, 2])).check().unwrap_err().to_string();
        assert!(e.starts_with("add: shapes [T=3, 2] and [4, 2] do not broadcast (T=3 != 4)"), "{e}");
        assert_eq!((Tensor::ones(t.bind(4)?) + Tensor::ones([4])).to_vec::<f32>()?, [2.0; 4]);
        let e = (Tensor::zeros(t.dim()) + Tensor::zeros([4])).check().unwrap_err().to_string();
        assert!(e.starts_with("add: whether T == 4 cannot be decided: a variable in it is not bound"), "{e}");
        assert!(t.bind(9).is_err());
        Ok(())
    });
}

#[test]
fn printing_is_numpys() {
    on(|| {
        assert_eq!(Tensor::arange(3).to_string(), "[0 1 2]");
        assert_eq!(Tensor::new([[1.0, 2.5], [-3.0, 4.0]]).to_string(), "[[ 1.   2.5]\n [-3.   4. ]]");
        assert_eq!(Tensor::new(1.5).to_string(), "1.5");
        assert_eq!(Tensor::new([true, false]).to_string(), "[ True False]");
        assert_eq!(Tensor::arange(2000).to_string(), "[   0    1    2 ... 1997 1998 1999]");
        assert_eq!(Tensor::zeros([0, 3]).to_string(), "[]");
        Ok(())
    });
}

#[test]
fn second_derivatives() {
    on(|| {
        let x = Tensor::new([0.3, -1.2, 2.0]);
        type Pair = (fn(&Tensor) -> Tensor, fn(f64) -> f64);
        let funcs: [Pair; 5] = [
            (|x| x.tanh(), |x| -2.0 * x.tanh() * (1.0 - x.tanh().powi(2))),
            (
                |x| x.sigmoid(),
                |x| {
                    let s = 1.0 / (1.0 + (-x).exp());
                    s * (1.0 - s) * (1.0 - 2.0 * s)
                },
            ),
            (|x| x.exp() * x, |x| x.exp() * (x + 2.0)),
            (|x| x.pow(4), |x| 12.0 * x * x),
            (|x| x.sin(), |x| -x.sin()),
        ];
        for (f, want) in funcs {
            let g = f(&x).sum(..).gradient(&[&x])?.remove(0);
            let h = g.sum(..).gradient(&[&x])?.remove(0).to_vec::<f32>()?;
            for (h, x) in h.iter().zip([0.3, -1.2, 2.0]) {
                assert!((*h as f64 - want(x)).abs() < 1e-4 * (1.0 + want(x).abs()), "{h} {}", want(x));
            }
        }
        // through matmul and softmax: symmetric hessian-vector product by finite differences
        let w = Tensor::new([[0.5, -0.2], [0.1, 0.7]]);
        let v = Tensor::new([[1.0, 0.5], [-0.5, 2.0]]);
        let loss = |w: &Tensor| w.matmul(w).softmax(-1).square().sum(..);
        let hv =
            (loss(&w).gradient(&[&w])?.remove(0) * &v).sum(..).gradient(&[&w])?.remove(0).to_vec::<f32>()?;
        let eps = 1e-2;
        let at = |s: f64| -> Result<Vec<f32>> {
            let p = (&w + &v * s).detach();
            loss(&p).gradient(&[&p])?.remove(0).to_vec::<f32>()
        };
        for ((a, b), h) in at(eps)?.iter().zip(at(-eps)?).zip(&hv) {
            let fd = (a - b) / (2.0 * eps as f32);
            assert!((fd - h).abs() < 2e-3, "{fd} {h}");
        }
        Ok(())
    });
}

#[test]
fn second_derivatives_of_convolution() {
    on(|| {
        let x = (Tensor::arange(2 * 2 * 5 * 6).float() * 0.37).sin().reshape([2, 2, 5, 6]).realize()?;
        let w = (Tensor::arange(3 * 2 * 3 * 2).float() * 0.91).cos().reshape([3, 2, 3, 2]).realize()?;
        let v = (Tensor::arange(3 * 2 * 3 * 2).float() * 0.5).cos().reshape([3, 2, 3, 2]).realize()?;
        let loss =
            |w: &Tensor| x.conv2d(w, None, Window::new().stride([2, 1]).padding(1)).tanh().square().sum(..);
        let hv =
            (loss(&w).gradient(&[&w])?.remove(0) * &v).sum(..).gradient(&[&w])?.remove(0).to_vec::<f32>()?;
        let eps = 1e-2;
        let at = |s: f64| -> Result<Vec<f32>> {
            let p = (&w + &v * s).realize()?;
            loss(&p).gradient(&[&p])?.remove(0).to_vec::<f32>()
        };
        for ((a, b), h) in at(eps)?.iter().zip(at(-eps)?).zip(&hv) {
            let fd = (a - b) / (2.0 * eps as f32);
            assert!((fd - h).abs() < 2e-2 * (1.0 + h.abs()), "{fd} {h}");
        }
        Ok(())
    });
}

#[test]
fn indexing_as_numpy_does() {
    on(|| {
        let x = Tensor::arange(24).reshape([2, 3, 4]);
        let v = |t: Tensor| t.to_vec::<i32>();
        assert_eq!(v(x.at((1, .., 2)))?, [14, 18, 22]);
        assert_eq!(v(x.at((Ellipsis, 0)))?, [0, 4, 8, 12, 16, 20]);
        assert_eq!(x.at((0, NewAxis, 1..)).shape(), [1, 2, 4]);
        assert_eq!(v(x.at((0, 0, step(3.., -1))))?, [3, 2, 1, 0]);
        assert_eq!(v(x.at((0, 0, 1..100)))?, [1, 2, 3]);
        let (i, j) = (Tensor::new([1, 0]), Tensor::new([2, -1]));
        assert_eq!(v(x.at((0, &j)))?, [8, 9, 10, 11, 8, 9, 10, 11]);
        assert_eq!(v(x.at((&i, &j)))?, [20, 21, 22, 23, 8, 9, 10, 11]);
        assert_eq!(v(x.at((&i, .., &j)))?, [14, 18, 22, 3, 7, 11]);
        assert_eq!(x.at((&i, .., &j)).shape(), [2, 3]);
        assert_eq!(x.at((.., &j, 0..1)).shape(), [2, 2, 1]);
        assert_eq!(v(x.at(Tensor::new([[1], [0]])).at((.., 0, 0, 0)))?, [12, 0]);
        assert_eq!(v(x.flatten(0, -1).take(&Tensor::new([3, -1])))?, [3, 23]);
        let m = Tensor::new([1, 0, 3]).gt(0);
        assert_eq!(v(Tensor::new([5, 6, 7]).masked_select(&m)?)?, [5, 7]);
        assert_eq!(v(m.nonzero()?)?, [0, 2]);
        Ok(())
    });
}

#[test]
fn einsum_is_einsum() {
    on(|| {
        let (a, b) = (Tensor::arange(6).reshape([2, 3]), Tensor::arange(12).reshape([3, 4]));
        assert_eq!(Tensor::einsum("ij,jk->ik", &[&a, &b]).to_vec::<i32>()?, a.matmul(&b).to_vec::<i32>()?);
        assert_eq!(Tensor::einsum("ij->ji", &[&a]).to_vec::<i32>()?, a.t().to_vec::<i32>()?);
        assert_eq!(Tensor::einsum("ij->", &[&a]).item::<i32>()?, 15);
        let s = Tensor::arange(9).reshape([3, 3]);
        assert_eq!(Tensor::einsum("ii->i", &[&s]).to_vec::<i32>()?, [0, 4, 8]);
        assert_eq!(Tensor::einsum("ii", &[&s]).item::<i32>()?, 12);
        let x = Tensor::arange(24).reshape([2, 3, 4]);
        assert_eq!(Tensor::einsum("...ij->...ji", &[&x]).shape(), [2, 4, 3]);
        assert!(Tensor::einsum("ij,jk", &[&a]).check().is_err());
        Ok(())
    });
}

#[test]
fn backward_adds_up() {
    on(|| {
        // equal constants are still two parameters
        let (a, b) = (Tensor::ones([2]).requires_grad(true), Tensor::ones([2]).requires_grad(true));
        (&a * 2.0 + &b * 3.0).sum(..).backward()?;
        (&a * 10.0).sum(..).backward()?;
        assert_eq!(a.grad().unwrap().to_vec::<f32>()?, [12.0, 12.0]);
        assert_eq!(b.grad().unwrap().to_vec::<f32>()?, [3.0, 3.0]);
        Ok(())
    });
}

#[test]
fn small_floats_accumulate_widely() {
    on(|| {
        let x = Tensor::full([4096], 1.0).half();
        assert_eq!(x.sum(..).to_vec::<f32>()?, [4096.0]);
        let y = Tensor::full([1, 3000], 1.0).bfloat16();
        assert_eq!(y.matmul(&y.t()).to_vec::<f32>()?, [3008.0]);
        assert_eq!(Tensor::from_vec(vec![200u8; 3], [3]).sum(..).item::<u32>()?, 600);
        assert_eq!(Tensor::new([true, true]).sum(..).item::<i32>()?, 2);
        Ok(())
    });
}

#[test]
fn threads_build_and_realise_at_once() {
    let handles: Vec<_> = (0..4)
        .map(|i| {
            std::thread::spawn(move || {
                on(|| {
                    for k in 0..5 {
                        let x = Tensor::arange(10) + (i * 100 + k);
                        assert_eq!(x.sum(..).item::<i32>()?, 45 + 10 * (i * 100 + k));
                    }
                    Ok(())
                })
            })
        })
        .collect();
    for h in handles {
        h.join().unwrap();
    }
}

/// The gradient of the sum of `f(x)`.
fn slope(x: &Tensor, f: impl Fn(&Tensor) -> Tensor) -> Result<Vec<f32>> {
    f(x).sum(..).gradient(&[x])?.remove(0).to_vec::<f32>()
}

#[test]
fn ties_share_a_gradient_but_the_first_in_a_pool_has_it() {
    on(|| {
        let x = Tensor::new([1.0, 3.0, 3.0, 2.0]);
        assert_eq!(slope(&x, |x| x.max(..))?, [0.0, 0.5, 0.5, 0.0]);
        assert_eq!(slope(&x, |x| x.topk(1, 0, true).0)?, [0.0, 1.0, 0.0, 0.0]);
        assert_eq!(slope(&x, |x| x.kthvalue(4, 0).0)?, [0.0, 0.0, 1.0, 0.0]);
        let square = Tensor::new([[[[1.0, 2.0, 2.0], [2.0, 2.0, 1.0], [0.0, 2.0, 2.0]]]]);
        let window = Window::new().stride(1);
        let want = [0.0, 2.0, 0.0, 1.0, 1.0, 0.0, 0.0, 0.0, 0.0];
        assert_eq!(slope(&square, |x| x.max_pool2d(2, window.clone()))?, want);
        let want = [0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0];
        assert_eq!(slope(&square, |x| x.adaptive_max_pool(&[1, 1]))?, want);
        // NaN wins, and so has the gradient
        assert_eq!(slope(&Tensor::new([f64::NAN, 2.0]), |x| x.max(..))?, [1.0, 0.0]);
        let row = Tensor::new([[2.0, f64::NAN, f64::NAN, 1.0]]);
        assert_eq!(slope(&row, |x| x.max_pool(&[4], Window::new()))?, [0.0, 1.0, 0.0, 0.0]);
        Ok(())
    });
}

#[test]
fn roots_of_nothing_have_no_slope() {
    on(|| {
        let zero = Tensor::zeros([2]).contiguous();
        assert_eq!(slope(&zero, |x| x.norm(2.0, ..))?, [0.0, 0.0]);
        assert_eq!(slope(&zero, |x| x.norm(3.0, ..))?, [0.0, 0.0]);
        assert_eq!(slope(&Tensor::new([1.0, 1.0]), |x| x.std(.., 1))?, [0.0, 0.0]);
        Ok(())
    });
}

#[test]
fn a_way_of_slope_zero_gives_zeros() {
    on(|| {
        let (x, y) = (Tensor::new([1.0, -2.0]), Tensor::new([3.0, 4.0]));
        assert_eq!(slope(&x, |x| x.pow(0))?, [0.0, 0.0]);
        assert_eq!(x.pow(0).to_vec::<f32>()?, [1.0, 1.0]);
        assert_eq!(slope(&y, |y| x.copysign(y))?, [0.0, 0.0]);
        assert_eq!(slope(&x, |x| x.copysign(&y))?, [1.0, -1.0]);
        let empty = Tensor::zeros([0]).contiguous();
        let joined = Tensor::cat(&[empty.clone(), x.clone()], 0);
        assert_eq!(joined.to_vec::<f32>()?, [1.0, -2.0]);
        assert_eq!(joined.sum(..).gradient(&[&empty, &x])?[0].shape(), [0]);
        assert!(x.sum(..).gradient(&[&y]).is_err());
        Ok(())
    });
}

#[test]
fn nothing_along_an_axis_and_no_axis_at_all() {
    on(|| {
        let none = Tensor::zeros([3, 0]);
        assert_eq!(none.softmax(1).shape(), [3, 0]);
        assert_eq!(none.log_softmax(1).to_vec::<f32>()?, [0f32; 0]);
        assert_eq!(none.logsumexp(1).to_vec::<f32>()?, [f32::NEG_INFINITY; 3]);
        let three = Tensor::new(3.0);
        let all = [
            three.sum(0),
            three.mean(-1),
            three.max(0),
            three.min(-1),
            three.prod(0),
            three.squeeze(0),
            three.flip(0),
            three.logsumexp(-1),
            three.cumsum(0),
            three.median(0).0,
            three.norm(2.0, 0),
        ];
        for (i, t) in all.iter().enumerate() {
            assert_eq!((t.rank(), t.item::<f32>()?), (0, 3.0), "{i}");
        }
        assert_eq!((three.argmax(0).item::<i32>()?, three.softmax(-1).item::<f32>()?), (0, 1.0));
        assert!(three.sum(1).check().is_err());
        Ok(())
    });
}

#[test]
fn numbers_wrap_where_results_do() {
    on(|| {
        let (x, byte) = (Tensor::new([1, 2]), Tensor::full_dtype([1], -1, DType::U8));
        assert_eq!((&x | 0xFFFF_FFFFi64).to_vec::<i32>()?, [-1, -1]);
        assert_eq!((&x * 10_000_000_000_000i64).to_vec::<i32>()?, [1316134912, -1662697472]);
        assert_eq!(byte.to_vec::<u8>()?, [255]);
        assert!(
            x.lt(1i64 << 40).check().is_err() && Tensor::full_dtype([1], 300, DType::U8).check().is_err()
        );
        let mask = Tensor::new([true, false]);
        assert_eq!(mask.masked_fill(&mask, 1).dtype(), DType::Bool);
        let far = Tensor::new([500.0, -500.0, f64::INFINITY, 440.0]);
        assert_eq!(far.cast(DType::F8E4M3).float().to_vec::<f32>()?, [448.0, -448.0, 448.0, 448.0]);
        assert!(far.cast(DType::F8E5M2).float().to_vec::<f32>()?[2].is_infinite());
        let bytes = Tensor::new([[100, 2], [3, 4]]).cast(DType::I8);
        assert_eq!(bytes.matmul(&bytes).to_vec::<i8>()?, [22, -48, 56, 22]);
        let pixels = Tensor::new([[[[0, 255], [100, 7]]]]).cast(DType::U8);
        let o = Interpolate { mode: Sampling::Linear, ..Default::default() };
        assert_eq!(pixels.interpolate(&[3, 3], o).to_vec::<u8>()?, [0, 128, 255, 50, 91, 131, 100, 54, 7]);
        assert_eq!(Tensor::ones([3, 4]).unfold(1, 0, 8).shape(), [3, 1, 0]);
        let masked = Tensor::ones([3]).at(Tensor::new([true, false]));
        assert_eq!(masked.check().unwrap_err().kind(), Kind::Index);
        Ok(())
    });
}

#[test]
fn numbers_without_a_type_have_the_default_ones_of_their_scope() {
    on(|| {
        let made = || {
            let x = Tensor::new([1, 2]);
            [Tensor::new(1.5), Tensor::ones([2]), Tensor::rand([2]), &x / 2, x.exp()].map(|t| t.dtype())
        };
        let half = Defaults { float: DType::F16, int: DType::I64 };
        assert_eq!(made(), [DType::F32; 5]);
        assert_eq!(with_defaults(half, made), [DType::F16; 5]);
        assert_eq!(with_defaults(half, || Tensor::new([1, 2]).dtype()), DType::I64);
        // other threads have their own, and a type of another kind is none
        assert_eq!(
            with_defaults(half, || std::thread::scope(|s| s.spawn(defaults).join())).unwrap(),
            Defaults::default()
        );
        let wrong = Defaults { float: DType::I8, int: DType::I64 };
        assert_eq!(with_defaults(wrong, defaults), Defaults::default());
        assert_eq!(made(), [DType::F32; 5]);
        Ok(())
    });
}

#[test]
fn every_type_is_sorted_by_every_instruction_set() {
    for device in ["CPU:SSE2", "CPU:AVX2", "CPU"] {
        let sorted = |d: DType| {
            let x = ((Tensor::arange(700) * 37) % 101).cast(d).reshape([7, 100]);
            let (values, places) = x.sort(1, true);
            let again = x.gather(1, &places).eq(&values).all(..).item::<bool>()?;
            let falls = values.narrow(1, 0, 99).ge(values.narrow(1, 1, 99)).all(..).item::<bool>()?;
            let first = x.topk(3, 0, false).0.narrow(0, 0, 1).eq(x.min(keepdim(0))).all(..).item::<bool>()?;
            Ok::<bool, Error>(again && falls && first)
        };
        for d in
            [DType::I8, DType::U8, DType::I16, DType::U16, DType::F16, DType::BF16, DType::Bool, DType::I64]
        {
            // a machine without the set has no such device
            if let Ok(got) = Device::scope(device, || sorted(d)) {
                assert!(got.unwrap_or_else(|e| panic!("{device} {d}: {e}")), "{device} {d}");
            }
        }
    }
}

#[test]
fn a_gradient_is_computed_once_before_it_is_picked_from() {
    on(|| {
        let n = 129;
        let src = Tensor::full([n], 1.5).contiguous();
        let idx = (Tensor::arange(n) % 3).contiguous();
        let begin = std::time::Instant::now();
        let y = Tensor::ones([n]).scatter_reduce(0, &idx, &src, "prod", true).logcumsumexp(0).sum(..);
        assert_eq!(y.gradient(&[&src])?[0].to_vec::<f32>()?.len(), n);
        assert!(begin.elapsed().as_secs() < 20, "{:?}", begin.elapsed());
        Ok(())
    });
}

#[test]
fn thousands_are_joined_in_time_that_grows_with_their_number() {
    on(|| {
        let parts: Vec<Tensor> = (0..5000).map(|i| Tensor::new([i as f64]).contiguous()).collect();
        let all = Tensor::cat(&parts, 0);
        let begin = std::time::Instant::now();
        let got = all.to_vec::<f32>()?;
        assert!(got.iter().enumerate().all(|(i, v)| *v == i as f32));
        assert!(begin.elapsed().as_secs() < 10, "{:?}", begin.elapsed());
        Ok(())
    });
}

#[test]
fn an_index_that_names_whole_slices_scatters_like_any_other() {
    let values = Tensor::arange(24).float().reshape([2, 3, 4]).realize().unwrap();
    for axis in 0..3isize {
        let n = [2, 3, 4][axis as usize];
        let named = Tensor::new([1, 0, 1, 0]).at(..n).realize().unwrap();
        let mut dims = [1, 1, 1];
        dims[axis as usize] = n;
        let slices = named.reshape(dims).expand([2, 3, 4]);
        let onto = Tensor::full([2, 3, 4], 100.0).realize().unwrap();
        let places = slices.contiguous().realize().unwrap();
        for f in [Tensor::scatter_add, Tensor::scatter] {
            let (quick, plain) = (f(&onto, axis, &slices, &values), f(&onto, axis, &places, &values));
            assert_eq!(quick.to_vec::<f32>().unwrap(), plain.to_vec::<f32>().unwrap(), "axis {axis}");
        }
        let outside = Tensor::new([9, 0, 1, 0]).at(..n).reshape(dims).expand([2, 3, 4]);
        assert!(onto.scatter_add(axis, &outside, &values).to_vec::<f32>().is_err());
    }
}

#[test]
fn a_few_of_many_are_those_that_sorting_finds_first() {
    // many equal ones, NaN, infinities and both zeros among them
    let n = 3001;
    let value = |i: usize| match (i * 7919 % 1009) % 97 {
        0 => f32::NAN,
        1 => f32::INFINITY,
        2 => f32::NEG_INFINITY,
        3 => -0.0,
        r => (r / 3) as f32 - 15.0,
    };
    let rows: Vec<f32> = (0..2 * n).map(value).collect();
    let x = Tensor::new(rows).reshape([2, n]).realize().unwrap();
    for x in [x.clone(), x.clamp(-9.0, 9.0).ne(3.0).int(), x.half()] {
        for (axis, x) in [(1, x.clone()), (0, x.permute([1, 0]))] {
            for largest in [true, false] {
                let sorted = x.argsort(axis, largest);
                for k in [1usize, 5, 40] {
                    let (values, places) = x.topk(k, axis, largest);
                    let first = sorted.narrow(axis, 0, k);
                    assert_eq!(
                        places.to_vec::<i32>().unwrap(),
                        first.to_vec::<i32>().unwrap(),
                        "{k} {largest}"
                    );
                    let same = values.eq(x.gather(axis, &first)) | values.ne(&values);
                    assert!(same.all(..).item::<bool>().unwrap());
                }
            }
        }
    }
}

#[test]
fn numbers_in_random_order_are_all_there_at_any_length() {
    for n in [1, 2, 700, 4097, 5000, 8192, 10_001] {
        let drawn = |seed| {
            manual_seed(seed);
            [Tensor::randperm(n), Tensor::randperm(n)].map(|p| p.to_vec::<i32>().unwrap())
        };
        let [first, second] = drawn(3);
        for p in [&first, &second] {
            let mut sorted = p.clone();
            sorted.sort_unstable();
            assert!(sorted.into_iter().eq(0..n as i32), "{n} numbers");
        }
        assert_eq!(drawn(3), [first.clone(), second.clone()], "{n} numbers of the same seed");
        assert!(n < 700 || first != second && drawn(4)[0] != first, "{n} numbers drawn again");
    }
}

#[test]
fn long_random_orders_are_spread_like_short_ones() {
    manual_seed(11);
    let (n, draws, parts) = (5000, 20, 8);
    let mut met = vec![0f64; parts * parts];
    let mut fixed = 0;
    for _ in 0..draws {
        for (i, &v) in Tensor::randperm(n).to_vec::<i32>().unwrap().iter().enumerate() {
            fixed += (i == v as usize) as usize;
            met[i * parts / n * parts + v as usize * parts / n] += 1.0;
        }
    }
    let expected = (n * draws / parts / parts) as f64;
    let chi = met.iter().map(|m| (m - expected).powi(2) / expected).sum::<f64>();
    // of 49 degrees of freedom; and as many stay as there are draws
    assert!((15.0..100.0).contains(&chi) && (5..45).contains(&fixed), "{chi} {fixed}");
}

#[test]
fn sorting_keeps_the_order_of_equals_at_any_length() {
    let odd = [f32::NAN, 0.0, -0.0, f32::INFINITY, f32::NEG_INFINITY, 1e-40, -1e-40, f32::MAX, -2.5, 2.5];
    for n in [1, 2, 3, 16, 17, 40, 129, 300] {
        let x: Vec<f32> = (0..n).map(|i| odd[(i * i + i / 7) % odd.len()]).collect();
        let ints: Vec<i32> = (0..n).map(|i| [i32::MIN, 5, i32::MAX, -1, 0][(i * i + i / 3) % 5]).collect();
        let order = |a: f32, b: f32| a.partial_cmp(&b).unwrap_or_else(|| a.is_nan().cmp(&b.is_nan()));
        for descending in [false, true] {
            let turn = |o: std::cmp::Ordering| if descending { o.reverse() } else { o };
            let mut want: Vec<i32> = (0..n as i32).collect();
            want.sort_by(|&a, &b| turn(order(x[a as usize], x[b as usize])));
            let (values, places) = Tensor::new(&x).sort(0, descending);
            assert_eq!(places.to_vec::<i32>().unwrap(), want, "{n} floats, descending {descending}");
            let bits = |v: &[f32]| v.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
            let picked: Vec<f32> = want.iter().map(|&i| x[i as usize]).collect();
            assert_eq!(bits(&values.to_vec::<f32>().unwrap()), bits(&picked), "{n} floats");
            want.sort_unstable();
            want.sort_by(|&a, &b| turn(ints[a as usize].cmp(&ints[b as usize])));
            assert_eq!(
                Tensor::new(&ints).argsort(0, descending).to_vec::<i32>().unwrap(),
                want,
                "{n} integers"
            );
        }
    }
}

#[test]
fn a_few_of_more_than_a_float_counts_are_found() {
    let n = (1 << 21) + 100;
    let x = (Tensor::arange(n).cast(DType::I64) * 7919).modulo(n as i64).cast(DType::I32);
    let (values, places) = x.topk(3, 0, true);
    let want: Vec<i32> = (1..=3).map(|i| n - i).collect();
    assert_eq!(values.to_vec::<i32>().unwrap(), want);
    let at: Vec<i64> = places.to_vec::<i32>().unwrap().iter().map(|&p| p as i64 * 7919 % n as i64).collect();
    assert!(at.iter().zip(&want).all(|(a, w)| *a == *w as i64));
}
