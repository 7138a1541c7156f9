//! The faults of the past as programs: each is what the fuzzer makes of it when it finds it, written by hand.

use crate::number::Fun;
use crate::program::{Function, Id, Input, LOCALS, Op, Place, Program, Step, Value, input};
use crate::run;
use frit::DType;

const REST: Place = Place::Slice(Some(1), None, 1);
const NONE: Place = Place::Slice(Some(9), None, 1);

/// Steps in a row, each with the name of its place.
fn steps(ops: Vec<Op>) -> Vec<Step> {
    ops.into_iter().enumerate().map(|(i, op)| Step { out: i as Id * 10, op }).collect()
}
fn data(dtype: DType, n: usize) -> Op {
    Op::Data { dtype, dims: vec![n], values: (1..=n as i64).collect() }
}
fn full(dtype: DType, n: usize) -> Op {
    Op::Full { dtype, dims: vec![n], value: 1 }
}
fn add(to: Id, k: i64) -> Op {
    Op::InPlace { to, fun: Fun::Add, by: Value::Number(k) }
}
fn times(of: Id, k: i64) -> Op {
    Op::Apply { of, fun: Fun::Mul, by: Value::Number(k) }
}
fn plus(of: Id, by: Id) -> Op {
    Op::Apply { of, fun: Fun::Add, by: Value::Tensor(by) }
}
fn set(to: Id, place: Place) -> Op {
    Op::Set { to, places: vec![place], value: Value::Number(5) }
}
fn at(of: Id, place: Place) -> Op {
    Op::At { of, places: vec![place] }
}
fn realize(all: &[Id]) -> Op {
    Op::Realize { all: all.to_vec() }
}
/// A function over tensors 0 and 10 that gives back what its last step makes.
fn define(inputs: usize, ops: Vec<Op>, returns: &[Id]) -> Op {
    let body = ops.into_iter().enumerate().map(|(i, op)| Step { out: local(i), op }).collect();
    Op::Define {
        function: Function {
            captures: vec![0, 10],
            inputs,
            body,
            returns: returns.to_vec(),
            recapture: true,
        },
    }
}
fn local(i: usize) -> Id {
    LOCALS + i as Id
}
fn call(jit: Id, inputs: &[Id], training: bool) -> Op {
    Op::Call { jit, inputs: inputs.iter().map(|&of| Input { of, rows: None }).collect(), training }
}
/// Two tensors of state, a function over them, and calls with something in between.
fn called(function: Op, between: Vec<Op>, inputs: &[Id]) -> Vec<Step> {
    let mut ops = vec![data(DType::F32, 3), data(DType::F32, 3), function];
    for _ in 0..5 {
        ops.push(call(20, inputs, false));
        ops.extend(between.clone());
    }
    steps(ops)
}

fn known() -> Vec<(&'static str, Vec<Step>)> {
    let f32 = DType::F32;
    vec![
        ("W1: a Jit reads state that is assigned between calls", {
            let sum = Op::Sum { of: local(0), axis: None };
            let body = vec![plus(0, 10), sum, Op::Contiguous { of: local(1) }];
            called(define(0, body, &[local(2)]), vec![add(0, 1)], &[])
        }),
        ("W1: part of what a Jit computes is of state only", {
            let body = vec![
                Op::Sum { of: 0, axis: None },
                Op::Contiguous { of: local(0) },
                plus(input(0), local(1)),
            ];
            called(define(1, body, &[local(2)]), vec![add(0, 1)], &[10])
        }),
        ("W1: a Jit returns a window on state", {
            called(define(0, vec![at(0, REST)], &[local(0)]), vec![add(0, 1)], &[])
        }),
        ("W2: a Jit returns a whole window on state that it writes", {
            let body = vec![
                plus(0, 10),
                Op::Assign { to: 0, value: Value::Tensor(local(0)) },
                Op::Reshape { of: 0, dims: vec![1, 3] },
                realize(&[local(2)]),
            ];
            called(define(0, body, &[local(2)]), vec![], &[])
        }),
        ("W3: an item of a bool that is not computed", {
            let not = Op::Apply { of: 0, fun: Fun::Xor, by: Value::Number(1) };
            steps(vec![data(DType::Bool, 3), not, set(10, Place::At(0))])
        }),
        ("W3: items of small integers", { steps(vec![Op::Arange { dtype: DType::I8, n: 5 }, set(0, REST)]) }),
        ("W3: through a stepped view of a stepped view", {
            let (two, three) = (Place::Slice(Some(3), None, 2), Place::Slice(Some(1), None, 3));
            steps(vec![data(DType::U8, 7), at(0, two), set(10, three)])
        }),
        ("W4: a view taken before an assignment, alone", steps(vec![data(f32, 2), at(0, REST), add(0, 1)])),
        ("W4: both realised together", {
            steps(vec![data(f32, 2), at(0, REST), add(0, 1), realize(&[10, 0])])
        }),
        ("W4: both written", steps(vec![data(f32, 3), at(0, REST), add(0, 10), add(10, 1)])),
        ("W5: an empty reduction is realised first", {
            steps(vec![data(f32, 3), add(0, 10), Op::EmptySum { of: 0 }, realize(&[20])])
        }),
        ("W5: while the old value is held", {
            let ops = vec![data(f32, 4), times(0, 1), add(0, 10), Op::EmptySum { of: 0 }, realize(&[30])];
            steps(ops)
        }),
        ("W6: an empty slice is assigned while the old version is used", {
            let nothing = Op::Set { to: 0, places: vec![NONE], value: Value::Number(0) };
            steps(vec![data(f32, 3), times(0, 10), nothing, plus(10, 0), Op::Read { of: 30 }])
        }),
        ("C4: an input is assigned twice from its old value", {
            let again = Op::Assign { to: input(0), value: Value::Tensor(local(1)) };
            let body = vec![times(input(0), 2), Op::Contiguous { of: local(0) }, again.clone(), again];
            called(define(1, body, &[]), vec![], &[10])
        }),
        ("C4: outside of a Jit", {
            let again = Op::Assign { to: 0, value: Value::Tensor(20) };
            steps(vec![data(f32, 3), times(0, 2), Op::Contiguous { of: 10 }, again.clone(), again])
        }),
        ("K1: the state of a Jit is lent", {
            let body = vec![add(0, 1), plus(0, 10)];
            called(define(0, body, &[local(1)]), vec![Op::Lend { of: 0 }], &[])
        }),
        ("CONF 1: a write to a view whose base is gone", {
            let view = Op::Reshape { of: 0, dims: vec![2, 2] };
            steps(vec![data(f32, 4), view, Op::Drop { of: 0 }, set(10, Place::At(1))])
        }),
        (
            "CONF 1: a write through detach",
            steps(vec![data(f32, 2), Op::Detach { of: 0 }, set(10, Place::At(1))]),
        ),
        ("CONF 1: a write through bitcast", {
            steps(vec![data(f32, 2), Op::Bitcast { of: 0, dtype: DType::U32 }, set(10, Place::At(1))])
        }),
        ("CONF 1: an item of a bool constant", steps(vec![full(DType::Bool, 2), set(0, Place::At(1))])),
        ("CONF 1: two views, both written", {
            let (p, q) = (Place::Slice(None, Some(2), 1), Place::Slice(Some(2), None, 1));
            steps(vec![data(f32, 4), at(0, p), at(0, q), add(10, 1), add(20, 2)])
        }),
        ("CONF 2: gradients of equal constants", {
            let grad = Op::Gradient { leaves: vec![0, 10], a: vec![2, 3], b: vec![1, 1], computed: false };
            steps(vec![full(f32, 2), full(f32, 2), grad])
        }),
        ("CONF 3: a Jit without arguments", {
            called(define(0, vec![times(0, 2)], &[local(0)]), vec![add(0, 1)], &[])
        }),
        ("CONF 12: a live local over assigned state", {
            let body = vec![
                times(10, 2),
                Op::InPlace { to: 0, fun: Fun::Sub, by: Value::Tensor(local(0)) },
                Op::Assign { to: 10, value: Value::Number(0) },
                realize(&[0, 10]),
            ];
            called(define(0, body, &[]), vec![add(10, 2)], &[])
        }),
        ("W10: the training mode of a Jit", {
            let mut all = called(define(0, vec![Op::Mode { of: 0 }], &[local(0)]), vec![], &[]);
            for (i, s) in all.iter_mut().enumerate() {
                if let Op::Call { training, .. } = &mut s.op {
                    *training = i % 2 == 0;
                }
            }
            all
        }),
        ("W10: a write to a reshape that must copy", {
            let x = Op::Data { dtype: f32, dims: vec![2, 2], values: vec![1, 2, 3, 4] };
            let ops = vec![x, Op::Permute { of: 0, axes: vec![1, 0] }, Op::Reshape { of: 10, dims: vec![4] }];
            steps([ops, vec![set(20, REST)]].concat())
        }),
    ]
}

#[test]
fn known_faults_stay_away() {
    let mut found = vec![];
    for device in ["CPU", "INTERP"] {
        for (name, steps) in known() {
            let program = Program { device, forwards: true, steps };
            if let Err(f) = run::run(&program) {
                found.push(format!("{name}\n{program}{:?} at step {}: {}\n", f.kind, f.at, f.what));
            }
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}
