//! Nodes and rules in a recording (`frit_abi::record`, decision 022).
//!
//! A node is written when something first names it, after its sources, and has a number from then on. What is kept of it is
//! the hash of its structure, so nothing here keeps a node alive; of a node that comes back the number is found again.

use crate::arg::Arg;
use crate::node::UOp;
use crate::rules::Fired;
use crate::text::{print_arg, show_dim};
use frit_abi::record::{self, Field, Kind};
use frit_abi::sync::Mutex;
use rustc_hash::FxHashMap;
use std::cell::RefCell;
use std::panic::Location;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

const SHARDS: usize = 16;
/// Numbers that are kept in a shard: beyond that it forgets all, and a node that comes again is written again.
const MOST: usize = 1 << 17;

/// The numbers of nodes by the hash of their structure, and the session they belong to.
type Shard = Mutex<(u32, Option<FxHashMap<u64, u32>>)>;
static NUMBERS: [Shard; SHARDS] = [const { Mutex::new((0, None)) }; SHARDS];
static NEXT: AtomicU32 = AtomicU32::new(1);

/// What a thread knows without asking others, by slot: the hash of the node that was there, and its number.
#[derive(Default)]
struct Known {
    session: u32,
    by_slot: Vec<(u64, u32)>,
}

thread_local! {
    static KNOWN: RefCell<Known> = RefCell::default();
}

impl Known {
    #[inline]
    fn get(&self, n: &UOp) -> Option<u32> {
        let (hash, number) = *self.by_slot.get(n.slot_number() as usize)?;
        (number != 0 && hash == n.structural_hash()).then_some(number)
    }
    fn set(&mut self, n: &UOp, number: u32) {
        let slot = n.slot_number() as usize;
        if slot >= self.by_slot.len() {
            self.by_slot.resize((slot + 1).next_power_of_two(), (0, 0));
        }
        self.by_slot[slot] = (n.structural_hash(), number);
    }
    /// The number of a node whose sources have theirs.
    fn name(&mut self, n: &UOp) {
        let hash = n.structural_hash();
        let (number, is_new) = {
            let shard = &NUMBERS[(hash >> 32) as usize % SHARDS];
            let mut shard = shard.lock().unwrap_or_else(|e| e.into_inner());
            if shard.0 != self.session {
                *shard = (self.session, None);
            }
            let numbers = shard.1.get_or_insert_default();
            if numbers.len() >= MOST {
                numbers.clear();
            }
            let known = numbers.get(&hash).copied();
            (*numbers.entry(hash).or_insert_with(|| NEXT.fetch_add(1, Relaxed)), known.is_none())
        };
        self.set(n, number);
        if is_new {
            let src: Vec<u64> = n.src.iter().map(|s| self.get(s).unwrap_or(0).into()).collect();
            let shape: Vec<String> = n.shape().iter().map(show_dim).collect();
            let arg = if n.arg == Arg::None { String::new() } else { print_arg(&n.arg, n.dtype) };
            use Field::*;
            record::write(
                Kind::Node,
                &[
                    Int(number.into()),
                    Name(n.op.name()),
                    Name(n.dtype.name()),
                    Text(&shape.join(", ")),
                    Text(&arg),
                    List(&src),
                ],
            );
        }
    }
}

/// The number of a node, which is written with all that it is made of, where it was not.
pub fn number(root: &UOp) -> u64 {
    KNOWN.with_borrow_mut(|known| {
        if known.session != record::session() {
            *known = Known { session: record::session(), by_slot: vec![] };
        }
        if let Some(number) = known.get(root) {
            return number.into();
        }
        let mut stack = vec![root];
        while let Some(n) = stack.last().copied() {
            let depth = stack.len();
            if known.get(n).is_none() {
                stack.extend(n.src.iter().filter(|s| known.get(s).is_none()));
                if stack.len() > depth {
                    continue;
                }
                known.name(n);
            }
            stack.pop();
        }
        known.get(root).unwrap_or(0).into()
    })
}

/// Write down that a rule was applied.
pub(crate) fn rule(fired: Fired, before: &UOp, after: &UOp) {
    use Field::*;
    let (before, after, line) = (number(before), number(after), (fired.line)());
    let (set, file) = (Name(fired.table.name), Name(fired.table.file));
    record::write(Kind::Rule, &[set, Name(fired.rule), file, Int(before), Int(after), Int(line.into())]);
}

/// Write down that a pass replaced a node in code. The table is left empty: the pass is named where it ends.
pub(crate) fn replaced(what: &'static str, at: &'static Location<'static>, before: &UOp, after: &UOp) {
    use Field::*;
    let (before, after) = (Int(number(before)), Int(number(after)));
    record::write(Kind::Rule, &[Text(""), Name(what), Name(at.file()), before, after, Int(at.line().into())]);
}

/// Nodes that stand for others from here on, where they are not the same: what is known of those holds of these.
pub fn became<'a>(pairs: impl Iterator<Item = (&'a UOp, &'a UOp)>) {
    if !record::origins() {
        return;
    }
    let pairs: Vec<(&UOp, &UOp)> = pairs.filter(|(a, b)| a != b).collect();
    crate::origin::passed_on(&pairs);
    if record::compiles() {
        for (before, after) in pairs {
            record::write(Kind::Became, &[Field::Int(number(before)), Field::Int(number(after))]);
        }
    }
}
