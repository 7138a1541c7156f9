//! Random programs. Each seed switches some kinds of steps off (swarm testing: what is left meets more often), and a
//! block of seeds has the same few shapes and types, so that kernels are compiled once for many programs.

use crate::model::{Model, Tensors};
use crate::number::{DTYPES, Fun};
use crate::program::{Function, Id, Input, LOCALS, Op, Place, Program, Step, Value, input};
use crate::window::Window;
use frit::DType;

/// Seeds that share shapes and types.
const BLOCK: u64 = 512;
/// Shapes that tensors are made with.
const SHAPES: [&[usize]; 11] =
    [&[4], &[2, 3], &[6], &[3, 2], &[2, 2], &[5], &[], &[1, 3], &[0], &[2, 0], &[2, 1, 2]];

pub struct Rng(u64);

impl Rng {
    pub fn new(seed: u64) -> Rng {
        Rng(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x1234_5678_9abc_def0)
    }
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }
    /// Below `n`.
    pub fn below(&mut self, n: usize) -> usize {
        (self.next() % n.max(1) as u64) as usize
    }
    fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }
    fn pick<T: Clone>(&mut self, of: &[T]) -> Option<T> {
        of.get(self.below(of.len())).cloned()
    }
    fn of<T: Copy, const N: usize>(&mut self, of: [T; N]) -> T {
        of[self.below(N)]
    }
}

/// Kinds of steps, and how often there is one.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Kind {
    Create,
    Window,
    Value,
    Assign,
    InPlace,
    Set,
    SetFancy,
    Fancy,
    EmptySum,
    Replace,
    Realize,
    Read,
    Drop,
    Lend,
    Gradient,
    /// The old value of a tensor and its new one in one computation.
    OldAndNew,
    Define,
    Call,
}
const KINDS: [(Kind, usize); 18] = [
    (Kind::Create, 3),
    (Kind::Window, 6),
    (Kind::Value, 4),
    (Kind::Assign, 3),
    (Kind::InPlace, 4),
    (Kind::Set, 5),
    (Kind::SetFancy, 2),
    (Kind::Fancy, 1),
    (Kind::EmptySum, 2),
    (Kind::Replace, 1),
    (Kind::Realize, 4),
    (Kind::Read, 4),
    (Kind::Drop, 2),
    (Kind::Lend, 2),
    (Kind::Gradient, 2),
    (Kind::OldAndNew, 3),
    (Kind::Define, 3),
    (Kind::Call, 8),
];

/// How an input of a Jit must look.
#[derive(Clone)]
struct Form {
    dims: Vec<usize>,
    dtype: DType,
    symbolic: bool,
}

struct Generator {
    rng: Rng,
    model: Model,
    steps: Vec<Step>,
    next: Id,
    shapes: Vec<Vec<usize>>,
    dtypes: Vec<DType>,
    weights: Vec<(Kind, usize)>,
    /// Jits, what they are called with, and whether they look at the training mode.
    jits: Vec<(Id, Vec<Form>, bool)>,
}

/// The program of a seed.
pub fn program(seed: u64, device: &'static str) -> Program {
    let mut block = Rng::new(seed / BLOCK);
    let shapes = (0..3)
        .map(|_| {
            let n = block.below(2) * 4 + 7;
            SHAPES[block.below(n)].to_vec()
        })
        .collect();
    let dtypes = vec![block.of([DType::F32, DType::F32, DType::I32]), block.of(DTYPES), block.of(DTYPES)];
    let mut rng = Rng::new(!seed);
    let needed = [Kind::Create, Kind::Read];
    let mut weights: Vec<(Kind, usize)> =
        KINDS.into_iter().filter(|k| needed.contains(&k.0) || !rng.one_in(2)).collect();
    if weights.iter().any(|k| k.0 == Kind::Define) && !weights.iter().any(|k| k.0 == Kind::Call) {
        weights.push((Kind::Call, 8));
    }
    let most = if rng.one_in(3) { 36 } else { 14 };
    let length = 5 + rng.below(most);
    let mut g = Generator {
        rng,
        model: Model::default(),
        steps: vec![],
        next: 0,
        shapes,
        dtypes,
        weights,
        jits: vec![],
    };
    g.create();
    for _ in 0..length * 8 {
        if g.steps.len() >= length {
            break;
        }
        g.one();
    }
    let forwards = g.rng.one_in(2);
    Program { device, forwards, steps: g.steps }
}

impl Generator {
    fn push(&mut self, op: Op) -> Option<Id> {
        let step = Step { out: self.next, op };
        self.model.step(&step)?;
        for id in self.model.given_back(&step) {
            self.model.tensors.remove(&id);
        }
        self.next += step.op.outs();
        let out = step.out;
        self.steps.push(step);
        Some(out)
    }

    fn one(&mut self) -> Option<()> {
        let total = self.weights.iter().map(|w| w.1).sum();
        let mut at = self.rng.below(total);
        let kind = self.weights.iter().find(|w| {
            let here = at < w.1;
            at = at.saturating_sub(w.1);
            here
        })?;
        let op = match kind.0 {
            Kind::Create => return self.create().map(drop),
            Kind::Drop => Op::Drop { of: self.any()? },
            Kind::Read => Op::Read { of: self.any()? },
            Kind::Realize => {
                let n = 1 + self.rng.below(3);
                Op::Realize { all: (0..n).map(|_| self.any()).collect::<Option<_>>()? }
            }
            Kind::Lend if self.rng.one_in(3) => {
                let ids: Vec<Id> = self.model.lent.keys().copied().collect();
                Op::Return { of: self.rng.pick(&ids)? }
            }
            Kind::Lend => Op::Lend { of: self.any()? },
            Kind::Replace => {
                let (to, of) = (self.any()?, self.any()?);
                Op::Replace { to, value: Value::Computed(of, self.fun(of)?, self.small()) }
            }
            Kind::Gradient => return self.gradient(),
            Kind::OldAndNew => return self.old_and_new(),
            Kind::Define => return self.define(),
            Kind::Call => return self.call(),
            kind => {
                let env = self.model.tensors.clone();
                self.local(kind, &env)?
            }
        };
        self.push(op).map(drop)
    }

    fn small(&mut self) -> i64 {
        self.rng.of([1, 2, 3])
    }

    /// A tensor that lives, more often a young one.
    fn any(&mut self) -> Option<Id> {
        let env = std::mem::take(&mut self.model.tensors);
        let id = self.one_of(&env);
        self.model.tensors = env;
        id
    }
    fn one_of(&mut self, env: &Tensors) -> Option<Id> {
        let ids: Vec<Id> = env.keys().copied().collect();
        let from = if self.rng.one_in(2) { ids.len().saturating_sub(4) } else { 0 };
        self.rng.pick(&ids[from..])
    }
    fn fun(&mut self, of: Id) -> Option<Fun> {
        let dtype = self.model.tensors.get(&of)?.dtype;
        Some(self.fun_for(dtype))
    }
    fn fun_for(&mut self, dtype: DType) -> Fun {
        match dtype {
            DType::Bool => self.rng.of(Fun::LOGIC),
            d if d.is_float() => self.rng.of(Fun::NUMERIC),
            _ => self.rng.of([Fun::Add, Fun::Sub, Fun::Mul, Fun::And, Fun::Xor]),
        }
    }

    fn create(&mut self) -> Option<Id> {
        let (dims, dtype) = (self.rng.pick(&self.shapes.clone())?, self.rng.pick(&self.dtypes.clone())?);
        let op = self.leaf(dims, dtype);
        self.push(op)
    }
    fn leaf(&mut self, dims: Vec<usize>, dtype: DType) -> Op {
        match self.rng.below(6) {
            0 | 1 => Op::Full { dtype, dims, value: self.rng.below(3) as i64 },
            2 if dims.len() == 1 => Op::Arange { dtype, n: dims[0] },
            _ => self.data(dims, dtype),
        }
    }
    fn data(&mut self, dims: Vec<usize>, dtype: DType) -> Op {
        let n: usize = dims.iter().product();
        let start = self.rng.below(4) as i64;
        Op::Data { dtype, values: (0..n as i64).map(|i| (start + i) % 7).collect(), dims }
    }

    fn place(&mut self) -> Place {
        match self.rng.below(12) {
            0 => Place::At(0),
            1 => Place::At(-1),
            2 | 3 => Place::Slice(Some(1), None, 1),
            4 | 5 => Place::Slice(None, Some(2), 1),
            6 => Place::Slice(None, Some(-1), 1),
            7 => Place::Slice(None, None, 2),
            8 => Place::Slice(Some(1), None, 2),
            9 => Place::Slice(None, None, -1),
            10 => Place::Slice(None, None, 1),
            _ if self.rng.one_in(2) => Place::Slice(Some(9), None, 1),
            _ => Place::Slice(None, Some(0), 1),
        }
    }
    fn places(&mut self, rank: usize) -> Vec<Place> {
        let n = if rank > 1 && self.rng.one_in(3) { 2 } else { rank.min(1) };
        (0..n).map(|_| self.place()).collect()
    }

    /// A step that is possible at the top and in a function.
    fn local(&mut self, kind: Kind, env: &Tensors) -> Option<Op> {
        let id = self.one_of(env)?;
        let w = env.get(&id)?.clone();
        Some(match kind {
            Kind::Window => self.window(id, &w),
            Kind::Value => self.value(id, &w, env)?,
            Kind::EmptySum => Op::EmptySum { of: id },
            Kind::Assign => Op::Assign { to: id, value: self.assigned(env)? },
            Kind::InPlace => {
                let fun = self.fun_for(w.dtype);
                let by = if self.rng.one_in(3) {
                    Value::Tensor(self.one_of(env)?)
                } else {
                    Value::Number(self.small())
                };
                Op::InPlace { to: id, fun, by }
            }
            Kind::Set => Op::Set { to: id, places: self.places(w.dims.len()), value: self.assigned(env)? },
            Kind::SetFancy => match self.alike(env, &w.dims, DType::Bool) {
                Some(mask) if self.rng.one_in(2) => Op::SetMask { to: id, mask, value: self.assigned(env)? },
                _ => Op::SetRows { to: id, rows: self.rows(&w), value: self.assigned(env)? },
            },
            Kind::Fancy => match self.alike(env, &w.dims, DType::Bool) {
                Some(mask) if self.rng.one_in(2) => Op::Pick { of: id, mask },
                _ if self.rng.one_in(2) => Op::TakeBy { of: id, rows: self.one_of(env)? },
                _ => Op::Take { of: id, rows: self.rows(&w) },
            },
            _ => return None,
        })
    }
    fn rows(&mut self, w: &Window) -> Vec<i64> {
        let n = w.dims.first().copied().unwrap_or(0);
        if n == 0 {
            return vec![];
        }
        (0..1 + self.rng.below(2)).map(|_| self.rng.below(n) as i64 - self.rng.of([0, n as i64])).collect()
    }
    fn alike(&mut self, env: &Tensors, dims: &[usize], dtype: DType) -> Option<Id> {
        let fits = |w: &Window| w.dims == dims && w.dtype == dtype;
        let ids: Vec<Id> = env.iter().filter(|(_, w)| fits(w)).map(|(i, _)| *i).collect();
        self.rng.pick(&ids)
    }
    fn assigned(&mut self, env: &Tensors) -> Option<Value> {
        Some(match self.rng.below(6) {
            0 | 1 => Value::Number(self.rng.of([0, 1, 2, 5])),
            2 => Value::Float(self.rng.of([0, 1, 3])),
            3 | 4 => Value::Tensor(self.one_of(env)?),
            _ => {
                let of = self.one_of(env)?;
                let fun = self.fun_for(env.get(&of)?.dtype);
                Value::Computed(of, fun, self.small())
            }
        })
    }

    fn window(&mut self, of: Id, w: &Window) -> Op {
        let rank = w.dims.len();
        match self.rng.below(16) {
            0..=5 => Op::At { of, places: self.places(rank) },
            6..=8 => Op::Reshape { of, dims: self.other_dims(w) },
            9 => Op::Permute { of, axes: (0..rank).rev().collect() },
            10 if self.rng.one_in(2) => Op::Squeeze { of, axis: self.rng.below(rank) },
            10 => Op::Unsqueeze { of, axis: self.rng.below(rank + 1) },
            11 => {
                let mut dims = w.dims.clone();
                match dims.iter().position(|d| *d == 1) {
                    Some(i) => dims[i] = 2,
                    None => dims.insert(0, 2),
                }
                Op::Expand { of, dims }
            }
            12 => {
                let axis = self.rng.below(rank);
                let size = 1 + self.rng.below(2);
                let parts = w.dims.get(axis).map_or(1, |n| n.div_ceil(size));
                Op::Split { of, size, axis, part: self.rng.below(parts) }
            }
            13 => Op::Detach { of },
            14 => {
                let same: Vec<DType> = DTYPES.into_iter().filter(|d| d.size() == w.dtype.size()).collect();
                Op::Bitcast { of, dtype: self.rng.pick(&same).unwrap_or(w.dtype) }
            }
            _ => Op::Alias { of },
        }
    }
    fn other_dims(&mut self, w: &Window) -> Vec<usize> {
        let n = w.numel();
        let mut to = vec![vec![n], vec![1, n]];
        to.extend((2..n).filter(|d| n.is_multiple_of(*d)).map(|d| vec![d, n / d]));
        if n == 1 {
            to.push(vec![]);
        }
        self.rng.pick(&to).unwrap_or_default()
    }
    fn value(&mut self, of: Id, w: &Window, env: &Tensors) -> Option<Op> {
        let axis = self.rng.below(w.dims.len());
        Some(match self.rng.below(12) {
            0..=3 => Op::Apply { of, fun: self.fun_for(w.dtype), by: Value::Number(self.small()) },
            4 | 5 => Op::Apply { of, fun: self.fun_for(w.dtype), by: Value::Tensor(self.one_of(env)?) },
            6 => Op::Contiguous { of },
            7 => Op::Cast { of, dtype: self.rng.pick(&self.dtypes.clone())? },
            8 | 9 => Op::Sum { of, axis: if self.rng.one_in(2) { None } else { Some(axis) } },
            10 => Op::Flip { of, axis },
            _ => Op::Cat { a: of, b: self.one_of(env)?, axis },
        })
    }

    /// `old = x + 1; write x; both = old * x`, and perhaps an empty reduction of it first. Or x is assigned the same
    /// twice: a value that must be stored before.
    fn old_and_new(&mut self) -> Option<()> {
        let x = self.any()?;
        let fun = self.fun(x)?;
        if self.rng.one_in(4) {
            let env = self.model.tensors.clone();
            let of = self.alike(&env, &env.get(&x)?.dims, env.get(&x)?.dtype)?;
            let stored = self.push(Op::Contiguous { of })?;
            self.push(Op::Assign { to: x, value: Value::Tensor(stored) })?;
            let again = if self.rng.one_in(2) {
                Op::Assign { to: x, value: Value::Tensor(stored) }
            } else {
                Op::InPlace { to: x, fun, by: Value::Tensor(stored) }
            };
            return self.push(again).map(drop);
        }
        let by = Value::Number(self.small());
        let old = self.push(Op::Apply { of: x, fun, by })?;
        for _ in 0..1 + self.rng.below(2) {
            let only: Tensors =
                self.model.tensors.iter().filter(|t| *t.0 == x).map(|t| (*t.0, t.1.clone())).collect();
            let kind = self.rng.of([Kind::Set, Kind::Set, Kind::InPlace, Kind::Assign, Kind::SetFancy]);
            let write = self.local(kind, &only)?;
            self.push(write)?;
        }
        if self.rng.one_in(3) {
            let one = self.push(Op::EmptySum { of: x })?;
            self.push(Op::Realize { all: vec![one] })?;
        }
        let both = self.push(Op::Apply { of: old, fun, by: Value::Tensor(x) })?;
        if self.rng.one_in(2) { self.push(Op::Read { of: both }).map(drop) } else { Some(()) }
    }

    fn gradient(&mut self) -> Option<()> {
        if self.rng.one_in(3) {
            let (leaves, computed) = (vec![self.any()?], self.rng.one_in(2));
            let op = Op::Gradient { leaves, a: vec![self.small()], b: vec![self.small()], computed };
            return self.push(op).map(drop);
        }
        let dims = self.rng.pick(&self.shapes.clone())?;
        let dtype = self.rng.pick(&self.dtypes.clone()).filter(|d| d.is_float()).unwrap_or(DType::F32);
        let mut leaves = vec![];
        for _ in 0..2 {
            leaves.push(match self.alike(&self.model.tensors.clone(), &dims, dtype) {
                Some(id) if self.rng.one_in(3) && !leaves.contains(&id) => id,
                _ => {
                    let op = self.leaf(dims.clone(), dtype);
                    self.push(op)?
                }
            });
        }
        let (a, b) = ((0..2).map(|_| self.small()).collect(), (0..2).map(|_| self.small()).collect());
        let computed = self.rng.one_in(2);
        self.push(Op::Gradient { leaves, a, b, computed }).map(drop)
    }

    /// A Jit over one or two tensors that live, its body from a template and at random.
    fn define(&mut self) -> Option<()> {
        let mut captures = vec![];
        for _ in 0..1 + self.rng.below(2) {
            let id = self.any()?;
            if !captures.contains(&id) {
                captures.push(id);
            }
        }
        let symbolic = self.rng.one_in(6);
        let mut forms = vec![];
        for _ in 0..if symbolic { 1 } else { self.rng.below(3) } {
            let like = self.any().filter(|_| !self.rng.one_in(4)).and_then(|i| self.model.tensors.get(&i));
            let (dims, dtype) = match like {
                Some(w) => (w.dims.clone(), w.dtype),
                None => (self.rng.pick(&self.shapes.clone())?, self.rng.pick(&self.dtypes.clone())?),
            };
            let symbolic = symbolic && dims.first().is_some_and(|d| *d > 1);
            forms.push(Form { dims, dtype, symbolic });
        }
        // what the function sees, on a model of its own
        let mut trial = self.model.clone();
        let mut env: Tensors = captures.iter().map(|i| (*i, trial.tensors[i].clone())).collect();
        for (i, f) in forms.iter().enumerate() {
            let op = Op::Data {
                dtype: f.dtype,
                dims: f.dims.clone(),
                values: vec![1; f.dims.iter().product::<usize>()],
            };
            trial.local(&mut env, &Step { out: input(i), op })?;
        }
        let mut body = Body { trial, env, steps: vec![], next: LOCALS };
        if forms.iter().any(|f| f.symbolic) {
            self.symbolic_body(&mut body, &captures);
        } else {
            self.body(&mut body, &captures, forms.len());
        }
        let Body { env, steps, .. } = body;
        let mode = steps.iter().any(|s| matches!(s.op, Op::Mode { .. }));
        let ids: Vec<Id> = env.keys().copied().collect();
        let mut returns = vec![];
        for _ in 0..self.rng.below(3) {
            let id = if self.rng.one_in(3) { self.rng.pick(&ids) } else { ids.last().copied() };
            returns.extend(id.filter(|i| !returns.contains(i)));
        }
        // one tensor given twice is another signature than two
        let recapture = mode || forms.len() > 1 || self.rng.one_in(2);
        let function =
            Function { captures: captures.clone(), inputs: forms.len(), body: steps, returns, recapture };
        let id = self.push(Op::Define { function })?;
        let state = captures[0];
        self.jits.push((id, forms, mode));
        // a recording is made by the second call and replayed from the third on
        let lends = self.rng.one_in(4);
        for _ in 0..1 + self.rng.below(4) {
            self.call();
            if lends {
                self.push(Op::Lend { of: state });
            }
            if self.rng.one_in(2) {
                self.one();
            }
        }
        Some(())
    }

    fn body(&mut self, body: &mut Body, captures: &[Id], inputs: usize) {
        let s = captures[0];
        let t = captures[captures.len() - 1];
        let some = if inputs > 0 { input(0) } else { t };
        let number = |v| Value::Number(v);
        match self.rng.below(10) {
            // state that is read only
            0 | 1 => {
                let l = body.push(Op::Apply { of: s, fun: Fun::Mul, by: Value::Tensor(t) });
                let l = l.and_then(|l| body.push(Op::Sum { of: l, axis: None }));
                let l = l.and_then(|l| body.push(Op::Contiguous { of: l }));
                l.and_then(|l| body.push(Op::Apply { of: l, fun: Fun::Add, by: Value::Tensor(some) }));
            }
            // state that is written, and a window on it
            2 | 3 => {
                body.push(Op::InPlace { to: s, fun: Fun::Add, by: Value::Tensor(some) });
                let w = body.env[&s].clone();
                let view = self.window(s, &w);
                if let Some(l) = body.push(view).filter(|_| self.rng.one_in(2)) {
                    body.push(Op::Realize { all: vec![l] });
                }
            }
            // assigned twice from the old value
            4 => {
                let x = if self.rng.one_in(2) { some } else { s };
                let l = body.push(Op::Apply { of: x, fun: Fun::Add, by: number(1) });
                let stored =
                    l.filter(|_| self.rng.one_in(2)).and_then(|l| body.push(Op::Contiguous { of: l }));
                if let Some(l) = stored.or(l) {
                    body.push(Op::Assign { to: x, value: Value::Tensor(l) });
                    let again =
                        if self.rng.one_in(2) { Value::Tensor(l) } else { Value::Computed(l, Fun::Add, 1) };
                    body.push(Op::Assign { to: x, value: again });
                }
            }
            // a local over state that is cleared
            5 => {
                if let Some(l) = body.push(Op::Apply { of: t, fun: Fun::Mul, by: number(2) }) {
                    body.push(Op::InPlace { to: s, fun: Fun::Sub, by: Value::Tensor(l) });
                    body.push(Op::Assign { to: t, value: number(0) });
                    body.push(Op::Realize { all: vec![s, t] });
                }
            }
            6 => drop(body.push(Op::Mode { of: some })),
            // a step of training
            7 => {
                let (a, computed) = (vec![self.small()], self.rng.one_in(2));
                let op = Op::Gradient { leaves: vec![s], a, b: vec![1], computed };
                if let Some(g) = body.push(op) {
                    body.push(Op::InPlace { to: s, fun: Fun::Sub, by: Value::Tensor(g) });
                }
            }
            _ => {}
        }
        for _ in 0..self.rng.below(if body.steps.is_empty() { 5 } else { 3 }) {
            let kind = self.rng.of([
                Kind::Window,
                Kind::Window,
                Kind::Value,
                Kind::Value,
                Kind::InPlace,
                Kind::Assign,
                Kind::Set,
                Kind::Set,
                Kind::SetFancy,
                Kind::EmptySum,
                Kind::Realize,
                Kind::Create,
            ]);
            let op = match kind {
                Kind::Create => Some(Op::Full { dtype: DType::F32, dims: vec![2], value: 1 }),
                Kind::Realize => self.one_of(&body.env.clone()).map(|l| Op::Realize { all: vec![l] }),
                kind => self.local(kind, &body.env.clone()),
            };
            // as many values as a mask is true cannot be known without reading it
            let counts =
                matches!(op, Some(Op::SetMask { value: Value::Tensor(_) | Value::Computed(..), .. }));
            op.filter(|_| !counts).and_then(|op| body.push(op));
        }
    }

    /// What can be done with an input of which only some rows are there.
    fn symbolic_body(&mut self, body: &mut Body, captures: &[Id]) {
        let (s, x) = (captures[0], input(0));
        let dtype = body.env[&x].dtype;
        let mut last = x;
        for _ in 0..1 + self.rng.below(3) {
            let by = Value::Number(self.small());
            let op = match self.rng.below(6) {
                0 | 1 => Op::Apply { of: last, fun: self.fun_for(dtype), by },
                2 => Op::Sum { of: x, axis: Some(0) },
                3 => Op::Sum { of: last, axis: None },
                4 => Op::SetPrefix { to: s, value: x },
                _ => Op::InPlace { to: s, fun: Fun::Add, by },
            };
            last = body.push(op).filter(|l| body.env.contains_key(l)).unwrap_or(last);
        }
    }

    fn call(&mut self) -> Option<()> {
        let (jit, forms, mode) = self.rng.pick(&self.jits.clone())?;
        let mut inputs: Vec<Input> = vec![];
        for f in &forms {
            let rows = f.symbolic.then(|| 1 + self.rng.below(f.dims[0]));
            let of = match self.alike(&self.model.tensors.clone(), &f.dims, f.dtype) {
                Some(id) if !self.rng.one_in(4) => id,
                _ => {
                    let op = self.data(f.dims.clone(), f.dtype);
                    self.push(op)?
                }
            };
            let again = inputs.first().filter(|i| i.rows == rows && self.rng.one_in(3)).map(|i| i.of);
            let fits =
                |id: &Id| self.model.tensors.get(id).is_some_and(|w| w.dims == f.dims && w.dtype == f.dtype);
            inputs.push(Input { of: again.filter(fits).unwrap_or(of), rows });
        }
        let training = mode && self.rng.one_in(2);
        self.push(Op::Call { jit, inputs, training }).map(drop)
    }
}

/// The body of a function while it is made.
struct Body {
    trial: Model,
    env: Tensors,
    steps: Vec<Step>,
    next: Id,
}

impl Body {
    fn push(&mut self, op: Op) -> Option<Id> {
        let step = Step { out: self.next, op };
        self.trial.local(&mut self.env, &step)?;
        self.next += step.op.outs();
        let out = step.out;
        self.steps.push(step);
        Some(out)
    }
}
