//! Failures on demand.

use crate::driver::{Gpu, alloc, call, free};

#[test]
fn the_nth_call_fails_and_no_other() {
    let gpu = Gpu::new();
    frit_mock::fail_at(2, 999);
    assert_eq!(gpu.wait(), 0);
    assert_eq!(gpu.wait(), 999);
    assert_eq!(gpu.wait(), 0);
    let before = frit_mock::calls();
    gpu.wait();
    assert_eq!(frit_mock::calls(), before + 1);
}

#[test]
fn memory_runs_out() {
    let _gpu = Gpu::new();
    let (mut free_bytes, mut total, mut at) = (0, 0, 0);
    let info = |free: &mut usize, total: &mut usize| call!("cuMemGetInfo_v2", free => *mut usize, total => *mut usize);
    assert_eq!(info(&mut free_bytes, &mut total), 0);
    let used = total - free_bytes;
    frit_mock::set_memory(used + 1000);
    let held = alloc(600);
    assert_eq!(call!("cuMemAlloc_v2", &mut at => *mut u64, 600 => usize), 2);
    assert_eq!(info(&mut free_bytes, &mut total), 0);
    assert_eq!((free_bytes, total), (400, used + 1000));
    free(held);
    free(alloc(1000));
    frit_mock::set_memory(8 << 30);
}

#[test]
fn a_lost_device_stays_lost_and_others_live() {
    let gpu = Gpu::new();
    frit_mock::fail_at(1, 719);
    assert_eq!(gpu.wait(), 719);
    assert_eq!(gpu.wait(), 719);
    let mut context = 0;
    assert_eq!(call!("cuDevicePrimaryCtxRetain", &mut context => *mut usize, 1 => i32), 0);
    assert_eq!(call!("cuCtxSetCurrent", context => usize), 0);
    free(alloc(16));
    frit_mock::repair(0);
}

#[test]
fn what_is_left_is_counted() {
    let _gpu = Gpu::new();
    let count = |kind: &str| frit_mock::live().get(kind).copied().unwrap_or(0);
    let before = count("device memory");
    let at = alloc(16);
    assert_eq!(count("device memory"), before + 1);
    free(at);
    assert_eq!(count("device memory"), before);
    assert!(count("stream") > 0);
}

#[test]
fn handles_of_nothing_are_refused() {
    let gpu = Gpu::new();
    assert_eq!(call!("cuStreamSynchronize", 0 => usize), 801);
    assert_eq!(call!("cuStreamSynchronize", 0x7777_7777 => usize), 400);
    assert_eq!(call!("cuEventSynchronize", gpu.stream => usize), 400);
    assert_eq!(call!("cuMemFree_v2", 12345 => u64), 1);
    assert!(frit_mock::find("cuSomethingElse").is_none());
}

#[test]
fn what_gives_back_does_so_whatever_it_returns() {
    let _gpu = Gpu::new();
    let before = frit_mock::live();
    let at = alloc(16);
    frit_mock::fail_at(1, 1);
    assert_eq!(call!("cuMemFree_v2", at => u64), 1);
    assert_eq!(frit_mock::live(), before);
}
