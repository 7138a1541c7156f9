//! A list of launches that the driver keeps: queued with one call, with other arguments where those have changed.
//!
//! Where kernels wait for the launch ahead of them by themselves, each is on its way to the processors while the one ahead still
//! runs: of many small ones a launch is half of the time. All of them wait, and a launch has ended when its last lane has, so
//! each also comes after all those before.

use super::device::Shared;
use super::driver::{Edge, Handle, KernelNode};
use super::memory::DeviceBlock;
use super::program::{CudaKernel, Words, pointers};
use crate::{Bound, Error, Executable, Graph, Memory, Program};
use frit_abi::LaunchDims;
use smallvec::SmallVec;
use std::sync::Arc;

/// Launches, one after the other.
pub struct CudaGraph {
    device: Arc<Shared>,
    graph: Handle,
    exec: Handle,
    steps: Vec<Step>,
    /// Whether launches begin before those ahead of them have ended.
    is_early: bool,
    /// What the programs of a kernel leave each other: one for all kernels, since they run in a row.
    workspace: Memory,
}

/// A launch as the driver has it now.
struct Step {
    node: Handle,
    function: Handle,
    words: Words,
    dims: LaunchDims,
}

impl Step {
    /// A launch without blocks is left out.
    fn is_empty(&self) -> bool {
        is_empty(&self.dims)
    }
}

fn is_empty(dims: &LaunchDims) -> bool {
    dims.global.contains(&0) || dims.local.contains(&0)
}

impl CudaGraph {
    /// These launches in this order.
    pub fn new(device: &Arc<Shared>, bounds: &[Bound]) -> Result<CudaGraph, Error> {
        let is_early = device.context.enter()?.graph_edges.is_some();
        CudaGraph::made(device, bounds, is_early)
    }
    /// The same, with launches that begin early where they may.
    fn made(device: &Arc<Shared>, bounds: &[Bound], is_early: bool) -> Result<CudaGraph, Error> {
        let context = &device.context;
        let driver = context.enter()?;
        let bytes = |b: &Bound| Some(b.executable().programs()?.1.iter().map(|n| aligned(*n)).sum());
        let bytes = bounds.iter().filter_map(bytes).max().unwrap_or(0);
        let workspace = Memory::new(Arc::new(DeviceBlock::new(device, bytes)?));
        let mut made =
            CudaGraph { device: device.clone(), graph: 0, exec: 0, steps: vec![], is_early, workspace };
        // SAFETY: the place is valid for the call.
        context.check("cuGraphCreate", unsafe { (driver.graph)(&mut made.graph, 0) })?;
        let mut after: Option<Handle> = None;
        for launch in bounds.iter().flat_map(|b| launches(b, &made.workspace)) {
            let (kernel, words, dims) = launch?;
            let mut node = 0;
            let early = driver.graph_edges.filter(|_| is_early && kernel.waits);
            let count = usize::from(after.is_some() && early.is_none());
            let code = with_node(kernel, &words, dims, |launch| {
                let first = after.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
                // SAFETY: the launch is described in full and copied by the call; so are the nodes before it.
                unsafe { (driver.graph_kernel)(&mut node, made.graph, first, count, launch) }
            });
            context.check("cuGraphAddKernelNode", code)?;
            if let (Some(edges), Some(before)) = (early, after) {
                // SAFETY: both nodes are of the graph; the call copies them and the edge.
                let code = unsafe { edges(made.graph, &before, &node, &Edge::EARLY, 1) };
                context.check("cuGraphAddDependencies", code)?;
            }
            after = Some(node);
            made.steps.push(Step { node, function: kernel.function, words, dims });
        }
        if is_early && made.steps.iter().any(Step::is_empty) {
            return CudaGraph::made(device, bounds, false);
        }
        // SAFETY: the graph is ours, the place valid.
        let code = unsafe { (driver.graph_instantiate)(&mut made.exec, made.graph, 0) };
        context.check("cuGraphInstantiate", code)?;
        made.steps.iter().filter(|s| s.is_empty()).try_for_each(|s| made.enable(s))?;
        Ok(made)
    }
    fn enable(&self, step: &Step) -> Result<(), Error> {
        let context = &self.device.context;
        let driver = context.enter()?;
        // SAFETY: the node is of the graph that this was made from.
        let code = unsafe { (driver.graph_enable)(self.exec, step.node, u32::from(!step.is_empty())) };
        context.check("cuGraphNodeSetEnabled", code)
    }
}

impl Graph for CudaGraph {
    fn launch(&mut self, bounds: &[Bound]) -> Result<(), Error> {
        let context = &self.device.context;
        let driver = context.enter()?;
        let all = bounds.iter().flat_map(|b| launches(b, &self.workspace));
        for (i, launch) in all.enumerate().take(self.steps.len()) {
            let (kernel, words, dims) = launch?;
            // what a launch waits for that begins early, where the one ahead of it is left out, is nowhere said
            if self.is_early && is_empty(&dims) {
                *self = CudaGraph::made(&self.device, bounds, false)?;
                return self.launch(bounds);
            }
            let step = &mut self.steps[i];
            if (kernel.function, &words, dims) == (step.function, &step.words, step.dims) {
                continue;
            }
            let code = with_node(kernel, &words, dims, |launch| {
                // SAFETY: the node is of the graph this was made from, and the function lives as long as its launch; the call copies the rest.
                unsafe { (driver.graph_set_kernel)(self.exec, step.node, launch) }
            });
            context.check("cuGraphExecKernelNodeSetParams", code)?;
            let was_empty = step.is_empty();
            (step.function, step.words, step.dims) = (kernel.function, words, dims);
            if was_empty != step.is_empty() {
                self.enable(&self.steps[i])?;
            }
        }
        // SAFETY: the memory of its arguments is held by the bound launches, and freed in the order of the same queue.
        context.check("cuGraphLaunch", unsafe { (driver.graph_launch)(self.exec, self.device.queue.stream) })
    }
}

impl Drop for CudaGraph {
    fn drop(&mut self) {
        self.device.context.leave(|driver| {
            // SAFETY: both are ours; the driver keeps what still runs until it is done.
            unsafe {
                if self.exec != 0 {
                    (driver.graph_exec_destroy)(self.exec);
                }
                if self.graph != 0 {
                    (driver.graph_destroy)(self.graph);
                }
            }
        });
    }
}

/// A kernel of the device, what it is called with, and its dims.
type Launch<'a> = Result<(&'a CudaKernel, Words, LaunchDims), Error>;

/// The bytes of a workspace up to where the next one begins.
fn aligned(bytes: usize) -> usize {
    bytes.next_multiple_of(256)
}

/// The launches that a bound one comes to: one for each program of its kernel.
fn launches<'a>(bound: &'a Bound, workspace: &Memory) -> SmallVec<[Launch<'a>; 1]> {
    let addresses = bound.addresses().iter().copied();
    match bound.executable().programs() {
        None => [launch(&**bound.executable(), addresses, bound.vars(), bound.dims())].into_iter().collect(),
        Some((programs, sizes)) => {
            let begins = sizes.iter().scan(workspace.address(), |at, n| {
                let begin = *at;
                *at += aligned(*n) as u64;
                Some(begin)
            });
            let all = addresses.chain(begins);
            let one =
                |(p, dims): &'a Program| launch(&**p, all.clone().take(p.buffers()), bound.vars(), *dims);
            programs.iter().map(one).collect()
        }
    }
}

fn launch<'a>(
    program: &'a dyn Executable,
    addresses: impl Iterator<Item = u64>,
    vars: &[i64],
    dims: LaunchDims,
) -> Launch<'a> {
    let kernel = program.as_any().and_then(|k| k.downcast_ref::<CudaKernel>()).ok_or_else(|| {
        Error::Launch { kernel: program.name().into(), message: "it is not a kernel of this device".into() }
    })?;
    Ok((kernel, kernel.words(addresses, vars), dims))
}

/// The launch as the driver describes one.
fn with_node<T>(kernel: &CudaKernel, words: &Words, dims: LaunchDims, f: impl FnOnce(&KernelNode) -> T) -> T {
    let params = pointers(words);
    f(&KernelNode {
        function: kernel.function,
        // the driver refuses a launch without blocks, also one that is left out
        grid: dims.global.map(|n| n.max(1)),
        block: dims.local.map(|n| n.max(1)),
        shared_bytes: kernel.shared_bytes,
        params: params.as_ptr(),
        extra: std::ptr::null(),
    })
}
