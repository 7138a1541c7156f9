//! Pickles, read as data. Nothing is imported or called: what a pickle would call becomes a [`Object::Made`] that says
//! so, and whoever reads the result decides which ones it knows.
//!
//! Objects live in one list and refer to each other by number, so that shared and circular ones need no care here, and
//! nothing recurses however deep a pickle nests. Every opcode makes at most one object of at most the bytes it has.

use crate::state::cursor::{Cursor, text};
use std::collections::HashMap;

/// The number of an object.
pub(in crate::state) type Id = usize;

/// What a pickle says.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::state) enum Object {
    None,
    Bool(bool),
    Int(i64),
    /// Two's complement, little endian: an integer beyond 64 bits.
    Long(Vec<u8>),
    Float(f64),
    Str(String),
    Bytes(Vec<u8>),
    List(Vec<Id>),
    Tuple(Vec<Id>),
    Set(Vec<Id>),
    Dict(Vec<(Id, Id)>),
    /// A class or function by name: `torch`, `FloatStorage`.
    Global(String, String),
    /// What calling `what` with `args` would make, and what would be put into it.
    Made {
        what: Id,
        args: Id,
        state: Option<Id>,
        items: Vec<(Id, Id)>,
        list: Vec<Id>,
    },
    /// What only the program that wrote the pickle can find, by some name.
    Persistent(Id),
}

/// A pickle that was read.
pub(in crate::state) struct Pickle {
    pub objects: Vec<Object>,
    pub root: Id,
}

/// More objects than any model has.
const MAX_OBJECTS: usize = 1 << 24;

/// Reads one pickle; the cursor stands behind it afterwards.
pub(in crate::state) fn read(c: &mut Cursor) -> Result<Pickle, String> {
    let mut vm = Vm { objects: Vec::new(), stack: Vec::new(), marks: Vec::new(), memo: HashMap::new() };
    loop {
        let at = c.at();
        let op = c.u8()?;
        if op == b'.' {
            let root = vm.pop()?;
            return Ok(Pickle { objects: vm.objects, root });
        }
        vm.step(op, c).map_err(|e| format!("pickle opcode {:?} at byte {at}: {e}", op as char))?;
    }
}

struct Vm {
    objects: Vec<Object>,
    stack: Vec<Id>,
    marks: Vec<usize>,
    memo: HashMap<u64, Id>,
}

impl Vm {
    fn step(&mut self, op: u8, c: &mut Cursor) -> Result<(), String> {
        match op {
            // numbers and constants
            b'N' => self.push(Object::None),
            0x88 => self.push(Object::Bool(true)),
            0x89 => self.push(Object::Bool(false)),
            b'J' => c.i32().and_then(|v| self.push(Object::Int(v as i64))),
            b'K' => c.u8().and_then(|v| self.push(Object::Int(v as i64))),
            b'M' => c.u16().and_then(|v| self.push(Object::Int(v as i64))),
            b'I' | b'L' => self.decimal(text(c.line()?, "a number")?),
            0x8a => c.u8().and_then(|n| self.long(c.take(n as usize)?)),
            0x8b => c.u32().and_then(|n| self.long(c.take(n as usize)?)),
            b'F' => {
                let line = text(c.line()?, "a number")?.trim();
                self.push(Object::Float(line.parse().map_err(|_| format!("{line:?} is no number"))?))
            }
            b'G' => c.array().and_then(|v| self.push(Object::Float(f64::from_be_bytes(v)))),
            // text and bytes
            b'X' => c.u32().and_then(|n| self.string(c.take(n as usize)?)),
            0x8c => c.u8().and_then(|n| self.string(c.take(n as usize)?)),
            0x8d => c.u64().and_then(|n| self.string(c.take_long(n)?)),
            b'V' => c.line().and_then(|l| self.string(l)),
            b'S' => c.line().and_then(|l| self.quoted(l)),
            b'T' => c.u32().and_then(|n| self.latin(c.take(n as usize)?)),
            b'U' => c.u8().and_then(|n| self.latin(c.take(n as usize)?)),
            b'B' => c.u32().and_then(|n| self.bytes(c.take(n as usize)?)),
            b'C' => c.u8().and_then(|n| self.bytes(c.take(n as usize)?)),
            0x8e | 0x96 => c.u64().and_then(|n| self.bytes(c.take_long(n)?)),
            // containers
            b']' => self.push(Object::List(vec![])),
            b')' => self.push(Object::Tuple(vec![])),
            b'}' => self.push(Object::Dict(vec![])),
            0x8f => self.push(Object::Set(vec![])),
            b'l' => self.marked().and_then(|all| self.push(Object::List(all))),
            b't' => self.marked().and_then(|all| self.push(Object::Tuple(all))),
            0x91 => self.marked().and_then(|all| self.push(Object::Set(all))),
            b'd' => self.marked().and_then(pairs).and_then(|all| self.push(Object::Dict(all))),
            0x85..=0x87 => self.pop_many(op as usize - 0x84).and_then(|all| self.push(Object::Tuple(all))),
            b'a' => self.pop().and_then(|x| self.append(vec![x])),
            b'e' | 0x90 => self.marked().and_then(|all| self.append(all)),
            b's' => self.pop_many(2).and_then(pairs).and_then(|all| self.set_items(all)),
            b'u' => self.marked().and_then(pairs).and_then(|all| self.set_items(all)),
            // the stack and the memo
            b'(' => {
                self.marks.push(self.stack.len());
                Ok(())
            }
            b'0' => self.pop().map(|_| ()),
            b'1' => self.marked().map(|_| ()),
            b'2' => self.top().map(|x| self.stack.push(x)),
            b'q' => c.u8().and_then(|n| self.put(n as u64)),
            b'r' => c.u32().and_then(|n| self.put(n as u64)),
            b'p' => number(c.line()?).and_then(|n| self.put(n)),
            0x94 => self.put(self.memo.len() as u64),
            b'h' => c.u8().and_then(|n| self.get(n as u64)),
            b'j' => c.u32().and_then(|n| self.get(n as u64)),
            b'g' => number(c.line()?).and_then(|n| self.get(n)),
            0x80 => {
                c.u8().and_then(|v| if v <= 5 { Ok(()) } else { Err(format!("protocol {v} is not known")) })
            }
            0x95 => c.u64().map(|_| ()),
            // what would be called
            b'c' => {
                let (module, name) = (text(c.line()?, "a module")?, text(c.line()?, "a name")?);
                self.push(Object::Global(module.into(), name.into()))
            }
            0x93 => self.stack_global(),
            b'R' | 0x81 => {
                let (args, what) = (self.pop()?, self.pop()?);
                self.made(what, args)
            }
            0x92 => {
                let (named, args, what) = (self.pop()?, self.pop()?, self.pop()?);
                self.push(Object::Tuple(vec![args, named]))?;
                let args = self.pop()?;
                self.made(what, args)
            }
            b'i' => {
                let (module, name) = (text(c.line()?, "a module")?, text(c.line()?, "a name")?);
                let args = self.marked()?;
                self.push(Object::Global(module.into(), name.into()))?;
                let what = self.pop()?;
                self.made_of(what, args)
            }
            b'o' => {
                let mut all = self.marked()?.into_iter();
                let what = all.next().ok_or("no class to make an object of")?;
                self.made_of(what, all.collect())
            }
            b'b' => self.build(),
            b'P' => {
                self.latin(c.line()?)?;
                self.persistent()
            }
            b'Q' => self.persistent(),
            0x82..=0x84 => Err("extension codes mean something only to the program that wrote them".into()),
            0x97 | 0x98 => Err("buffers outside the pickle are not there".into()),
            _ => Err("not an opcode".into()),
        }
    }

    fn push(&mut self, o: Object) -> Result<(), String> {
        if self.objects.len() >= MAX_OBJECTS {
            return Err(format!("more than {MAX_OBJECTS} objects"));
        }
        self.stack.push(self.objects.len());
        self.objects.push(o);
        Ok(())
    }
    /// Nothing below the last mark can be taken.
    fn floor(&self) -> usize {
        self.marks.last().copied().unwrap_or(0)
    }
    fn top(&self) -> Result<Id, String> {
        let above = self.stack.get(self.floor()..).and_then(|s| s.last());
        above.copied().ok_or_else(|| "the stack is empty".into())
    }
    fn pop(&mut self) -> Result<Id, String> {
        let top = self.top()?;
        self.stack.pop();
        Ok(top)
    }
    fn pop_many(&mut self, n: usize) -> Result<Vec<Id>, String> {
        let from = self.stack.len().checked_sub(n).filter(|from| *from >= self.floor());
        Ok(self.stack.split_off(from.ok_or("the stack is empty")?))
    }
    /// What was pushed since the last mark.
    fn marked(&mut self) -> Result<Vec<Id>, String> {
        let from = self.marks.pop().ok_or("no mark")?;
        Ok(self.stack.split_off(from.min(self.stack.len())))
    }
    fn put(&mut self, key: u64) -> Result<(), String> {
        let top = self.top()?;
        self.memo.insert(key, top);
        Ok(())
    }
    fn get(&mut self, key: u64) -> Result<(), String> {
        let id = self.memo.get(&key).copied().ok_or_else(|| format!("nothing is remembered as {key}"))?;
        self.stack.push(id);
        Ok(())
    }

    fn decimal(&mut self, line: &str) -> Result<(), String> {
        let digits = line.trim().trim_end_matches('L');
        match digits {
            "01" => self.push(Object::Bool(true)),
            "00" => self.push(Object::Bool(false)),
            _ => self.push(Object::Int(
                digits.parse().map_err(|_| format!("{digits:.40?} is no 64-bit integer"))?,
            )),
        }
    }
    fn long(&mut self, bytes: &[u8]) -> Result<(), String> {
        if bytes.len() > 8 {
            return self.push(Object::Long(bytes.to_vec()));
        }
        let fill = if bytes.last().is_some_and(|b| *b >= 0x80) { 0xff } else { 0 };
        let mut word = [fill; 8];
        word[..bytes.len()].copy_from_slice(bytes);
        self.push(Object::Int(i64::from_le_bytes(word)))
    }
    fn string(&mut self, bytes: &[u8]) -> Result<(), String> {
        self.push(Object::Str(text(bytes, "a string")?.to_string()))
    }
    fn bytes(&mut self, bytes: &[u8]) -> Result<(), String> {
        self.push(Object::Bytes(bytes.to_vec()))
    }
    /// A string of Python 2, whose bytes say nothing about their meaning.
    fn latin(&mut self, bytes: &[u8]) -> Result<(), String> {
        self.push(Object::Str(bytes.iter().map(|b| *b as char).collect()))
    }
    /// A string of protocol 0, in quotes. Escapes stay as they are: no name has any.
    fn quoted(&mut self, line: &[u8]) -> Result<(), String> {
        let line = line.trim_ascii();
        match line {
            [q @ (b'\'' | b'"'), inner @ .., r] if q == r => self.latin(inner),
            _ => Err("a string without quotes".into()),
        }
    }

    fn append(&mut self, mut all: Vec<Id>) -> Result<(), String> {
        let to = self.top()?;
        match &mut self.objects[to] {
            Object::List(list) | Object::Set(list) | Object::Made { list, .. } => list.append(&mut all),
            _ => return Err("appending to what is no list".into()),
        }
        Ok(())
    }
    fn set_items(&mut self, mut all: Vec<(Id, Id)>) -> Result<(), String> {
        let to = self.top()?;
        match &mut self.objects[to] {
            Object::Dict(items) | Object::Made { items, .. } => items.append(&mut all),
            _ => return Err("setting items of what is no dict".into()),
        }
        Ok(())
    }
    fn stack_global(&mut self) -> Result<(), String> {
        let (name, module) = (self.pop()?, self.pop()?);
        match (&self.objects[module], &self.objects[name]) {
            (Object::Str(module), Object::Str(name)) => {
                let global = Object::Global(module.clone(), name.clone());
                self.push(global)
            }
            _ => Err("the name of a class is no string".into()),
        }
    }
    fn made(&mut self, what: Id, args: Id) -> Result<(), String> {
        self.push(Object::Made { what, args, state: None, items: vec![], list: vec![] })
    }
    fn made_of(&mut self, what: Id, args: Vec<Id>) -> Result<(), String> {
        self.push(Object::Tuple(args))?;
        let args = self.pop()?;
        self.made(what, args)
    }
    fn build(&mut self) -> Result<(), String> {
        let (given, to) = (self.pop()?, self.top()?);
        match &mut self.objects[to] {
            Object::Made { state, .. } => *state = Some(given),
            _ => return Err("giving state to what was not made by a call".into()),
        }
        Ok(())
    }
    fn persistent(&mut self) -> Result<(), String> {
        let id = self.pop()?;
        self.push(Object::Persistent(id))
    }
}

fn number(line: &[u8]) -> Result<u64, String> {
    let line = text(line, "a number")?.trim();
    line.parse().map_err(|_| format!("{line:.40?} is no number"))
}

fn pairs(all: Vec<Id>) -> Result<Vec<(Id, Id)>, String> {
    match all.len() % 2 {
        0 => Ok(all.chunks_exact(2).map(|p| (p[0], p[1])).collect()),
        _ => Err("a key without a value".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn root(bytes: &[u8]) -> Result<Object, String> {
        read(&mut Cursor::new(bytes)).map(|p| p.objects[p.root].clone())
    }

    #[test]
    fn values_of_every_protocol() {
        let cases: [(&[u8], Object); 12] = [
            (b"N.", Object::None),
            (b"I01\n.", Object::Bool(true)),
            (b"I-12\n.", Object::Int(-12)),
            (b"L7L\n.", Object::Int(7)),
            (b"F1.5\n.", Object::Float(1.5)),
            (b"S'abc'\n.", Object::Str("abc".into())),
            (b"\x80\x02K\x05.", Object::Int(5)),
            (b"\x80\x02J\xff\xff\xff\xff.", Object::Int(-1)),
            (b"\x80\x02\x8a\x02\x00\xff.", Object::Int(-256)),
            (b"\x80\x02\x8a\x00.", Object::Int(0)),
            (b"\x80\x04\x95\x05\x00\x00\x00\x00\x00\x00\x00\x8c\x02hi\x94.", Object::Str("hi".into())),
            (b"ctorch\nFloatStorage\n.", Object::Global("torch".into(), "FloatStorage".into())),
        ];
        for (bytes, expected) in cases {
            assert_eq!(root(bytes), Ok(expected), "{bytes:?}");
        }
    }

    #[test]
    fn containers_and_calls() {
        let p = read(&mut Cursor::new(
            b"\x80\x02ccollections\nOrderedDict\nq\x00)Rq\x01(U\x01aK\x01U\x01bK\x02u}b.",
        ));
        let p = p.unwrap();
        let Object::Made { items, state, .. } = &p.objects[p.root] else { panic!("{:?}", p.objects) };
        assert_eq!((items.len(), state.is_some()), (2, true));
        assert_eq!(p.objects[items[1].1], Object::Int(2));
        assert_eq!(root(b"(K\x01K\x02t."), root(b"K\x01K\x02\x86."));
        // a list in itself
        let p = read(&mut Cursor::new(b"]q\x00h\x00a.")).unwrap();
        assert_eq!(p.objects[p.root], Object::List(vec![p.root]));
    }

    #[test]
    fn broken_pickles_are_errors() {
        let cases: [(&[u8], &str); 14] = [
            (b"", "beyond the end"),
            (b".", "the stack is empty"),
            (b"0.", "the stack is empty"),
            (b"(0.", "the stack is empty"),
            (b"K\x01(\x85.", "the stack is empty"),
            (b"t.", "no mark"),
            (b"h\x00.", "nothing is remembered as 0"),
            (b"X\xff\xff\xff\xffab", "beyond the end"),
            (b"\x8d\xff\xff\xff\xff\xff\xff\xff\xffab", "beyond the end"),
            (b"NNa.", "no list"),
            (b"(NNNd.", "a key without a value"),
            (b"N}b.", "not made by a call"),
            (b"\x80\x09.", "protocol 9"),
            (b"\xff", "not an opcode"),
        ];
        for (bytes, part) in cases {
            let e = root(bytes).unwrap_err();
            assert!(e.contains(part), "{bytes:?}: {e}");
        }
    }
}
