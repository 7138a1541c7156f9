//! A recording in parts that the page asks for one at a time.
//!
//! ```text
//! pack   =  "FRITPACK" length index part*       length of 4 bytes; the index is JSON
//! part   =  deflated JSON, or deflated numbers of a track
//! ```
//!
//! The index says where each part is, as `[offset, length]` from the end of the index: what the page shows first is in it,
//! and a kernel's graphs, a program's graph or a stretch of a track are fetched when someone looks. Nodes have numbers of
//! their own inside a part.

use crate::lines::LineOf;
use crate::model::{Kernel, Line, Model, NodeId, Pass, Schedule, Text};
use crate::parts::{Deflate, Parts, Place};
use crate::placed::{Placed, lines};
use crate::tracks;
use frit_recording::json::Json;
use rustc_hash::FxHashMap;

/// The first bytes of a pack.
pub const MAGIC: &[u8; 8] = b"FRITPACK";

fn put(j: &mut Json, place: Place) {
    j.ints(place.map(|n| n as u64));
}

/// The pack of a recording.
pub fn pack(m: &Model, deflate: Deflate) -> Vec<u8> {
    let mut parts = Parts::new(deflate);
    let launches = launches_by_kernel(m);
    let mut j = Json::new();
    j.object(|j| {
        j.key("version").text(env!("CARGO_PKG_VERSION"));
        counts(m, j);
        j.key("devices").list(|j| {
            for d in &m.devices {
                j.object(|j| {
                    j.key("name").text(m.text(d.name)).key("about").text(m.text(d.about));
                    j.key("flops").int(d.flops).key("bytes").int(d.bytes);
                });
            }
        });
        let (index, unseen) = kernels(m, &launches);
        j.key("kernels").list(|j| {
            for (row, k) in index.iter().zip(&m.kernels) {
                let place = parts.add(kernel_part(m, k).as_bytes());
                row.write(m, k, place, j);
            }
            unseen.iter().for_each(|row| row.write(m, &Kernel::default(), [0, 0], j));
        });
        let launched = m.kernels.iter().enumerate().filter(|(_, k)| k.candidate.is_none());
        let known: FxHashMap<NodeId, usize> = launched.rev().map(|(i, k)| (k.ast, i)).collect();
        j.key("programs").list(|j| {
            for s in &m.schedules {
                let place = parts.add(program_part(m, s, &known).as_bytes());
                program_row(m, s, place, j);
            }
        });
        j.key("searches").list(|j| m.searches.iter().for_each(|s| search(m, s, &known, j)));
        j.key("timeline").object(|j| tracks::write(m, &known, &mut parts, j));
    });
    let index = j.finish();
    let mut out = MAGIC.to_vec();
    out.extend((index.len() as u32).to_le_bytes());
    out.extend(index.as_bytes());
    out.extend(parts.finish());
    out
}

fn counts(m: &Model, j: &mut Json) {
    let (records, lost) = m.extent.map_or((0, 0), |e| (e.records, e.lost));
    let all = [
        ("records", records),
        ("lost", lost as u64),
        ("nodes", m.node_count() as u64),
        ("rules", m.rule_count() as u64),
        ("launches", m.launches.len() as u64),
        ("copies", m.copies.len() as u64),
        ("replays", m.replays),
        ("left_out", m.left_out),
        ("hits", m.kernels.iter().map(|k| k.hits).sum()),
    ];
    j.key("counts").object(|j| all.iter().for_each(|(name, n)| _ = j.key(name).int(*n)));
}

/// What the launches of a kernel came to.
#[derive(Clone, Copy, Default)]
struct Total {
    count: u64,
    took: u64,
    least: u64,
    flops: u64,
    bytes: u64,
    name: Text,
    device: Text,
}

/// Launches by kernel; by name where the kernel is not known.
fn launches_by_kernel(m: &Model) -> FxHashMap<(NodeId, Text), Total> {
    let mut all: FxHashMap<(NodeId, Text), Total> = FxHashMap::default();
    for l in &m.launches {
        let key = if l.kernel == 0 { (0, l.name) } else { (l.kernel, 0) };
        let t = all.entry(key).or_insert(Total { least: u64::MAX, ..Total::default() });
        t.count += 1;
        t.took += l.took;
        t.least = t.least.min(l.took);
        t.flops += l.flops;
        t.bytes += l.bytes;
        (t.name, t.device) = (l.name, l.device);
    }
    all
}

/// A row of the table of kernels.
struct Row {
    total: Total,
    line: Option<Line>,
}

fn kernels(m: &Model, launches: &FxHashMap<(NodeId, Text), Total>) -> (Vec<Row>, Vec<Row>) {
    let mut lines: FxHashMap<NodeId, Line> = FxHashMap::default();
    for l in &m.launches {
        let op = if l.origin == 0 { l.line.op } else { l.origin };
        lines.entry(l.kernel).or_insert(Line { op, ..l.line });
    }
    let mut seen: FxHashMap<NodeId, ()> = FxHashMap::default();
    let row = |k: &Kernel| {
        if k.candidate.is_some() {
            return Row { total: Total::default(), line: None };
        }
        // one that was compiled twice has its launches once
        let total = match seen.insert(k.ast, ()) {
            None => launches.get(&(k.ast, 0)).copied().unwrap_or_default(),
            Some(()) => Total::default(),
        };
        Row { total, line: lines.get(&k.ast).copied().filter(|l| l.line > 0) }
    };
    let index: Vec<Row> = m.kernels.iter().map(row).collect();
    let known: FxHashMap<NodeId, ()> = m.kernels.iter().map(|k| (k.ast, ())).collect();
    let mut unseen: Vec<Row> = launches
        .iter()
        .filter(|((kernel, _), _)| !known.contains_key(kernel))
        .map(|(_, t)| Row { total: *t, line: None })
        .collect();
    unseen.sort_by_key(|r| std::cmp::Reverse(r.total.took));
    (index, unseen)
}

impl Row {
    fn write(&self, m: &Model, k: &Kernel, place: Place, j: &mut Json) {
        let t = &self.total;
        let name = if k.ast == 0 { t.name } else { k.name };
        let in_code = registers(k.programs.iter().map(|p| p.code.as_str()));
        let (registers, spills) = k.resources.map_or(in_code, |r| (r[0], r[1]));
        j.object(|j| {
            j.key("name").text(m.text(name)).key("ast").int(k.ast.into());
            j.key("device").text(m.text(if t.device == 0 { k.target } else { t.device }));
            j.key("target").text(m.text(k.target)).key("opts").text(m.text(k.opts));
            let least = if t.count == 0 { 0 } else { t.least };
            j.key("launches").int(t.count).key("took").int(t.took).key("least").int(least);
            j.key("flops").int(t.flops).key("bytes").int(t.bytes).key("hits").int(k.hits);
            j.key("registers").int(registers).key("spills").int(spills);
            j.key("counted").int(u64::from(k.resources.is_some()));
            j.key("at").int(k.at).key("ns").int(k.ns);
            if let Some((search, number)) = k.candidate {
                j.key("candidate").ints([search as u64, u64::from(number)]);
            }
            line(m, self.line, j);
            passes_row(m, &k.passes, j);
            j.key("part");
            put(j, place);
        });
    }
}

/// Vector registers that machine code names, and accesses of the stack with one.
fn registers<'a>(code: impl Iterator<Item = &'a str>) -> (u64, u64) {
    let (mut used, mut spills) = (0u64, 0);
    for line in code.flat_map(str::lines) {
        let mut has = false;
        for (at, _) in line.match_indices("mm") {
            let digits: String = line[at + 2..].chars().take_while(char::is_ascii_digit).collect();
            if let Ok(n) = digits.parse::<u32>()
                && n < 64
            {
                used |= 1 << n;
                has = true;
            }
        }
        spills += u64::from(has && line.contains("rsp"));
    }
    (used.count_ones().into(), spills)
}

fn line(m: &Model, line: Option<Line>, j: &mut Json) {
    if let Some(l) = line {
        j.key("line").list(|j| {
            j.text(m.text(l.op)).text(m.text(l.file)).int(l.line.into());
        });
    }
}

fn passes_row(m: &Model, passes: &[Pass], j: &mut Json) {
    j.key("passes").list(|j| {
        for p in passes {
            j.list(|j| {
                j.text(m.text(p.name)).int(p.ns).int(p.rules.len() as u64);
            });
        }
    });
}

/// Numbers that nodes and texts have inside a part.
struct Local<'a> {
    m: &'a Model,
    nodes: Vec<NodeId>,
    number: FxHashMap<NodeId, u64>,
    texts: Vec<Text>,
    text_number: FxHashMap<Text, u64>,
}

impl<'a> Local<'a> {
    fn of(m: &'a Model, roots: &[NodeId]) -> Local<'a> {
        let nodes: Vec<NodeId> = m.below(roots).into_iter().filter(|n| m.node(*n).is_known()).collect();
        let number = nodes.iter().enumerate().map(|(i, n)| (*n, i as u64)).collect();
        Local { m, nodes, number, texts: vec![], text_number: FxHashMap::default() }
    }
    fn text(&mut self, t: Text) -> u64 {
        *self.text_number.entry(t).or_insert_with(|| {
            self.texts.push(t);
            self.texts.len() as u64 - 1
        })
    }
    /// The number of a node; one that the file has not has the number after the last.
    fn node(&self, n: NodeId) -> u64 {
        self.number.get(&n).copied().unwrap_or(self.nodes.len() as u64)
    }
    /// Op, type, shape, arg and sources of each node, then the texts.
    fn write(mut self, j: &mut Json) {
        j.key("nodes").list(|j| {
            for i in 0..self.nodes.len() {
                let id = self.nodes[i];
                let n = self.m.node(id);
                let parts = [n.op, n.dtype, n.shape, n.arg].map(|t| self.text(t));
                let src: Vec<u64> = self.m.src(id).iter().map(|s| self.node(*s)).collect();
                j.ints(parts.into_iter().chain(src));
            }
        });
        j.key("texts").list(|j| self.texts.iter().for_each(|t| _ = j.text(self.m.text(*t))));
    }
    fn passes(&mut self, passes: &[Pass], j: &mut Json) {
        j.key("passes").list(|j| {
            for p in passes {
                j.object(|j| {
                    j.key("name").text(self.m.text(p.name)).key("ns").int(p.ns);
                    if p.root != 0 {
                        j.key("root").int(self.node(p.root));
                    }
                    if !p.text.is_empty() {
                        j.key("text").text(&p.text);
                    }
                    j.key("rules").list(|j| {
                        for [set, rule, file, before, after, line] in &p.rules {
                            for t in [*set, *rule, *file] {
                                let t = self.text(t);
                                j.int(t);
                            }
                            j.int(self.node(*before)).int(self.node(*after)).int(u64::from(*line));
                        }
                    });
                });
            }
        });
    }
}

fn roots_of(passes: &[Pass]) -> Vec<NodeId> {
    let of =
        |p: &Pass| [p.root].into_iter().chain(p.rules.iter().flat_map(|r| [r[3], r[4]])).collect::<Vec<_>>();
    passes.iter().flat_map(of).collect()
}

fn kernel_part(m: &Model, k: &Kernel) -> String {
    let mut roots = roots_of(&k.passes);
    roots.push(k.ast);
    let mut local = Local::of(m, &roots);
    let mut j = Json::new();
    j.object(|j| {
        j.key("ast").int(local.node(k.ast));
        local.passes(&k.passes, j);
        j.key("programs").list(|j| {
            for p in &k.programs {
                j.object(|j| {
                    j.key("name")
                        .text(m.text(p.name))
                        .key("pass")
                        .text(m.text(p.pass))
                        .key("text")
                        .text(&p.text);
                    j.key("steps")
                        .ints(p.steps.iter().copied())
                        .key("offsets")
                        .ints(p.offsets.iter().copied());
                    j.key("code").text(&p.code);
                });
            }
        });
        local.write(j);
    });
    j.finish()
}

fn program_row(m: &Model, s: &Schedule, place: Place, j: &mut Json) {
    j.object(|j| {
        j.key("device").text(m.text(s.device)).key("at").int(s.at).key("ns").int(s.ns);
        j.key("arena").int(s.arena).key("calls").int(s.calls.len() as u64);
        j.key("runs").int(s.runs.len() as u64);
        line(m, s.runs.first().map(|r| r.line).filter(|l| l.line > 0), j);
        passes_row(m, &s.passes, j);
        j.key("part");
        put(j, place);
    });
}

fn program_part(m: &Model, s: &Schedule, known: &FxHashMap<NodeId, usize>) -> String {
    let mut roots = roots_of(&s.passes);
    roots.push(s.graph);
    roots.extend(s.placed.iter().map(|p| p.0));
    let mut local = Local::of(m, &roots);
    let mut j = Json::new();
    j.object(|j| {
        j.key("graph").int(local.node(s.graph));
        local.passes(&s.passes, j);
        j.key("calls").list(|j| {
            for c in &s.calls {
                j.object(|j| {
                    j.key("name").text(m.text(c.name)).key("places").text(m.text(c.places));
                    j.key("args").text(m.text(c.args));
                    if let Some(k) = known.get(&c.kernel) {
                        j.key("kernel").int(*k as u64);
                    }
                });
            }
        });
        let none = LineOf::default();
        let placed = Placed::of(m, s, s.lines.first().unwrap_or(&none));
        j.key("placed").list(|j| {
            for (node, place, how) in &s.placed {
                for call in placed.calls_of(*place) {
                    // 2 where it would have been stored, had its readers not come into its kernel
                    let how = match (m.text(*how), placed.is_stored(*place)) {
                        ("stored", true) => 1,
                        ("stored", false) => 2,
                        _ => 0,
                    };
                    j.int(local.node(*node)).int(*call as u64).int(how);
                }
            }
        });
        j.key("joined").list(|j| {
            for (place, _, why) in &s.joined {
                for call in placed.calls_of(*place) {
                    let why = local.text(*why);
                    j.int(*call as u64).int(why);
                }
            }
        });
        j.key("reasons").list(|j| {
            for (node, what, why) in &s.reasons {
                let texts = [*what, *why].map(|t| local.text(t));
                j.int(local.node(*node)).int(texts[0]).int(texts[1]);
            }
        });
        j.key("lines").list(|j| {
            // a node of a program that was run for several lines has several
            let more: Vec<LineOf> = s.lines.iter().skip(1).map(|own| lines(m, s, own)).collect();
            for i in 0..local.nodes.len() {
                let (mut told, n): (Vec<Line>, NodeId) = (vec![], local.nodes[i]);
                for l in [&placed.lines].into_iter().chain(&more).filter_map(|all| all.get(&n)) {
                    if !told.contains(l) {
                        told.push(*l);
                        let texts = [l.op, l.file, l.span].map(|t| local.text(t));
                        j.int(i as u64).int(texts[0]).int(texts[1]).int(l.line.into()).int(texts[2]);
                    }
                }
            }
        });
        j.key("runs").list(|j| {
            for r in s.runs.iter().take(100) {
                let l = r.line;
                j.list(|j| _ = j.int(r.at).text(m.text(l.op)).text(m.text(l.file)).int(l.line.into()));
            }
        });
        local.write(j);
    });
    j.finish()
}

fn search(m: &Model, s: &crate::model::Search, known: &FxHashMap<NodeId, usize>, j: &mut Json) {
    j.object(|j| {
        j.key("name").text(m.text(s.name)).key("device").text(m.text(s.device));
        if let Some(k) = known.get(&s.kernel) {
            j.key("kernel").int(*k as u64);
        }
        j.key("ns").int(s.ns).key("before").int(s.times[0]).key("after").int(s.times[1]);
        j.key("tried").int(s.tried).key("opts").text(m.text(s.opts));
        j.key("candidates").list(|j| {
            for (round, opts, ns, parent) in &s.candidates {
                j.list(|j| _ = j.int((*round).into()).text(m.text(*opts)).int(*ns).int((*parent).into()));
            }
        });
    });
}
