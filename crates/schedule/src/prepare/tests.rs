//! Every rule about tensors is sound and alive: random instances of its pattern, evaluated before and after.

use super::*;
use frit_abi::DType;
use frit_abi::alu::AluTypes;
use frit_uop::eval::{Inputs, Value, eval};
use frit_uop::rules::{Apply, Pat, RuleSet};
use std::collections::HashMap;

/// Builds random tensors: small ones, of dims that are often 1, and sometimes without elements.
struct Sample {
    state: u64,
    names: HashMap<&'static str, UOp>,
    params: u32,
}

impl Sample {
    fn below(&mut self, n: usize) -> usize {
        self.state = self.state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.state >> 33) as usize % n
    }
    fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }
    fn dims(&mut self) -> Vec<UOp> {
        let dim = |s: &mut Sample| UOp::index([1, 1, 1, 2, 2, 2, 3, 3, 4, 0][s.below(10)]);
        (0..self.below(4)).map(|_| dim(self)).collect()
    }
    /// Elements of memory, or all of one constant.
    fn tensor(&mut self, dtype: DType, dims: &[UOp]) -> UOp {
        if self.chance(30) {
            return broadcast(&UOp::int(self.below(7) as i64 - 3, dtype), dims);
        }
        self.params += 1;
        let len = dims.iter().filter_map(|d| d.as_int()).product::<i64>();
        UOp::param(self.params, len as usize, dtype).reshape(dims)
    }
    fn axes(&mut self, rank: usize, percent: usize) -> Vec<u8> {
        (0..rank as u8).filter(|_| self.chance(percent)).collect()
    }
    /// An instance of a pattern; of these dims if it is a leaf.
    fn instance(&mut self, p: &Pat, dtype: DType, dims: &[UOp]) -> Option<UOp> {
        match p {
            Pat::Any | Pat::Rest => Some(self.tensor(dtype, dims)),
            Pat::Name(x) | Pat::Same(x) => {
                let made = match self.names.get(x) {
                    Some(known) => known.clone(),
                    None => self.tensor(dtype, dims),
                };
                self.names.insert(x, made.clone());
                Some(made)
            }
            Pat::Const(_) | Pat::Literal(_) => None,
            Pat::Op { ops, args, name, .. } => {
                let all: Vec<Op> = ops.iter().collect();
                let op = all[self.below(all.len())];
                let made = match op.alu().is_some() || matches!(op, Op::Cast | Op::Bitcast) {
                    true => self.elementwise(op, args, dtype, dims)?,
                    false => {
                        let x = self.instance(args.first().unwrap_or(&Pat::Any), dtype, dims)?;
                        self.on_tensor(op, &x)?
                    }
                };
                self.names.insert(name, made.clone());
                Some(made)
            }
        }
    }
    fn elementwise(&mut self, op: Op, args: &'static [Pat], dtype: DType, dims: &[UOp]) -> Option<UOp> {
        let alu = op.alu();
        let of = match alu.map(|a| a.types()) {
            Some(AluTypes::Float) => DType::F64,
            _ if alu == Some(Alu::Threefry) => DType::U64,
            Some(AluTypes::Bits) if self.chance(50) => DType::Bool,
            _ if op == Op::Bitcast => DType::U32,
            _ => dtype,
        };
        let mut src = vec![];
        for k in 0..alu.map_or(1, |a| a.arity()) {
            let of = if op == Op::Where && k == 0 { DType::Bool } else { of };
            // a scalar is repeated
            let dims = if self.chance(25) { &[] } else { dims };
            src.push(self.instance(args.get(k).unwrap_or(&Pat::Any), of, dims)?);
        }
        let to = match op {
            Op::Cast => DType::F64,
            Op::Lt | Op::Eq | Op::Ne => DType::Bool,
            _ => of,
        };
        Some(UOp::new(op, to, src, Arg::None)).filter(|n| n.try_shape().is_some())
    }
    /// A movement or a reduction of `x`, which may be one that changes nothing.
    fn on_tensor(&mut self, op: Op, x: &UOp) -> Option<UOp> {
        let dims = x.shape().to_vec();
        let (rank, mut parts) = (dims.len(), vec![]);
        let mut arg = Arg::None;
        match op {
            Op::Detach | Op::Contiguous => {}
            Op::Reshape => {
                parts = dims;
                if self.chance(30) {
                    parts = vec![UOp::index(index::max_numel(&parts) as i64)];
                }
                if self.chance(60) {
                    let at = self.below(parts.len() + 1);
                    parts.insert(at, UOp::index(1));
                } else if let Some(at) = parts.iter().position(is_one) {
                    parts.remove(at);
                }
            }
            Op::Expand => {
                let grown = |s: &mut Sample, d: &UOp| {
                    if is_one(d) { UOp::index(1 + s.below(3) as i64) } else { d.clone() }
                };
                parts = dims.iter().map(|d| grown(self, d)).collect();
            }
            Op::Permute => {
                let mut axes: Vec<u8> = (0..rank as u8).collect();
                (1..rank).rev().for_each(|i| axes.swap(i, self.below(i + 1)));
                arg = Arg::Axes(axes.into_iter().collect());
            }
            Op::Flip => arg = Arg::Axes(self.axes(rank, 50).into_iter().collect()),
            Op::Shrink => {
                let size = |d: &UOp| d.as_int().unwrap_or(0);
                let begin: Vec<i64> =
                    dims.iter().map(|d| self.below(size(d).max(1) as usize) as i64).collect();
                let left = dims.iter().zip(&begin).map(|(d, b)| UOp::index((size(d) - b - 1).max(0)));
                let left: Vec<UOp> = left.collect();
                parts = begin.into_iter().map(UOp::index).chain(left).collect();
            }
            Op::Pad => parts = (0..2 * rank).map(|_| UOp::index(self.below(3) as i64)).collect(),
            Op::ReduceAxis => {
                let alu = [Alu::Add, Alu::Mul, Alu::Max, Alu::Min][self.below(4)];
                arg = Arg::ReduceAxes(alu, self.axes(rank, 60).into_iter().collect());
            }
            Op::ScanAxis if rank > 0 => {
                arg = Arg::ReduceAxes(Alu::Add, [self.below(rank) as u8].into_iter().collect());
            }
            _ => return None,
        }
        let src: Vec<UOp> = std::iter::once(x.clone()).chain(parts).collect();
        Some(UOp::new(op, x.dtype, src, arg)).filter(|n| n.try_shape().is_some())
    }
}

fn values(n: &UOp) -> Result<Vec<Value>, String> {
    let element = |slot: u32, i: usize| (slot as i128 * 31 + i as i128 * 17) % 11 - 4;
    let buffer = |p: &UOp| {
        let Arg::Param { slot, len } = p.arg else { return None };
        let value = |i: usize| match p.dtype {
            DType::Bool => Value::Int(element(slot, i) & 1),
            d if d.is_float() => Value::Float(element(slot, i) as f64 / 4.0),
            d if d.is_unsigned() => Value::Int(element(slot, i).abs()),
            _ => Value::Int(element(slot, i)),
        };
        Some((0..len).map(value).collect())
    };
    let array = eval(n, &Inputs { buffer: &buffer, ..Inputs::NONE }).map_err(|e| e.to_string())?;
    Ok(array.values)
}
fn is_close(a: &Value, b: &Value) -> bool {
    let (x, y) = (a.as_f64(), b.as_f64());
    a == b || x.is_nan() && y.is_nan() || (x - y).abs() <= 1e-9 * x.abs().max(1.0)
}

/// Problems of the rules of a table.
fn check<C>(table: &'static RuleSet<C>, context: impl Fn(&UOp) -> C) -> Vec<String> {
    let mut bad = vec![];
    for (r, rule) in table.rules.iter().enumerate() {
        let mut fired = 0;
        for round in 0..20_000u64 {
            let state = (r as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ round.wrapping_mul(0x51ab_4321);
            let mut s = Sample { state, names: HashMap::new(), params: 0 };
            let (dtype, dims) = ([DType::I32, DType::I32, DType::F64][s.below(3)], s.dims());
            let Some(n) = s.instance(&rule.pattern, dtype, &dims) else { continue };
            let after = match rule.apply {
                Apply::Pure(f) => f(&n),
                Apply::Ctx(f) => f(&n, &mut context(&n)),
            };
            let Some(after) = after.filter(|a| *a != n) else { continue };
            fired += 1;
            let same = (n.dtype, n.try_shape()) == (after.dtype, after.try_shape());
            let sound = match (values(&n), values(&after)) {
                (Ok(a), Ok(b)) => a.len() == b.len() && a.iter().zip(&b).all(|(a, b)| is_close(a, b)),
                _ => false,
            };
            if !same || !sound {
                let text = |n: &UOp| frit_uop::text::print(n);
                bad.push(format!("{} {}:\n{}became\n{}", table.head.name, rule.text, text(&n), text(&after)));
                break;
            }
            if fired == 200 {
                break;
            }
        }
        if fired < 5 {
            bad.push(format!("{} {}: fired {fired} times only", table.head.name, rule.text));
        }
    }
    bad
}

#[test]
fn every_rule_is_sound_and_fires() {
    let pure = [&MOVEMENT, &REDUCTIONS, &EMPTY, &CONSTANTS].into_iter().flat_map(|t| check(t, |_| ()));
    let merges = check(&MERGES, |n| Shared::of(&n.toposort()));
    let bad: Vec<String> = pure.chain(merges).collect();
    assert!(bad.is_empty(), "{}", bad.join("\n"));
}
