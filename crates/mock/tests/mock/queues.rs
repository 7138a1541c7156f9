//! Queues, events, graphs, pinned memory, several devices.

use crate::driver::{Gpu, KernelNode, alloc, call, free, kernel, stream};
use frit_mock::Pace;
use std::ffi::c_void;
use std::time::Duration;

/// Word i of the second buffer = word i of the first + 1.
const NEXT: &str = "mad.wide.s32 %d4, %r0, 4, %d0;\nmad.wide.s32 %d5, %r0, 4, %d1;\nld.global.b32 %r2, [%d4];\n\
    add.s32 %r2, %r2, 1;\nst.global.b32 [%d5], %r2;";

fn event(flags: u32) -> usize {
    let mut event = 0;
    assert_eq!(call!("cuEventCreate", &mut event => *mut usize, flags => u32), 0);
    event
}

#[test]
fn queues_run_apart_and_in_order() {
    let gpu = Gpu::new();
    let (a, b, f) = (gpu.words(&[1, 2, 3, 4]), alloc(16), kernel(2, NEXT));
    for pace in [Pace::Eager, Pace::Late, Pace::Slow(Duration::from_millis(1))] {
        frit_mock::set_pace(pace);
        for _ in 0..5 {
            assert_eq!(gpu.launch(f, 1, 4, &[a, b]), 0);
            assert_eq!(gpu.launch(f, 1, 4, &[b, a]), 0);
        }
    }
    assert_eq!(gpu.read(a, 4), [31, 32, 33, 34]);
}

#[test]
fn a_late_queue_does_nothing_until_someone_waits() {
    let gpu = Gpu::new();
    let (a, b, f) = (gpu.words(&[1; 4]), gpu.words(&[0; 4]), kernel(2, NEXT));
    assert_eq!(gpu.wait(), 0);
    frit_mock::set_pace(Pace::Late);
    let mut host = std::ptr::null_mut::<c_void>();
    assert_eq!(call!("cuMemHostAlloc", &mut host => *mut *mut c_void, 16 => usize, 3 => u32), 0);
    let word = host.cast::<u32>();
    assert_eq!(gpu.launch(f, 1, 4, &[a, b]), 0);
    assert_eq!(
        call!("cuMemcpyDtoHAsync_v2", host => *mut c_void, b => u64, 16 => usize, gpu.stream => usize),
        0
    );
    std::thread::sleep(Duration::from_millis(20));
    // SAFETY: pinned memory of 16 bytes.
    assert_eq!(unsafe { word.read_volatile() }, 0);
    assert_eq!(gpu.wait(), 0);
    // SAFETY: as above.
    assert_eq!(unsafe { word.read_volatile() }, 2);
    // a kernel writes pinned memory by the host's address, many blocks to one word
    assert_eq!(gpu.launch(kernel(1, "st.global.b32 [%d0], 7;"), 8, 32, &[host as u64]), 0);
    assert_eq!(gpu.wait(), 0);
    // SAFETY: as above.
    assert_eq!(unsafe { word.read_volatile() }, 7);
    assert_eq!(call!("cuMemFreeHost", host => *mut c_void), 0);
}

#[test]
fn events_order_queues_and_measure_time() {
    let gpu = Gpu::new();
    let (other, ready) = (stream(), event(2));
    let (a, b, f) = (gpu.words(&[1; 4]), alloc(16), kernel(2, NEXT));
    assert_eq!(gpu.wait(), 0);
    frit_mock::set_pace(Pace::Late);
    assert_eq!(gpu.launch(f, 1, 4, &[a, b]), 0);
    assert_eq!(call!("cuEventRecord", ready => usize, gpu.stream => usize), 0);
    assert_eq!(call!("cuStreamWaitEvent", other => usize, ready => usize, 0 => u32), 0);
    let c = alloc(16);
    assert_eq!(call!("cuMemcpyDtoDAsync_v2", c => u64, b => u64, 16 => usize, other => usize), 0);
    assert_eq!(call!("cuStreamSynchronize", other => usize), 0);
    frit_mock::set_pace(Pace::Slow(Duration::from_millis(2)));
    assert_eq!(gpu.read(c, 4), [2; 4]);
    let (from, to) = (event(0), event(0));
    let mut ms = 0.0;
    let between = |ms: &mut f32| call!("cuEventElapsedTime", ms => *mut f32, from => usize, to => usize);
    assert_eq!(between(&mut ms), 400);
    assert_eq!(call!("cuEventRecord", from => usize, gpu.stream => usize), 0);
    assert_eq!(gpu.launch(f, 1, 4, &[a, b]), 0);
    assert_eq!(call!("cuEventRecord", to => usize, gpu.stream => usize), 0);
    assert_eq!(between(&mut ms), 600);
    assert_eq!(call!("cuEventSynchronize", to => usize), 0);
    assert_eq!(between(&mut ms), 0);
    assert!((4.0..1000.0).contains(&ms), "{ms}");
}

#[test]
fn graphs_run_with_new_arguments_and_without_disabled_nodes() {
    let gpu = Gpu::new();
    let (a, b, c, f) = (gpu.words(&[1; 4]), gpu.words(&[0; 4]), gpu.words(&[0; 4]), kernel(2, NEXT));
    let mut graph = 0;
    assert_eq!(call!("cuGraphCreate", &mut graph => *mut usize, 0 => u32), 0);
    let node_of = |args: &[u64; 2], run: &mut dyn FnMut(*const KernelNode) -> i32| {
        let params = [std::ptr::from_ref(&args[0]).cast(), std::ptr::from_ref(&args[1]).cast()];
        let node = KernelNode {
            function: f,
            grid: [1; 3],
            block: [4, 1, 1],
            shared_bytes: 0,
            params: params.as_ptr(),
            extra: std::ptr::null(),
        };
        assert_eq!(run(&node), 0);
    };
    let mut nodes = [0usize; 2];
    node_of(
        &[a, b],
        &mut |k| call!("cuGraphAddKernelNode", &mut nodes[0] => *mut usize, graph => usize, std::ptr::null() => *const usize, 0 => usize, k => *const KernelNode),
    );
    let first = nodes[0];
    node_of(
        &[b, c],
        &mut |k| call!("cuGraphAddKernelNode", &mut nodes[1] => *mut usize, graph => usize, &first => *const usize, 1 => usize, k => *const KernelNode),
    );
    let mut exec = 0;
    assert_eq!(call!("cuGraphInstantiateWithFlags", &mut exec => *mut usize, graph => usize, 0 => u64), 0);
    let run = || assert_eq!(call!("cuGraphLaunch", exec => usize, gpu.stream => usize), 0);
    run();
    assert_eq!(gpu.read(c, 4), [3; 4]);
    node_of(
        &[c, b],
        &mut |k| call!("cuGraphExecKernelNodeSetParams", exec => usize, nodes[0] => usize, k => *const KernelNode),
    );
    run();
    assert_eq!(gpu.read(c, 4), [5; 4]);
    assert_eq!(call!("cuGraphNodeSetEnabled", exec => usize, nodes[0] => usize, 0 => u32), 0);
    run();
    assert_eq!(gpu.read(c, 4), [5; 4]);
    assert_eq!(call!("cuGraphExecDestroy", exec => usize), 0);
    assert_eq!(call!("cuGraphDestroy", graph => usize), 0);
}

#[test]
fn only_launches_that_wait_first_begin_early() {
    let gpu = Gpu::new();
    let (a, b, c) = (gpu.words(&[1; 4]), gpu.words(&[0; 4]), gpu.words(&[0; 4]));
    let mut graph = 0;
    assert_eq!(call!("cuGraphCreate", &mut graph => *mut usize, 0 => u32), 0);
    let node = |function: usize, args: [u64; 2]| {
        let params = [std::ptr::from_ref(&args[0]).cast(), std::ptr::from_ref(&args[1]).cast()];
        let (grid, block, params) = ([1; 3], [4, 1, 1], params.as_ptr());
        let kernel = KernelNode { function, grid, block, shared_bytes: 0, params, extra: std::ptr::null() };
        let mut node = 0usize;
        let before = std::ptr::null();
        assert_eq!(
            call!("cuGraphAddKernelNode", &mut node => *mut usize, graph => usize, before => *const usize, 0 => usize, &kernel => *const KernelNode),
            0
        );
        node
    };
    let waits = kernel(2, &format!("griddepcontrol.wait;\n{NEXT}"));
    let nodes = [node(waits, [a, b]), node(waits, [b, c]), node(kernel(2, NEXT), [a, b])];
    let edge = |to: usize, kind: [u8; 8]| {
        let (from, to) = (nodes[0], nodes[to]);
        call!("cuGraphAddDependencies_v2", graph => usize, &from => *const usize, &to => *const usize, &kind => *const [u8; 8], 1 => usize)
    };
    let early = [1, 0, 1, 0, 0, 0, 0, 0];
    assert_eq!(edge(1, early), 0);
    assert_eq!(edge(2, early), 1);
    assert_eq!(edge(2, [1, 0, 0, 0, 0, 0, 0, 0]), 1);
    assert_eq!(edge(2, [0; 8]), 0);
    let mut exec = 0;
    assert_eq!(call!("cuGraphInstantiateWithFlags", &mut exec => *mut usize, graph => usize, 0 => u64), 0);
    assert_eq!(call!("cuGraphLaunch", exec => usize, gpu.stream => usize), 0);
    assert_eq!(gpu.read(c, 4), [3; 4]);
    assert_eq!(call!("cuGraphNodeSetEnabled", exec => usize, nodes[0] => usize, 0 => u32), 1);
    assert_eq!(call!("cuGraphExecDestroy", exec => usize), 0);
    assert_eq!(call!("cuGraphDestroy", graph => usize), 0);
}

#[test]
fn peers_copy_and_are_out_of_reach_until_allowed() {
    let gpu = Gpu::new();
    let mut contexts = [0usize; 2];
    for (device, context) in contexts.iter_mut().enumerate() {
        assert_eq!(call!("cuDevicePrimaryCtxRetain", context => *mut usize, device as i32 => i32), 0);
    }
    assert_eq!(call!("cuCtxSetCurrent", contexts[1] => usize), 0);
    let there = alloc(16);
    assert_eq!(call!("cuCtxSetCurrent", contexts[0] => usize), 0);
    let (here, back) = (gpu.words(&[1, 2, 3, 4]), alloc(16));
    let copy = |to: u64, t: usize, from: u64, f: usize| {
        assert_eq!(
            call!("cuMemcpyPeerAsync", to => u64, contexts[t] => usize, from => u64, contexts[f] => usize, 16 => usize, gpu.stream => usize),
            0
        );
    };
    copy(there, 1, here, 0);
    copy(back, 0, there, 1);
    assert_eq!(gpu.read(back, 4), [1, 2, 3, 4]);
    gpu.expect_fault("ld.global.b32 %r2, [%d0];", 1, 1, &[there], 700, "memory of device 1");
    assert_eq!(call!("cuCtxEnablePeerAccess", contexts[1] => usize, 0 => u32), 0);
    gpu.expect_fine("ld.global.b32 %r2, [%d0];", 1, 1, &[there]);
}

#[test]
fn memory_is_given_back_after_what_uses_it() {
    let gpu = Gpu::new();
    frit_mock::set_pace(Pace::Slow(Duration::from_millis(5)));
    let (a, b, f) = (gpu.words(&[1; 4]), alloc(16), kernel(2, NEXT));
    assert_eq!(gpu.launch(f, 1, 4, &[a, b]), 0);
    free(a);
    assert_eq!(gpu.read(b, 4), [2; 4]);
}

#[test]
fn memory_is_filled_in_its_turn_and_addresses_are_known() {
    let gpu = Gpu::new();
    let a = gpu.words(&[1; 4]);
    assert_eq!(call!("cuMemsetD8Async", a + 4 => u64, 7 => u8, 8 => usize, gpu.stream => usize), 0);
    assert_eq!(call!("cuCtxSynchronize",), 0);
    assert_eq!(gpu.read(a, 4), [1, 0x0707_0707, 0x0707_0707, 1]);
    assert_eq!(call!("cuMemsetD8Async", a + 4 => u64, 7 => u8, 16 => usize, gpu.stream => usize), 1);
    let (mut device, place) = (7i32, |d: &mut i32| std::ptr::from_mut(d).cast::<c_void>());
    assert_eq!(call!("cuPointerGetAttribute", place(&mut device) => *mut c_void, 9 => i32, a + 15 => u64), 0);
    assert_eq!(device, 0);
    assert_eq!(call!("cuPointerGetAttribute", place(&mut device) => *mut c_void, 9 => i32, a + 16 => u64), 1);
}
