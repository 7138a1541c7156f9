//! Graphs: launches that are queued together, with arguments that can be changed.

use super::module::{Shape, function_of};
use super::stream::stream_of;
use super::{Code, error, exports, give};
use crate::run::Launch;
use crate::state::{Object, state};
use crate::stream::Command;
use std::ffi::c_void;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The kernel of a node and its launch, as the driver lays them out.
#[repr(C)]
pub struct KernelNode {
    function: usize,
    grid: [u32; 3],
    block: [u32; 3],
    shared_bytes: u32,
    params: *const *const c_void,
    extra: *const *const c_void,
}

/// What an edge of a graph is, as the driver lays it out.
#[repr(C)]
pub struct Edge {
    from_port: u8,
    to_port: u8,
    kind: u8,
    reserved: [u8; 5],
}

/// `CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC`, `CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC`.
const PROGRAMMATIC: u8 = 1;

/// A launch in a graph.
#[derive(Clone)]
struct Node {
    handle: usize,
    /// Nodes that come before it.
    after: Vec<usize>,
    launch: Arc<Launch>,
    is_enabled: bool,
    /// Whether it begins before those that come before it have ended.
    is_early: bool,
}

/// Launches that are put together.
#[derive(Default)]
pub struct Graph {
    nodes: Vec<Node>,
}

/// Launches that run together.
pub struct Exec {
    device: usize,
    nodes: Vec<Node>,
}

/// Nodes have handles of their own.
static NODES: AtomicUsize = AtomicUsize::new(0x7000_0000);

fn lock<T>(m: &Mutex<T>) -> MutexGuard<'_, T> {
    m.lock().unwrap_or_else(PoisonError::into_inner)
}
fn graph_of(handle: usize) -> Result<Arc<Mutex<Graph>>, Code> {
    state().current()?;
    match state().get(handle) {
        Some(Object::Graph(g)) => Ok(g),
        _ => Err(error::INVALID_HANDLE),
    }
}
fn exec_of(handle: usize) -> Result<Arc<Mutex<Exec>>, Code> {
    state().current()?;
    match state().get(handle) {
        Some(Object::Exec(e)) => Ok(e),
        _ => Err(error::INVALID_HANDLE),
    }
}

/// The launch of a node.
///
/// # Safety
/// It is null or describes a launch of its function in full.
unsafe fn launch_of(kernel: *const KernelNode) -> Result<Launch, Code> {
    // SAFETY: it is null or valid, says the caller.
    let node = unsafe { kernel.as_ref() }.ok_or(error::INVALID_VALUE)?;
    if !node.extra.is_null() {
        return Err(error::NOT_SUPPORTED);
    }
    let shape = Shape { grid: node.grid, block: node.block, shared_bytes: node.shared_bytes };
    // SAFETY: there is a pointer for each parameter, says the caller.
    unsafe { function_of(node.function)?.launch(&shape, node.params) }
}

/// Nodes in an order that their edges allow: of those that may come next the last, so that a missing edge is found out.
fn ordered(nodes: &[Node]) -> Vec<&Node> {
    let mut left: Vec<&Node> = nodes.iter().collect();
    let mut done: Vec<&Node> = vec![];
    while let Some(i) = left.iter().rposition(|n| n.after.iter().all(|a| done.iter().any(|d| d.handle == *a)))
    {
        done.push(left.remove(i));
    }
    done
}

exports! {
    fn cuGraphCreate(graph: *mut usize, flags: u32) {
        state().current()?;
        if flags != 0 {
            return Err(error::INVALID_VALUE);
        }
        // SAFETY: the caller gives a place.
        unsafe { give(graph, state().keep(Object::Graph(Arc::default()))) }
    }
    fn cuGraphDestroy(graph: usize) {
        state().current()?;
        state().remove(graph, |o| matches!(o, Object::Graph(_))).map(drop)
    }
    fn cuGraphAddKernelNode(node: *mut usize, graph: usize, after: *const usize, count: usize, kernel: *const KernelNode) {
        let graph = graph_of(graph)?;
        let mut graph = lock(&graph);
        // SAFETY: the caller describes a launch.
        let launch = Arc::new(unsafe { launch_of(kernel) }?);
        // SAFETY: the caller gives as many nodes as it says.
        let after: Vec<usize> = (0..count).map(|i| unsafe { *after.add(i) }).collect();
        if !after.iter().all(|a| graph.nodes.iter().any(|n| n.handle == *a)) {
            return Err(error::INVALID_VALUE);
        }
        let handle = NODES.fetch_add(8, Relaxed);
        graph.nodes.push(Node { handle, after, launch, is_enabled: true, is_early: false });
        // SAFETY: the caller gives a place.
        unsafe { give(node, handle) }
    }
    fn cuGraphAddDependencies_v2(graph: usize, from: *const usize, to: *const usize, edges: *const Edge, count: usize) {
        let graph = graph_of(graph)?;
        let mut graph = lock(&graph);
        for i in 0..count {
            // SAFETY: the caller gives as many nodes and edges as it says.
            let (from, to, edge) = unsafe { (*from.add(i), *to.add(i), edges.add(i).as_ref()) };
            let edge = edge.ok_or(error::INVALID_VALUE)?;
            let is_early = match (edge.from_port, edge.to_port, edge.kind, edge.reserved) {
                (0, 0, 0, [0, 0, 0, 0, 0]) => false,
                (PROGRAMMATIC, 0, PROGRAMMATIC, [0, 0, 0, 0, 0]) => true,
                _ => return Err(error::INVALID_VALUE),
            };
            if !graph.nodes.iter().any(|n| n.handle == from) {
                return Err(error::INVALID_VALUE);
            }
            let node = graph.nodes.iter_mut().find(|n| n.handle == to).ok_or(error::INVALID_VALUE)?;
            // on a device it would read what is not there yet
            if is_early && !node.launch.program.waits_first() {
                return Err(error::INVALID_VALUE);
            }
            node.after.push(from);
            node.is_early |= is_early;
        }
        Ok(())
    }
    fn cuGraphInstantiateWithFlags(exec: *mut usize, graph: usize, flags: u64) {
        let device = state().current()?;
        if flags != 0 {
            return Err(error::NOT_SUPPORTED);
        }
        let nodes = lock(&*graph_of(graph)?).nodes.clone();
        let made = Exec { device, nodes };
        // SAFETY: the caller gives a place.
        unsafe { give(exec, state().keep(Object::Exec(Arc::new(Mutex::new(made))))) }
    }
    fn cuGraphExecKernelNodeSetParams(exec: usize, node: usize, kernel: *const KernelNode) {
        let exec = exec_of(exec)?;
        let mut exec = lock(&exec);
        // SAFETY: the caller describes a launch.
        let launch = Arc::new(unsafe { launch_of(kernel) }?);
        let found = exec.nodes.iter_mut().find(|n| n.handle == node).ok_or(error::INVALID_VALUE)?;
        if found.is_early && !launch.program.waits_first() {
            return Err(error::INVALID_VALUE);
        }
        found.launch = launch;
        Ok(())
    }
    fn cuGraphNodeSetEnabled(exec: usize, node: usize, is_enabled: u32) {
        let exec = exec_of(exec)?;
        let mut exec = lock(&exec);
        // what a launch waits for that begins early, where the one before it is left out, is nowhere said
        if exec.nodes.iter().any(|n| n.is_early) {
            return Err(error::INVALID_VALUE);
        }
        let found = exec.nodes.iter_mut().find(|n| n.handle == node).ok_or(error::INVALID_VALUE)?;
        found.is_enabled = is_enabled != 0;
        Ok(())
    }
    fn cuGraphLaunch(exec: usize, stream: usize) {
        let (exec, stream) = (exec_of(exec)?, stream_of(stream)?);
        let exec = lock(&exec);
        if exec.device != stream.device {
            return Err(error::INVALID_VALUE);
        }
        let launches = ordered(&exec.nodes).into_iter().filter(|n| n.is_enabled).map(|n| Launch::clone(&n.launch));
        stream.push(Command::Launches(launches.collect()));
        Ok(())
    }
    fn cuGraphExecDestroy(exec: usize) {
        state().current()?;
        state().remove(exec, |o| matches!(o, Object::Exec(_))).map(drop)
    }
}
