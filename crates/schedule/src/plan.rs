//! What the passes hand on: one graph, at the level that the last pass left it, and at the end the schedule.

use crate::Schedule;
use frit_abi::Target;
use frit_uop::UOp;

/// The state of a schedule in the making.
pub struct Plan<'a> {
    pub target: &'a Target,
    pub sink: UOp,
    pub schedule: Schedule,
}

impl<'a> Plan<'a> {
    pub fn new(sink: UOp, target: &'a Target) -> Plan<'a> {
        Plan { target, sink, schedule: Schedule::default() }
    }
}
