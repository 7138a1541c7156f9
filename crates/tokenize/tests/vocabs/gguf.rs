//! As much of GGUF as a vocabulary needs; files are taken to be whole.

use frit_tokenize::GgufVocab;
use std::borrow::Cow;
use std::collections::HashMap;

enum Value<'a> {
    Number(f64),
    Text(Cow<'a, str>),
    List(Vec<Value<'a>>),
}

struct Cursor<'a>(&'a [u8]);

impl<'a> Cursor<'a> {
    fn take(&mut self, n: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(n);
        self.0 = rest;
        taken
    }
    fn u32(&mut self) -> u32 {
        u32::from_le_bytes(self.take(4).try_into().unwrap())
    }
    fn u64(&mut self) -> usize {
        u64::from_le_bytes(self.take(8).try_into().unwrap()) as usize
    }
    fn text(&mut self) -> Cow<'a, str> {
        let len = self.u64();
        String::from_utf8_lossy(self.take(len))
    }
    fn value(&mut self, kind: u32) -> Value<'a> {
        Value::Number(match kind {
            0 | 7 => self.take(1)[0] as f64,
            1 => self.take(1)[0] as i8 as f64,
            2 => u16::from_le_bytes(self.take(2).try_into().unwrap()) as f64,
            3 => i16::from_le_bytes(self.take(2).try_into().unwrap()) as f64,
            4 => self.u32() as f64,
            5 => self.u32() as i32 as f64,
            6 => f32::from_bits(self.u32()) as f64,
            8 => return Value::Text(self.text()),
            9 => {
                let (kind, len) = (self.u32(), self.u64());
                return Value::List((0..len).map(|_| self.value(kind)).collect());
            }
            10 => self.u64() as f64,
            11 => self.u64() as i64 as f64,
            12 => f64::from_bits(self.u64() as u64),
            other => panic!("type {other}"),
        })
    }
}

pub fn read(bytes: &[u8]) -> GgufVocab<'_> {
    let mut c = Cursor(bytes);
    assert_eq!(c.take(4), b"GGUF");
    let (_version, _tensors, count) = (c.u32(), c.u64(), c.u64());
    let mut all: HashMap<String, Value> = HashMap::new();
    for _ in 0..count {
        let (name, kind) = (c.text().into_owned(), c.u32());
        all.insert(name.replace("tokenizer.ggml.", ""), c.value(kind));
    }
    let number = |name: &str| match all.get(name) {
        Some(Value::Number(n)) => Some(*n),
        _ => None,
    };
    let numbers = |name: &str| match all.get(name) {
        Some(Value::List(l)) => {
            l.iter().map(|v| if let Value::Number(n) = v { *n } else { panic!("{name}") }).collect()
        }
        _ => vec![],
    };
    let texts = |name: &str| match all.get(name) {
        Some(Value::List(l)) => {
            l.iter().map(|v| if let Value::Text(t) = v { t.clone() } else { panic!("{name}") }).collect()
        }
        _ => vec![],
    };
    let id = |name: &str| number(&format!("{name}_token_id")).map(|n| n as u32);
    let flag = |name: &str| number(name).map(|n| n != 0.0);
    let text = |name: &str| match all.get(name) {
        Some(Value::Text(t)) => Some(&*t.to_string().leak()),
        _ => None,
    };
    GgufVocab {
        model: text("model").unwrap(),
        pre: text("pre"),
        tokens: texts("tokens"),
        scores: numbers("scores").iter().map(|n| *n as f32).collect(),
        kinds: numbers("token_type").iter().map(|n| *n as i32).collect(),
        merges: texts("merges"),
        bos: id("bos"),
        eos: id("eos"),
        eot: id("eot"),
        unknown: id("unknown"),
        cls: id("cls"),
        separator: id("seperator"),
        add_bos: flag("add_bos_token"),
        add_eos: flag("add_eos_token"),
        add_space_prefix: flag("add_space_prefix"),
        remove_extra_whitespaces: flag("remove_extra_whitespaces").unwrap_or(false),
        lowercase: flag("normalizer.lowercase"),
        charsmap: numbers("precompiled_charsmap").iter().map(|n| *n as u8).collect(),
    }
}
