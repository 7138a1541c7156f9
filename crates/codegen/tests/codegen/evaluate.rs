//! What a kernel means, computed the slow way: nested loops over its ranges, one element at a time.

use frit_uop::{Alu, Arg, DType, Op, Scalar, UOp};
use rustc_hash::FxHashMap;
use std::collections::HashMap;

/// Buffers by slot, as scalars of their types.
pub type Buffers = Vec<Vec<Scalar>>;

struct Evaluator<'a> {
    buffers: &'a mut Buffers,
    vars: &'a HashMap<String, i64>,
    env: FxHashMap<u32, i64>,
}

/// Run the kernel: the buffers change as its stores say.
pub fn evaluate(sink: &UOp, buffers: &mut Buffers, vars: &HashMap<String, i64>) {
    let mut e = Evaluator { buffers, vars, env: FxHashMap::default() };
    // several stores in the same ranges run side by side, as they would in one loop
    let mut groups: Vec<(Vec<UOp>, Vec<UOp>)> = vec![];
    for end in &sink.src {
        let (store, ranges) = if end.op == Op::End {
            (end.src[0].clone(), end.src[1..].to_vec())
        } else {
            (end.clone(), vec![])
        };
        match groups.iter_mut().find(|g| g.0 == ranges) {
            Some(g) => g.1.push(store),
            None => groups.push((ranges, vec![store])),
        }
    }
    for (mut ranges, stores) in groups {
        ranges.sort_by_key(|r| r.range_arg().unwrap().id);
        e.loops(&ranges, &mut |e| {
            let writes: Vec<_> = stores.iter().filter_map(|s| e.store(s)).collect();
            for (slot, at, v) in writes {
                e.buffers[slot][at] = v;
            }
        });
    }
}

impl Evaluator<'_> {
    fn loops(&mut self, ranges: &[UOp], body: &mut dyn FnMut(&mut Self)) {
        let Some((r, rest)) = ranges.split_first() else { return body(self) };
        let n = self.value(&r.src[0]).as_i64().unwrap();
        for i in 0..n {
            self.env.insert(r.range_arg().unwrap().id, i);
            self.loops(rest, body);
        }
        self.env.remove(&r.range_arg().unwrap().id);
    }
    fn store(&mut self, s: &UOp) -> Option<(usize, usize, Scalar)> {
        let v = self.value(&s.src[1]);
        let (slot, at) = self.address(&s.src[0])?;
        Some((slot, at, v))
    }
    fn address(&mut self, index: &UOp) -> Option<(usize, usize)> {
        let Arg::Param { slot, .. } = index.src[0].arg else { panic!("{index:?}") };
        Some((slot as usize, self.index(&index.src[1])? as usize))
    }
    fn index(&mut self, i: &UOp) -> Option<i64> {
        if i.op == Op::Where && i.src[2].op == Op::Invalid {
            return if self.value(&i.src[0]).as_bool() { self.index(&i.src[1]) } else { None };
        }
        self.value(i).as_i64()
    }
    fn value(&mut self, n: &UOp) -> Scalar {
        self.memo(n, &mut FxHashMap::default())
    }
    /// `seen` holds while no range changes.
    fn memo(&mut self, n: &UOp, seen: &mut FxHashMap<usize, Scalar>) -> Scalar {
        if let Some(v) = seen.get(&n.address()) {
            return *v;
        }
        let v = match (n.op, &n.arg) {
            (Op::Const, Arg::Scalar(s)) => *s,
            (Op::Variable, Arg::Var { name, .. }) => Scalar::Int(self.vars[&**name]),
            (Op::Range, Arg::Range(r)) => Scalar::Int(self.env[&r.id]),
            (Op::Load, _) => match self.address(&n.src[0]) {
                Some((slot, at)) => self.buffers[slot][at],
                None => Scalar::zero(n.dtype),
            },
            (Op::Cast, _) => self.memo(&n.src[0], seen).cast(n.dtype),
            (Op::Reduce, Arg::Alu(alu)) => {
                let mut acc = Scalar::identity(*alu, n.dtype).unwrap();
                let before = self.env.clone();
                self.loops(&n.src[1..], &mut |e| {
                    let x = e.value(&n.src[0]);
                    acc = Scalar::alu(*alu, n.dtype, &[acc, x]);
                });
                self.env = before;
                acc
            }
            (Op::Scan, Arg::Alu(alu)) => {
                let id = n.src[1].range_arg().unwrap().id;
                let (here, mut acc) = (self.env[&id], Scalar::identity(*alu, n.dtype).unwrap());
                for i in 0..=here {
                    self.env.insert(id, i);
                    let x = self.value(&n.src[0]);
                    acc = Scalar::alu(*alu, n.dtype, &[acc, x]);
                }
                acc
            }
            _ => {
                let alu = n.op.alu().unwrap_or_else(|| panic!("{n:?}"));
                let a: Vec<Scalar> = n.src.iter().map(|s| self.memo(s, seen)).collect();
                let d = n.src[(alu == Alu::Where) as usize].dtype;
                Scalar::alu(alu, if d == DType::Index { DType::I64 } else { d }, &a)
            }
        };
        seen.insert(n.address(), v);
        v
    }
}
