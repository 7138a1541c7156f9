//! Which types the inputs of an operator may have, and which of them must be of one type, as ONNX's schemas say.
//!
//! `types.txt` is the table, made from the schemas; an operator that is not in it may be given anything.

use crate::element::Element;
use crate::value::Value;
use rustc_hash::FxHashMap;
use std::sync::OnceLock;

/// Types that an input may have: of tensors and of sequences by the numbers of their elements, and whether others too.
#[derive(Clone, Copy, Default)]
struct Set {
    tensors: u32,
    sequences: u32,
    others: bool,
}

struct Input {
    /// Inputs with the same one are of one type; none where it is empty.
    variable: &'static str,
    set: Set,
}

/// The inputs of an operator.
pub(crate) struct Types {
    inputs: Vec<Input>,
    /// The last may be repeated.
    repeats: bool,
}

/// A type, as far as it matters here.
#[derive(Clone, Copy, PartialEq)]
enum Type {
    Tensor(Element),
    /// Of an empty sequence nothing is known.
    Sequence(Option<Element>),
    Other,
}

impl Type {
    fn of(v: &Value) -> Type {
        match v {
            Value::Tensor(_, e) => Type::Tensor(*e),
            Value::Strings(_) => Type::Tensor(Element::String),
            Value::Sequence(all) => match all.first().map(Type::of) {
                None => Type::Sequence(None),
                Some(Type::Tensor(e)) => Type::Sequence(Some(e)),
                Some(_) => Type::Other,
            },
            Value::Optional(Some(v)) => Type::of(v),
            Value::Optional(None) | Value::Map(_) => Type::Other,
        }
    }
    fn is_in(self, set: Set) -> bool {
        let bit = |e: Element| 1u32 << (e.number() - 1);
        match self {
            Type::Tensor(e) => set.tensors & bit(e) != 0 || set.others && set.tensors == 0,
            Type::Sequence(Some(e)) => set.sequences & bit(e) != 0 || set.others,
            Type::Sequence(None) => set.sequences != 0 || set.others,
            // the value inside says itself what is wrong with it
            Type::Other => true,
        }
    }
    fn name(self) -> String {
        match self {
            Type::Tensor(e) => e.name().into(),
            Type::Sequence(Some(e)) => format!("a sequence of {}", e.name()),
            Type::Sequence(None) => "a sequence".into(),
            Type::Other => "something else".into(),
        }
    }
}

impl Set {
    fn parse(line: &str) -> Set {
        let mut parts = line.split('|').map(str::trim);
        let mut bits = || {
            let names = parts.next().unwrap_or("").split_whitespace();
            names.filter_map(Element::named).fold(0, |bits, e| bits | 1u32 << (e.number() - 1))
        };
        let (tensors, sequences) = (bits(), bits());
        Set { tensors, sequences, others: parts.next().is_some_and(|p| !p.is_empty()) }
    }
    fn names(self) -> String {
        let of = |bits: u32| {
            (1..=28).filter(move |n| bits >> (n - 1) & 1 == 1).filter_map(|n| Element::from_number(n).ok())
        };
        let mut all: Vec<String> = of(self.tensors).map(|e| e.name().to_string()).collect();
        all.extend(of(self.sequences).map(|e| format!("a sequence of {}", e.name())));
        match all.split_last() {
            None => "a map or an optional".into(),
            Some((last, [])) => last.clone(),
            Some((last, rest)) => format!("{} or {last}", rest.join(", ")),
        }
    }
}

/// By domain and name.
type Rows = FxHashMap<&'static str, FxHashMap<&'static str, Vec<(i64, Types)>>>;

fn table() -> &'static Rows {
    static ROWS: OnceLock<Rows> = OnceLock::new();
    ROWS.get_or_init(|| {
        let (mut sets, mut rows) = (vec![], Rows::default());
        for line in include_str!("types.txt").lines().filter(|l| !l.starts_with('#') && !l.is_empty()) {
            if line.starts_with(|c: char| c.is_ascii_digit()) {
                sets.push(line.split_once(':').map_or(Set::default(), |(_, set)| Set::parse(set)));
                continue;
            }
            let mut words = line.split(' ');
            let Some((domain, name)) = words.next().and_then(|at| at.split_once(':')) else { continue };
            let since = words.next().and_then(|v| v.parse().ok()).unwrap_or(1);
            let mut types = Types { inputs: vec![], repeats: false };
            for word in words {
                types.repeats = word.ends_with('*');
                let Some((variable, set)) = word.trim_end_matches('*').split_once(':') else { continue };
                let set = set.parse().ok().and_then(|n: usize| sets.get(n)).copied().unwrap_or_default();
                types.inputs.push(Input { variable, set });
            }
            rows.entry(domain).or_default().entry(name).or_default().push((since, types));
        }
        rows
    })
}

impl Types {
    /// Those of an operator at a version of its domain.
    pub fn of(domain: &str, name: &str, version: i64) -> Option<&'static Types> {
        let rows = table().get(domain)?.get(name)?;
        rows.iter().filter(|(since, _)| *since <= version).max_by_key(|(since, _)| *since).map(|(_, t)| t)
    }
    /// What is wrong with inputs.
    pub fn check(&self, inputs: &[Option<Value>]) -> Result<(), String> {
        let mut known: Vec<(&str, Type)> = vec![];
        for (i, value) in inputs.iter().enumerate() {
            let (Some(value), Some(input)) = (value, self.input(i)) else { continue };
            let t = Type::of(value);
            if !t.is_in(input.set) {
                return Err(format!("input {i} is {}, not {}", t.name(), input.set.names()));
            }
            match known.iter().find(|(variable, _)| *variable == input.variable) {
                _ if input.variable.is_empty() || matches!(t, Type::Other | Type::Sequence(None)) => {}
                Some((_, other)) if *other != t => {
                    return Err(format!(
                        "inputs of types {} and {}, which must be one",
                        other.name(),
                        t.name()
                    ));
                }
                Some(_) => {}
                None => known.push((input.variable, t)),
            }
        }
        Ok(())
    }
    fn input(&self, i: usize) -> Option<&Input> {
        self.inputs.get(i).or(self.inputs.last().filter(|_| self.repeats))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_read_whole() {
        let rows = table();
        assert!(rows[""].len() > 200 && rows.len() == 4, "{:?}", rows.keys());
        let all = rows.values().flat_map(|of| of.values()).flatten().flat_map(|(_, t)| &t.inputs);
        assert!(all.clone().all(|i| i.set.tensors != 0 || i.set.sequences != 0 || i.set.others));
        let add = Types::of("", "Add", 13).expect("Add is there");
        assert_eq!(
            add.inputs[0].set.names(),
            "float, int32, int64, float16, double, uint32, uint64 or bfloat16"
        );
        assert!(Types::of("", "Add", 0).is_none());
    }
}
