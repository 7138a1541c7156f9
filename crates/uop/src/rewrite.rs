//! Driving rules to a fixed point.
//!
//! [`rewrite`] goes bottom-up: the sources of a node first, then rules on the rebuilt node until none applies; what a
//! rule makes is rewritten like everything else, so afterwards no rule applies anywhere.
//!
//! Every node is visited once a call, shared ones too, and nothing recurses: a graph may be deeper than the stack.
//! Rules that feed each other for ever are stopped: the call gives its input back and [`take_error`] says which rule
//! was last.

use crate::graph::{NodeMap, substitute_all, toposort_to};
use crate::node::UOp;
use crate::record;
use crate::rules::{Fired, Matcher};
use rustc_hash::FxHashMap;
use std::cell::{Cell, RefCell};
use std::panic::Location;

/// Replacements made of replacements before a rule is said to loop. Taking a source of the node does not count: that
/// comes to an end by itself, however deep the graph.
const MAX_GENERATIONS: u32 = 10_000;

/// A rule that fired.
#[derive(Clone)]
pub struct Application {
    /// The rule.
    pub rule: Fired,
    /// What matched.
    pub before: UOp,
    /// What it became.
    pub after: UOp,
}

/// Rules that do not come to an end.
#[derive(Clone)]
pub struct LoopError {
    /// The last rule that fired.
    pub last: Application,
}

impl std::fmt::Display for LoopError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let a = &self.last;
        write!(
            f,
            "rewriting does not end: {} in {} keeps firing ({:?} => {:?})",
            a.rule.rule, a.rule.table.name, a.before, a.after
        )
    }
}
impl std::fmt::Debug for LoopError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}
impl std::error::Error for LoopError {}

thread_local! {
    /// [`TRACED`], [`RECORDED`], both or neither.
    static TRACING: Cell<u8> = const { Cell::new(0) };
    static TRACE: RefCell<Vec<Application>> = const { RefCell::new(Vec::new()) };
    static ERROR: RefCell<Option<LoopError>> = const { RefCell::new(None) };
}

/// Rules that fire are kept for who asked.
const TRACED: u8 = 1;
/// Rules that fire are written down.
const RECORDED: u8 = 2;

/// The first loop found on this thread since the last call, if any.
pub fn take_error() -> Option<LoopError> {
    ERROR.with(|e| e.borrow_mut().take())
}

/// Run `f` and record every rule that fires meanwhile on this thread.
pub fn trace<T>(f: impl FnOnce() -> T) -> (T, Vec<Application>) {
    let outer = TRACE.with(|t| std::mem::take(&mut *t.borrow_mut()));
    let was = TRACING.replace(TRACED | TRACING.get());
    let result = f();
    TRACING.set(was);
    (result, TRACE.with(|t| std::mem::replace(&mut *t.borrow_mut(), outer)))
}

/// What was traced and recorded before, when it is dropped.
struct Restore(u8);
impl Drop for Restore {
    fn drop(&mut self) {
        TRACING.set(self.0);
    }
}

/// Run `f`, which tries something that is not kept: nothing of it is part of the recording.
pub fn unrecorded<T>(f: impl FnOnce() -> T) -> T {
    let _restore = Restore(TRACING.replace(TRACING.get() & !RECORDED));
    f()
}

/// Run `f`; the rules that fire meanwhile on this thread are part of the recording, if what the compiler does is recorded.
pub fn recorded<T>(f: impl FnOnce() -> T) -> T {
    if !frit_abi::record::compiles() {
        return f();
    }
    let _restore = Restore(TRACING.replace(RECORDED | TRACING.get()));
    f()
}

/// Whether what is replaced meanwhile on this thread is part of the recording: for passes that would have to look for it.
#[inline]
pub fn is_recorded() -> bool {
    frit_abi::record::count_check();
    TRACING.get() & RECORDED != 0
}

/// A pass that is written as code puts a node in the place of another: part of the recording as a rule that fires is, with
/// what the pass does in words and the line of the call.
#[inline]
#[track_caller]
pub fn replaced(what: &'static str, before: &UOp, after: &UOp) {
    if is_recorded() && before != after {
        record::replaced(what, Location::caller(), before, after);
    }
}

impl UOp {
    /// Replace nodes by others everywhere below; replacements are not walked again.
    #[track_caller]
    pub fn substitute(&self, map: &FxHashMap<UOp, UOp>) -> UOp {
        if is_recorded() {
            let met = toposort_to(std::slice::from_ref(self), |n| map.contains_key(n));
            for (before, after) in met.iter().filter_map(|n| map.get_key_value(n)) {
                replaced("another node in its place", before, after);
            }
        }
        substitute_all(std::slice::from_ref(self), map).pop().unwrap_or_else(|| self.clone())
    }
}

/// Rewrite bottom-up to a fixed point.
pub fn rewrite<C>(root: &UOp, m: &Matcher<C>, ctx: &mut C) -> UOp {
    Rewriter::new(m).rewrite(root, ctx)
}

/// As [`rewrite`] by the one table of all that makes nodes simpler: those that it leaves as they are remember that.
pub(crate) fn simplify(root: &UOp, m: &Matcher<()>) -> UOp {
    let mut r = Rewriter::new(m);
    // who records what fires wants to see it every time
    r.marks = r.tracing & TRACED == 0;
    if r.marks && root.is_simple() { root.clone() } else { r.rewrite(root, &mut ()) }
}

struct Frame {
    /// The node this frame finds the answer for.
    asked: UOp,
    /// What rules have made of it so far, if anything.
    made: Option<UOp>,
    /// How many sources of that have their answer on the value stack.
    done: usize,
    /// How many replacements deep this is.
    generation: u32,
}

impl Frame {
    #[inline]
    fn now(&self) -> &UOp {
        self.made.as_ref().unwrap_or(&self.asked)
    }
}

/// Rules, and the answers found so far: keep it where many small graphs share nodes and the context does not change
/// what rules do.
pub struct Rewriter<'m, C: 'static> {
    matcher: &'m Matcher<C>,
    answers: NodeMap<UOp>,
    stack: Vec<Frame>,
    values: Vec<UOp>,
    tracing: u8,
    /// Answers are nodes in their simplest form, and those that say they are need not be looked at.
    marks: bool,
}

impl<'m, C> Rewriter<'m, C> {
    /// With no answers yet.
    pub fn new(matcher: &'m Matcher<C>) -> Self {
        frit_abi::record::count_check();
        let (answers, stack, values) = (NodeMap::default(), vec![], vec![]);
        Rewriter { matcher, answers, stack, values, tracing: TRACING.get(), marks: false }
    }
    /// What became of each node so far.
    pub fn answers(&self) -> impl Iterator<Item = (&UOp, &UOp)> {
        self.answers.iter()
    }
    /// See [`rewrite`].
    pub fn rewrite(&mut self, root: &UOp, ctx: &mut C) -> UOp {
        if let Some(a) = self.answers.get(root) {
            return a.clone();
        }
        match self.bottom_up(root, ctx) {
            Ok(()) => self.values.pop().unwrap_or_else(|| root.clone()),
            Err(last) => {
                self.stack.clear();
                self.values.clear();
                ERROR.with(|e| {
                    e.borrow_mut().get_or_insert(LoopError { last });
                });
                root.clone()
            }
        }
    }
    /// Put the answers for the sources of the top frame on the value stack; false where one must be found first.
    #[inline]
    fn sources_done(&mut self) -> bool {
        let Some(f) = self.stack.last_mut() else { return true };
        let now = f.made.as_ref().unwrap_or(&f.asked);
        while let Some(s) = now.src.get(f.done) {
            f.done += 1;
            if self.marks && s.is_simple() || s.src.is_empty() && !self.matcher.has_rules(s.op) {
                self.values.push(s.clone());
            } else if let Some(a) = self.answers.get(s) {
                self.values.push(a.clone());
            } else {
                let frame = Frame { asked: s.clone(), made: None, done: 0, generation: f.generation };
                self.stack.push(frame);
                return false;
            }
        }
        true
    }
    /// The top frame's node with the sources on the value stack, which leave it; whether they were its own.
    #[inline]
    fn rebuilt(&mut self) -> Option<(UOp, bool, u32)> {
        let f = self.stack.last()?;
        let now = f.now();
        let base = self.values.len() - now.src.len();
        let sources = self.values.drain(base..);
        let same = sources.as_slice() == &now.src[..];
        let n = match same {
            true => now.clone(),
            false => UOp::with(now.op, now.dtype, sources.collect(), now.arg.clone()),
        };
        Some((n, same, f.generation))
    }
    #[inline]
    fn fire(&mut self, n: &UOp, ctx: &mut C, generation: u32) -> Result<Option<UOp>, Application> {
        let Some((after, rule)) = self.matcher.apply_named(n, ctx) else { return Ok(None) };
        frit_abi::record::count_check();
        if self.tracing != 0 || generation >= MAX_GENERATIONS {
            self.tell(Application { rule, before: n.clone(), after: after.clone() }, generation)?;
        }
        Ok(Some(after))
    }
    #[cold]
    fn tell(&self, a: Application, generation: u32) -> Result<(), Application> {
        if generation >= MAX_GENERATIONS {
            return Err(a);
        }
        if self.tracing & RECORDED != 0 {
            record::rule(a.rule, &a.before, &a.after);
        }
        if self.tracing & TRACED != 0 {
            TRACE.with(|t| t.borrow_mut().push(a));
        }
        Ok(())
    }
    fn finish(&mut self, answer: UOp) {
        let Some(f) = self.stack.pop() else { return };
        if self.marks {
            answer.set_simple();
        } else if f.asked != answer {
            self.answers.insert(answer.clone(), answer.clone());
        }
        // a simple node answers for itself
        if !self.marks || f.asked != answer {
            self.answers.insert(f.asked, answer.clone());
        }
        self.values.push(answer);
    }

    /// What is known to become of a node.
    fn known(&self, n: &UOp) -> Option<UOp> {
        if self.marks && n.is_simple() { Some(n.clone()) } else { self.answers.get(n).cloned() }
    }

    fn bottom_up(&mut self, root: &UOp, ctx: &mut C) -> Result<(), Application> {
        self.stack.push(Frame { asked: root.clone(), made: None, done: 0, generation: 0 });
        'frames: while !self.stack.is_empty() {
            if !self.sources_done() {
                continue;
            }
            let Some((mut n, same, mut generation)) = self.rebuilt() else { break };
            // a rebuilt node may be one whose answer is known
            if !same && let Some(a) = self.known(&n) {
                self.finish(a);
                continue;
            }
            while let Some(after) = self.fire(&n, ctx, generation)? {
                generation += !n.src.contains(&after) as u32;
                if let Some(a) = self.known(&after) {
                    self.finish(a);
                    continue 'frames;
                }
                if after.src.is_empty() {
                    n = after;
                    continue;
                }
                if let Some(f) = self.stack.last_mut() {
                    (f.made, f.done, f.generation) = (Some(after), 0, generation);
                }
                continue 'frames;
            }
            self.finish(n);
        }
        Ok(())
    }
}
