//! Why the operations of a line became these kernels.

use crate::model::{Line, Model, NodeId, Schedule};
use crate::pack::calls_by_place;
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::BTreeMap;
use std::fmt::Write;

/// What became of the operations at `FILE:LINE`, as text. The file may be the end of a path.
pub fn explain(m: &Model, place: &str) -> Result<String, String> {
    let wrong = || format!("{place}: expected FILE:LINE");
    let (file, line) = place.rsplit_once(':').ok_or_else(wrong)?;
    let line: u32 = line.parse().map_err(|_| wrong())?;
    let is_here = |l: &Line| l.line == line && is_end_of(file, m.text(l.file));
    let mut out = String::new();
    for (i, s) in m.schedules.iter().enumerate() {
        let here: Vec<NodeId> =
            nodes_of(m, s).into_iter().filter(|n| m.lines.get(n).is_some_and(is_here)).collect();
        if !here.is_empty() {
            program(m, s, i, &here, &mut out);
        }
    }
    if out.is_empty() {
        let known: FxHashSet<&Line> = m.lines.values().filter(|l| is_end_of(file, m.text(l.file))).collect();
        let mut lines: Vec<u32> = known.iter().map(|l| l.line).collect();
        lines.sort_unstable();
        lines.dedup();
        let lines: Vec<String> = lines.iter().map(|l| l.to_string()).collect();
        return Err(match lines.len() {
            0 => format!("{place}: the recording has no operation of this file"),
            _ => format!(
                "{place}: no operation was computed for this line; there are some for lines {}",
                lines.join(", ")
            ),
        });
    }
    Ok(out)
}

fn is_end_of(asked: &str, path: &str) -> bool {
    path == asked || path.ends_with(asked) && path[..path.len() - asked.len()].ends_with('/')
}

/// The nodes that the scheduler placed, in order, each once.
fn nodes_of(_: &Model, s: &Schedule) -> Vec<NodeId> {
    let mut seen = FxHashSet::default();
    s.placed.iter().map(|p| p.0).filter(|n| seen.insert(*n)).collect()
}

fn program(m: &Model, s: &Schedule, i: usize, here: &[NodeId], out: &mut String) {
    let calls = calls_by_place(m, s);
    let mut of_node: FxHashMap<NodeId, Vec<usize>> = FxHashMap::default();
    let mut stored: FxHashSet<NodeId> = FxHashSet::default();
    for (node, place, how) in &s.placed {
        of_node.entry(*node).or_default().extend(calls.get(m.text(*place)).into_iter().flatten());
        if m.text(*how) == "stored" {
            stored.insert(*node);
        }
    }
    let ops: BTreeMap<&str, usize> = here.iter().fold(BTreeMap::new(), |mut all, n| {
        *all.entry(m.lines.get(n).map_or("", |l| m.text(l.op))).or_default() += 1;
        all
    });
    let ops: Vec<&str> = ops.into_keys().collect();
    let run = s.runs.first().map(|r| r.line).filter(|l| l.line > 0);
    let run = run.map_or(String::new(), |l| format!(", run by {}", line_text(m, l)));
    _ = writeln!(
        out,
        "program {} on {}{run}: {} in {} nodes",
        i + 1,
        m.text(s.device),
        ops.join(", "),
        here.len()
    );
    let mut kernels: BTreeMap<usize, Vec<NodeId>> = BTreeMap::new();
    for n in here {
        for c in of_node.get(n).into_iter().flatten() {
            let nodes = kernels.entry(*c).or_default();
            if nodes.last() != Some(n) {
                nodes.push(*n);
            }
        }
    }
    let own: FxHashSet<NodeId> = here.iter().copied().collect();
    for (c, nodes) in &kernels {
        let Some(call) = s.calls.get(*c) else { continue };
        _ = writeln!(out, "  kernel {} computes {}", m.text(call.name), summary(m, nodes));
        let mut others: BTreeMap<String, usize> = BTreeMap::new();
        for (n, at) in &of_node {
            if at.contains(c)
                && !own.contains(n)
                && let Some(l) = m.lines.get(n)
            {
                *others.entry(line_text(m, *l)).or_default() += 1;
            }
        }
        match others.is_empty() {
            true => _ = writeln!(out, "    and nothing of other lines"),
            false => {
                let mut others: Vec<(String, usize)> = others.into_iter().collect();
                others.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
                let few: Vec<&str> = others.iter().take(6).map(|o| o.0.as_str()).collect();
                let more =
                    if others.len() > 6 { format!(" and {} more", others.len() - 6) } else { String::new() };
                _ = writeln!(out, "    fused with {}{more}", few.join("; "));
            }
        }
    }
    let why: FxHashMap<NodeId, &str> = s.reasons.iter().map(|(n, _, why)| (*n, m.text(*why))).collect();
    for n in here.iter().filter(|n| stored.contains(n)) {
        let why = why.get(n).copied().unwrap_or("the program keeps it, or a kernel stores it anyway");
        _ = writeln!(out, "  {} is stored: {why}", describe(m, *n));
    }
    for n in here {
        let count = of_node.get(n).map_or(0, |c| c.iter().collect::<FxHashSet<_>>().len());
        if count > 1 && !stored.contains(n) && !is_free(m, *n) {
            _ = writeln!(out, "  {} is computed by {count} kernels: cheaper than memory", describe(m, *n));
        }
    }
}

/// Whether computing it costs nothing.
fn is_free(m: &Model, n: NodeId) -> bool {
    let op = m.text(m.node(n).op);
    ["Reshape", "Permute", "Expand", "Pad", "Shrink", "Flip", "Const", "Param", "Cast", "Detach"]
        .contains(&op)
}

fn line_text(m: &Model, l: Line) -> String {
    format!("{} at {}:{}", m.text(l.op), m.text(l.file), l.line)
}

fn describe(m: &Model, n: NodeId) -> String {
    let node = m.node(n);
    let arg = m.text(node.arg);
    let arg = if arg.is_empty() { String::new() } else { format!(" {{{arg}}}") };
    format!("{}{arg} of {} [{}]", m.text(node.op), m.text(node.dtype), m.text(node.shape))
}

/// Ops of nodes with how many there are of each.
fn summary(m: &Model, nodes: &[NodeId]) -> String {
    let mut ops: BTreeMap<&str, usize> = BTreeMap::new();
    nodes.iter().for_each(|n| *ops.entry(m.text(m.node(*n).op)).or_default() += 1);
    let each =
        ops.iter().map(|(op, count)| if *count == 1 { op.to_string() } else { format!("{count} {op}") });
    each.collect::<Vec<_>>().join(", ")
}
