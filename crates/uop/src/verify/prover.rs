//! Bounds of values, by their parts and by facts: sums that lie between two numbers.

use crate::arg::Arg;
use crate::node::UOp;
use crate::op::Op;
use frit_abi::DType;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

/// Least and greatest value, and whether an `Index` on the way to it might overflow.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    pub lo: i128,
    pub hi: i128,
    pub dirty: bool,
}

/// `k1*t1 + k2*t2 + … + constant`.
#[derive(Clone, Debug, Default)]
pub(super) struct Linear {
    terms: Vec<(UOp, i128)>,
    constant: i128,
}

impl Linear {
    fn atom(n: &UOp) -> Linear {
        Linear { terms: vec![(n.clone(), 1)], constant: 0 }
    }
    pub fn add(mut self, o: &Linear, k: i128) -> Linear {
        self.constant = self.constant.saturating_add(o.constant.saturating_mul(k));
        for (t, c) in &o.terms {
            let c = c.saturating_mul(k);
            match self.terms.iter_mut().find(|e| e.0 == *t) {
                Some(e) => e.1 = e.1.saturating_add(c),
                None => self.terms.push((t.clone(), c)),
            }
        }
        self.terms.retain(|e| e.1 != 0);
        self
    }
    /// Every number small enough that nothing saturated on the way to it.
    fn is_exact(&self) -> bool {
        let small = |k: i128| k.unsigned_abs() < 1 << 100;
        small(self.constant) && self.terms.iter().all(|t| small(t.1))
    }
}

/// A sum without constant, and its bounds.
#[derive(Clone, Debug)]
struct Fact {
    of: Linear,
    lo: i128,
    hi: i128,
}

/// The bounds of a term that a fact is about alone.
fn bounds_of_one(f: &Fact) -> Option<(&UOp, i128, i128)> {
    match &f.of.terms[..] {
        [(t, 1)] => Some((t, f.lo, f.hi)),
        [(t, -1)] => Some((t, -f.hi, -f.lo)),
        _ => None,
    }
}

/// What is known at one access.
#[derive(Default)]
pub(super) struct Prover {
    facts: Vec<Fact>,
    known: FxHashMap<UOp, Span>,
    /// The same by their sources alone.
    parts: FxHashMap<UOp, Span>,
    /// What is known without any fact: for values that facts lead to, which lead to no further ones.
    plain: Option<Box<Prover>>,
    /// The facts contradict each other: what they were taken from is never true.
    pub never: bool,
    /// How many branches may still be looked at with their condition.
    budget: u32,
}

/// Facts that are used at one access.
const MOST_FACTS: usize = 64;

/// Not bounded; far from overflowing when added to its like.
const FAR: i128 = 1 << 120;

impl Prover {
    /// One that looks at so many branches with their condition.
    pub fn with_budget(budget: u32) -> Prover {
        Prover { budget, ..Prover::default() }
    }
    /// What the loops that an access is inside say: their variables are below their extents.
    pub fn extents(&mut self, nodes: &[UOp], kept: &[u32]) {
        for n in nodes.iter().filter(|n| n.range_arg().is_some_and(|a| kept.contains(&a.id))) {
            let extent = self.range(n.extent());
            if !extent.dirty && (n.extent().op != Op::Const || extent.hi <= 0) {
                let below = Linear::atom(n).add(&self.linear(n.extent()), -1);
                self.learn(below, -FAR, -1);
            }
        }
    }

    /// What facts about dividends say of quotients: `x + 10*b <= 19` makes `x//10 + b <= 1`.
    /// And of remainders: they are no more than what is divided.
    pub fn quotients(&mut self, nodes: &[UOp]) {
        for n in nodes.iter().filter(|n| n.op == Op::Mod && n.dtype == DType::Index) {
            let x = self.range(n.lhs());
            if n.rhs().as_int().is_some_and(|k| k > 0) && !x.dirty && x.lo >= 0 {
                let above = self.linear(n.lhs()).add(&Linear::atom(n), -1);
                self.learn(above, 0, FAR);
            }
        }
        for n in nodes.iter().filter(|n| n.op == Op::Idiv && n.dtype == DType::Index) {
            let Some(k) = n.rhs().as_int().filter(|k| *k > 1).map(i128::from) else { continue };
            if self.range(n.lhs()).dirty {
                continue;
            }
            let x = self.linear(n.lhs());
            let turned = |f: &Fact| Fact { of: Linear::default().add(&f.of, -1), lo: -f.hi, hi: -f.lo };
            let facts: Vec<Fact> = self.facts.iter().flat_map(|f| [f.clone(), turned(f)]).collect();
            for f in facts {
                let mut rest = f.of.clone().add(&x, -1);
                let divides = rest.is_exact() && rest.terms.iter().all(|t| t.1 % k == 0);
                if !divides || rest.terms.len() >= f.of.terms.len() {
                    continue;
                }
                rest.terms.iter_mut().for_each(|t| t.1 /= k);
                rest.constant = 0;
                let floor = |v: i128| if v.abs() >= FAR { v } else { (v + x.constant).div_euclid(k) };
                self.learn(Linear::atom(n).add(&rest, 1), floor(f.lo), floor(f.hi));
            }
        }
    }

    /// What division with remainder says: `x` is `k*(x//k) + x%k`, and `x%(a*b)` is `a*((x//a)%b)` and less than `a` more.
    pub fn remainders(&mut self, nodes: &[UOp]) {
        let by = |n: &UOp| n.rhs().as_int().filter(|k| *k > 1).map(i128::from);
        let divides = |n: &&UOp| matches!(n.op, Op::Idiv | Op::Mod) && n.dtype == DType::Index;
        for n in nodes.iter().filter(divides) {
            let Some(k) = by(n).filter(|_| !self.range(n.lhs()).dirty) else { continue };
            let x = self.linear(n.lhs());
            if n.op == Op::Idiv {
                self.learn(x.add(&Linear::atom(n), -k), 0, k - 1);
                continue;
            }
            let quotient = UOp::new(Op::Idiv, n.dtype, n.src.clone(), Arg::None);
            let whole = Linear::atom(n).add(&Linear::atom(&quotient), k);
            self.learn(x.add(&whole, -1), 0, 0);
            let is_digit = |d: &&UOp| {
                let q = d.lhs();
                let a = (d.op == Op::Mod && q.op == Op::Idiv && q.lhs() == n.lhs()).then(|| by(q)).flatten();
                a.zip(by(d)).is_some_and(|(a, b)| a * b == k)
            };
            for d in nodes.iter().filter(divides).filter(is_digit) {
                let Some(a) = by(d.lhs()) else { continue };
                self.learn(Linear::atom(n).add(&Linear::atom(d), -a), 0, a - 1);
            }
        }
    }

    /// Take the conjuncts of conditions that hold (or of whose negation holds) as facts. One whose arithmetic might
    /// overflow says nothing, unless the others keep it from that.
    pub fn assume(&mut self, conditions: &[&UOp], holds: bool) {
        let mut parts: Vec<(UOp, bool)> = vec![];
        let mut todo: Vec<(UOp, bool)> = conditions.iter().map(|c| ((*c).clone(), holds)).collect();
        while let Some((c, holds)) = todo.pop() {
            match (c.op, holds) {
                (Op::Not, _) => todo.push((c.input().clone(), !holds)),
                (Op::And, true) | (Op::Or, false) => todo.extend(c.src.iter().map(|s| (s.clone(), holds))),
                _ => parts.push((c, holds)),
            }
        }
        loop {
            let before = parts.len();
            parts.retain(|(c, holds)| !self.take(c, *holds));
            if parts.len() == before {
                return;
            }
        }
    }

    /// Whether a comparison is now among the facts.
    fn take(&mut self, c: &UOp, holds: bool) -> bool {
        let compares = matches!(c.op, Op::Lt | Op::Eq | Op::Ne) && c.lhs().dtype.int_range().is_some();
        if !compares || c.lhs().dtype == DType::Bool {
            return false;
        }
        let (a, b) = (self.range(c.lhs()), self.range(c.rhs()));
        if a.dirty || b.dirty {
            return false;
        }
        let (lo, hi) = match (c.op, holds) {
            (Op::Lt, true) => (-FAR, -1),
            (Op::Lt, false) => (0, FAR),
            (Op::Eq, true) | (Op::Ne, false) => (0, 0),
            _ => return true,
        };
        let (x, y) = (self.linear(c.lhs()), self.linear(c.rhs()));
        self.learn(x.clone().add(&y, -1), lo, hi);
        // a cast is what is cast only once facts say that it does not wrap: until then, and after, it is itself
        if c.lhs().op == Op::Cast && y.terms.is_empty() {
            self.learn(Linear::atom(c.lhs()).add(&y, -1), lo, hi);
        }
        true
    }

    fn learn(&mut self, mut of: Linear, lo: i128, hi: i128) {
        if !of.is_exact() {
            return;
        }
        let moved = |bound: i128| if bound.abs() >= FAR { bound } else { bound - of.constant };
        let (lo, hi) = (moved(lo), moved(hi));
        of.constant = 0;
        if of.terms.is_empty() {
            self.never |= lo > 0 || hi < 0;
            return;
        }
        // each fact is tried with each other: more than any kernel has would only take time
        if self.facts.len() >= MOST_FACTS {
            return;
        }
        self.facts.push(Fact { of, lo, hi });
        self.known.clear();
        self.parts.clear();
    }

    /// The bounds of a value.
    pub fn range(&mut self, n: &UOp) -> Span {
        if let Some(s) = self.known.get(n) {
            return *s;
        }
        let mut s = self.structural(n);
        if !s.dirty && n.dtype.int_range().is_some() && n.dtype != DType::Bool {
            let of = self.linear(n);
            let (mut lo, mut hi) = self.of_sum(&of);
            for f in self.facts.iter().filter(|f| n.op == Op::Cast && f.of.terms == [(n.clone(), 1)]) {
                (lo, hi) = (lo.max(f.lo), hi.min(f.hi));
            }
            (s.lo, s.hi) = (s.lo.max(lo), s.hi.min(hi));
        }
        if s.lo > s.hi {
            // no value is possible here, so this is never computed
            self.never = true;
            s.hi = s.lo;
        }
        self.known.insert(n.clone(), s);
        s
    }

    /// The bounds of a sum.
    pub fn of_sum(&mut self, of: &Linear) -> (i128, i128) {
        let own: Vec<(UOp, Span)> = of.terms.iter().map(|(t, _)| (t.clone(), self.structural(t))).collect();
        let most = if self.facts.len() <= 12 { 3 } else { 2 };
        self.with_facts(of, &own, most)
    }

    /// The same, with sums that are facts put in for what they share with it, at most so many. `own` are the bounds of the
    /// terms it began with.
    fn with_facts(&mut self, of: &Linear, own: &[(UOp, Span)], most: u32) -> (i128, i128) {
        let mut best = (of.constant, of.constant);
        for (t, k) in &of.terms {
            let s = match own.iter().find(|o| o.0 == *t) {
                Some((_, s)) => *s,
                None => self.plain.get_or_insert_default().range(t),
            };
            best = sum(best, product(*k, self.with_own_facts(t, (s.lo, s.hi))));
        }
        if most == 0 {
            return best;
        }
        for i in 0..self.facts.len() {
            let f = self.facts[i].clone();
            if bounds_of_one(&f).is_some() {
                continue;
            }
            let shared =
                |(t, k): &(UOp, i128)| of.terms.iter().find(|o| o.0 == *t && o.1 % k == 0).map(|o| o.1 / k);
            // as often as some term of it is there: 3*(a + b) in 9*a + 3*b
            let mut often: SmallVec<[i128; 4]> = f.of.terms.iter().filter_map(shared).collect();
            often.sort_unstable();
            often.dedup();
            for k in often {
                let rest = of.clone().add(&f.of, -k);
                if rest.is_exact() {
                    let found = sum(product(k, (f.lo, f.hi)), self.with_facts(&rest, own, most - 1));
                    best = (best.0.max(found.0), best.1.min(found.1));
                }
            }
        }
        best
    }

    /// The bounds of a term, with the facts that are about it alone.
    fn with_own_facts(&mut self, t: &UOp, s: (i128, i128)) -> (i128, i128) {
        let own = self.facts.iter().filter_map(bounds_of_one).filter(|o| o.0 == t);
        let (lo, hi) = own.fold(s, |s, (_, lo, hi)| (s.0.max(lo), s.1.min(hi)));
        self.never |= lo > hi;
        (lo, hi.max(lo))
    }

    /// A value as a sum of others, where no operation on the way wraps.
    pub fn linear(&mut self, n: &UOp) -> Linear {
        if let Some(c) = n.as_scalar().filter(|_| n.dtype.is_int()) {
            return Linear { terms: vec![], constant: c.as_i128() };
        }
        let kept = !self.wraps(n);
        let sum = match n.op {
            Op::Add if kept => {
                let b = self.linear(n.rhs());
                self.linear(n.lhs()).add(&b, 1)
            }
            Op::Sub if kept => {
                let b = self.linear(n.rhs());
                self.linear(n.lhs()).add(&b, -1)
            }
            Op::Neg if kept => Linear::default().add(&self.linear(n.input()), -1),
            Op::Mul if kept => match (n.lhs().as_int(), n.rhs().as_int()) {
                (_, Some(k)) => Linear::default().add(&self.linear(n.lhs()), k as i128),
                (Some(k), _) => Linear::default().add(&self.linear(n.rhs()), k as i128),
                _ => Linear::atom(n),
            },
            Op::Cast if kept => self.linear(n.input()),
            // within one period
            Op::Mod if self.is_below(n.lhs(), n.rhs()) => self.linear(n.lhs()),
            _ => Linear::atom(n),
        };
        if sum.is_exact() { sum } else { Linear::atom(n) }
    }

    fn is_below(&mut self, x: &UOp, y: &UOp) -> bool {
        let (a, b) = (self.range(x), self.range(y));
        a.lo >= 0 && a.hi < b.lo
    }

    /// Whether the value of a sum, product or cast may not be what true integers give.
    fn wraps(&mut self, n: &UOp) -> bool {
        let Some((lo, hi)) = n.dtype.int_range() else { return true };
        if n.src.iter().any(|s| s.dtype.int_range().is_none() || s.dtype == DType::Bool)
            || n.dtype == DType::Bool
        {
            return true;
        }
        let Some(x) = n.src.first().map(|s| self.range(s)) else { return true };
        let y = n.src.get(1).map_or(x, |s| self.range(s));
        let (a, b) = match n.op {
            Op::Add => (x.lo + y.lo, x.hi + y.hi),
            Op::Sub => (x.lo - y.hi, x.hi - y.lo),
            Op::Neg => (-x.hi, -x.lo),
            Op::Mul => corners(x, y, i128::saturating_mul),
            Op::Cast => (x.lo, x.hi),
            Op::Shl if y.lo >= 0 && y.hi < n.dtype.bits() as i128 => {
                corners(x, y, |a, b| a.saturating_mul(1 << b))
            }
            _ => return true,
        };
        a < lo || b > hi
    }

    /// The bounds of a value by those of its sources.
    fn structural(&mut self, n: &UOp) -> Span {
        if let Some(s) = self.parts.get(n) {
            return *s;
        }
        let s = self.by_sources(n);
        self.parts.insert(n.clone(), s);
        s
    }

    fn by_sources(&mut self, n: &UOp) -> Span {
        let whole = n.dtype.int_range().unwrap_or((0, 0));
        let unknown = Span { lo: whole.0, hi: whole.1, dirty: false };
        let exactly = |lo: i128, hi: i128| Span { lo, hi, dirty: false };
        match (n.op, &n.arg) {
            (Op::Const, Arg::Scalar(s)) if n.dtype.int_range().is_some() => {
                return exactly(s.as_i128(), s.as_i128());
            }
            (Op::Variable, Arg::Var { min, max, .. }) => return exactly(*min as i128, *max as i128),
            (Op::Range, _) => {
                let e = self.range(n.extent());
                return Span { lo: 0, hi: (e.hi - 1).max(0), dirty: e.dirty };
            }
            // one byte of memory that need not be 0 or 1
            (Op::Cast, _) if n.input().dtype == DType::Bool => {
                return if is_truth(n.input()) { exactly(0, 1) } else { exactly(0, 255) };
            }
            (Op::Where, _) => return self.branches(n),
            _ => {}
        }
        let ints = n.src.iter().all(|s| s.dtype.int_range().is_some() && s.dtype != DType::Bool);
        if !n.op.is_elementwise()
            || !ints
            || n.src.is_empty()
            || n.dtype == DType::Bool
            || n.op == Op::Bitcast
        {
            return unknown;
        }
        let x = self.range(&n.src[0]);
        let y = n.src.get(1).map_or(x, |s| self.range(s));
        let dirty = x.dirty || y.dirty;
        let some = |(lo, hi): (i128, i128)| Span { lo, hi, dirty };
        let found = match n.op {
            Op::Add | Op::Sub | Op::Neg | Op::Mul | Op::Cast | Op::Shl => {
                if self.wraps(n) {
                    // an index that overflows has no value that passes agree on
                    return Span { dirty: dirty || n.dtype == DType::Index, ..unknown };
                }
                match n.op {
                    Op::Add => some((x.lo + y.lo, x.hi + y.hi)),
                    Op::Sub => some((x.lo - y.hi, x.hi - y.lo)),
                    Op::Neg => some((-x.hi, -x.lo)),
                    Op::Mul => some(corners(x, y, i128::saturating_mul)),
                    Op::Shl => some(corners(x, y, |a, b| a.saturating_mul(1 << b))),
                    _ => some((x.lo, x.hi)),
                }
            }
            Op::Max => some((x.lo.max(y.lo), x.hi.max(y.hi))),
            Op::Min => some((x.lo.min(y.lo), x.hi.min(y.hi))),
            Op::Idiv if y.lo > 0 => some(corners(x, y, i128::div_euclid)),
            Op::Tdiv if y.lo > 0 => some(corners(x, y, |a, b| a / b)),
            Op::Mod if y.lo > 0 && x.lo >= 0 && x.hi < y.lo => some((x.lo, x.hi)),
            Op::Mod if y.lo > 0 && y.lo == y.hi && x.lo.div_euclid(y.lo) == x.hi.div_euclid(y.lo) => {
                some((x.lo.rem_euclid(y.lo), x.hi.rem_euclid(y.lo)))
            }
            Op::Mod if y.lo > 0 => some((0, if x.lo >= 0 { x.hi.min(y.hi - 1) } else { y.hi - 1 })),
            Op::And if x.lo >= 0 && y.lo >= 0 => some((0, x.hi.min(y.hi))),
            Op::And if y.lo >= 0 => some((0, y.hi)),
            Op::And if x.lo >= 0 => some((0, x.hi)),
            Op::Or | Op::Xor if x.lo >= 0 && y.lo >= 0 => {
                some((0, (1i128 << (128 - x.hi.max(y.hi).leading_zeros())) - 1))
            }
            Op::Shr if x.lo >= 0 && y.lo >= 0 => some((0, if y.lo < 64 { x.hi >> y.lo } else { 0 })),
            _ => Span { dirty, ..unknown },
        };
        Span { lo: found.lo.max(whole.0), hi: found.hi.min(whole.1), dirty: found.dirty }
    }

    /// One value or the other, each where it is taken.
    fn branches(&mut self, n: &UOp) -> Span {
        let (c, spans) = (n.condition(), [(n.if_true(), true), (n.if_false(), false)]);
        let mut all: Option<Span> = None;
        for (value, holds) in spans {
            if value.op == Op::Invalid {
                continue;
            }
            let found = if self.budget > 0 && n.dtype.int_range().is_some() {
                self.budget -= 1;
                let mut inner =
                    Prover { facts: self.facts.clone(), budget: self.budget, ..Prover::default() };
                inner.assume(&[c], holds);
                let found = inner.range(value);
                self.budget = inner.budget;
                if inner.never {
                    continue;
                }
                found
            } else {
                self.range(value)
            };
            all = Some(match all {
                Some(a) => {
                    Span { lo: a.lo.min(found.lo), hi: a.hi.max(found.hi), dirty: a.dirty || found.dirty }
                }
                None => found,
            });
        }
        all.unwrap_or_else(|| {
            let (lo, hi) = n.dtype.int_range().unwrap_or((0, 0));
            Span { lo, hi, dirty: false }
        })
    }
}

/// Whether a bool was computed, and so is 0 or 1.
fn is_truth(n: &UOp) -> bool {
    let mut todo = vec![n];
    while let Some(n) = todo.pop() {
        match n.op {
            Op::Const | Op::Lt | Op::Eq | Op::Ne => {}
            Op::And | Op::Or | Op::Xor | Op::Not => todo.extend(n.src.iter()),
            _ => return false,
        }
    }
    true
}

/// Intervals added. One that is not bounded on a side stays so, whatever is added.
fn sum(a: (i128, i128), b: (i128, i128)) -> (i128, i128) {
    let lo = if a.0.min(b.0) <= -FAR { -FAR } else { (a.0 + b.0).min(FAR) };
    let hi = if a.1.max(b.1) >= FAR { FAR } else { (a.1 + b.1).max(-FAR) };
    (lo, hi)
}
/// An interval times a number.
fn product(k: i128, (lo, hi): (i128, i128)) -> (i128, i128) {
    let (x, y) = (k.saturating_mul(lo), k.saturating_mul(hi));
    (x.min(y).clamp(-FAR, FAR), x.max(y).clamp(-FAR, FAR))
}

fn corners(x: Span, y: Span, f: impl Fn(i128, i128) -> i128) -> (i128, i128) {
    let c = [f(x.lo, y.lo), f(x.lo, y.hi), f(x.hi, y.lo), f(x.hi, y.hi)];
    (c.into_iter().fold(c[0], i128::min), c.into_iter().fold(c[0], i128::max))
}
