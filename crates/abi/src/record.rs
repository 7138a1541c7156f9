//! Where rooms write what they do, for whoever wants to know (decision 022).
//!
//! A record is a kind and its fields. [`KINDS`] is the table of both, and the format of the file: whoever reads one finds
//! the same table at its head. There is one [`Sink`], which a higher room installs; without it, and while nothing is asked
//! for, a room that would write something loads one relaxed atomic and goes on.
//!
//! ```text
//! if record::compiles() { record::write(Kind::Hit, &[Int(kernel)]) }
//! ```

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering::Relaxed};
use std::time::Instant;

/// What a field of a record is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Type {
    /// A number.
    Int,
    /// A short text, written once and then named by a number.
    Text,
    /// A long text, written where it stands.
    Long,
    /// Numbers.
    List,
}

/// A kind of record as a reader sees it: its name, and the names and types of its fields.
pub type Row = (&'static str, &'static [(&'static str, Type)]);

macro_rules! kinds {
    ($( $(#[$about:meta])* $kind:ident $name:literal $($field:ident: $type:ident),* ;)*) => {
        /// The kinds of records.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        #[repr(u8)]
        pub enum Kind { $( $(#[$about])* $kind, )* }

        /// Every kind with its fields, by number.
        pub const KINDS: &[Row] = &[ $( ($name, &[ $( (stringify!($field), Type::$type) ),* ]), )* ];
    };
}

// times are nanoseconds since the process began to count; kernels are numbers of their graphs; 0 is no node
kinds! {
    /// A short text that others name by number.
    String     "string"     number: Int, text: Long;
    /// A thread and its name.
    Thread     "thread"     name: Text;
    /// A node, before anything names it in the same stream.
    Node       "node"       number: Int, op: Text, dtype: Text, shape: Text, arg: Text, src: List;
    /// The call of the user's program that made a node, and the span or named part that it was in.
    Line       "line"       node: Int, op: Text, file: Text, line: Int, span: Text;
    /// A node of a tensor graph without its memory, and the node it was.
    Became     "became"     before: Int, after: Int;
    /// A graph is scheduled for a device: what follows on this thread, up to the end, belongs to it.
    Schedule   "schedule"   at: Int, graph: Int, device: Text;
    /// The schedule is done.
    Scheduled  "scheduled"  at: Int, graph: Int, kernels: Int, arena: Int;
    /// A value of the tensor graph is computed by the kernel that stores this place.
    Placed     "placed"     node: Int, place: Text, how: Text;
    /// What a decision of the scheduler was and why.
    Reason     "reason"     node: Int, what: Text, why: Text;
    /// The kernel that stores one place became part of the one that stores the other, and why.
    Joined     "joined"     place: Text, with: Text, why: Text;
    /// A place is not stored after all: whoever reads it is in its kernel.
    Unstored   "unstored"   place: Text;
    /// A kernel of the schedule, the places it stores and the arguments it takes.
    Call       "call"       index: Int, kernel: Int, name: Text, places: Text, args: Text;
    /// A kernel is compiled: what follows on this thread, up to the end, belongs to it. `candidate` is the number of a candidate
    /// of the search that is under way, counted from 1; 0 where it is the kernel that is launched.
    Compile    "compile"    at: Int, kernel: Int, name: Text, device: Text, candidate: Int;
    /// A pass left this graph.
    Pass       "pass"       name: Text, ns: Int, root: Int;
    /// A pass left this list; an empty text is that of the pass before.
    Listing    "listing"    name: Text, ns: Int, text: Long;
    /// A rule was applied; or, where `set` is empty, the pass that ends next replaced a node in code, and `rule` says what it did.
    Rule       "rule"       set: Text, rule: Text, file: Text, before: Int, after: Int, line: Int;
    /// The opts that a kernel was lowered with.
    Opts       "opts"       opts: Text;
    /// What a writer of code made of a program, and for each line the step of the last listing that it is for, counted from
    /// 1 (0 is none).
    Source     "source"     program: Text, pass: Text, ns: Int, text: Long, steps: List;
    /// Where in the machine code of a program, in bytes, each line of its source begins.
    Offsets    "offsets"    program: Text, at: List;
    /// The kernel is compiled.
    Compiled   "compiled"   at: Int, kernel: Int;
    /// The machine code of a kernel, of several programs one after the other.
    Code       "code"       kernel: Int, text: Long, program: Int;
    /// A kernel was found in a cache.
    Hit        "hit"        kernel: Int;
    /// A graph was found in the plan cache.
    PlanHit    "plan_hit"   graph: Int;
    /// A search for a kernel's opts begins.
    Search     "search"     at: Int, kernel: Int, name: Text, device: Text;
    /// A list of opts and how long the kernel took with it; 0 where it did not run. `parent` is the candidate of this search that
    /// it was made of, counted from 1; 0 is none.
    Candidate  "candidate"  round: Int, opts: Text, ns: Int, parent: Int;
    /// What the search found.
    Found      "found"      at: Int, kernel: Int, opts: Text, before: Int, after: Int, tried: Int;
    /// The host did something; `detail` says on what.
    Span       "span"       at: Int, ns: Int, name: Text, detail: Text;
    /// What the user's program says it does.
    User       "user"       at: Int, ns: Int, name: Text;
    /// A graph is run: its kernels are those launched until the end.
    Realize    "realize"    at: Int, op: Text, file: Text, line: Int;
    /// The run is queued.
    Realized   "realized"   at: Int;
    /// The graph that is run.
    Run        "run"        graph: Int, device: Text;
    /// A kernel was launched: when the host did, when the device began, and how long each took.
    Launch     "launch"     at: Int, ns: Int, kernel: Int, name: Text, device: Text, begun: Int, took: Int, flops: Int, bytes: Int;
    /// A kernel was put in the queue of a device, under a number: when the host did, and how long that took it.
    Queued     "queued"     number: Int, at: Int, ns: Int, kernel: Int, name: Text, device: Text, flops: Int, bytes: Int;
    /// The device ran it: when it began, in the host's time, and how long that took.
    Ran        "ran"        number: Int, begun: Int, took: Int;
    /// The parts of the program that the kernel launched next on this thread belongs to.
    Origin     "origin"     name: Text;
    /// Launches of a recorded program follow, one by one.
    Replay     "replay"     at: Int, kernels: Int;
    /// Bytes were copied.
    Copy       "copy"       at: Int, ns: Int, bytes: Int, what: Text;
    /// Memory of a device was taken for so many bytes; `in_use` is what all of it comes to.
    Alloc      "alloc"      at: Int, device: Text, address: Int, bytes: Int, in_use: Int;
    /// It was given back.
    Free       "free"       at: Int, device: Text, address: Int, bytes: Int, in_use: Int;
    /// What a device is and can do: arithmetic operations and bytes in a second, 0 where nobody measured.
    Device     "device"     name: Text, about: Text, flops: Int, bytes: Int;
    /// What a kernel takes of its machine: registers of a lane, bytes of a lane that no register held.
    Resources  "resources"  kernel: Int, registers: Int, spilled: Int;
    /// So many records of this thread were left out before this one: they came faster than they were written.
    Lost       "lost"       at: Int, count: Int;
}

/// A field of a record that is written.
#[derive(Clone, Copy, Debug)]
pub enum Field<'a> {
    /// A number.
    Int(u64),
    /// A text of the program itself.
    Name(&'static str),
    /// A short text.
    Text(&'a str),
    /// A long one.
    Long(&'a str),
    /// Numbers.
    List(&'a [u64]),
}

/// Someone who keeps records. Calls come from any thread, and those of a thread in order.
pub trait Sink: Sync {
    /// Keep one. The fields are those of the kind, in order.
    fn write(&self, kind: Kind, fields: &[Field]);
}

static SINK: OnceLock<&'static dyn Sink> = OnceLock::new();
static LEVEL: AtomicU8 = AtomicU8::new(UNASKED);
static SESSION: AtomicU32 = AtomicU32::new(0);

/// Graphs, passes, rules, code.
pub const COMPILES: u8 = 1;
/// Launches, copies, memory, spans.
pub const RUNS: u8 = 2;
/// Where values come from, for lines about kernels that nobody records.
const ORIGINS: u8 = 4;
/// Nobody has looked yet whether anything is asked for.
const UNASKED: u8 = 128;

#[cfg(debug_assertions)]
thread_local! {
    static CHECKS: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

/// Someone looks whether anything is recorded: debug builds count how often, since that is all that a recording costs while
/// there is none.
#[inline]
pub fn count_check() {
    #[cfg(debug_assertions)]
    CHECKS.with(|c| c.set(c.get() + 1));
}

/// How often this thread looked whether anything is recorded.
#[cfg(debug_assertions)]
pub fn checks() -> u64 {
    CHECKS.with(std::cell::Cell::get)
}

#[inline]
fn level() -> u8 {
    count_check();
    LEVEL.load(Relaxed)
}

/// Whether what the compiler does is recorded.
#[inline]
pub fn compiles() -> bool {
    level() & COMPILES != 0
}

/// Whether what runs is recorded.
#[inline]
pub fn runs() -> bool {
    level() & RUNS != 0
}

/// Whether nothing is recorded, and somebody has looked.
#[inline]
pub fn is_quiet() -> bool {
    level() == 0
}

/// Whether nobody has said yet what is recorded: whoever can find out does, once.
#[inline]
pub fn is_unasked() -> bool {
    level() & UNASKED != 0
}

/// Whether someone wants to know which part of the program a kernel belongs to.
#[inline]
pub fn origins() -> bool {
    level() & (COMPILES | RUNS | ORIGINS) != 0
}

/// From now on it is kept which part of the program a kernel belongs to, recorded or not.
pub fn keep_origins() {
    LEVEL.fetch_or(ORIGINS, Relaxed);
}

/// Numbers of nodes and texts hold within a session.
pub fn session() -> u32 {
    SESSION.load(Relaxed)
}

/// Let all records go to this one; the first stays. What is recorded, [`set_level`] says.
pub fn install(sink: &'static dyn Sink) {
    let _ = SINK.set(sink);
}

/// From now on this is recorded: [`COMPILES`], [`RUNS`], both or nothing.
pub fn set_level(level: u8) {
    now();
    _ = LEVEL.fetch_update(Relaxed, Relaxed, |old| Some(level | old & ORIGINS));
}

/// Numbers of nodes and texts begin anew.
pub fn new_session() {
    SESSION.fetch_add(1, Relaxed);
}

/// Whoever has times of a device that were not known when their records were written; `is_last` waits for them.
pub type Settle = fn(is_last: bool);

static SETTLE: OnceLock<Settle> = OnceLock::new();

/// Let times that come late be written by this one; the first stays.
pub fn settle_with(settle: Settle) {
    let _ = SETTLE.set(settle);
}

/// Write what came late.
pub fn settle(is_last: bool) {
    if let Some(settle) = SETTLE.get() {
        settle(is_last);
    }
}

/// Write a record. Ask before whether anyone wants it.
pub fn write(kind: Kind, fields: &[Field]) {
    if let Some(sink) = SINK.get() {
        sink.write(kind, fields);
    }
}

fn beginning() -> Instant {
    static BEGINNING: OnceLock<Instant> = OnceLock::new();
    *BEGINNING.get_or_init(Instant::now)
}

/// Nanoseconds since the process began to count.
#[inline]
pub fn now() -> u64 {
    beginning().elapsed().as_nanos() as u64
}

/// What happens until it is dropped is a span of the host, if what runs is recorded.
pub struct Span<'a> {
    /// When it began, what it is and on what.
    open: Option<(u64, &'static str, &'a str)>,
}

/// A span of the host: `schedule`, `lower`, `wait`.
#[inline]
pub fn span<'a>(name: &'static str, detail: &'a str) -> Span<'a> {
    Span { open: runs().then(|| (now(), name, detail)) }
}

impl Drop for Span<'_> {
    #[inline]
    fn drop(&mut self) {
        if let Some((at, name, detail)) = self.open {
            let fields = [Field::Int(at), Field::Int(now() - at), Field::Name(name), Field::Text(detail)];
            write(Kind::Span, &fields);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_its_row() {
        let last = Kind::Lost as usize;
        assert_eq!(KINDS.len(), last + 1);
        assert_eq!(KINDS[Kind::Rule as usize].0, "rule");
        assert_eq!(KINDS[Kind::Node as usize].1[5], ("src", Type::List));
        let mut names: Vec<&str> = KINDS.iter().map(|k| k.0).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), KINDS.len(), "two kinds have one name");
    }
}
