//! Programs written as models: what runs of the model is what the program computes.

use frit_onnx::Session;
use frit_onnx::export::{Options, export};
use frit_tensor::*;

type Program<'a> = dyn Fn(&[Tensor]) -> Vec<Tensor> + 'a;

/// The operators of the model of a program, after it was run and compared.
fn exported(inputs: &[Tensor], options: Options, f: &Program) -> Vec<(String, usize)> {
    let given: Vec<&Tensor> = inputs.iter().collect();
    let model = export(&given, &options, f).unwrap();
    let session = Session::from_blob(&Blob::new(model)).unwrap();
    let feeds = session.inputs().iter().zip(inputs).map(|(p, t)| (p.name.clone(), t.clone().into()));
    let outputs = session.run(feeds.collect::<Vec<_>>()).unwrap();
    for (got, want) in outputs.iter().zip(f(inputs)) {
        let got = got.tensor().unwrap();
        assert_eq!((got.dims().unwrap(), got.dtype()), (want.dims().unwrap(), want.dtype()));
        let (a, b) = (got.double().to_vec::<f64>().unwrap(), want.double().to_vec::<f64>().unwrap());
        let near = |(a, b): (&f64, &f64)| {
            a == b || (a.is_nan() && b.is_nan()) || (a - b).abs() < 1e-5 * (1.0 + b.abs())
        };
        assert!(a.iter().zip(&b).all(near), "{:?}: {a:?} is not {b:?}", session.summary().operators);
    }
    session.summary().operators.into_iter().map(|(name, uses)| (name, uses.nodes)).collect()
}
fn operators(inputs: &[Tensor], f: &Program) -> Vec<String> {
    exported(inputs, Options::default(), f).into_iter().map(|(name, _)| name).collect()
}
fn random(dims: &[usize]) -> Tensor {
    Tensor::randn(dims).realize().unwrap()
}

#[test]
fn one_value_may_be_several_outputs() {
    let made =
        exported(&[random(&[3])], Options::default(), &|x| vec![&x[0] + 1.0, &x[0] + 1.0, x[0].clone()]);
    assert_eq!(made, [("Add".into(), 1), ("Identity".into(), 2)]);
}

#[test]
fn operations_with_a_name_are_one_operator() {
    let x = random(&[2, 6, 8, 8]);
    let (w, v, b) = (random(&[4, 3, 3, 3]), random(&[6, 2, 3, 3]), random(&[4]));
    let (scale, shift) = (random(&[6]), random(&[6]));
    let window = || Window::new().stride(2).padding(1).groups(2);
    let row = random(&[8]);
    let cases: &[(&str, &Program)] = &[
        ("MatMul", &|x| vec![x[0].matmul(&x[0])]),
        ("Conv", &|x| vec![x[0].conv2d(&w, Some(&b), window())]),
        ("ConvTranspose", &|x| vec![x[0].conv_transpose2d(&v, Some(&b), window().output_padding(1))]),
        ("MaxPool", &|x| vec![x[0].max_pool(&[3, 2], Window::new().padding(1).ceil_mode(true))]),
        ("AveragePool", &|x| vec![x[0].avg_pool(&[3, 3], Window::new().padding(1).count_include_pad(false))]),
        ("LayerNormalization", &|x| vec![x[0].layernorm(-1, Some(&row), None, 1e-5)]),
        ("RMSNormalization", &|x| vec![x[0].rmsnorm([-2, -1], None, 1e-5)]),
        ("BatchNormalization", &|x| vec![x[0].batchnorm(Some(&scale), None, &shift, &scale.abs())]),
        ("GroupNormalization", &|x| vec![x[0].groupnorm(3, Some(&scale), Some(&shift), 1e-5)]),
        ("Relu", &|x| vec![x[0].relu()]),
        ("Gelu", &|x| vec![x[0].gelu(), x[0].gelu_tanh()]),
        ("Max", &|x| vec![x[0].clamp_min(0.5)]),
        ("Min", &|x| vec![x[0].clamp_max(&row)]),
        ("Concat", &|x| vec![Tensor::cat(&[x[0].clone(), x[0].clone()], -3)]),
        ("Softmax", &|x| vec![x[0].softmax(1)]),
        ("LogSoftmax", &|x| vec![x[0].log_softmax(-1)]),
        ("Attention", &|x| vec![x[0].scaled_dot_product_attention(&x[0], &x[0], None, true)]),
    ];
    for (name, f) in cases {
        assert_eq!(operators(std::slice::from_ref(&x), f), [*name]);
    }
}

#[test]
fn what_an_opset_does_not_have_is_written_as_what_it_is_made_of() {
    let x = random(&[1, 2, 3, 4]);
    let f = |x: &[Tensor]| vec![x[0].scaled_dot_product_attention(&x[0], &x[0], None, false)];
    let made = exported(&[x], Options { opset: 18, ..Options::default() }, &f);
    let names: Vec<&str> = made.iter().map(|(n, _)| n.as_str()).collect();
    assert!(
        names.contains(&"MatMul") && names.contains(&"Softmax") && !names.contains(&"Attention"),
        "{names:?}"
    );
}

#[test]
fn elementwise_operations_and_movement_and_reductions() {
    let (x, n) = (random(&[3, 4]), Tensor::new([[7, -7, 3, -2], [5, -1, 0, 9]]));
    let w = random(&[4]);
    let cases: &[&Program] = &[
        &|x| vec![(&x[0] * 2.0 + &w).relu(), x[0].gelu(), x[0].silu(), x[0].softplus(), x[0].tanh()],
        &|x| vec![x[0].exp2(), x[0].abs().log2(), x[0].expm1(), x[0].abs().log1p(), x[0].erfc()],
        &|x| {
            vec![
                x[0].atan(),
                x[0].atan2(&w),
                x[0].trunc(),
                x[0].round(),
                x[0].abs().log10(),
                x[0].abs().rsqrt(),
            ]
        },
        &|x| {
            vec![x[0].sum(0), x[0].mean(-1), x[0].max(..), x[0].min(keepdim(1)), x[0].prod(1), x[0].cumsum(1)]
        },
        &|x| {
            vec![
                x[0].t(),
                x[0].flip(1),
                x[0].pad(&[(1, 2), (0, 3)], 0),
                x[0].narrow(1, 1, 2),
                x[0].repeat(&[2, 1]),
            ]
        },
        &|x| {
            vec![
                x[0].gt(0.0).where_(&x[0], -1.0),
                x[0].gt(0.0).any(1),
                x[0].argmax(1),
                x[0].gt(0.0).pad(&[(1, 0), (0, 0)], 0),
            ]
        },
        &|x| vec![Tensor::cat(&[x[0].clone(), Tensor::arange(8).reshape([2, 4]).float()], 0)],
        &|x| vec![x[0].clone(), x[0].clone(), w.clone(), Tensor::zeros([2, 3])],
        &|x| vec![x[0].embedding(&Tensor::new([[2, 0], [1, 1]])), x[0].index_select(1, &Tensor::new([3, 1]))],
    ];
    for f in cases {
        operators(std::slice::from_ref(&x), f);
    }
    operators(&[n], &|n| {
        let n = &n[0];
        vec![n.floor_div(3), n % 4, n & 5, n | 1, n ^ 3, n.bitwise_not(), n.cast(DType::U8), n.ne(3), n.neg()]
    });
}

#[test]
fn constants_are_stored_computed_unless_they_would_grow() {
    let w = random(&[4, 4]);
    let made = exported(&[random(&[4, 4])], Options::default(), &|x| vec![x[0].matmul(&(w.t() * 2.0).exp())]);
    assert_eq!(made, [("MatMul".to_string(), 1)]);
    let wide =
        exported(&[random(&[1])], Options::default(), &|x| vec![Tensor::ones([64, 64]).cumsum(0) + &x[0]]);
    assert!(wide.iter().any(|(n, _)| n == "CumSum"), "{wide:?}");
}

#[test]
fn sizes_with_variables_are_named_sizes() {
    let n = Variable::new("batch", 1, 16).unwrap().bind(4).unwrap();
    let w = random(&[6, 3]);
    let f = |x: &[Tensor]| {
        let s = x[0].shape();
        let y = x[0].reshape((&s[0], 6)).matmul(&w).softmax(-1);
        vec![Tensor::cat(&[y.clone(), y.narrow(1, 0, 1)], 1), x[0].flatten(0, -1)]
    };
    let x = Tensor::zeros((&n, 2, 3));
    let model = export(&[&x], &Options { inputs: vec!["x".into()], ..Options::default() }, f).unwrap();
    let session = Session::from_blob(&Blob::new(model)).unwrap();
    assert_eq!(session.inputs()[0].to_string(), "x  float [batch, 2, 3]");
    for rows in [1, 5] {
        let x = random(&[rows, 2, 3]);
        let got = session.run([("x", x.clone().into())]).unwrap();
        for (got, want) in got.iter().zip(f(&[x])) {
            let got = got.tensor().unwrap();
            assert!((&got - &want).abs().max(..).item::<f32>().unwrap() < 1e-6);
        }
    }
}

#[test]
fn calls_of_functions_are_written_where_they_are() {
    let w = random(&[4, 4]);
    let layer = function(|x: &[Tensor]| vec![(&x[0] + &w).sin()]);
    operators(&[random(&[4, 4])], &|x| layer.call(&[&layer.call(&[&x[0]])[0]]));
    let product = function(|x: &[Tensor]| vec![x[0].matmul(&w)]);
    assert_eq!(operators(&[random(&[4, 4])], &|x| product.call(&[&x[0]])), ["MatMul"]);
}

#[test]
fn loops_are_written_out() {
    let (x, w) = (random(&[5, 3]), random(&[3, 3]));
    operators(&[x, w], &|x| {
        let step = |i: &Dim, c: &[Tensor]| {
            let next = (c[0].matmul(&x[1]) + x[0].at(i)).tanh();
            (vec![next.clone()], vec![&next * 2.0])
        };
        let (last, all) = Tensor::scan(5, &[&Tensor::zeros([3])], step);
        vec![last[0].clone(), all[0].clone()]
    });
}

#[test]
fn long_loops_are_loops() {
    let (x, w) = (random(&[40, 3]), random(&[3, 3]));
    let step = |x: &[Tensor], i: &Dim, c: &[Tensor]| {
        let next = (c[0].matmul(&x[1]) + x[0].at(i)).tanh();
        // a loop inside it, and a value that is its own input
        let inner = Tensor::fori(20, &[&next], |_, c| vec![&c[0] * 0.5 + 1.0]).remove(0);
        (vec![next, c[0].clone()], vec![inner])
    };
    let f = |x: &[Tensor]| {
        let none = Tensor::zeros([3]);
        let (last, all) = Tensor::scan(40, &[&none, &none], |i, c| step(x, i, c));
        vec![last[0].clone(), last[1].clone(), all[0].clone()]
    };
    let made = exported(&[x.clone(), w.clone()], Options::default(), &f);
    let count = |name: &str| made.iter().find(|(n, _)| n == name).map(|(_, n)| *n);
    assert_eq!((count("Loop"), count("Tanh")), (Some(2), Some(1)), "{made:?}");
    // Python has no loops of its own: its tests give this model to onnx's checker and to onnxruntime
    let model = export(&[&x, &w], &Options::default(), f).unwrap();
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests-data/exported_loop.onnx");
    match std::env::var("BLESS").is_ok_and(|v| v == "1") {
        true => std::fs::write(file, model).unwrap(),
        false => {
            assert!(std::fs::read(file).unwrap() == model, "another model: if it is right, run with BLESS=1")
        }
    }
}

#[test]
fn a_loop_over_a_named_size_is_one_model_for_all() {
    let n = Variable::new("length", 1, 64).unwrap().bind(5).unwrap();
    let f = |x: &[Tensor]| {
        let first = x[0].at(0);
        let step = |_: &Dim, c: &[Tensor]| (vec![&c[0] * 0.5 + &first], vec![c[0].clone()]);
        let (last, all) = Tensor::scan(&x[0].shape()[0], &[&Tensor::zeros([3])], step);
        vec![last[0].clone(), all[0].clone()]
    };
    let model = export(&[&Tensor::zeros((&n, 3))], &Options::default(), f).unwrap();
    let session = Session::from_blob(&Blob::new(model)).unwrap();
    for rows in [2, 30] {
        let x = random(&[rows, 3]);
        let got = session.run([("input0", x.clone().into())]).unwrap();
        for (got, want) in got.iter().zip(f(&[x])) {
            let got = got.tensor().unwrap();
            assert_eq!(got.dims().unwrap(), want.dims().unwrap());
            assert!((&got - &want).abs().max(..).item::<f32>().unwrap() < 1e-6);
        }
    }
}

#[test]
fn sorting_is_an_operator() {
    let x = random(&[3, 7]);
    let made = operators(&[x], &|x| {
        let ((sorted, places), (top, _)) = (x[0].sort(-1, false), x[0].topk(2, 0, true));
        vec![sorted, places, top, x[0].argsort(0, true)]
    });
    assert_eq!(made, ["Cast", "TopK"]);
}

#[test]
fn what_has_no_form_is_an_error() {
    let x = random(&[3]);
    let fails = |f: &Program| export(&[&x], &Options::default(), f).unwrap_err().to_string();
    let e = fails(&|x| vec![x[0].bitcast(DType::I32)]);
    assert!(e.contains("no form for a Bitcast"), "{e}");
    let e = fails(&|x| {
        vec![
            Tensor::new(x[0].item::<f32>().unwrap_or(1.0)),
            x[0].sum(..).realize().unwrap_or_else(Tensor::failed),
        ]
    });
    assert!(e.contains("function"), "{e}");
    let e =
        export(&[&x], &Options { opset: 3, ..Options::default() }, |x| x.to_vec()).unwrap_err().to_string();
    assert!(e.contains("opset 3 is not one of 18 to"), "{e}");
    let names = Options { inputs: vec!["y".into()], outputs: vec!["y".into()], ..Options::default() };
    let e = export(&[&x], &names, |x| vec![x[0].sin()]).unwrap_err().to_string();
    assert!(e.contains("two values are called \"y\""), "{e}");
}

#[test]
fn an_output_that_a_loop_reads_keeps_the_name_it_has_there() {
    operators(&[random(&[40, 3])], &|x| {
        let twice = &x[0] * 2.0;
        let step = |i: &Dim, c: &[Tensor]| (vec![&c[0] + twice.select(0, i)], vec![]);
        let (last, _) = Tensor::scan(40, &[&Tensor::zeros([3])], step);
        vec![twice.clone(), last[0].clone()]
    });
}

#[test]
fn what_is_drawn_before_is_stored_and_what_is_drawn_in_the_program_is_an_error() {
    let (x, w) = (random(&[3]), Tensor::randn([3]));
    operators(std::slice::from_ref(&x), &|x| vec![&x[0] + &w]);
    let drawn = |f: &Program| export(&[&x], &Options::default(), f).unwrap_err().to_string();
    for said in [
        drawn(&|x| vec![&x[0] + Tensor::randn([3])]),
        drawn(&|x| {
            let step = |_: &Dim, c: &[Tensor]| (vec![&c[0] + Tensor::rand([3])], vec![]);
            vec![Tensor::scan(40, &[&x[0]], step).0[0].clone()]
        }),
    ] {
        assert!(said.contains("random numbers are drawn in the program"), "{said}");
    }
}
