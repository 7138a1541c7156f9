//! Short names for building tensor graphs, and checks on schedules.

use crate::{kernel_eval, tensor_eval};
use frit_abi::{Alu, DType, Scalar, Target};
use frit_schedule::{BufRef, Schedule, schedule_and_watch};
use frit_uop::{Arg, AxisKind, Op, UOp};

pub fn dims(d: &[i64]) -> Vec<UOp> {
    d.iter().map(|&d| UOp::index(d)).collect()
}
pub fn sizes(x: &UOp) -> Vec<i64> {
    x.shape().iter().map(|d| d.bounds.1 as i64).collect()
}
/// Parameter `slot` seen as a tensor.
pub fn input(slot: u32, shape: &[i64], dtype: DType) -> UOp {
    UOp::param(slot, shape.iter().product::<i64>() as usize, dtype).reshape(&dims(shape))
}
pub fn f(slot: u32, shape: &[i64]) -> UOp {
    input(slot, shape, DType::F64)
}
pub fn reshape(x: &UOp, d: &[i64]) -> UOp {
    x.reshape(&dims(d))
}
pub fn expand(x: &UOp, d: &[i64]) -> UOp {
    x.expand(&dims(d))
}
/// Combined over axes that stay as size 1.
pub fn reduce(x: &UOp, op: Alu, axes: &[usize]) -> UOp {
    x.reduce_axes(op, axes)
}
pub fn sum(x: &UOp, axes: &[usize]) -> UOp {
    reduce(x, Alu::Add, axes)
}
pub fn max(x: &UOp, axes: &[usize]) -> UOp {
    reduce(x, Alu::Max, axes)
}
/// `y` repeated to the shape of `x`.
pub fn like(y: &UOp, x: &UOp) -> UOp {
    y.expand(x.shape())
}
pub fn c(v: f64) -> UOp {
    UOp::float(v, DType::F64)
}
pub fn relu(x: &UOp) -> UOp {
    x.bin(Alu::Max, &c(0.0))
}
/// (n, k) x (k, m)
pub fn matmul(a: &UOp, b: &UOp) -> UOp {
    let (n, k, m) = (a.shape()[0].clone(), a.shape()[1].clone(), b.shape()[1].clone());
    let one = UOp::index(1);
    let full = [n.clone(), m.clone(), k.clone()];
    let a = a.reshape(&[n.clone(), one.clone(), k.clone()]).expand(&full);
    let b = b.permute(&[1, 0]).reshape(&[one, m.clone(), k]).expand(&full);
    (a * b).reduce_axes(Alu::Add, &[2]).reshape(&[n, m])
}
pub fn softmax(x: &UOp) -> UOp {
    let axis = x.shape().len() - 1;
    let e = (x - like(&max(x, &[axis]), x)).un(Alu::Exp);
    e.bin(Alu::Fdiv, &like(&sum(&e, &[axis]), x))
}
pub fn layernorm(x: &UOp) -> UOp {
    let axis = x.shape().len() - 1;
    let n = c(1.0 / sizes(x)[axis] as f64);
    let centred = x - like(&(sum(x, &[axis]) * &n), x);
    let var = sum(&(&centred * &centred), &[axis]) * &n;
    let scale = (var + c(1e-5)).un(Alu::Sqrt).un(Alu::Recip);
    &centred * like(&scale, x)
}
/// x (b, ci, h, w), weights (co, ci, kh, kw), no padding, stride 1: windows by repeating, cutting and reshaping.
pub fn conv2d(x: &UOp, w: &UOp) -> UOp {
    let (xs, ws) = (sizes(x), sizes(w));
    let (b, ci, co, kh, kw) = (xs[0], xs[1], ws[0], ws[2], ws[3]);
    let x = windows(&windows(x, 2, kh), 4, kw); // (b, ci, oh, kh, ow, kw)
    let (oh, ow) = (xs[2] - kh + 1, xs[3] - kw + 1);
    let full = [b, co, oh, ow, ci, kh, kw];
    let x = expand(&reshape(&x.permute(&[0, 2, 4, 1, 3, 5]), &[b, 1, oh, ow, ci, kh, kw]), &full);
    let w = expand(&reshape(w, &[1, co, 1, 1, ci, kh, kw]), &full);
    reshape(&sum(&(x * w), &[4, 5, 6]), &[b, co, oh, ow])
}
/// Axis `a` of size n becomes (n-k+1, k): element (i, j) is i+j.
pub fn windows(x: &UOp, a: usize, k: i64) -> UOp {
    let s = sizes(x);
    let (n, o) = (s[a], s[a] - k + 1);
    // k+1 copies one after the other, read in rows of n+1: row j starts j elements further
    let with = |mid: &[i64]| -> Vec<i64> { [&s[..a], mid, &s[a + 1..]].concat() };
    let copies = expand(&reshape(x, &with(&[1, n])), &with(&[k + 1, n]));
    let line = reshape(&copies, &with(&[(k + 1) * n]));
    let line = line.shrink(&dims(&vec![0; s.len()]), &dims(&with(&[k * (n + 1)])));
    let rows = reshape(&line, &with(&[k, n + 1]));
    let rows = rows.shrink(&dims(&vec![0; s.len() + 1]), &dims(&with(&[k, o])));
    let mut order: Vec<usize> = (0..s.len() + 1).collect();
    order.swap(a, a + 1);
    rows.permute(&order)
}
pub fn iota(n: i64, dtype: DType) -> UOp {
    UOp::iota(&UOp::index(n), dtype)
}

/// Store tensors whole into fresh parameters `100, 101, …`.
pub fn outputs(values: &[UOp]) -> UOp {
    UOp::sink(values.iter().enumerate().map(|(i, v)| {
        let s = sizes(v);
        let p = UOp::param(100 + i as u32, s.iter().product::<i64>().max(0) as usize, v.dtype);
        p.reshape(v.shape()).store(v)
    }))
}
pub fn cpu() -> Target {
    Target { threads: 4, ..Target::interp() }
}

/// Schedule for a CPU and for a grid, evaluate both and the tensor graph, compare; returns the CPU's schedule.
pub fn check(sink: &UOp) -> Schedule {
    check_on(sink, &Target::interp_gpu());
    check_on(sink, &cpu())
}
pub fn check_on(sink: &UOp, target: &Target) -> Schedule {
    check_with(sink, target, &[])
}
pub fn check_with(sink: &UOp, target: &Target, vars: &[(&str, i64)]) -> Schedule {
    let s = scheduled(sink, target);
    well_formed(&s);
    let before = tensor_eval::inputs(sink);
    let want = tensor_eval::run(sink, &before, vars);
    let got = kernel_eval::run(&s, &before, vars);
    let rounded = sink.toposort().iter().any(|n| n.dtype == DType::F32);
    let tolerance = if rounded { 1e-4 } else { 1e-9 };
    for (slot, w) in &want {
        let g = &got[slot];
        for (i, (a, b)) in w.iter().zip(g).enumerate() {
            assert!(
                close(*a, *b, tolerance),
                "param {slot} element {i}: want {a:?}, got {b:?}\n{}",
                show(&s)
            );
        }
    }
    s
}
/// Schedule with every graph on the way checked: against the spec of its row, and that its text parses back to it.
pub fn scheduled(sink: &UOp, target: &Target) -> Schedule {
    let check = |name: &str, graph: &UOp, _: std::time::Duration| {
        let text = frit_uop::text::print(graph);
        assert_eq!(frit_uop::text::parse(&text).as_ref(), Ok(graph), "after {name}");
    };
    schedule_and_watch(sink, target, true, check).unwrap_or_else(|e| panic!("{e}"))
}
fn close(a: Scalar, b: Scalar, tolerance: f64) -> bool {
    match (a, b) {
        (Scalar::Float(a), Scalar::Float(b)) => {
            a == b || (a.is_nan() && b.is_nan()) || (a - b).abs() <= tolerance * (1.0 + a.abs().max(b.abs()))
        }
        _ => a == b,
    }
}

/// What every schedule keeps: legal nodes, unique range numbers, arguments for all parameters, sound kinds.
pub fn well_formed(s: &Schedule) {
    for k in &s.kernels {
        if let Err(e) = frit_uop::spec::check(&k.ast, frit_uop::spec::Spec::Kernel) {
            panic!("{e}\n{}", show(s));
        }
        let nodes = k.ast.toposort();
        let params = nodes.iter().filter(|n| n.op == frit_uop::Op::Param).count();
        assert_eq!(params, k.args.len(), "an argument that is not used\n{}", show(s));
        assert!(k.ast.ranges.is_empty(), "open ranges\n{}", show(s));
        let mut ids: Vec<u32> = nodes.iter().filter_map(|n| n.range_arg()).map(|r| r.id).collect();
        let all = ids.len();
        ids.sort();
        ids.dedup();
        assert_eq!(ids.len(), all, "a range number twice\n{}", show(s));
        for n in &nodes {
            if let Arg::Param { slot, .. } = n.arg {
                assert!((slot as usize) < k.args.len());
            }
            if n.op == Op::Reduce {
                for r in nodes.iter().filter(|r| r.range_arg().is_some_and(|a| a.kind == AxisKind::Global)) {
                    assert!(
                        n.ranges.contains(&r.range_arg().unwrap().id),
                        "global range outside a reduce\n{}",
                        show(s)
                    );
                }
            }
        }
    }
    for (i, (a, offset)) in s.temps.iter().zip(&s.offsets).enumerate() {
        assert_eq!(offset % 64, 0);
        assert!(offset + a.len * a.dtype.size() <= s.arena_bytes, "temp {i}");
    }
}
pub fn show(s: &Schedule) -> String {
    s.kernels.iter().map(|k| format!("{:?} {}\n", k.args, frit_uop::text::print(&k.ast))).collect()
}
pub fn kinds(s: &Schedule, k: usize) -> Vec<AxisKind> {
    let mut r: Vec<_> = s.kernels[k].ast.toposort().iter().filter_map(|n| n.range_arg()).collect();
    r.sort_by_key(|r| r.id);
    r.iter().map(|r| r.kind).collect()
}
/// How many loads of parameter `slot` the kernels have, each with its own loops.
pub fn loads_of(s: &Schedule, slot: u32) -> usize {
    s.kernels
        .iter()
        .map(|k| {
            let at = k.args.iter().position(|a| *a == BufRef::Param(slot));
            let is_it = |n: &UOp| {
                n.op == Op::Load
                    && matches!(n.src[0].src[0].arg, Arg::Param { slot, .. } if Some(slot as usize) == at)
            };
            k.ast.toposort().iter().filter(|n| is_it(n)).count()
        })
        .sum()
}
/// The iterations of all loops of a kernel that nest, at most.
pub fn work(s: &Schedule, k: usize) -> i64 {
    s.kernels[k]
        .ast
        .toposort()
        .iter()
        .filter(|n| n.op == Op::Range)
        .map(|n| n.src[0].bounds.1 as i64)
        .product()
}
