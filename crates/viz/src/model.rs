//! A whole recording, with what belongs together put together.

use crate::lines::{self, Event, LineOf, Said};
use frit_recording::reader::{Extent, Record, read, shown, strings};
use rustc_hash::FxHashMap;
use std::borrow::Cow;

/// The number of a text.
pub type Text = u32;
/// The number of a node; 0 is none.
pub type NodeId = u32;

/// A node of a graph.
#[derive(Clone, Copy, Debug, Default)]
pub struct Node {
    /// What it does; [`Node::is_known`] says whether anything is known of it.
    pub op: Text,
    /// The type of its elements.
    pub dtype: Text,
    /// Its dims.
    pub shape: Text,
    /// What it carries besides.
    pub arg: Text,
    src: (u32, u32),
    known: bool,
}

impl Node {
    /// Whether the file has it: one in a chunk that was lost is missing.
    pub fn is_known(&self) -> bool {
        self.known
    }
}

/// A call of the user's program.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Line {
    /// What was called.
    pub op: Text,
    /// In which file.
    pub file: Text,
    /// At which line.
    pub line: u32,
    /// In which span of the program; 0 is none.
    pub span: Text,
}

/// A rule that was applied: its table (or the pass, which replaced a node in code), itself, the file it is in, the node before
/// and after, and its line (0 in older files, where the file's name ends in that of the table).
pub type Rule = [u32; 6];

/// What a pass left.
#[derive(Clone, Debug, Default)]
pub struct Pass {
    /// Its name.
    pub name: Text,
    /// How long it took.
    pub ns: u64,
    /// The graph it left, if it left one.
    pub root: NodeId,
    /// The list it left, if it left one.
    pub text: String,
    /// The rules that were applied in it.
    pub rules: Vec<Rule>,
}

/// A graph that was scheduled.
#[derive(Clone, Debug, Default)]
pub struct Schedule {
    /// When, and how long it took.
    pub at: u64,
    /// How long it took.
    pub ns: u64,
    /// The tensor graph, without its memory.
    pub graph: NodeId,
    /// For which device.
    pub device: Text,
    /// The passes over it.
    pub passes: Vec<Pass>,
    /// Which place's kernel computes which node, and how.
    pub placed: Vec<(NodeId, Text, Text)>,
    /// What was decided about nodes, and why.
    pub reasons: Vec<(NodeId, Text, Text)>,
    /// Places whose kernels became one, and why.
    pub joined: Vec<(Text, Text, Text)>,
    /// Places that are not stored after all.
    pub unstored: Vec<Text>,
    /// The kernels, in order.
    pub calls: Vec<Call>,
    /// Bytes of temporaries.
    pub arena: u64,
    /// Runs of it.
    pub runs: Vec<Run>,
    /// Nodes that its passes made for others.
    pub(crate) became: Vec<(NodeId, NodeId)>,
    /// The calls that made its nodes: as they were when it was made, then as they were when it was run for other lines.
    pub lines: Vec<LineOf>,
}

/// A kernel of a schedule.
#[derive(Clone, Debug, Default)]
pub struct Call {
    /// The kernel's graph.
    pub kernel: NodeId,
    /// Its name.
    pub name: Text,
    /// Where it stores, with blanks between.
    pub places: Text,
    /// What it takes.
    pub args: Text,
}

/// A run of a graph.
#[derive(Clone, Copy, Debug, Default)]
pub struct Run {
    /// When the call began.
    pub at: u64,
    /// The call that asked for it.
    pub line: Line,
}

/// A kernel that was compiled.
#[derive(Clone, Debug, Default)]
pub struct Kernel {
    /// Its graph.
    pub ast: NodeId,
    /// Its name.
    pub name: Text,
    /// What it was compiled for.
    pub target: Text,
    /// When compiling began.
    pub at: u64,
    /// How long that took.
    pub ns: u64,
    /// The passes over it.
    pub passes: Vec<Pass>,
    /// The opts it was lowered with.
    pub opts: Text,
    /// Its programs, as they were written.
    pub programs: Vec<Written>,
    /// How often it was found in a cache.
    pub hits: u64,
    /// Registers and spilled bytes of a lane, where the device says.
    pub resources: Option<[u64; 2]>,
    /// The search and the number of the candidate that it was, counted from 1: then it is not what was launched.
    pub candidate: Option<(usize, u32)>,
}

/// What a writer of code made of a program of a kernel.
#[derive(Clone, Debug, Default)]
pub struct Written {
    /// The program's name.
    pub name: Text,
    /// What wrote the text.
    pub pass: Text,
    /// The source.
    pub text: String,
    /// For each line of it the step of the listing that it is for, counted from 1; 0 is none.
    pub steps: Vec<u64>,
    /// Where the machine code of each line begins, in bytes.
    pub offsets: Vec<u64>,
    /// The machine code.
    pub code: String,
}

/// A kernel that ran.
#[derive(Clone, Copy, Debug, Default)]
pub struct Launch {
    /// The thread that launched it.
    pub thread: u32,
    /// When the host began, and how long it was busy with it.
    pub at: u64,
    /// How long the host was busy with it.
    pub ns: u64,
    /// Its graph; 0 where only runs were recorded.
    pub kernel: NodeId,
    /// Its name.
    pub name: Text,
    /// Where it ran.
    pub device: Text,
    /// When the device began, in the host's time.
    pub begun: u64,
    /// How long it ran.
    pub took: u64,
    /// Arithmetic operations.
    pub flops: u64,
    /// Bytes it had to move.
    pub bytes: u64,
    /// The call of the user's program that it ran for.
    pub line: Line,
    /// The parts of the program that it belongs to; 0 where that is not known.
    pub origin: Text,
}

/// Something that the host did.
#[derive(Clone, Copy, Debug)]
pub struct Span {
    /// The thread that did it.
    pub thread: u32,
    /// When it began.
    pub at: u64,
    /// How long it took.
    pub ns: u64,
    /// What it was.
    pub name: Text,
    /// On what.
    pub detail: Text,
    /// Whether the user's program said so.
    pub is_user: bool,
}

/// Bytes that were copied.
#[derive(Clone, Copy, Debug)]
pub struct Copy {
    /// The thread that waited for it.
    pub thread: u32,
    /// When it began.
    pub at: u64,
    /// How long it took.
    pub ns: u64,
    /// How many.
    pub bytes: u64,
    /// From where to where.
    pub what: Text,
}

/// Memory that was taken or given back.
#[derive(Clone, Copy, Debug)]
pub struct MemoryEvent {
    /// When.
    pub at: u64,
    /// Of which device.
    pub device: Text,
    /// Where it is.
    pub address: u64,
    /// How much.
    pub bytes: u64,
    /// What all of the device's that is in use comes to then.
    pub in_use: u64,
    /// Whether it was taken.
    pub is_taken: bool,
}

/// A search for the opts of a kernel.
#[derive(Clone, Debug, Default)]
pub struct Search {
    /// The kernel.
    pub kernel: NodeId,
    /// Its name.
    pub name: Text,
    /// Where it was searched.
    pub device: Text,
    /// When it began.
    pub at: u64,
    /// How long it took.
    pub ns: u64,
    /// Round, opts, time of each candidate that ran, and which one it was made of, counted from 1; 0 where that is not known.
    pub candidates: Vec<(u32, Text, u64, u32)>,
    /// What was found.
    pub opts: Text,
    /// The heuristic's time and the time of what was found.
    pub times: [u64; 2],
    /// How many were tried.
    pub tried: u64,
}

/// What a device is and can do in a second; 0 where nobody measured.
#[derive(Clone, Copy, Debug)]
pub struct Device {
    /// Its name.
    pub name: Text,
    /// What it is.
    pub about: Text,
    /// Arithmetic operations.
    pub flops: u64,
    /// Bytes moved.
    pub bytes: u64,
}

/// A recording.
#[derive(Default)]
pub struct Model {
    /// Texts by number.
    pub texts: Vec<String>,
    nodes: Vec<Node>,
    sources: Vec<NodeId>,
    /// Names of threads by number.
    pub threads: FxHashMap<u32, Text>,
    /// Graphs that were scheduled.
    pub schedules: Vec<Schedule>,
    /// Kernels that were compiled.
    pub kernels: Vec<Kernel>,
    /// Launches in the order of the file.
    pub launches: Vec<Launch>,
    /// Spans of the host.
    pub spans: Vec<Span>,
    /// Calls of the user's program that computed something, as spans.
    pub realizes: Vec<(Span, Line)>,
    /// Copies.
    pub copies: Vec<Copy>,
    /// Memory.
    pub memory: Vec<MemoryEvent>,
    /// Searches.
    pub searches: Vec<Search>,
    /// Devices.
    pub devices: Vec<Device>,
    /// How much of the file could be read.
    pub extent: Option<Extent>,
    /// Replays of recorded programs.
    pub replays: u64,
    /// Records that were left out because they came too fast.
    pub left_out: u64,
}

/// What a thread is in the middle of.
#[derive(Default)]
struct Thread {
    rules: Vec<Rule>,
    schedule: Option<usize>,
    kernel: Option<usize>,
    search: Option<usize>,
    /// The graph that it runs, by number of the run.
    run: Option<usize>,
    realize: Vec<(u64, Line)>,
    /// Of the next launch.
    origin: Text,
    said: Said,
}

/// A recording as it is put together.
struct Builder {
    model: Model,
    threads: FxHashMap<u64, Thread>,
    /// Lines that any thread said first.
    elsewhere: LineOf,
    kernel_of: FxHashMap<NodeId, usize>,
    codes: Vec<(NodeId, u64, String)>,
    /// Graphs that were scheduled or run.
    events: Vec<Event>,
    hits: Vec<NodeId>,
    /// Launches by their numbers in a queue, and when they ran.
    queued: FxHashMap<u64, usize>,
    ran: Vec<[u64; 3]>,
    resources: Vec<(NodeId, [u64; 2])>,
}

impl Model {
    /// Of the bytes of a file.
    pub fn of(bytes: &[u8]) -> Result<Model, String> {
        // names come from anywhere, and go to terminals and pages
        let texts = strings(bytes)?.into_iter().map(|t| match shown(&t) {
            Cow::Owned(shown) => shown,
            Cow::Borrowed(_) => t,
        });
        let model = Model { texts: texts.collect(), ..Model::default() };
        let mut b = Builder {
            model,
            threads: FxHashMap::default(),
            elsewhere: LineOf::default(),
            kernel_of: FxHashMap::default(),
            codes: vec![],
            events: vec![],
            hits: vec![],
            queued: FxHashMap::default(),
            ran: vec![],
            resources: vec![],
        };
        let extent = read(bytes, |r| b.add(r))?;
        Ok(b.finish(extent))
    }
    /// A text by number.
    pub fn text(&self, t: Text) -> &str {
        self.texts.get(t as usize).map_or("", String::as_str)
    }
    /// A node by number; one that the file has not is unknown.
    pub fn node(&self, n: NodeId) -> Node {
        self.nodes.get(n as usize).copied().unwrap_or_default()
    }
    /// Its sources.
    pub fn src(&self, n: NodeId) -> &[NodeId] {
        let (from, to) = self.node(n).src;
        self.sources.get(from as usize..to as usize).unwrap_or(&[])
    }
    /// How many nodes the file has.
    pub fn node_count(&self) -> usize {
        self.nodes.iter().filter(|n| n.known).count()
    }
    /// How many rules were applied.
    pub fn rule_count(&self) -> usize {
        let schedules = self.schedules.iter().flat_map(|s| &s.passes);
        schedules.chain(self.kernels.iter().flat_map(|k| &k.passes)).map(|p| p.rules.len()).sum()
    }
    /// Every node below the roots, sources first, each once.
    pub fn below(&self, roots: &[NodeId]) -> Vec<NodeId> {
        let mut order = vec![];
        let mut seen: FxHashMap<NodeId, ()> = FxHashMap::default();
        let mut stack: Vec<(NodeId, bool)> = roots.iter().rev().map(|r| (*r, false)).collect();
        while let Some((n, expanded)) = stack.pop() {
            if expanded {
                order.push(n);
            } else if n != 0 && seen.insert(n, ()).is_none() {
                stack.push((n, true));
                stack.extend(self.src(n).iter().rev().map(|s| (*s, false)));
            }
        }
        order
    }
    /// When the first thing happened and when the last one ended.
    pub fn bounds(&self) -> (u64, u64) {
        let spans = self.spans.iter().map(|s| (s.at, s.at + s.ns));
        let realizes = self.realizes.iter().map(|(s, _)| (s.at, s.at + s.ns));
        let launches = self.launches.iter().map(|l| (l.at, (l.at + l.ns).max(l.begun + l.took)));
        let copies = self.copies.iter().map(|c| (c.at, c.at + c.ns));
        let memory = self.memory.iter().map(|m| (m.at, m.at));
        let all = spans.chain(realizes).chain(launches).chain(copies).chain(memory);
        let (begin, end) = all.fold((u64::MAX, 0), |(a, b), (from, to)| (a.min(from), b.max(to)));
        (begin.min(end), end)
    }
}

/// The device of this name, whichever number its text has.
fn same_device<'a>(devices: &'a mut [Device], texts: &[String], name: Text) -> Option<&'a mut Device> {
    devices.iter_mut().find(|d| texts.get(d.name as usize) == texts.get(name as usize))
}

fn small(n: u64) -> u32 {
    u32::try_from(n).unwrap_or(0)
}

impl Builder {
    fn add(&mut self, r: &Record) {
        let m = &mut self.model;
        let thread = small(r.thread);
        let t = self.threads.entry(r.thread).or_default();
        let (int, n) = (|i| r.int(i), |i| small(r.int(i)));
        match r.row.name.as_str() {
            "thread" => _ = m.threads.insert(thread, n(0)),
            "node" => {
                let (number, from) = (n(0) as usize, m.sources.len() as u32);
                // numbers are dense: one that is not came from elsewhere
                if number > m.nodes.len() + (1 << 24) {
                    return;
                }
                m.sources.extend(r.list(5).into_iter().map(small));
                if number >= m.nodes.len() {
                    m.nodes.resize(number + 1, Node::default());
                }
                let src = (from, m.sources.len() as u32);
                m.nodes[number] = Node { op: n(1), dtype: n(2), shape: n(3), arg: n(4), src, known: true };
            }
            "line" => {
                let line = Line { op: n(1), file: n(2), line: n(3), span: n(4) };
                t.said.made(n(0), line);
                self.elsewhere.entry(n(0)).or_insert(line);
            }
            "became" => match t.schedule.and_then(|s| m.schedules.get_mut(s)) {
                Some(s) => s.became.push((n(0), n(1))),
                None => t.said.became(n(0), n(1), &self.elsewhere),
            },
            "schedule" => {
                t.rules.clear();
                t.schedule = Some(m.schedules.len());
                m.schedules.push(Schedule { at: int(0), graph: n(1), device: n(2), ..Schedule::default() });
                let run = t.run.take().and_then(|r| self.events.get_mut(r));
                match run.filter(|r| r.graph == n(1)) {
                    Some(run) => run.schedule = t.schedule,
                    None => self.events.push(Event {
                        graph: n(1),
                        thread: r.thread,
                        when: t.said.now(),
                        schedule: t.schedule,
                        run: None,
                    }),
                }
            }
            "scheduled" => {
                if let Some(s) = t.schedule.take().and_then(|s| m.schedules.get_mut(s)) {
                    (s.ns, s.arena) = (int(0).saturating_sub(s.at), int(3));
                }
            }
            "placed" => {
                if let Some(s) = t.schedule.and_then(|s| m.schedules.get_mut(s)) {
                    s.placed.push((n(0), n(1), n(2)));
                }
            }
            "reason" => {
                if let Some(s) = t.schedule.and_then(|s| m.schedules.get_mut(s)) {
                    s.reasons.push((n(0), n(1), n(2)));
                }
            }
            "joined" => {
                if let Some(s) = t.schedule.and_then(|s| m.schedules.get_mut(s)) {
                    s.joined.push((n(0), n(1), n(2)));
                }
            }
            "unstored" => {
                if let Some(s) = t.schedule.and_then(|s| m.schedules.get_mut(s)) {
                    s.unstored.push(n(0));
                }
            }
            "call" => {
                if let Some(s) = t.schedule.and_then(|s| m.schedules.get_mut(s)) {
                    s.calls.push(Call { kernel: n(1), name: n(2), places: n(3), args: n(4) });
                }
            }
            "compile" => {
                t.rules.clear();
                t.kernel = Some(m.kernels.len());
                let candidate = t.search.filter(|_| n(4) > 0).map(|search| (search, n(4)));
                let (at, ast, name, target) = (int(0), n(1), n(2), n(3));
                m.kernels.push(Kernel { at, ast, name, target, candidate, ..Kernel::default() });
                if candidate.is_none() {
                    self.kernel_of.entry(ast).or_insert(m.kernels.len() - 1);
                }
            }
            "compiled" => {
                if let Some(k) = t.kernel.take().and_then(|k| m.kernels.get_mut(k)) {
                    k.ns = int(0).saturating_sub(k.at);
                }
            }
            "pass" | "listing" => {
                let mut pass = Pass { name: n(0), ns: int(1), ..Pass::default() };
                pass.rules = std::mem::take(&mut t.rules);
                pass.rules.iter_mut().filter(|r| r[0] == 0).for_each(|r| r[0] = pass.name);
                match r.row.name.as_str() {
                    "pass" => pass.root = n(2),
                    _ => pass.text = r.long(2).to_string(),
                }
                let is_list = r.row.name == "listing";
                let kernel = t.kernel.and_then(|k| m.kernels.get_mut(k)).map(|k| &mut k.passes);
                let schedule = t.schedule.and_then(|s| m.schedules.get_mut(s)).map(|s| &mut s.passes);
                if let Some(passes) = kernel.or(schedule) {
                    // a list that did not change is not written again
                    if let Some(before) = passes.last().filter(|_| is_list && pass.text.is_empty()) {
                        pass.text = before.text.clone();
                    }
                    passes.push(pass);
                }
            }
            "rule" => t.rules.push([n(0), n(1), n(2), n(3), n(4), n(5)]),
            "opts" => {
                if let Some(k) = t.kernel.and_then(|k| m.kernels.get_mut(k)) {
                    k.opts = n(0);
                }
            }
            "source" => {
                if let Some(k) = t.kernel.and_then(|k| m.kernels.get_mut(k)) {
                    let (text, steps) = (r.long(3).to_string(), r.list(4));
                    k.programs.push(Written { name: n(0), pass: n(1), text, steps, ..Written::default() });
                }
            }
            "offsets" => {
                let kernel = t.kernel.and_then(|k| m.kernels.get_mut(k));
                if let Some(p) = kernel.and_then(|k| k.programs.last_mut()).filter(|p| p.name == n(0)) {
                    p.offsets = r.list(1);
                }
            }
            "code" => self.codes.push((n(0), int(2), r.long(1).to_string())),
            "hit" => self.hits.push(n(0)),
            "search" => {
                t.search = Some(m.searches.len());
                let search =
                    Search { at: int(0), kernel: n(1), name: n(2), device: n(3), ..Search::default() };
                m.searches.push(search);
            }
            "candidate" => {
                if let Some(s) = t.search.and_then(|s| m.searches.get_mut(s)) {
                    s.candidates.push((n(0), n(1), int(2), n(3)));
                }
            }
            "found" => {
                if let Some(s) = t.search.take().and_then(|s| m.searches.get_mut(s)) {
                    s.ns = int(0).saturating_sub(s.at);
                    (s.opts, s.times, s.tried) = (n(2), [int(3), int(4)], int(5));
                }
            }
            "span" => m.spans.push(Span {
                thread,
                at: int(0),
                ns: int(1),
                name: n(2),
                detail: n(3),
                is_user: false,
            }),
            "user" => {
                m.spans.push(Span { thread, at: int(0), ns: int(1), name: n(2), detail: 0, is_user: true })
            }
            "realize" => t.realize.push((int(0), Line { op: n(1), file: n(2), line: n(3), span: 0 })),
            "realized" => {
                if let Some((at, line)) = t.realize.pop() {
                    let ns = int(0).saturating_sub(at);
                    let span = Span { thread, at, ns, name: line.op, detail: 0, is_user: false };
                    m.realizes.push((span, line));
                }
            }
            "run" => {
                let (at, line) = t.realize.last().copied().unwrap_or_default();
                t.run = Some(self.events.len());
                t.said.end_round();
                let (when, run) = (t.said.now(), Some(Run { at, line }));
                self.events.push(Event { graph: n(0), thread: r.thread, when, schedule: None, run });
            }
            "origin" => t.origin = n(0),
            "launch" => m.launches.push(Launch {
                thread,
                at: int(0),
                ns: int(1),
                kernel: n(2),
                name: n(3),
                device: n(4),
                begun: int(5),
                took: int(6),
                flops: int(7),
                bytes: int(8),
                line: t.realize.last().map_or_else(Line::default, |r| r.1),
                origin: std::mem::take(&mut t.origin),
            }),
            "queued" => {
                self.queued.insert(int(0), m.launches.len());
                let (at, ns) = (int(1), int(2));
                m.launches.push(Launch {
                    thread,
                    at,
                    ns,
                    kernel: n(3),
                    name: n(4),
                    device: n(5),
                    // until the device says more
                    begun: at + ns,
                    took: 0,
                    flops: int(6),
                    bytes: int(7),
                    line: t.realize.last().map_or_else(Line::default, |r| r.1),
                    origin: std::mem::take(&mut t.origin),
                });
            }
            "ran" => self.ran.push([int(0), int(1), int(2)]),
            "resources" => self.resources.push((n(0), [int(1), int(2)])),
            "lost" => {
                m.left_out += int(1);
                // what was open may have ended among them
                t.realize.clear();
            }
            "replay" => m.replays += 1,
            "copy" => {
                m.copies.push(Copy { thread, at: int(0), ns: int(1), bytes: int(2), what: n(3) });
            }
            "alloc" | "free" => m.memory.push(MemoryEvent {
                at: int(0),
                device: n(1),
                address: int(2),
                bytes: int(3),
                in_use: int(4),
                is_taken: r.row.name == "alloc",
            }),
            "device" => {
                let device = Device { name: n(0), about: n(1), flops: int(2), bytes: int(3) };
                match same_device(&mut m.devices, &m.texts, device.name) {
                    Some(known) if device.flops > 0 => *known = Device { name: known.name, ..device },
                    Some(_) => {}
                    None => m.devices.push(device),
                }
            }
            // a kind that came later
            _ => {}
        }
    }
    fn finish(mut self, extent: Extent) -> Model {
        let m = &mut self.model;
        for (kernel, program, code) in self.codes {
            let kernel = self.kernel_of.get(&kernel).and_then(|k| m.kernels.get_mut(*k));
            if let Some(p) = kernel.and_then(|k| k.programs.get_mut(usize::try_from(program).ok()?)) {
                p.code = code;
            }
        }
        for (kernel, resources) in self.resources {
            if let Some(k) = self.kernel_of.get(&kernel).and_then(|k| m.kernels.get_mut(*k)) {
                k.resources = Some(resources);
            }
        }
        for [number, begun, took] in self.ran {
            if let Some(l) = self.queued.get(&number).and_then(|l| m.launches.get_mut(*l)) {
                (l.begun, l.took) = (begun, took);
            }
        }
        for kernel in self.hits {
            if let Some(k) = self.kernel_of.get(&kernel).and_then(|k| m.kernels.get_mut(*k)) {
                k.hits += 1;
            }
        }
        let said = self.threads.iter().map(|(thread, t)| (*thread, &t.said)).collect();
        lines::attach(m, self.events, &said, &self.elsewhere);
        m.memory.sort_by_key(|e| e.at);
        m.extent = Some(extent);
        self.model
    }
}
