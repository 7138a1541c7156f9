//! Every rule about loops is sound and alive: random instances of its pattern, with all loops run before and after.

use super::*;
use frit_uop::AxisKind;
use frit_uop::rules::{Apply, Pat};
use frit_uop::symbolic::fold;
use std::collections::HashMap;

/// Elements of a parameter.
const LEN: usize = 16;

/// Builds random bodies of a loop `r` inside a loop `outer`.
struct Sample {
    state: u64,
    r: UOp,
    outer: UOp,
    /// The type of what is combined, and of what conditions compare.
    value: DType,
    compared: DType,
}

impl Sample {
    fn new(seed: u64) -> Sample {
        let unset = UOp::index(0);
        let mut s =
            Sample { state: seed, r: unset.clone(), outer: unset, value: DType::I32, compared: DType::Index };
        let range = |id: u32, n: usize| UOp::range(&UOp::index(1 + n as i64), id, AxisKind::Loop);
        (s.outer, s.r) = (range(0, s.below(4)), range(1, s.below(6)));
        s.value = [DType::I32, DType::F32, DType::U8][s.below(3)];
        s.compared = [DType::Index, DType::I32, DType::F32, DType::I8][s.below(4)];
        s
    }
    fn below(&mut self, n: usize) -> usize {
        self.state = self.state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.state >> 33) as usize % n
    }
    fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }
    fn load(&mut self, dtype: DType, at: &UOp) -> UOp {
        UOp::param(self.below(3) as u32 + 8 * dtype as u32, LEN, dtype).at(at).load()
    }
    /// Of the compared type: the loop's number, perhaps counted down, or something that is the same in every iteration.
    fn side(&mut self, moves: bool) -> UOp {
        let n = match moves {
            true if self.chance(30) => &self.r * -1,
            true => self.r.clone(),
            false if self.chance(40) => return self.load(self.compared, &self.outer.clone()),
            false => self.outer.clone(),
        };
        (n + (self.below(7) as i64 - 3)).cast(self.compared)
    }
    fn condition(&mut self) -> UOp {
        let (moves, swapped) = (self.chance(70), self.chance(70));
        let (a, b) = (self.side(moves), self.side(!moves && swapped));
        let c = a.bin([Alu::Eq, Alu::Eq, Alu::Lt, Alu::Ne][self.below(4)], &b);
        let c = if self.chance(20) { c.un(Alu::Not) } else { c };
        if self.chance(25) { c.and_(&self.condition()) } else { c }
    }
    fn body(&mut self) -> UOp {
        match self.below(4) {
            0 => UOp::int(self.below(5) as i64, self.value),
            1 => self.load(self.value, &self.outer.clone()),
            2 => (&self.r + 1).cast(self.value),
            _ => self.load(self.value, &(&self.r + &self.outer)),
        }
    }
    fn instance(&mut self, p: &Pat) -> UOp {
        match p {
            Pat::Op { ops, args, .. } => match ops.iter().next() {
                Some(Op::Reduce) => {
                    let op = match self.chance(70) {
                        true => Alu::Add,
                        false => [Alu::Max, Alu::Min][self.below(2)],
                    };
                    let body =
                        if let Pat::Op { .. } = args[0] { self.instance(&args[0]) } else { self.body() };
                    body.reduce(op, [self.r.clone()])
                }
                Some(Op::Where) => {
                    let condition = match args[0] {
                        Pat::Op { .. } => self.instance(&args[0]),
                        _ => self.condition(),
                    };
                    let arm = |s: &mut Sample, p: &Pat| match p {
                        Pat::Name("z") => UOp::int(0, s.value),
                        _ => s.body(),
                    };
                    condition.select(&arm(self, &args[1]), &arm(self, &args[2]))
                }
                Some(Op::Not) => self.condition().un(Alu::Not),
                op => {
                    let alu = op.and_then(|o| o.alu()).expect("a comparison");
                    self.side(true).bin(alu, &self.side(false))
                }
            },
            _ => self.body(),
        }
    }
}

/// The value of a node in an iteration of each open range.
fn run(n: &UOp, at: &mut HashMap<u32, i64>) -> Scalar {
    match (n.op, &n.arg) {
        (Op::Const, Arg::Scalar(v)) => *v,
        (Op::Range, Arg::Range(r)) => Scalar::Int(at[&r.id]),
        (Op::Where, _) => run(if run(n.condition(), at).as_bool() { n.if_true() } else { n.if_false() }, at),
        (Op::Load, _) => {
            let (mut index, Arg::Param { slot, .. }) = (n.index(), &n.buffer().arg) else { unreachable!() };
            while index.op == Op::Where {
                let gate = run(index.condition(), at).as_bool();
                index = if gate { index.if_true() } else { index.if_false() };
            }
            if index.op == Op::Invalid {
                return Scalar::zero(n.dtype);
            }
            let i = run(index, at).as_i128();
            assert!((0..LEN as i128).contains(&i), "element {i} is read");
            let whole = (i * 7 + *slot as i128 * 5) % 9 - 2;
            match n.dtype.is_float() && whole % 4 == 3 {
                true => Scalar::float(whole as f64 + 0.5, n.dtype),
                false => Scalar::int(whole, n.dtype),
            }
        }
        (Op::Reduce, Arg::Alu(op)) => {
            let [r] = n.closed_ranges() else { panic!("one loop") };
            let (id, extent) = (r.range_arg().expect("a range").id, run(r.extent(), at).as_i128() as i64);
            let mut sum = Scalar::identity(*op, n.dtype).expect("it combines");
            for i in 0..extent {
                at.insert(id, i);
                sum = Scalar::alu(*op, n.dtype, &[sum, run(n.body(), at)]);
            }
            at.remove(&id);
            sum
        }
        _ => {
            let src: Vec<Scalar> = n.src.iter().map(|s| run(s, at)).collect();
            let of = |s: &UOp| n.src.iter().position(|x| x == s).map(|k| src[k]);
            fold::value(n, of).unwrap_or_else(|| panic!("{n:?}"))
        }
    }
}

#[test]
fn every_rule_is_sound_and_fires() {
    for (k, rule) in FOLD.rules.iter().enumerate() {
        let Apply::Pure(apply) = rule.apply else { unreachable!() };
        let mut fired = 0;
        for round in 0..4000u64 {
            let mut s = Sample::new((k as u64 + 1) << 32 | round.wrapping_mul(0x9E37_79B9));
            let n = s.instance(&rule.pattern);
            let Some(after) = apply(&n) else { continue };
            fired += 1;
            assert_eq!((n.dtype, n.try_shape()), (after.dtype, after.try_shape()));
            for i in 0..s.outer.extent().as_int().unwrap_or(1) {
                let mut at = HashMap::from([(0, i)]);
                let (was, is) = (run(&n, &mut at), run(&after, &mut at));
                let text = |n: &UOp| frit_uop::text::print(n);
                assert_eq!(was, is, "{} at {i}:\n{}became\n{}", rule.text, text(&n), text(&after));
            }
        }
        assert!(fired >= 20, "{} fired {fired} times only", rule.text);
    }
}
