//! What the passes hand on: one graph, at the level that the last pass left it, and at the end the schedule.

use crate::Schedule;
use crate::record::Origins;
use frit_abi::Target;
use frit_uop::UOp;
use frit_uop::graph::Numbered;
use std::rc::Rc;

/// The state of a schedule in the making.
pub struct Plan<'a> {
    pub target: &'a Target,
    sink: UOp,
    /// The nodes of the graph, once a pass has asked for them: most passes leave most graphs as they are.
    list: Option<Rc<Numbered>>,
    has_changed: bool,
    /// Names of what is computed on the way to each place, where someone wants them.
    pub origins: Origins,
    pub schedule: Schedule,
}

impl<'a> Plan<'a> {
    pub fn new(sink: UOp, target: &'a Target) -> Plan<'a> {
        Plan {
            target,
            sink,
            list: None,
            has_changed: false,
            origins: Origins::default(),
            schedule: Schedule::default(),
        }
    }
    pub fn sink(&self) -> &UOp {
        &self.sink
    }
    /// Another graph from here on.
    pub fn set_sink(&mut self, sink: UOp) {
        if sink != self.sink {
            (self.sink, self.list, self.has_changed) = (sink, None, true);
        }
    }
    /// Whether the graph is another one than when this was asked last.
    pub fn has_changed(&mut self) -> bool {
        std::mem::take(&mut self.has_changed)
    }
    /// The nodes of the graph, sources first.
    pub fn list(&mut self) -> Rc<Numbered> {
        self.list.get_or_insert_with(|| Rc::new(Numbered::of(&self.sink))).clone()
    }
}
