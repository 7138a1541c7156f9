//! A kernel on its device.

use super::sequence::Sequence;
use crate::Error;
use crate::memory::bindings::{Bindings, eval_index};
use frit_abi::{LaunchDims, Param};
use frit_codegen::Lowered;
use frit_runtime::{Device, Executable};
use frit_uop::{Arg, Linear, Step, UOp};
use std::sync::Arc;

/// A loaded kernel with what a launch needs to know.
pub struct Compiled {
    /// For people.
    pub name: Arc<str>,
    /// What it was made from.
    pub ast: UOp,
    /// On the device.
    pub executable: Arc<dyn Executable>,
    /// Variables in the order of its arguments.
    pub vars: Vec<Arc<str>>,
    /// Extents of the hardware ids: blocks, then lanes.
    grid: [[Option<UOp>; 3]; 2],
    thread: Option<UOp>,
    /// Whether one of its accesses is at a place that comes from data, and so may miss.
    pub can_miss: bool,
    flops: UOp,
    bytes: UOp,
}

impl Compiled {
    /// A kernel as it was lowered, and its programs as they were loaded.
    pub(crate) fn new(
        ast: UOp,
        lowered: &Lowered,
        loaded: Vec<Arc<dyn Executable>>,
        device: &Arc<dyn Device>,
    ) -> Result<Compiled, Error> {
        let mut parts = lowered.programs.iter().zip(loaded).map(|(p, e)| Compiled::of(ast.clone(), p, e));
        let mut first = parts.next().ok_or_else(|| Error::Graph("a kernel without a program".into()))?;
        if lowered.programs.len() > 1 {
            // all of constant sizes
            let mut all = vec![(first.executable.clone(), first.dims(&Bindings::default())?)];
            for part in parts {
                all.push((part.executable.clone(), part.dims(&Bindings::default())?));
                first.can_miss |= part.can_miss;
                first.flops = first.flops.fold_add(&part.flops);
                first.bytes = first.bytes.fold_add(&part.bytes);
            }
            // others have something added to it
            let name = lowered.programs.iter().map(|p| &p.name).min_by_key(|n| n.len());
            first.name = name.unwrap_or(&first.name).clone();
            first.executable = Arc::new(Sequence::new(device.clone(), all, lowered.workspaces.clone()));
        }
        Ok(first)
    }
    fn of(ast: UOp, linear: &Linear, executable: Arc<dyn Executable>) -> Compiled {
        let special = |prefix: &str, i: usize| {
            let name = format!("{prefix}{i}");
            let found = linear.specials.iter().find(|s| matches!(&s.arg, Arg::Name(n) if **n == *name));
            found.map(|s| s.src[0].clone())
        };
        let vars = linear.vars.iter().filter_map(|v| match &v.arg {
            Arg::Var { name, .. } => Some(name.clone()),
            _ => None,
        });
        Compiled {
            name: linear.name.clone(),
            ast,
            executable,
            vars: vars.collect(),
            grid: ["gidx", "lidx"].map(|p| std::array::from_fn(|i| special(p, i))),
            thread: linear.thread.as_ref().map(|r| r.src[0].clone()),
            can_miss: linear.steps.iter().any(|s| matches!(s, Step::Do(n) if matches!(n.arg, Arg::Site(_)))),
            flops: linear.flops.clone(),
            bytes: linear.bytes.clone(),
        }
    }
    /// Which arguments it stores to.
    pub fn stored(&self) -> impl Iterator<Item = bool> {
        self.executable.params().iter().filter_map(|p| match p {
            Param::Buffer { written, .. } => Some(*written),
            Param::Var { .. } => None,
        })
    }
    /// The numbers of a launch with these variables.
    pub fn dims(&self, b: &Bindings) -> Result<LaunchDims, Error> {
        let size = |e: &Option<UOp>| e.as_ref().map_or(Ok(1), |e| eval_index(e, b));
        let mut grid = [[1u32; 3]; 2];
        for (out, exprs) in grid.iter_mut().zip(&self.grid) {
            for (o, e) in out.iter_mut().zip(exprs) {
                *o = u32::try_from(size(e)?)
                    .map_err(|_| Error::Graph("a launch dim exceeds 32 bits".into()))?;
            }
        }
        Ok(LaunchDims { global: grid[0], local: grid[1], thread_extent: size(&self.thread)? })
    }
    /// Arithmetic operations and bytes of a launch with these variables.
    pub fn cost(&self, b: &Bindings) -> (u64, u64) {
        let eval = |e| eval_index(e, b).unwrap_or(0).max(0) as u64;
        (eval(&self.flops), eval(&self.bytes))
    }
}
