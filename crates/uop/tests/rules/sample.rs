//! Random nodes, random values, and what nodes evaluate to.

use frit_abi::alu::AluTypes;
use frit_uop::rules::Pat;
use frit_uop::symbolic::fold;
use frit_uop::{Alu, Arg, DType, Op, Scalar, UOp};
use std::collections::HashMap;

/// A small generator of pseudo-random numbers; the same in every run.
pub struct Rng(u64);

impl Rng {
    pub fn new(seed: u64) -> Rng {
        Rng(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ 0x1234_5678_9ABC_DEF1)
    }
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }
    pub fn below(&mut self, n: usize) -> usize {
        (self.next() >> 33) as usize % n
    }
    pub fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }
    pub fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }
}

/// The types tests use: every kind, narrow ones so that arithmetic wraps soon.
pub const TYPES: &[DType] = {
    use DType::*;
    &[Bool, I8, I32, I64, U8, U32, U64, Index, Index, Index, F32, F64, F16, F8E5M2Fnuz]
};

/// Builds random nodes. The same pattern name gives the same node; leaves come back now and then.
pub struct Sample {
    pub rng: Rng,
    /// The type comparisons compare.
    pub operand: DType,
    names: HashMap<&'static str, UOp>,
    pool: Vec<UOp>,
    serial: u32,
}

impl Sample {
    pub fn new(seed: u64, operand: DType) -> Sample {
        Sample { rng: Rng::new(seed), operand, names: HashMap::new(), pool: vec![], serial: 0 }
    }
    /// Any constant of a type, special values included.
    pub fn constant(&mut self, d: DType) -> UOp {
        UOp::constant(special(&mut self.rng, d), d)
    }
    fn leaf_variable(&mut self, d: DType) -> UOp {
        self.serial += 1;
        if !d.is_int() || (d != DType::Index && self.rng.chance(50)) {
            return UOp::param(self.serial, 1, d).at(&UOp::index(0)).load();
        }
        if d == DType::Index && self.rng.chance(40) {
            let n = self.rng.pick(&[1, 2, 3, 4, 5, 8, 28, 32]);
            return UOp::range(&UOp::index(n), self.serial, frit_uop::AxisKind::Loop);
        }
        let min =
            if d.is_unsigned() { self.rng.pick(&[0, 1, 7]) } else { self.rng.pick(&[-9, -4, -1, 0, 0, 1]) };
        let max = min + self.rng.pick(&[0, 1, 2, 3, 7, 15, 31, 100]);
        let name = format!("v{}", self.serial).as_str().into();
        UOp::new(Op::Variable, d, [], Arg::Var { name, min, max })
    }
    /// A value of a type: a leaf, or a small expression.
    pub fn value(&mut self, d: DType, depth: usize) -> UOp {
        let old: Vec<UOp> = self.pool.iter().filter(|u| u.dtype == d).cloned().collect();
        if !old.is_empty() && self.rng.chance(40) {
            return old[self.rng.below(old.len())].clone();
        }
        if self.rng.chance(8) {
            return self.constant(d);
        }
        let made = if depth == 0 || self.rng.chance(35) {
            match d {
                DType::Bool if self.rng.chance(60) => self.comparison(0),
                _ => self.leaf_variable(d),
            }
        } else {
            self.expression(d, depth)
        };
        self.pool.push(made.clone());
        made
    }
    fn comparison(&mut self, depth: usize) -> UOp {
        let d = self.operand;
        let x = self.value(d, depth);
        let y = if self.rng.chance(70) { self.constant(d) } else { self.value(d, depth) };
        let c = x.bin(self.rng.pick(&[Alu::Lt, Alu::Lt, Alu::Lt, Alu::Eq, Alu::Ne]), &y);
        if self.rng.chance(35) { c.un(Alu::Not) } else { c }
    }
    fn expression(&mut self, d: DType, depth: usize) -> UOp {
        use Alu::*;
        let depth = depth - 1;
        if d == DType::Bool {
            return match self.rng.below(8) {
                0 | 1 => self.comparison(depth),
                2 => self.value(d, depth).un(Not),
                3 => self.choice(d, depth),
                4 => {
                    let from = self.rng.pick(&[DType::Bool, DType::I32]);
                    self.value(from, depth).cast(d)
                }
                _ => {
                    let op = self
                        .rng
                        .pick(&[And, Or, And, Or, Xor, Add, Mul, Max, Min, Sub, Eq, Ne, Lt, Idiv, Mod]);
                    self.value(d, depth).bin(op, &self.value(d, depth))
                }
            };
        }
        if self.rng.chance(12) {
            return self.choice(d, depth);
        }
        if self.rng.chance(8) {
            let from = self.rng.pick(TYPES);
            return self.value(from, depth).cast(d);
        }
        if d.is_float() {
            let op = self.rng.pick(&[Add, Sub, Mul, Fdiv, Max, Min, Neg]);
            let x = self.value(d, depth);
            return if op == Neg { x.un(Neg) } else { x.bin(op, &self.value(d, depth)) };
        }
        let x = self.value(d, depth);
        // mostly what indices are made of: constants to the right
        if self.rng.chance(60) {
            let op = self.rng.pick(&[Add, Mul, Idiv, Mod, Add, Mul, Idiv, Mod, Sub, Max, Min]);
            return x.bin(op, &self.constant(d));
        }
        let more: &[Alu] = if d == DType::Index { &[] } else { &[And, Or, Xor, Shl, Shr, Idiv, Mod, Tdiv] };
        let ops = [&[Add, Add, Add, Sub, Mul, Max, Min, Neg][..], more].concat();
        let op = self.rng.pick(&ops);
        if self.rng.chance(5) {
            return UOp::alu(MulAcc, &[&x, &self.value(d, depth), &self.value(d, depth)]);
        }
        if op == Neg { x.un(Neg) } else { x.bin(op, &self.value(d, depth)) }
    }
    fn choice(&mut self, d: DType, depth: usize) -> UOp {
        self.value(DType::Bool, depth).select(&self.value(d, depth), &self.value(d, depth))
    }

    /// An instance of a pattern of type `d`; `None` where the type does not fit or the pattern is about memory.
    pub fn instance(&mut self, p: &Pat, d: DType) -> Option<UOp> {
        match p {
            Pat::Any | Pat::Rest => Some(self.value(d, 2)),
            Pat::Name(x) | Pat::Same(x) => {
                if let Some(u) = self.names.get(x) {
                    return (u.dtype == d).then(|| u.clone());
                }
                let u = self.value(d, 2);
                self.names.insert(x, u.clone());
                Some(u)
            }
            Pat::Const(_) => {
                let c = self.constant(d);
                c.as_int().map(|_| c)
            }
            Pat::Literal(l) => {
                let fits = match l.value() {
                    Scalar::Bool(_) => d == DType::Bool,
                    Scalar::Float(_) => d.is_float(),
                    _ => !d.is_float(),
                };
                let c = UOp::constant(l.value(), d);
                (fits && l.is(&c)).then_some(c)
            }
            Pat::Op { ops, args, either, name } => {
                let op = self.rng.pick(&ops.iter().collect::<Vec<_>>());
                let u = self.op_instance(op, args, *either, d)?;
                if !name.is_empty() {
                    self.names.insert(name, u.clone());
                }
                Some(u)
            }
        }
    }
    fn op_instance(&mut self, op: Op, args: &'static [Pat], either: bool, d: DType) -> Option<UOp> {
        let types: Vec<DType> = match op {
            Op::Const => return Some(self.constant(d)),
            Op::Invalid => return (d == DType::Index).then(UOp::invalid),
            Op::Stack => {
                return matches!(args, [Pat::Rest]).then(|| {
                    let lanes: Vec<UOp> = (0..4)
                        .map(|_| if self.rng.chance(80) { self.constant(d) } else { self.value(d, 1) })
                        .collect();
                    UOp::stack(lanes)
                });
            }
            Op::Lane => vec![d],
            Op::Where => vec![DType::Bool, d, d],
            Op::Lt | Op::Eq | Op::Ne if d == DType::Bool => vec![self.operand; 2],
            Op::Cast => vec![self.rng.pick(TYPES)],
            Op::Bitcast => {
                let same: Vec<DType> = TYPES.iter().copied().filter(|t| t.size() == d.size()).collect();
                vec![self.rng.pick(&same)]
            }
            op if op.alu().is_some_and(|a| is_defined(a, d)) => vec![d; op.alu()?.arity()],
            _ => return None,
        };
        let mut src = vec![];
        for (i, t) in types.into_iter().enumerate() {
            let rest = &Pat::Rest;
            src.push(self.instance(args.get(i).unwrap_or(rest), t)?);
        }
        if either && self.rng.chance(50) {
            src.swap(0, 1);
        }
        let arg = if op == Op::Lane { Arg::Lane(self.rng.below(4) as u32) } else { Arg::None };
        Some(UOp::new(op, d, src, arg))
    }
}

fn is_defined(a: Alu, d: DType) -> bool {
    let fits = match a.types() {
        AluTypes::Any => true,
        AluTypes::Float => d.is_float(),
        AluTypes::Int => d.is_int(),
        AluTypes::Bits => !d.is_float(),
    };
    match a {
        Alu::Idiv | Alu::Mod | Alu::Tdiv => d.is_int(),
        Alu::Threefry => d == DType::U64,
        a => fits && !a.is_comparison(),
    }
}

/// A value of a type, often a special one. Indices stay small: they do not overflow.
pub fn special(rng: &mut Rng, d: DType) -> Scalar {
    const SMALL: &[i64] = &[-12, -7, -4, -3, -2, -1, 0, 0, 1, 1, 2, 3, 4, 5, 6, 8, 12, 28, 32, 64];
    match d {
        DType::Bool => Scalar::Bool(rng.chance(50)),
        DType::Index => Scalar::Int(rng.pick(SMALL)),
        d if d.is_float() => {
            let v = rng.pick(&[
                0.0,
                -0.0,
                1.0,
                -1.0,
                0.5,
                2.0,
                3.0,
                4.0,
                -8.0,
                1.1,
                f64::NAN,
                f64::INFINITY,
                f64::NEG_INFINITY,
                1e-310,
                1e-40,
                f64::MIN_POSITIVE,
                f64::MAX,
                3.4028234663852886e38,
                65504.0,
                1e9,
                16777217.0,
            ]);
            Scalar::float(v, d)
        }
        d => {
            let (lo, hi) = d.int_range().unwrap();
            let v = match rng.below(10) {
                0 => lo,
                1 => hi,
                2 => lo + 1,
                3 => hi - 1,
                4 => rng.next() as i128,
                _ => rng.pick(SMALL) as i128,
            };
            Scalar::int(v, d)
        }
    }
}

/// What a node evaluates to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value {
    Is(Scalar),
    /// An index that must not be accessed.
    Invalid,
    /// Anything will do: a comparison of an invalid index, an index beyond 64 bits.
    Undefined,
}

/// Values of leaves, made up when first asked for.
pub struct Env {
    rng: Rng,
    leaves: HashMap<UOp, Scalar>,
}

impl Env {
    pub fn new(seed: u64) -> Env {
        Env { rng: Rng::new(seed), leaves: HashMap::new() }
    }
    fn leaf(&mut self, n: &UOp) -> Scalar {
        if let Some(v) = self.leaves.get(n) {
            return *v;
        }
        let v = match (n.op, &n.arg) {
            (Op::Variable | Op::Range, _) => {
                let (lo, hi) = n.bounds;
                let at = match self.rng.below(6) {
                    0 => lo,
                    1 => hi,
                    _ => lo + self.rng.below((hi - lo + 1) as usize) as i128,
                };
                Scalar::int(at, n.dtype)
            }
            _ => special(&mut self.rng, n.dtype),
        };
        self.leaves.insert(n.clone(), v);
        v
    }
    /// The value of one lane of a node, every node on the way within its bounds.
    pub fn eval(&mut self, n: &UOp, lane: usize) -> Value {
        let v = self.eval_inner(n, lane);
        if let Value::Is(s) = v
            && n.dtype.int_range().is_some()
            && !(n.bounds.0 <= s.as_i128() && s.as_i128() <= n.bounds.1)
        {
            panic!("{} is {s:?}, outside its bounds {:?}", crate::show(n), n.bounds);
        }
        v
    }
    fn eval_inner(&mut self, n: &UOp, lane: usize) -> Value {
        match (n.op, &n.arg) {
            (Op::Const, Arg::Scalar(s)) => Value::Is(*s),
            (Op::Invalid, _) => Value::Invalid,
            (Op::Variable | Op::Range | Op::Load, _) => Value::Is(self.leaf(n)),
            (Op::Stack, _) => self.eval(&n.src[lane], lane),
            (Op::Lane, Arg::Lane(i)) => self.eval(&n.src[0], *i as usize),
            (Op::Where, _) => match self.eval(&n.src[0], lane) {
                Value::Is(c) => self.eval(&n.src[if c.as_bool() { 1 } else { 2 }], lane),
                _ => Value::Undefined,
            },
            _ => {
                let mut of = HashMap::new();
                let mut worst = None;
                for s in &n.src {
                    match self.eval(s, lane) {
                        Value::Is(v) => {
                            of.insert(s.clone(), v);
                        }
                        Value::Undefined => worst = Some(Value::Undefined),
                        Value::Invalid if worst.is_none() => {
                            let value = n.dtype != DType::Index;
                            worst = Some(if value { Value::Undefined } else { Value::Invalid });
                        }
                        Value::Invalid => {}
                    }
                }
                if let Some(w) = worst {
                    return w;
                }
                if n.dtype == DType::Index && overflows(n, &of) {
                    return Value::Undefined;
                }
                fold::value(n, |s| of.get(s).copied()).map_or(Value::Undefined, Value::Is)
            }
        }
    }
}

fn overflows(n: &UOp, of: &HashMap<UOp, Scalar>) -> bool {
    let v = |i: usize| of[&n.src[i]].as_i128();
    let exact = match n.op {
        Op::Add => v(0) + v(1),
        Op::Sub => v(0) - v(1),
        Op::Mul => v(0) * v(1),
        Op::Neg => -v(0),
        Op::Cast => {
            return !n.src[0].dtype.is_float() && i64::try_from(v(0)).is_err();
        }
        _ => return false,
    };
    exact.abs() > 1 << 61
}
