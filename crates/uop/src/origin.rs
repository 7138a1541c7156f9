//! Where nodes come from: the part of the program that made them, by name or by line, for whoever reads times of kernels.
//!
//! Nodes with equal structure are one node whoever made them, so names are kept beside them, by the hash of their structure,
//! and only while someone wants them (`frit_abi::record::origins`). Passes say which node stands for which.

use crate::graph::toposort;
use crate::node::UOp;
use frit_abi::record::origins;
use frit_abi::sync::Mutex;
use rustc_hash::{FxHashMap, FxHasher};
use std::cell::RefCell;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// Names that are kept: beyond that all are forgotten, and kernels of what was described before have none.
const MOST: usize = 1 << 20;

/// Names by the hash of a node's structure, each with the round it was given in.
#[derive(Default)]
struct Names {
    by_hash: FxHashMap<u64, (Arc<str>, u64)>,
    round: u64,
}

static NAMES: Mutex<Option<Names>> = Mutex::new(None);

fn with<T>(f: impl FnOnce(&mut Names) -> T) -> T {
    f(NAMES.lock().unwrap_or_else(|e| e.into_inner()).get_or_insert_default())
}

impl Names {
    /// The first name in a round stays: what passes a value on has not made it.
    fn give(&mut self, node: &UOp, name: Arc<str>) {
        if self.by_hash.len() >= MOST {
            self.by_hash.clear();
        }
        let round = self.round;
        let known = self.by_hash.entry(node.structural_hash()).or_insert_with(|| (name.clone(), round));
        if known.1 != round {
            *known = (name, round);
        }
    }
    fn of(&self, node: &UOp) -> Option<Arc<str>> {
        self.by_hash.get(&node.structural_hash()).map(|n| n.0.clone())
    }
}

/// A name, and whether it says all: that of a node of a model does, that of a span stands beside the calls in it.
type Named = (Arc<str>, bool);

thread_local! {
    static OPEN: RefCell<Vec<Named>> = const { RefCell::new(vec![]) };
}

/// A named part of the program, until it is dropped.
#[must_use]
pub struct Scope {
    is_open: bool,
}

/// What this thread describes until the result is dropped is part of `name`; of a scope inside another both names are
/// told.
pub fn scope<S: AsRef<str>>(name: impl FnOnce() -> S) -> Scope {
    if origins() {
        begin_scope(name().as_ref(), true);
    }
    Scope { is_open: origins() }
}

/// The same for a part that the user's program names: calls in it are told by their lines, too.
pub fn span(name: &str) -> Scope {
    if origins() {
        begin_scope(name, false);
    }
    Scope { is_open: origins() }
}

fn begin_scope(name: &str, says_all: bool) {
    OPEN.with_borrow_mut(|open| {
        let whole = open.last().map(|(outer, _)| format!("{outer}/{name}").into());
        open.push((whole.unwrap_or_else(|| name.into()), says_all));
    });
}

impl Drop for Scope {
    fn drop(&mut self) {
        if self.is_open {
            OPEN.with_borrow_mut(|open| drop(open.pop()));
        }
    }
}

/// The name of the open scope.
pub fn open() -> Option<Arc<str>> {
    OPEN.with_borrow(|open| Some(open.last()?.0.clone()))
}

/// A node was made by the open scope, or by the call that `line` tells. Ask before whether anyone wants it.
pub fn note(node: &UOp, line: impl FnOnce() -> Option<String>) {
    let open = OPEN.with_borrow(|open| open.last().cloned());
    let name = match open {
        Some((name, true)) => Some(name),
        Some((span, false)) => Some(line().map_or(span.clone(), |line| format!("{span}: {line}").into())),
        None => line().map(Into::into),
    };
    if let Some(name) = name {
        with(|names| {
            // described again, a node has the name it had
            names.by_hash.entry(node.structural_hash()).or_insert((name, 0));
        });
    }
}

/// The name of a node.
pub fn of(node: &UOp) -> Option<Arc<str>> {
    with(|names| names.of(node))
}

/// A graph is put in its general form, with these nodes for those: names that the second had belong to another graph.
pub fn begin<'a>(pairs: impl Iterator<Item = (&'a UOp, &'a UOp)>) {
    if origins() {
        with(|names| {
            names.round += 1;
            for (before, after) in pairs {
                if let Some(name) = names.of(before) {
                    names.give(after, name);
                }
            }
        });
    }
}

/// Nodes that stand for others from here on.
pub(crate) fn passed_on(pairs: &[(&UOp, &UOp)]) {
    with(|names| {
        for (before, after) in pairs {
            if let Some(name) = names.of(before) {
                names.give(after, name);
            }
        }
    });
}

/// A number for the names of a graph: plans of graphs that are equal but for names are told apart by it. 0 where nobody
/// wants names.
pub fn fingerprint(sink: &UOp) -> u64 {
    if !origins() {
        return 0;
    }
    let mut hasher = FxHasher::default();
    with(|names| toposort(std::slice::from_ref(sink)).iter().for_each(|n| names.of(n).hash(&mut hasher)));
    hasher.finish()
}
