//! Kernels walked as nested loops; every access is checked against its buffer.

use crate::tensor_eval::{Memory, elementwise};
use frit_abi::Scalar;
use frit_schedule::{BufRef, Schedule};
use frit_uop::{Arg, AxisKind, Op, UOp};
use std::collections::HashMap;

/// Contents of all parameters after the kernels have run. Temporaries start as garbage and share the arena's bytes.
pub fn run(s: &Schedule, memory: &Memory, vars: &[(&str, i64)]) -> Memory {
    let mut params = memory.clone();
    let mut temps: Vec<Vec<Option<Scalar>>> = s.temps.iter().map(|t| vec![None; t.len]).collect();
    for (number, k) in s.kernels.iter().enumerate() {
        // writing a temporary destroys those that share its bytes
        let mut bufs: Vec<Vec<Option<Scalar>>> = k
            .args
            .iter()
            .map(|a| match a {
                BufRef::Param(p) => params[p].iter().map(|v| Some(*v)).collect(),
                BufRef::Temp(t) => temps[*t as usize].clone(),
            })
            .collect();
        let mut written = vec![false; bufs.len()];
        Kernel {
            bufs: &mut bufs,
            written: &mut written,
            vars,
            env: HashMap::new(),
            carried: HashMap::new(),
            number,
        }
        .run(&k.ast);
        for (i, a) in k.args.iter().enumerate().filter(|(i, _)| written[*i]) {
            match a {
                BufRef::Param(p) => {
                    params.insert(*p, bufs[i].iter().map(|v| v.unwrap()).collect());
                }
                BufRef::Temp(t) => {
                    let bytes = |t: u32| {
                        let (t, offset) = (s.temps[t as usize], s.offsets[t as usize]);
                        offset..offset + t.len * t.dtype.size()
                    };
                    for o in 0..s.temps.len() as u32 {
                        let (x, y) = (bytes(o), bytes(*t));
                        if o != *t && x.start < y.end && y.start < x.end {
                            temps[o as usize].fill(None);
                        }
                    }
                    temps[*t as usize] = bufs[i].clone();
                }
            }
        }
    }
    params
}

struct Kernel<'a> {
    bufs: &'a mut [Vec<Option<Scalar>>],
    written: &'a mut [bool],
    vars: &'a [(&'a str, i64)],
    env: HashMap<u32, i64>,
    /// Scans: the value carried by the last iteration.
    carried: HashMap<UOp, (i64, Scalar)>,
    number: usize,
}

impl Kernel<'_> {
    fn run(&mut self, sink: &UOp) {
        // stores over the same ranges run iteration by iteration, each iteration's loads before its stores
        let mut groups: Vec<(Vec<UOp>, Vec<UOp>)> = vec![];
        for e in &sink.src {
            let (ranges, store) = match e.op {
                Op::End => (e.src[1..].to_vec(), e.src[0].clone()),
                _ => (vec![], e.clone()),
            };
            match groups.iter_mut().find(|g| g.0 == ranges) {
                Some(g) => g.1.push(store),
                None => groups.push((ranges, vec![store])),
            }
        }
        for (mut ranges, stores) in groups {
            ranges.sort_by_key(|r| r.range_arg().unwrap().id);
            self.nest(&ranges, &stores);
        }
    }
    fn nest(&mut self, ranges: &[UOp], stores: &[UOp]) {
        let Some((r, inner)) = ranges.split_first() else {
            let ready: Vec<_> = stores
                .iter()
                .map(|s| {
                    let at = self.address(&s.src[0]);
                    (at, self.value(&s.src[1]))
                })
                .collect();
            for (s, (at, v)) in stores.iter().zip(ready) {
                match at {
                    Some((b, i)) => {
                        assert_eq!(v.cast(s.src[0].dtype), v, "stored value of another type");
                        self.bufs[b][i] = Some(v);
                        self.written[b] = true;
                    }
                    None => panic!("store outside, site {:?}", s.arg),
                }
            }
            return;
        };
        let id = r.range_arg().unwrap().id;
        let n = self.value(&r.src[0]).as_i64().unwrap();
        let mut order: Vec<i64> = (0..n).collect();
        if r.range_arg().unwrap().kind != AxisKind::Ordered {
            order.reverse(); // any order will do
        }
        for i in order {
            self.env.insert(id, i);
            self.nest(inner, stores);
        }
        self.env.remove(&id);
    }
    fn address(&mut self, n: &UOp) -> Option<(usize, usize)> {
        assert_eq!(n.op, Op::Index);
        let Arg::Param { slot, len } = n.src[0].arg else { panic!("{n:?}") };
        let at = self.index(&n.src[1])?;
        assert!(
            at >= 0 && (at as usize) < len && (at as usize) < self.bufs[slot as usize].len(),
            "kernel {}: element {at} of {len} in buffer {slot}",
            self.number
        );
        Some((slot as usize, at as usize))
    }
    fn index(&mut self, n: &UOp) -> Option<i64> {
        match n.op {
            Op::Invalid => None,
            Op::Where if n.dtype == frit_abi::DType::Index => {
                let c = self.value(&n.src[0]).as_bool();
                self.index(&n.src[if c { 1 } else { 2 }])
            }
            _ => self.value(n).as_i64(),
        }
    }
    fn value(&mut self, n: &UOp) -> Scalar {
        match (n.op, &n.arg) {
            (Op::Const, Arg::Scalar(s)) => *s,
            (Op::Variable, Arg::Var { name, .. }) => {
                Scalar::Int(self.vars.iter().find(|v| v.0 == &**name).unwrap_or_else(|| panic!("{name}")).1)
            }
            (Op::Range, Arg::Range(r)) => Scalar::Int(*self.env.get(&r.id).expect("a closed range")),
            (Op::Load, _) => match self.address(&n.src[0]) {
                Some((b, i)) => {
                    self.bufs[b][i].unwrap_or_else(|| panic!("kernel {}: nothing in {b}[{i}]", self.number))
                }
                None => {
                    assert_eq!(n.arg, Arg::None, "load outside at a checked place");
                    Scalar::zero(n.dtype)
                }
            },
            (Op::Where, _) => {
                let c = self.value(&n.src[0]).as_bool();
                self.value(&n.src[if c { 1 } else { 2 }])
            }
            (Op::Reduce, Arg::Alu(op)) => {
                let mut acc = Scalar::identity(*op, n.dtype).unwrap();
                self.reduce(&n.src[1..], &n.src[0], &mut |v| acc = Scalar::alu(*op, n.dtype, &[acc, v]));
                acc
            }
            (Op::Scan, Arg::Alu(op)) => {
                let i = self.value(&n.src[1]).as_i64().unwrap();
                let v = self.value(&n.src[0]);
                let v = match self.carried.get(n) {
                    _ if i == 0 => v,
                    Some((at, _)) if *at == i => self.carried[n].1,
                    Some((at, before)) => {
                        assert_eq!(*at + 1, i, "an ordered range that is not innermost");
                        Scalar::alu(*op, n.dtype, &[*before, v])
                    }
                    None => panic!("scan not started"),
                };
                self.carried.insert(n.clone(), (i, v));
                v
            }
            _ => {
                let src: Vec<Scalar> = n.src.iter().map(|s| self.value(s)).collect();
                elementwise(n, &src)
            }
        }
    }
    fn reduce(&mut self, ranges: &[UOp], body: &UOp, add: &mut dyn FnMut(Scalar)) {
        let Some((r, inner)) = ranges.split_first() else {
            let v = self.value(body);
            add(v);
            return;
        };
        let id = r.range_arg().unwrap().id;
        assert!(!self.env.contains_key(&id), "a range opened twice");
        for i in 0..self.value(&r.src[0]).as_i64().unwrap() {
            self.env.insert(id, i);
            self.reduce(inner, body, add);
        }
        self.env.remove(&id);
    }
}
