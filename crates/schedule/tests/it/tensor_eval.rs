//! A tensor graph evaluated element by element, nothing shared with the scheduler.

use frit_abi::{Alu, DType, Scalar};
use frit_uop::{Arg, Op, ScatterMode, UOp};
use std::collections::{BTreeMap, HashMap};

pub type Memory = BTreeMap<u32, Vec<Scalar>>;

/// Deterministic contents for every parameter of the graph.
pub fn inputs(sink: &UOp) -> Memory {
    let mut m = Memory::new();
    for n in sink.toposort() {
        if let Arg::Param { slot, len } = n.arg {
            let mut state = 0x9e37_79b9_u64.wrapping_mul(slot as u64 + 1);
            let values = (0..len).map(|_| {
                state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                let r = (state >> 40) as i64;
                if n.dtype.is_float() {
                    Scalar::float((r % 2001 - 1000) as f64 / 500.0, n.dtype)
                } else {
                    Scalar::int((r % 3) as i128, n.dtype)
                }
            });
            m.insert(slot, values.collect());
        }
    }
    m
}

pub struct Value {
    pub dims: Vec<i64>,
    pub data: Vec<Scalar>,
}

struct Eval<'a> {
    memory: &'a Memory,
    vars: &'a [(&'a str, i64)],
    values: HashMap<UOp, Value>,
    contents: HashMap<UOp, Vec<Scalar>>,
}

fn coords(dims: &[i64], mut flat: i64) -> Vec<i64> {
    let mut c = vec![0; dims.len()];
    for k in (0..dims.len()).rev() {
        c[k] = flat % dims[k];
        flat /= dims[k];
    }
    c
}
fn flat(dims: &[i64], c: &[i64]) -> i64 {
    dims.iter().zip(c).fold(0, |f, (d, c)| f * d + c)
}

/// Contents of all parameters after the graph has run.
pub fn run(sink: &UOp, memory: &Memory, vars: &[(&str, i64)]) -> Memory {
    let mut e = Eval { memory, vars, values: HashMap::new(), contents: HashMap::new() };
    let mut out = Memory::new();
    for n in sink.toposort() {
        match n.op {
            Op::Store => {
                let (slot, new) = e.store(&n);
                e.contents.insert(n.clone(), new.clone());
                out.insert(slot, new);
            }
            Op::Sink => {}
            _ => {
                let v = e.value(&n);
                e.values.insert(n, v);
            }
        }
    }
    out
}

impl Eval<'_> {
    fn dim(&self, d: &UOp) -> i64 {
        self.scalar(d).as_i64().unwrap()
    }
    fn scalar(&self, d: &UOp) -> Scalar {
        match (&d.arg, d.op) {
            (Arg::Scalar(s), _) => *s,
            (Arg::Var { name, .. }, _) => Scalar::Int(self.vars.iter().find(|v| v.0 == &**name).unwrap().1),
            (_, o) => {
                let src: Vec<Scalar> = d.src.iter().map(|s| self.scalar(s)).collect();
                Scalar::alu(o.alu().unwrap(), d.src[0].dtype, &src)
            }
        }
    }
    fn dims(&self, n: &UOp) -> Vec<i64> {
        n.shape().iter().map(|d| self.dim(d)).collect()
    }
    /// Parameter and contents of the memory under a view.
    fn base(&self, view: &UOp) -> (u32, Vec<Scalar>) {
        match (&view.arg, view.op) {
            (Arg::Param { slot, .. }, _) => (*slot, self.memory[slot].clone()),
            (_, Op::After) => {
                let (slot, _) = self.base(&view.src[0]);
                (slot, self.contents[view.src.last().unwrap()].clone())
            }
            _ => self.base(&view.src[0]),
        }
    }
    /// The position in memory of an element of a view.
    fn position(&self, view: &UOp, c: &[i64]) -> i64 {
        match view.op {
            Op::Param => c[0],
            Op::After => self.position(&view.src[0], c),
            _ => self.position(&view.src[0], &self.back(view, c).unwrap()),
        }
    }
    /// The element of the source that a movement op shows at `c`; `None` in padding.
    fn back(&self, n: &UOp, c: &[i64]) -> Option<Vec<i64>> {
        let from = self.dims(&n.src[0]);
        let extra: Vec<i64> = n.src[1..].iter().map(|d| self.dim(d)).collect();
        Some(match (n.op, &n.arg) {
            (Op::Reshape, _) => coords(&from, flat(&self.dims(n), c)),
            (Op::Expand, _) => c.iter().zip(&from).map(|(c, f)| if *f == 1 { 0 } else { *c }).collect(),
            (Op::Permute, Arg::Axes(a)) => {
                let mut out = vec![0; c.len()];
                a.iter().enumerate().for_each(|(i, &a)| out[a as usize] = c[i]);
                out
            }
            (Op::Flip, Arg::Axes(a)) => {
                let mut out = c.to_vec();
                a.iter().for_each(|&a| out[a as usize] = from[a as usize] - 1 - c[a as usize]);
                out
            }
            (Op::Shrink, _) => c.iter().zip(&extra).map(|(c, b)| c + b).collect(),
            (Op::Pad, _) => {
                let out: Vec<i64> = c.iter().zip(&extra).map(|(c, b)| c - b).collect();
                if out.iter().zip(&from).any(|(o, f)| *o < 0 || o >= f) {
                    return None;
                }
                out
            }
            _ => panic!("{n:?}"),
        })
    }
    fn store(&self, n: &UOp) -> (u32, Vec<Scalar>) {
        let (slot, mut contents) = self.base(&n.src[0]);
        let v = &self.values[&n.src[1]];
        let d = self.dims(&n.src[0]);
        for i in 0..d.iter().product::<i64>() {
            let at = self.position(&n.src[0], &coords(&d, i)) as usize;
            contents[at] = v.data[if v.dims.is_empty() { 0 } else { i as usize }];
        }
        (slot, contents)
    }
    fn value(&self, n: &UOp) -> Value {
        let dims = if n.op == Op::Param { vec![self.memory[&slot(n)].len() as i64] } else { self.dims(n) };
        let count = dims.iter().product::<i64>();
        let src = |k: usize| &self.values[&n.src[k]];
        let data: Vec<Scalar> = match (n.op, &n.arg) {
            (Op::Param, _) => self.memory[&slot(n)].clone(),
            (Op::Const | Op::Variable, _) => vec![self.scalar(n)],
            (Op::Iota, _) => (0..count).map(|i| Scalar::int(i as i128, n.dtype)).collect(),
            (Op::After, _) => {
                let (_, contents) = self.base(n);
                (0..count).map(|i| contents[self.position(n, &coords(&dims, i)) as usize]).collect()
            }
            (Op::Contiguous | Op::Detach, _) => src(0).data.clone(),
            (Op::ReduceAxis, Arg::ReduceAxes(op, _)) => {
                let mut out = vec![Scalar::identity(*op, n.dtype).unwrap(); count as usize];
                let x = src(0);
                for i in 0..x.data.len() {
                    let c: Vec<i64> = coords(&x.dims, i as i64)
                        .iter()
                        .zip(&dims)
                        .map(|(c, d)| if *d == 1 { 0 } else { *c })
                        .collect();
                    let o = &mut out[flat(&dims, &c) as usize];
                    *o = Scalar::alu(*op, n.dtype, &[*o, x.data[i]]);
                }
                out
            }
            (Op::ScanAxis, Arg::ReduceAxes(op, axes)) => {
                let mut out = src(0).data.clone();
                for i in 0..count {
                    let mut c = coords(&dims, i);
                    if c[axes[0] as usize] > 0 {
                        c[axes[0] as usize] -= 1;
                        let before = out[flat(&dims, &c) as usize];
                        out[i as usize] = Scalar::alu(*op, n.dtype, &[before, out[i as usize]]);
                    }
                }
                out
            }
            (Op::Gather, _) => {
                let (x, idx) = (src(0), src(1));
                let row = x.dims[1..].iter().product::<i64>();
                (0..count)
                    .map(|i| {
                        x.data[(idx.data[(i / row) as usize].as_i64().unwrap() * row + i % row) as usize]
                    })
                    .collect()
            }
            (Op::Scatter, Arg::Scatter(mode, _)) => {
                let (mut out, idx, val) = (src(0).data.clone(), src(1), src(2));
                let row = dims[1..].iter().product::<i64>();
                for i in 0..val.data.len() as i64 {
                    let at = (idx.data[(i / row) as usize].as_i64().unwrap() * row + i % row) as usize;
                    out[at] = match mode {
                        ScatterMode::Set => val.data[i as usize],
                        ScatterMode::Combine(op) => {
                            Scalar::alu(*op, n.dtype, &[out[at], val.data[i as usize]])
                        }
                    };
                }
                out
            }
            (o, _) if o.is_movement() => (0..count)
                .map(|i| match self.back(n, &coords(&dims, i)) {
                    Some(c) => src(0).data[flat(&src(0).dims, &c) as usize],
                    None => Scalar::zero(n.dtype),
                })
                .collect(),
            _ => (0..count)
                .map(|i| {
                    let of = |k: usize| src(k).data[if src(k).dims.is_empty() { 0 } else { i as usize }];
                    elementwise(n, &(0..n.src.len()).map(of).collect::<Vec<_>>())
                })
                .collect(),
        };
        Value { dims, data }
    }
}

fn slot(n: &UOp) -> u32 {
    match n.arg {
        Arg::Param { slot, .. } => slot,
        _ => panic!(),
    }
}

pub fn elementwise(n: &UOp, src: &[Scalar]) -> Scalar {
    match n.op {
        Op::Cast => src[0].cast(n.dtype),
        Op::Bitcast => Scalar::from_bits(src[0].to_bits(n.src[0].dtype), n.dtype),
        Op::Where => Scalar::alu(Alu::Where, n.dtype, src),
        o => {
            let d = if n.src[0].dtype == DType::Index { DType::I64 } else { n.src[0].dtype };
            Scalar::alu(o.alu().unwrap_or_else(|| panic!("{n:?}")), d, src)
        }
    }
}
