//! Every rule is sound and alive: random instances of its pattern, evaluated before and after.

use crate::sample::{Env, Rng, Sample, TYPES, Value};
use crate::show;
use frit_uop::DType;
use frit_uop::rules;
use frit_uop::rules::{Apply, Rule, Types};
use frit_uop::symbolic::TABLES;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Rules about memory and effects, which have tests of their own in `algebra`.
const NOT_MODELLED: &[(&str, &str)] = &[
    ("ANY", "Stack(Lane(x), ..)"),
    ("MEMORY", "Load(Index(_, Invalid(), ..), ..)"),
    ("MEMORY", "Load(_, alt, false)"),
    ("MEMORY", "Load(address, _, true)"),
    ("MEMORY", "Store(Index(_, Invalid(), ..), ..)"),
    ("MEMORY", "Store(_, _, false)"),
    ("MEMORY", "Store(address, x, true)"),
    ("EFFECTS", "End(Sink() as s, ..)"),
    ("EFFECTS", "Sink(..)"),
    ("EFFECTS", "After(..)"),
    ("EFFECTS", "Barrier(..)"),
    ("EFFECTS", "After(x)"),
];

enum Verdict {
    Sound(usize),
    Wrong(String),
    NotModelled,
}

fn check(rule: &Rule<()>, types: Types, seed: u64) -> Verdict {
    let Apply::Pure(apply) = rule.apply else { return Verdict::NotModelled };
    let mut rng = Rng::new(seed);
    let allowed: Vec<DType> = TYPES.iter().copied().filter(|d| types.has(*d)).collect();
    let compares = frit_uop::op::OpSet::of(&[frit_uop::Op::Lt, frit_uop::Op::Eq, frit_uop::Op::Ne]);
    let (mut fired, mut built) = (0, 0);
    for round in 0..60_000u64 {
        if fired >= 400 || (round > 2000 && built == 0) {
            break;
        }
        let d = rng.pick(&allowed);
        let operand = if compares.0 & rule.roots.0 != 0 { d } else { rng.pick(TYPES) };
        // a comparison is a bool whatever it compares
        let root = if compares.0 & rule.roots.0 != 0 && rng.chance(100) { DType::Bool } else { d };
        let mut sample = Sample::new(seed ^ round.wrapping_mul(0x51ab), operand);
        let Some(n) = sample.instance(&rule.pattern, root) else { continue };
        built += 1;
        if !n.src_ops().has_all(rule.needs) || !rule.roots.has(n.op) {
            return Verdict::Wrong(format!("{} does not pass the rule's own filter", show(&n)));
        }
        let after = match catch_unwind(AssertUnwindSafe(|| apply(&n))) {
            Ok(Some(r)) if r != n => r,
            Ok(_) => continue,
            Err(_) => return Verdict::Wrong(format!("panics on {}", show(&n))),
        };
        if n.try_shape() != after.try_shape() {
            continue; // refused by the matcher
        }
        if n.dtype != after.dtype {
            return Verdict::Wrong(format!("{} changes its type to {}", show(&n), after.dtype));
        }
        fired += 1;
        for assignment in 0..12 {
            let mut env = Env::new(seed.wrapping_add(round * 31 + assignment));
            for lane in 0..n.lanes() {
                let (a, b) = (env.eval(&n, lane), env.eval(&after, lane));
                if a != Value::Undefined && a != b && b != Value::Undefined {
                    return Verdict::Wrong(format!(
                        "{}\n    => {}\n    {a:?} became {b:?}",
                        show(&n),
                        show(&after)
                    ));
                }
            }
        }
    }
    if built == 0 { Verdict::NotModelled } else { Verdict::Sound(fired) }
}

#[test]
fn every_rule_is_sound_and_fires() {
    let mut bad = vec![];
    let mut count = 0;
    std::panic::set_hook(Box::new(|_| {})); // panics of rules are reported below
    for (t, table) in TABLES.iter().enumerate() {
        for (i, rule) in table.rules.iter().enumerate() {
            count += 1;
            let text = rule.text.split_whitespace().collect::<Vec<_>>().join(" ");
            let exempt = NOT_MODELLED.contains(&(table.head.name, text.as_str()));
            let seed = (t * 1000 + i + 1) as u64;
            let found = catch_unwind(AssertUnwindSafe(|| check(rule, table.types, seed)))
                .unwrap_or_else(|e| Verdict::Wrong(e.downcast_ref::<String>().cloned().unwrap_or_default()));
            let problem = match found {
                Verdict::Wrong(why) => why,
                Verdict::NotModelled if !exempt => "cannot be instantiated: give it a test of its own".into(),
                Verdict::Sound(_) if exempt => "is modelled after all".into(),
                Verdict::Sound(n) if n < 5 => format!("fired {n} times only"),
                _ => continue,
            };
            let (file, line) = (table.head.file, (rule.line)());
            bad.push(format!("{} ({file}:{line}) {text}: {problem}", table.head.name));
        }
    }
    let _ = std::panic::take_hook();
    assert!(bad.is_empty(), "{} of {count} rules:\n{}", bad.len(), bad.join("\n"));
}

/// In the crate that has the macro, and in another one.
#[test]
fn every_rule_knows_the_line_it_is_written_at() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let tight = |text: &str| text.split_whitespace().collect::<String>();
    rules! { HERE;
        Add[x, 0]        => x;

        (Unary|Cast)(x)  => {
            x
        };
        Where(_, x, =x)  => x;
    }
    for table in TABLES.iter().chain([&&HERE]) {
        let source = std::fs::read_to_string(root.join(table.head.file)).unwrap();
        for rule in table.rules {
            let line = (rule.line)() as usize;
            let written = tight(source.lines().nth(line - 1).unwrap());
            let (pattern, rest) =
                (tight(rule.text), tight(&source.lines().skip(line - 1).collect::<String>()));
            assert!(
                rest.starts_with(&pattern) && pattern.starts_with(&written[..written.len().min(4)]),
                "{} of {} is not at {}:{line}, where {written} is",
                rule.text,
                table.head.name,
                table.head.file,
            );
        }
    }
}
