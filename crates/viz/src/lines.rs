//! Which line of the user's program a node has, when.
//!
//! Nodes with equal structure are one node whoever made them, so the same node has one line in one program and another line
//! in the next. A thread says lines before it runs what they are for: what holds for a run is what was said last before it.

use crate::model::{Line, Model, NodeId, Run};
use rustc_hash::{FxHashMap, FxHashSet};

/// Lines of some nodes.
pub type LineOf = FxHashMap<NodeId, Line>;

/// What a thread said of nodes, each with when it changed.
#[derive(Default)]
pub(crate) struct Said {
    changes: FxHashMap<NodeId, Vec<(u32, Option<Line>)>>,
    now: u32,
    /// Nodes that stand for others in what is run next.
    round: FxHashSet<NodeId>,
    /// Nodes that were run since they had their lines.
    used: FxHashSet<NodeId>,
}

impl Said {
    /// How much was said so far.
    pub fn now(&self) -> u32 {
        self.now
    }
    /// A call made this node. A call that is given a node says so as well when it passes it on: until it is run a node has the
    /// line of the first.
    pub fn made(&mut self, n: NodeId, line: Line) {
        if self.used.remove(&n) || self.last(n).flatten().is_none() {
            self.say(n, Some(line));
        }
    }
    /// A node stands for another one, whose line `elsewhere` may know. The first in a round stays: what passes a value on
    /// has not made it. A line that it had in an earlier program is not one of this one.
    pub fn became(&mut self, before: NodeId, after: NodeId, elsewhere: &LineOf) {
        let line = self.last(before).unwrap_or_else(|| elsewhere.get(&before).copied());
        self.used.insert(before);
        if !self.round.contains(&after) {
            self.say(after, line);
        }
        if line.is_some() {
            self.round.insert(after);
        }
    }
    /// What was said so far is run.
    pub fn end_round(&mut self) {
        self.round.clear();
    }
    fn last(&self, n: NodeId) -> Option<Option<Line>> {
        Some(self.changes.get(&n)?.last()?.1)
    }
    fn say(&mut self, n: NodeId, line: Option<Line>) {
        if self.last(n) != Some(line) {
            self.now += 1;
            self.changes.entry(n).or_default().push((self.now, line));
        }
    }
    fn at(&self, n: NodeId, when: u32) -> Option<Option<Line>> {
        let changes = self.changes.get(&n)?;
        Some(changes[..changes.partition_point(|c| c.0 <= when)].last()?.1)
    }
}

/// A graph was scheduled or run: by which thread, after how much it had said.
pub(crate) struct Event {
    pub graph: NodeId,
    pub thread: u64,
    pub when: u32,
    /// The schedule that was made for it.
    pub schedule: Option<usize>,
    pub run: Option<Run>,
}

/// Runs and lines of schedules: a run of a graph that was planned before belongs to the schedule with its lines, else to the
/// last one.
pub(crate) fn attach(m: &mut Model, events: Vec<Event>, said: &FxHashMap<u64, &Said>, elsewhere: &LineOf) {
    let mut by_graph: FxHashMap<NodeId, Vec<Event>> = FxHashMap::default();
    events.into_iter().for_each(|e| by_graph.entry(e.graph).or_default().push(e));
    for (graph, events) in by_graph {
        let nodes = m.below(&[graph]);
        let mut known = Variants::default();
        let mut made: Vec<(usize, usize)> = vec![];
        for e in events {
            let Some(said) = said.get(&e.thread) else { continue };
            let variant = known.of(&nodes, &e, said, elsewhere);
            let same = made.iter().find(|(_, v)| *v == variant).or(made.last());
            let Some(schedule) = e.schedule.or(same.map(|s| s.0)) else { continue };
            if !made.contains(&(schedule, variant)) {
                made.push((schedule, variant));
                let lines = passed_on(&known.all[variant], &m.schedules[schedule].became);
                m.schedules[schedule].lines.push(lines);
            }
            m.schedules[schedule].runs.extend(e.run);
        }
    }
}

/// Lines with those of nodes that passes made, which have lines of their own where they were in the graph before.
fn passed_on(lines: &LineOf, became: &[(NodeId, NodeId)]) -> LineOf {
    let mut lines = lines.clone();
    for (before, after) in became {
        if let Some(line) = lines.get(before).copied() {
            lines.entry(*after).or_insert(line);
        }
    }
    lines
}

/// The different lines that the nodes of a graph had.
#[derive(Default)]
struct Variants {
    all: Vec<LineOf>,
    /// When the lines of any of the nodes changed, by thread.
    changes: FxHashMap<u64, Vec<u32>>,
    seen: FxHashMap<(u64, usize), usize>,
}

impl Variants {
    fn of(&mut self, nodes: &[NodeId], e: &Event, said: &Said, elsewhere: &LineOf) -> usize {
        let changes = self.changes.entry(e.thread).or_insert_with(|| {
            let mut all: Vec<u32> =
                nodes.iter().filter_map(|n| said.changes.get(n)).flatten().map(|c| c.0).collect();
            all.sort_unstable();
            all
        });
        let key = (e.thread, changes.partition_point(|c| *c <= e.when));
        let all = &mut self.all;
        *self.seen.entry(key).or_insert_with(|| {
            let line = |n: &NodeId| {
                // another thread described what this one runs
                let line = match said.changes.contains_key(n) {
                    true => said.at(*n, e.when).flatten(),
                    false => elsewhere.get(n).copied(),
                };
                Some((*n, line?))
            };
            let lines: LineOf = nodes.iter().filter_map(line).collect();
            all.iter().position(|known| *known == lines).unwrap_or_else(|| {
                all.push(lines);
                all.len() - 1
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(line: u32) -> Line {
        Line { line, ..Line::default() }
    }

    #[test]
    fn what_is_said_later_does_not_hold_before() {
        let (mut said, none) = (Said::default(), LineOf::default());
        said.made(1, line(1));
        // given to another call, which passes it on
        said.made(1, line(7));
        said.became(1, 9, &none);
        let first = said.now();
        said.end_round();
        said.made(2, line(2));
        said.became(2, 9, &none);
        said.became(1, 9, &none);
        assert_eq!(said.at(9, first), Some(Some(line(1))));
        assert_eq!(said.at(9, said.now()), Some(Some(line(2))));
        assert_eq!(said.at(2, first), None);
        // made again after it was run
        said.made(1, line(8));
        assert_eq!((said.at(1, first), said.at(1, said.now())), (Some(Some(line(1))), Some(Some(line(8)))));
        // described inside of another call it has no line of its own
        said.end_round();
        said.became(3, 9, &none);
        assert_eq!(said.at(9, said.now()), Some(None));
    }
}
