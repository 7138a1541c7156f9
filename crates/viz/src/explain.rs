//! Why the operations of a line became these kernels.

use crate::model::{Line, Model, NodeId, Schedule};
use crate::placed::{Placed, is_free};
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::BTreeMap;
use std::fmt::Write;

/// Other lines that are told of a kernel.
const TOLD: usize = 6;

/// What became of the operations at `FILE:LINE`, as text. The file may be the end of a path.
pub fn explain(m: &Model, place: &str) -> Result<String, String> {
    let wrong = || format!("{place}: expected FILE:LINE");
    let (file, line) = place.rsplit_once(':').ok_or_else(wrong)?;
    let line: u32 = line.parse().map_err(|_| wrong())?;
    // graphs that were scheduled again are told once
    let mut told: Vec<(String, Vec<String>, String)> = vec![];
    let mut known: FxHashSet<u32> = FxHashSet::default();
    let run = m.schedules.iter().enumerate().flat_map(|(i, s)| s.lines.iter().map(move |own| (i, s, own)));
    for (i, s, own) in run {
        let placed = Placed::of(m, s, own);
        let of_file = placed.lines.iter().filter(|(_, l)| is_end_of(file, m.text(l.file)));
        known.extend(of_file.map(|(_, l)| l.line));
        let is_here = |l: &Line| l.line == line && is_end_of(file, m.text(l.file));
        let mut seen = FxHashSet::default();
        let nodes = s.placed.iter().map(|p| p.0).filter(|n| seen.insert(*n));
        let here: Vec<NodeId> = nodes.filter(|n| placed.lines.get(n).is_some_and(is_here)).collect();
        if here.is_empty() {
            continue;
        }
        let body = Program { m, s, placed: &placed }.text(&here);
        let number = (i + 1).to_string();
        match told.iter_mut().find(|t| t.2 == body) {
            Some(t) if t.1.contains(&number) => {}
            Some(t) => t.1.push(number),
            None => told.push((head(m, s, &placed, &here), vec![number], body)),
        }
    }
    if told.is_empty() {
        let mut lines: Vec<u32> = known.into_iter().collect();
        lines.sort_unstable();
        let lines: Vec<String> = lines.iter().map(|l| l.to_string()).collect();
        return Err(match lines.len() {
            0 => format!("{place}: the recording has no operation of this file"),
            _ => format!(
                "{place}: no operation was computed for this line; there are some for lines {}",
                lines.join(", ")
            ),
        });
    }
    let each = told.into_iter().map(|(head, numbers, body)| {
        let programs = if numbers.len() == 1 { "program" } else { "programs" };
        format!("{programs} {} {head}\n{body}", numbers.join(", "))
    });
    Ok(each.collect())
}

fn is_end_of(asked: &str, path: &str) -> bool {
    path == asked || path.ends_with(asked) && path[..path.len() - asked.len()].ends_with('/')
}

/// Where a program ran, for whom, and which of its calls are here.
fn head(m: &Model, s: &Schedule, placed: &Placed, here: &[NodeId]) -> String {
    let run = s.runs.first().map(|r| r.line).filter(|l| l.line > 0);
    let run = run.map_or(String::new(), |l| {
        let file = m.text(l.file).rsplit('/').next().unwrap_or_default();
        format!(", run by {} at {file}:{}", m.text(l.op), l.line)
    });
    format!("on {}{run}: {}", m.text(s.device), calls(m, placed, here).join(", "))
}

/// The names of the calls that nodes are part of, with their spans, each once.
fn calls(m: &Model, placed: &Placed, nodes: &[NodeId]) -> Vec<String> {
    let name = |l: &Line| match l.span {
        0 => m.text(l.op).to_string(),
        span => format!("{} in {}", m.text(l.op), m.text(span)),
    };
    let mut names: Vec<String> = nodes.iter().filter_map(|n| placed.lines.get(n).map(name)).collect();
    names.sort_unstable();
    names.dedup();
    names
}

struct Program<'a> {
    m: &'a Model,
    s: &'a Schedule,
    placed: &'a Placed,
}

impl Program<'_> {
    fn text(&self, here: &[NodeId]) -> String {
        let (m, s, mut out) = (self.m, self.s, String::new());
        let mut of_node: FxHashMap<NodeId, Vec<usize>> = FxHashMap::default();
        let mut stored: FxHashMap<NodeId, bool> = FxHashMap::default();
        for (node, place, how) in &s.placed {
            let calls = of_node.entry(*node).or_default();
            calls.extend(self.placed.calls_of(*place));
            calls.sort_unstable();
            calls.dedup();
            if m.text(*how) == "stored" {
                *stored.entry(*node).or_default() |= self.placed.is_stored(*place);
            }
        }
        let mut kernels: BTreeMap<usize, Vec<NodeId>> = BTreeMap::new();
        for n in here {
            of_node.get(n).into_iter().flatten().for_each(|c| kernels.entry(*c).or_default().push(*n));
        }
        // kernels that only read what it moved are told where there are no others
        let is_dear = |nodes: &[NodeId]| nodes.iter().any(|n| !is_free(m, *n));
        if kernels.values().any(|nodes| is_dear(nodes)) {
            kernels.retain(|_, nodes| is_dear(nodes));
        }
        for (c, nodes) in &kernels {
            let Some(call) = s.calls.get(*c) else { continue };
            let (names, ops) = (calls(m, self.placed, nodes).join(", "), self.summary(nodes));
            _ = writeln!(out, "  kernel {} computes {names}: {ops}", m.text(call.name));
            _ = writeln!(out, "    {}", self.others(*c, &of_node, here));
            self.joins(*c).iter().for_each(|why| _ = writeln!(out, "    kernels became one: {why}"));
        }
        let why: FxHashMap<NodeId, &str> = s.reasons.iter().map(|(n, _, why)| (*n, m.text(*why))).collect();
        // what is not stored, by the reason and the number of kernels that compute it
        let mut fused: BTreeMap<(&str, usize), Vec<NodeId>> = BTreeMap::new();
        for n in here {
            let count = of_node.get(n).map_or(0, Vec::len);
            match (stored.get(n), why.get(n)) {
                (Some(true), why) => {
                    let why = why.copied().unwrap_or("the program keeps it, or a kernel stores it anyway");
                    _ = writeln!(out, "  {} is stored: {why}", self.describe(*n));
                }
                (Some(false), why) => {
                    let why = why.map_or(String::new(), |why| format!(" ({why})"));
                    let text = "would be stored, but whoever reads it is in its kernel";
                    _ = writeln!(out, "  {} {text}{why}", self.describe(*n));
                }
                // files that are older say only why values are stored
                (None, Some(why)) if count > 0 && !is_free(m, *n) => {
                    fused.entry((why, count)).or_default().push(*n);
                }
                _ => {}
            }
        }
        for ((why, count), nodes) in fused {
            let by = if count == 1 { String::new() } else { format!(" by {count} kernels") };
            let is = if nodes.len() == 1 { "is" } else { "are" };
            _ = writeln!(out, "  {} {is} computed where read{by}: {why}", self.summary(&nodes));
        }
        out
    }
    /// What a kernel computes for other lines.
    fn others(&self, call: usize, of_node: &FxHashMap<NodeId, Vec<usize>>, here: &[NodeId]) -> String {
        let own: FxHashSet<NodeId> = here.iter().copied().collect();
        let first = here.first().and_then(|n| self.placed.lines.get(n)).map_or(0, |l| l.file);
        let mut others: BTreeMap<(u32, u32), Vec<NodeId>> = BTreeMap::new();
        for (n, at) in of_node {
            if at.contains(&call)
                && !own.contains(n)
                && let Some(l) = self.placed.lines.get(n)
            {
                others.entry((l.file, l.line)).or_default().push(*n);
            }
        }
        if others.is_empty() {
            return "and nothing of other lines".into();
        }
        let told = others.iter().take(TOLD).map(|((file, line), nodes)| {
            let names = calls(self.m, self.placed, nodes).join(", ");
            match *file == first {
                true => format!("line {line} ({names})"),
                false => format!("{}:{line} ({names})", self.m.text(*file)),
            }
        });
        let told = told.collect::<Vec<_>>().join(", ");
        let more = others.len().saturating_sub(TOLD);
        if more > 0 {
            format!("fused with {told} and {more} more lines")
        } else {
            format!("fused with {told}")
        }
    }
    /// Why a kernel is one of several.
    fn joins(&self, call: usize) -> Vec<&str> {
        let here = self.s.joined.iter().filter(|(place, _, _)| self.placed.calls_of(*place).contains(&call));
        let mut all: Vec<&str> = here.map(|(_, _, why)| self.m.text(*why)).collect();
        all.sort_unstable();
        all.dedup();
        all
    }
    fn describe(&self, n: NodeId) -> String {
        let (m, node) = (self.m, self.m.node(n));
        let arg = m.text(node.arg);
        let arg = if arg.is_empty() { String::new() } else { format!(" {{{arg}}}") };
        format!("{}{arg} of {} [{}]", m.text(node.op), m.text(node.dtype), m.text(node.shape))
    }
    /// Ops of nodes with how many there are of each, without those that cost nothing where there are others.
    fn summary(&self, nodes: &[NodeId]) -> String {
        let m = self.m;
        let costs: Vec<NodeId> = nodes.iter().copied().filter(|n| !is_free(m, *n)).collect();
        let mut ops: BTreeMap<&str, usize> = BTreeMap::new();
        let told = if costs.is_empty() { nodes } else { &costs };
        told.iter().for_each(|n| *ops.entry(m.text(m.node(*n).op)).or_default() += 1);
        let each =
            ops.iter().map(|(op, count)| if *count == 1 { op.to_string() } else { format!("{count} {op}") });
        each.collect::<Vec<_>>().join(", ")
    }
}
