use super::*;
use crate::arg::AxisKind;

const F: DType = DType::F32;

fn dims(d: &[i64]) -> Vec<UOp> {
    d.iter().map(|&d| UOp::index(d)).collect()
}
/// Parameter 0 has 0, 1, 2, …; parameter 1 has 10, 11, …; n is 3.
fn numbered(p: &UOp) -> Option<Vec<Value>> {
    let Arg::Param { slot, len } = p.arg else { return None };
    Some((0..len).map(|i| Value::Int((i + 10 * slot as usize) as i128).cast(p.dtype)).collect())
}
const INPUTS: Inputs<'static> = Inputs { buffer: &numbered, variable: &|_| Some(3) };

fn get(x: &UOp) -> (Vec<usize>, Vec<f64>) {
    let a = eval(x, &INPUTS).unwrap();
    assert_eq!(a.shape.iter().product::<usize>(), a.values.len());
    (a.shape, a.values.iter().map(|v| v.as_f64()).collect())
}
fn values(x: &UOp) -> Vec<f64> {
    get(x).1
}
fn message(x: &UOp) -> String {
    eval(x, &INPUTS).unwrap_err().to_string()
}
/// 0..6 as two rows of three.
fn matrix() -> UOp {
    UOp::param(0, 6, F).reshape(&dims(&[2, 3]))
}
fn ints(v: &[i64]) -> UOp {
    let n = v.len() as i64;
    let pick = |x: UOp, (i, &v): (usize, &i64)| {
        UOp::iota(&UOp::index(n), DType::I32)
            .eq_(&UOp::int(i as i64, DType::I32))
            .select(&UOp::int(v, DType::I32), &x)
    };
    v.iter().enumerate().fold(UOp::int(0, DType::I32), pick)
}

#[test]
fn movement_ops_move() {
    let m = matrix();
    assert_eq!(get(&m), (vec![2, 3], vec![0., 1., 2., 3., 4., 5.]));
    assert_eq!(get(&m.permute(&[1, 0])), (vec![3, 2], vec![0., 3., 1., 4., 2., 5.]));
    assert_eq!(values(&m.flip(&[1])), [2., 1., 0., 5., 4., 3.]);
    assert_eq!(values(&m.flip(&[0, 1])), [5., 4., 3., 2., 1., 0.]);
    assert_eq!(get(&m.shrink(&dims(&[1, 0]), &dims(&[1, 2]))), (vec![1, 2], vec![3., 4.]));
    let padded = m.pad(&dims(&[0, 1]), &dims(&[1, 0]));
    assert_eq!(get(&padded), (vec![3, 4], vec![0., 0., 1., 2., 0., 3., 4., 5., 0., 0., 0., 0.]));
    let row = m.shrink(&dims(&[1, 0]), &dims(&[1, 3]));
    assert_eq!(values(&row.expand(&dims(&[2, 3]))), [3., 4., 5., 3., 4., 5.]);
    let empty = m.shrink(&dims(&[0, 1]), &dims(&[2, 0]));
    assert_eq!(get(&empty), (vec![2, 0], vec![]));
    assert_eq!(values(&empty.reduce_axes(Alu::Max, &[1])), [f64::NEG_INFINITY; 2]);
}

#[test]
fn reductions_and_scans_combine() {
    let m = matrix();
    assert_eq!(get(&m.reduce_axes(Alu::Add, &[1])), (vec![2, 1], vec![3., 12.]));
    assert_eq!(get(&m.reduce_axes(Alu::Max, &[0])), (vec![1, 3], vec![3., 4., 5.]));
    assert_eq!(values(&(&m + &UOp::float(1.0, F)).reduce_axes(Alu::Mul, &[0, 1])), [720.]);
    assert_eq!(values(&m.scan_axis(Alu::Add, 1)), [0., 1., 3., 3., 7., 12.]);
    assert_eq!(values(&m.scan_axis(Alu::Add, 0)), [0., 1., 2., 3., 5., 7.]);
    let wrapped = UOp::int(100, DType::I8).reshape(&dims(&[1])).expand(&dims(&[3]));
    assert_eq!(values(&wrapped.reduce_axes(Alu::Add, &[0])), [44.]);
}

#[test]
fn elementwise_broadcasts_scalars_and_keeps_doubles() {
    let x = &matrix() * &UOp::float(0.1, DType::F64).cast(F);
    assert_eq!(values(&x)[3], 3.0 * 0.1f32 as f64);
    assert_eq!(values(&x.cast(DType::F64).cast(F))[3], (3.0 * 0.1f32 as f64) as f32 as f64);
    let gate = matrix().lt(&UOp::float(2.0, F));
    assert_eq!(values(&gate.select(&UOp::float(-1.0, F), &matrix())), [-1., -1., 2., 3., 4., 5.]);
    assert_eq!(values(&UOp::float(1.0, F).bitcast(DType::I32)), [0x3f80_0000 as f64]);
    assert_eq!(values(&UOp::int(-1, DType::I8).bitcast(DType::U8)), [255.]);
    assert_eq!(values(&UOp::iota(&UOp::index(3), DType::I32)), [0., 1., 2.]);
}

#[test]
fn gather_and_scatter_go_by_rows_and_refuse_misses() {
    let m = matrix();
    assert_eq!(get(&m.gather(&ints(&[1, 0, 1]), 0)), (vec![3, 3], vec![3., 4., 5., 0., 1., 2., 3., 4., 5.]));
    let rows = UOp::param(1, 9, F).reshape(&dims(&[3, 3]));
    let at = ints(&[1, 0, 1]);
    let set = m.scatter(&at, &rows, ScatterMode::Set, 0);
    assert_eq!(values(&set), [13., 14., 15., 16., 17., 18.]);
    let added = m.scatter(&at, &rows, ScatterMode::Combine(Alu::Add), 0);
    assert_eq!(values(&added), [13., 15., 17., 29., 32., 35.]);
    assert!(message(&m.gather(&ints(&[0, 2]), 0)).contains("index 2 for 2 rows"));
    assert!(message(&m.gather(&ints(&[-1]), 0)).contains("index -1"));
}

#[test]
fn versions_of_a_buffer_see_their_stores_and_no_others() {
    let b = UOp::param(0, 6, F);
    let part = |x: &UOp, from: i64, n: i64| x.shrink(&dims(&[from]), &dims(&[n]));
    // b[1..3] = 7
    let first = b.after([part(&b, 1, 2).store(&UOp::float(7.0, F))]);
    // then b[2..5] = b[0..3], which overlaps itself
    let second = first.after([part(&first, 2, 3).store(&part(&first, 0, 3))]);
    assert_eq!(values(&b), [0., 1., 2., 3., 4., 5.]);
    assert_eq!(values(&first), [0., 7., 7., 3., 4., 5.]);
    assert_eq!(values(&second), [0., 7., 0., 7., 7., 5.]);
    // a view after a store through it, permuted onto itself
    let m = b.reshape(&dims(&[2, 3]));
    let square = m.shrink(&dims(&[0, 0]), &dims(&[2, 2]));
    let turned = square.after([square.store(&square.permute(&[1, 0]))]);
    assert_eq!(get(&turned), (vec![2, 2], vec![0., 3., 1., 4.]));
    // two stores, of which neither comes first
    let both = b.after([part(&b, 0, 1), part(&b, 5, 1)].map(|p| p.store(&UOp::float(9.0, F))));
    assert_eq!(values(&both), [9., 1., 2., 3., 4., 9.]);
    let on_top = both.after([part(&both, 5, 1).store(&UOp::float(8.0, F))]);
    assert_eq!(values(&on_top), [9., 1., 2., 3., 4., 8.]);
    // everything at once: reads see the buffer as it was
    let other = UOp::param(1, 6, F);
    let sink = UOp::sink([b.store(&other), other.store(&b)]);
    let done = eval_stores(&sink, &INPUTS).unwrap();
    let held: Vec<f64> = done.iter().map(|(_, v)| v[0].as_f64()).collect();
    assert_eq!((done.len(), held), (2, vec![10., 0.]));
}

#[test]
fn sizes_and_values_may_come_from_variables() {
    let n = UOp::variable("n", 1, 6);
    let x = UOp::param(0, 6, F).shrink(&dims(&[0]), std::slice::from_ref(&n));
    assert_eq!(get(&x), (vec![3], vec![0., 1., 2.]));
    assert_eq!(values(&x.reduce_axes(Alu::Add, &[0])), [3.]);
    let bound = UOp::param(0, 6, F).shrink(&dims(&[0]), &[n.bind(2)]);
    assert_eq!(get(&bound).0, [2]);
    let r = UOp::range(&UOp::index(8), 0, AxisKind::Loop);
    assert_eq!(values(&(&(&r * 5) - 7).floordiv(&UOp::index(3))), [2.]);
}

#[test]
fn what_has_no_value_is_an_error() {
    let m = matrix();
    assert!(message(&m.reshape(&dims(&[7]))).contains("does not fit a source of shape [2, 3]"));
    assert!(message(&m.shrink(&dims(&[1, 0]), &dims(&[2, 3]))).contains("Shrink"));
    let lonely = eval(&UOp::param(3, 4, F), &Inputs::NONE).unwrap_err().to_string();
    assert!(lonely.contains("Param") && lonely.contains("is not given"), "{lonely}");
    assert!(message(&UOp::param(0, 4, F).at(&UOp::index(0))).contains("not part of a tensor graph"));
}

#[test]
fn a_deep_graph_does_not_recurse() {
    let mut x = UOp::param(0, 4, DType::I32);
    for _ in 0..200_000 {
        x = &x + 1;
    }
    assert_eq!(values(&x), [200_000., 200_001., 200_002., 200_003.]);
    let mut b = UOp::param(0, 4, F);
    for i in 0..2000 {
        b = b.after([b.store(&(&b + &UOp::float(i as f64 % 3.0, F)))]);
    }
    assert_eq!(values(&b)[1], 1.0 + (0..2000).map(|i| (i % 3) as f64).sum::<f64>());
}
