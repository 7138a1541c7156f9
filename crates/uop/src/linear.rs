//! A linear program: what codegen hands to a renderer, and its text.
//!
//! ```text
//! kernel e_16
//!   let %0 = Param:float32 {0 16}
//!   …
//! params %0* %1                        a star: it is written
//! thread %2
//! flops 16
//! bytes 128
//! for %2 {
//!   let %3 = Index:float32 %1 %2       let: what is no step, such as an address
//!   %4 = Load:float32 %3
//!   prefetch %3 2048
//!   …
//! }
//! ```

use crate::node::UOp;
use crate::op::Op;
use crate::text::{self, Names, ParseError};
use std::fmt::Write;
use std::sync::Arc;

/// One step of a linear program.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Step {
    /// Compute a value or perform a store or barrier. Constants, parameters, addresses (`Index`), `Define`s, `Special`s
    /// and `Variable`s are not steps: a renderer writes them where they are used.
    Do(UOp),
    /// Begin the loop over a range.
    Open(UOp),
    /// End it.
    Close(UOp),
    /// The memory so many bytes after an address will be wanted soon. A hint: it changes no value, and what it names need
    /// not be in a buffer.
    Prefetch(UOp, i32),
}

impl Step {
    /// The node it is about, whatever it does with it.
    pub fn node(&self) -> &UOp {
        match self {
            Step::Do(n) | Step::Open(n) | Step::Close(n) | Step::Prefetch(n, _) => n,
        }
    }
}

/// A kernel as a list of steps, each after what it needs.
#[derive(Clone, PartialEq, Debug)]
pub struct Linear {
    /// Name of the kernel.
    pub name: Arc<str>,
    /// The steps.
    pub steps: Vec<Step>,
    /// `Param` nodes by slot; slots are dense.
    pub params: Vec<UOp>,
    /// Which params are stored to, by slot.
    pub written: Vec<bool>,
    /// `Variable` nodes in the order of the kernel's arguments (sorted by name).
    pub vars: Vec<UOp>,
    /// `Define` nodes, register variables and local arrays.
    pub defines: Vec<UOp>,
    /// Hardware ids in use.
    pub specials: Vec<UOp>,
    /// The thread range of a CPU-like kernel.
    pub thread: Option<UOp>,
    /// Arithmetic operations and bytes moved, as expressions over the variables: for reports and cost.
    pub flops: UOp,
    /// Bytes of memory that must move at least once.
    pub bytes: UOp,
}

/// Writes a listing: every node has a line before it is used.
#[derive(Default)]
struct Lister {
    names: Names,
    out: String,
    depth: usize,
}

impl Lister {
    fn line(&mut self, text: &str) {
        _ = writeln!(self.out, "{:1$}{text}", "", 2 * self.depth);
    }
    /// Lines for everything below these nodes that has none, them too.
    fn define<'n>(&mut self, roots: impl IntoIterator<Item = &'n UOp>) {
        let mut stack: Vec<(UOp, bool)> = roots.into_iter().map(|n| (n.clone(), false)).collect();
        stack.reverse();
        while let Some((n, ready)) = stack.pop() {
            if n.op == Op::Const || self.names.contains_key(&n) {
                continue;
            }
            if ready {
                let line = text::line(&n, &mut self.names);
                self.line(&format!("let {line}"));
            } else {
                stack.push((n.clone(), true));
                stack.extend(n.src.iter().rev().map(|s| (s.clone(), false)));
            }
        }
    }
    /// A line with nodes of the header.
    fn header(&mut self, word: &str, nodes: &[UOp], mark: impl Fn(usize) -> bool) {
        let of = |(i, n): (usize, &UOp)| {
            format!(" {}{}", text::reference(n, &self.names), if mark(i) { "*" } else { "" })
        };
        let nodes: String = nodes.iter().enumerate().map(of).collect();
        if !nodes.is_empty() {
            self.line(&format!("{word}{nodes}"));
        }
    }
    fn step(&mut self, step: &Step) {
        match step {
            Step::Open(r) => {
                self.define([r]);
                self.line(&format!("for {} {{", text::reference(r, &self.names)));
                self.depth += 1;
            }
            Step::Close(_) => {
                self.depth = self.depth.saturating_sub(1);
                self.line("}");
            }
            Step::Prefetch(at, bytes) => {
                self.define([at]);
                self.line(&format!("prefetch {} {bytes}", text::reference(at, &self.names)));
            }
            Step::Do(n) if self.names.contains_key(n) => {
                self.line(&format!("do {}", text::reference(n, &self.names)));
            }
            Step::Do(n) => {
                self.define(&n.src);
                let line = text::line(n, &mut self.names);
                self.line(&line);
            }
        }
    }
}

impl std::fmt::Display for Linear {
    /// The listing, which [parses back](Linear::parse).
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut l = Lister::default();
        let thread: Vec<UOp> = self.thread.iter().cloned().collect();
        let lists: [(&str, &[UOp]); 7] = [
            ("params", &self.params),
            ("vars", &self.vars),
            ("defines", &self.defines),
            ("specials", &self.specials),
            ("thread", &thread),
            ("flops", std::slice::from_ref(&self.flops)),
            ("bytes", std::slice::from_ref(&self.bytes)),
        ];
        l.line(&format!("kernel {}", self.name));
        l.depth = 1;
        l.define(lists.iter().flat_map(|(_, nodes)| nodes.iter()));
        l.depth = 0;
        for (word, nodes) in lists {
            l.header(word, nodes, |i| word == "params" && self.written.get(i) == Some(&true));
        }
        self.steps.iter().for_each(|s| l.step(s));
        f.write_str(&l.out)
    }
}

/// Reads a listing.
struct Reader {
    nodes: Vec<UOp>,
    open: Vec<UOp>,
    linear: Linear,
}

impl Reader {
    fn operands(&self, words: &str) -> Result<Vec<UOp>, String> {
        words.split_whitespace().map(|w| text::operand(w.trim_end_matches('*'), &self.nodes)).collect()
    }
    fn operand(&self, words: &str) -> Result<UOp, String> {
        self.operands(words)?.pop().ok_or_else(|| "a node is missing".into())
    }
    fn line(&mut self, line: &str) -> Result<(), String> {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        match word {
            "kernel" => self.linear.name = rest.into(),
            "params" => {
                self.linear.params = self.operands(rest)?;
                self.linear.written = rest.split_whitespace().map(|w| w.ends_with('*')).collect();
            }
            "vars" => self.linear.vars = self.operands(rest)?,
            "defines" => self.linear.defines = self.operands(rest)?,
            "specials" => self.linear.specials = self.operands(rest)?,
            "thread" => self.linear.thread = Some(self.operand(rest)?),
            "flops" => self.linear.flops = self.operand(rest)?,
            "bytes" => self.linear.bytes = self.operand(rest)?,
            "let" => self.nodes.push(text::parse_line(rest, &self.nodes)?),
            "for" => {
                let range = self.operand(rest.trim_end_matches('{'))?;
                self.open.push(range.clone());
                self.linear.steps.push(Step::Open(range));
            }
            "}" => self.linear.steps.push(Step::Close(self.open.pop().ok_or("no loop is open")?)),
            "prefetch" => {
                let (at, bytes) = rest.split_once(' ').ok_or("expected 'prefetch %N bytes'")?;
                let bytes = bytes.parse().map_err(|_| format!("'{bytes}' is no number of bytes"))?;
                self.linear.steps.push(Step::Prefetch(self.operand(at)?, bytes));
            }
            "do" => self.linear.steps.push(Step::Do(self.operand(rest)?)),
            _ => {
                let node = text::parse_line(line, &self.nodes)?;
                self.nodes.push(node.clone());
                self.linear.steps.push(Step::Do(node));
            }
        }
        Ok(())
    }
}

impl Linear {
    /// A program without steps.
    pub fn empty(name: &str) -> Linear {
        Linear {
            name: name.into(),
            steps: vec![],
            params: vec![],
            written: vec![],
            vars: vec![],
            defines: vec![],
            specials: vec![],
            thread: None,
            flops: UOp::index(0),
            bytes: UOp::index(0),
        }
    }
    /// The program of a listing.
    pub fn parse(listing: &str) -> Result<Linear, ParseError> {
        let mut reader = Reader { nodes: vec![], open: vec![], linear: Linear::empty("kernel") };
        for (i, raw) in listing.lines().enumerate() {
            let line = raw.split("//").next().unwrap_or("").trim();
            if !line.is_empty() {
                reader.line(line).map_err(|message| ParseError { line: i + 1, message })?;
            }
        }
        Ok(reader.linear)
    }
}
