//! How fast the interpreter is: lanes times instructions a second on one core, all checks on.

use crate::driver::{Gpu, kernel};
use frit_mock::Totals;

/// Seconds that this process has computed: other work of the machine is not ours to measure.
fn seconds() -> f64 {
    let mut t = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the place is valid for the call.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut t) };
    t.tv_sec as f64 + t.tv_nsec as f64 / 1e9
}

/// Loads, arithmetic and stores in the proportions of a fused elementwise kernel, in a loop.
const CHAIN: &str = "mov.b32 %r2, 0;\nmad.lo.s32 %r3, %r1, 256, %r0;\nmad.wide.s32 %d2, %r3, 16, %d0;\nmad.wide.s32 %d3, %r3, 16, %d1;\n$L:\n\
    ld.global.v4.b32 {%r4, %r5, %r6, %r7}, [%d2];\nfma.rn.f32 %r4, %r4, 0f3F000000, 0f3F800000;\nfma.rn.f32 %r5, %r5, 0f3F000000, 0f3F800000;\n\
    add.rn.f32 %r6, %r6, %r4;\nmul.rn.f32 %r7, %r7, %r5;\nmax.NaN.f32 %r4, %r4, %r6;\nadd.s32 %r8, %r2, 7;\nand.b32 %r8, %r8, 255;\n\
    setp.lt.f32 %p1, %r4, %r5;\nselp.b32 %r4, %r4, %r5, %p1;\nst.global.v4.b32 [%d3], {%r4, %r5, %r6, %r7};\n\
    add.s32 %r2, %r2, 1;\nsetp.lt.s32 %p0, %r2, 64;\n@%p0 bra $L;";
/// A tile in shared memory that lanes exchange through.
const SHARED: &str = "mov.b32 %r2, 0;\nmov.b32 %r3, local;\nmad.lo.s32 %r4, %r0, 4, %r3;\nxor.b32 %r5, %r0, 37;\nmad.lo.s32 %r5, %r5, 4, %r3;\n$L:\n\
    st.shared.b32 [%r4], %r2;\nbar.sync 0;\nld.shared.b32 %r6, [%r5];\nbar.sync 0;\nadd.s32 %r2, %r2, 1;\nsetp.lt.s32 %p0, %r2, 64;\n@%p0 bra $L;";

fn rate(gpu: &Gpu, body: &str, args: &[u64]) -> f64 {
    let f = kernel(args.len(), body);
    gpu.wait();
    let (from, begin) = (Totals::get().lane_instructions, seconds());
    assert_eq!(gpu.launch(f, 64, 256, args), 0);
    assert_eq!(gpu.wait(), 0, "{:?}", frit_mock::fault(0));
    (Totals::get().lane_instructions - from) as f64 / (seconds() - begin) / 1e6
}

#[test]
fn fifty_million_lane_instructions_a_second() {
    let gpu = Gpu::new();
    frit_mock::set_threads(1);
    let (a, b) = (gpu.words(&vec![0x3f80_0000; 64 * 256 * 4]), gpu.words(&vec![0; 64 * 256 * 4]));
    let best = |body: &str, args: &[u64]| (0..3).map(|_| rate(&gpu, body, args)).fold(0.0, f64::max);
    let (chain, shared) = (best(CHAIN, &[a, b]), best(SHARED, &[]));
    println!("elementwise {chain:.0}, shared memory {shared:.0} million lane-instructions a second");
    frit_mock::set_threads(2);
    assert!(chain > 50.0 && shared > 50.0, "{chain:.0}, {shared:.0}");
}
