//! What a kernel must not do is found out.

use crate::driver::{Gpu, INVALID_PTX, alloc, assemble, free, text};

const ILLEGAL: i32 = 700;
const MISALIGNED: i32 = 716;
const FAILED: i32 = 719;

#[test]
fn accesses_outside_of_memory_are_faults() {
    let gpu = Gpu::new();
    let at = gpu.words(&[0; 32]);
    gpu.expect_fine("mad.wide.s32 %d2, %r0, 4, %d0;\nld.global.b32 %r2, [%d2];", 1, 32, &[at]);
    let beyond = "mad.wide.s32 %d2, %r0, 4, %d0;\nld.global.b32 %r2, [%d2];";
    gpu.expect_fault(beyond, 1, 33, &[at], ILLEGAL, "lane [32, 0, 0]: 4 bytes at");
    gpu.expect_fault("st.global.b32 [%d0+-4], %r0;", 1, 1, &[at], ILLEGAL, "where nothing is");
    gpu.expect_fault(
        "ld.global.b64 %d2, [%d0+120];\nld.global.b64 %d2, [%d0+128];",
        1,
        1,
        &[at],
        ILLEGAL,
        "0 bytes after the end of 128 bytes",
    );
    gpu.expect_fault("st.global.b32 [%d0], %r0;", 1, 1, &[0], ILLEGAL, "at 0x0, where nothing is");
    free(at);
    gpu.expect_fault(
        "ld.global.b32 %r2, [%d0+4];",
        1,
        1,
        &[at],
        ILLEGAL,
        "4 bytes into 128 bytes that were freed",
    );
}

#[test]
fn accesses_off_their_alignment_are_faults() {
    let gpu = Gpu::new();
    let at = gpu.words(&[0; 32]);
    gpu.expect_fine("ld.global.v4.b32 {%r2, %r3, %r4, %r5}, [%d0+16];", 1, 1, &[at]);
    gpu.expect_fault(
        "ld.global.v4.b32 {%r2, %r3, %r4, %r5}, [%d0+8];",
        1,
        1,
        &[at],
        MISALIGNED,
        "16 bytes at",
    );
    gpu.expect_fault("st.global.b16 [%d0+1], %h0;", 1, 1, &[at], MISALIGNED, "2 bytes at");
    gpu.expect_fault(
        "mov.b32 %r2, local;\nst.shared.b64 [%r2+4], %d0;",
        1,
        1,
        &[at],
        MISALIGNED,
        "of shared memory",
    );
}

#[test]
fn memory_that_was_never_written_is_not_read() {
    let gpu = Gpu::new();
    let at = alloc(64);
    gpu.expect_fault("ld.global.b32 %r2, [%d0];", 1, 1, &[at], ILLEGAL, "never written");
    gpu.expect_fine("st.global.b32 [%d0], %r0;\nld.global.b32 %r2, [%d0];", 1, 1, &[at]);
    gpu.expect_fault("ld.global.b64 %d2, [%d0];", 1, 1, &[at], ILLEGAL, "never written");
    gpu.expect_fault("mov.b32 %r2, local;\nld.shared.b32 %r3, [%r2];", 1, 1, &[], ILLEGAL, "never written");
    // what one block leaves in shared memory is not there for the next
    let left = "mov.b32 %r2, local;\nsetp.eq.s32 %p0, %r1, 0;\n@%p0 st.shared.b32 [%r2], %r0;\nld.shared.b32 %r3, [%r2];";
    gpu.expect_fault(left, 2, 1, &[], ILLEGAL, "block [1, 0, 0]");
}

/// Lane i writes word i, and reads that of the lane `xor` a distance.
fn exchange(between: &str, distance: u32) -> String {
    format!(
        "mov.b32 %r2, local;\nmad.lo.s32 %r3, %r0, 4, %r2;\nst.shared.b32 [%r3], %r0;\n{between}\nxor.b32 %r4, %r0, {distance};\n\
         mad.lo.s32 %r4, %r4, 4, %r2;\nld.shared.b32 %r5, [%r4];"
    )
}

#[test]
fn lanes_that_share_memory_without_a_barrier_race() {
    let gpu = Gpu::new();
    gpu.expect_fine(&exchange("bar.sync 0;", 33), 3, 128, &[]);
    gpu.expect_fine(&exchange("", 0), 1, 128, &[]);
    gpu.expect_fault(
        &exchange("", 1),
        1,
        32,
        &[],
        ILLEGAL,
        "a race: bytes 4..8 of shared memory, which lane 1",
    );
    // the other warp has not come so far
    gpu.expect_fault(&exchange("", 32), 1, 64, &[], ILLEGAL, "never written");
    let late = "mov.b32 %r2, local;\nsetp.lt.s32 %p0, 31, %r0;\n@%p0 bra $E;\nmad.lo.s32 %r3, %r0, 4, %r2;\n\
        st.shared.b32 [%r3], %r0;\nret;\n$E:\nmad.lo.s32 %r3, %r0, 4, %r2;\nld.shared.b32 %r4, [%r3+-128];";
    gpu.expect_fault(
        late,
        1,
        64,
        &[],
        ILLEGAL,
        "lane [32, 0, 0]: a race: bytes 0..4 of shared memory, which lane 0",
    );
    let one_place = "mov.b32 %r2, local;\nst.shared.b32 [%r2], %r0;";
    gpu.expect_fault(one_place, 1, 2, &[], ILLEGAL, "lane [1, 0, 0]: a race");
    // read, then written by another
    let after = exchange("bar.sync 0;", 1) + "\nst.shared.b32 [%r3], %r5;";
    gpu.expect_fault(&after, 1, 32, &[], ILLEGAL, "read, with no barrier between");
    gpu.expect_fine(&(exchange("bar.sync 0;", 1) + "\nbar.sync 0;\nst.shared.b32 [%r3], %r5;"), 1, 32, &[]);
    // bytes side by side are no race
    gpu.expect_fine("mov.b32 %r2, local;\nadd.s32 %r3, %r2, %r0;\nst.shared.u8 [%r3], %r0;", 1, 64, &[]);
}

#[test]
fn blocks_that_share_bytes_race() {
    let gpu = Gpu::new();
    frit_mock::set_threads(1);
    let at = gpu.words(&[0; 64]);
    let own = "mad.wide.s32 %d2, %r1, 4, %d0;\nst.global.b32 [%d2], %r1;\nld.global.b32 %r2, [%d2];";
    gpu.expect_fine(own, 64, 1, &[at]);
    gpu.expect_fine("mad.wide.s32 %d2, %r1, 1, %d0;\nst.global.u8 [%d2], %r1;", 64, 1, &[at]);
    gpu.expect_fine("ld.global.b32 %r2, [%d0];", 64, 32, &[at]);
    gpu.expect_fault(
        "st.global.b32 [%d0], %r1;",
        2,
        1,
        &[at],
        ILLEGAL,
        "a race: block [0, 0, 0] wrote byte 0",
    );
    let neighbour = format!("{own}\nld.global.b32 %r2, [%d0];");
    gpu.expect_fault(&neighbour, 3, 1, &[at], ILLEGAL, "a race: block [0, 0, 0] wrote");
    let last_writes =
        "setp.eq.s32 %p0, %r1, 2;\n@%p0 st.global.b32 [%d0], %r1;\n@!%p0 ld.global.b32 %r2, [%d0];";
    gpu.expect_fault(last_writes, 3, 1, &[at], ILLEGAL, "a race: several blocks read");
    // lanes of one block
    gpu.expect_fault(
        "st.global.b32 [%d0], %r0;",
        1,
        2,
        &[at],
        ILLEGAL,
        "a race: lane 0 of the block wrote byte 0",
    );
    let turn = |between: &str| {
        format!(
            "mad.wide.s32 %d2, %r0, 4, %d0;\nxor.b32 %r2, %r0, 1;\nmad.wide.s32 %d3, %r2, 4, %d0;\nld.global.b32 %r3, [%d3];\n\
             {between}\nst.global.b32 [%d2], %r3;"
        )
    };
    gpu.expect_fine(&turn("bar.sync 0;"), 1, 64, &[at]);
    gpu.expect_fault(
        &turn(""),
        1,
        64,
        &[at],
        ILLEGAL,
        "of the block read byte 0 of the buffer, with no barrier",
    );
    frit_mock::set_race_checks(false);
    gpu.expect_fine("st.global.b32 [%d0], %r1;", 2, 1, &[at]);
    frit_mock::set_threads(2);
}

#[test]
fn barriers_are_for_all_lanes() {
    let gpu = Gpu::new();
    let half = "setp.lt.s32 %p0, %r0, 16;\n@!%p0 bra $E;\nbar.sync 0;\n$E:\nadd.s32 %r2, %r0, 1;";
    gpu.expect_fault(
        half,
        1,
        32,
        &[],
        FAILED,
        "lanes 0xffff of a warp are at a barrier, lanes 0xffff0000 are not",
    );
    // of different warps
    let warps = "setp.lt.s32 %p0, %r0, 32;\n@%p0 bra $E;\nbar.sync 0;\nret;\n$E:\nbar.sync 0;";
    gpu.expect_fault(warps, 1, 64, &[], FAILED, "barriers of different lines");
    // lanes that have returned do not count
    gpu.expect_fine("setp.lt.s32 %p0, %r0, 16;\n@%p0 ret;\nbar.sync 0;", 1, 64, &[]);
}

#[test]
fn lanes_that_part_meet_again() {
    let gpu = Gpu::new();
    let at = gpu.words(&[0; 64]);
    // a loop that lanes leave one by one, with a branch inside, then a shuffle of all
    let body = "mov.b32 %r2, 0;\nmov.b32 %r3, 0;\n$L:\nand.b32 %r4, %r2, 1;\nsetp.eq.s32 %p0, %r4, 0;\n@%p0 bra $E;\n\
        add.s32 %r3, %r3, 100;\n$E:\nadd.s32 %r3, %r3, 1;\nadd.s32 %r2, %r2, 1;\nsetp.lt.s32 %p1, %r2, %r0;\n@%p1 bra $L;\n\
        shfl.sync.bfly.b32 %r5, %r3, 1, 31, -1;\nmad.wide.s32 %d2, %r0, 8, %d0;\nst.global.v2.b32 [%d2], {%r3, %r5};";
    gpu.expect_fine(body, 1, 32, &[at]);
    let of = |lane: u32| (0..lane.max(1)).map(|i| 1 + 100 * (i % 2)).sum::<u32>();
    let expected: Vec<u32> = (0..32).flat_map(|l| [of(l), of(l ^ 1)]).collect();
    assert_eq!(gpu.read(at, 64), expected);
}

#[test]
fn quotients_that_are_not_there_are_faults() {
    let gpu = Gpu::new();
    gpu.expect_fault("div.u32 %r2, 7, %r0;", 1, 32, &[], FAILED, "lane [0, 0, 0]: a quotient");
    gpu.expect_fine("setp.lt.s32 %p0, 0, %r0;\n@%p0 div.u32 %r2, 7, %r0;", 1, 32, &[]);
    gpu.expect_fault("mov.b32 %r2, 0x80000000;\ndiv.s32 %r2, %r2, -1;", 1, 1, &[], FAILED, "a quotient");
}

#[test]
fn texts_beyond_what_is_known_are_refused() {
    let _gpu = Gpu::new();
    let refused = |body: &str| assemble(&text(1, body)).expect_err(body);
    for (body, says) in [
        ("add.u32 %r2, %r0, 1;", "line 14; error: unknown instruction 'add.u32'"),
        ("add.f32 %r2, %r0, %r1;", "unknown instruction"),
        ("ld.global.nc.b32 %r2, [%d0];", "unknown instruction"),
        ("add.s32 %r2, %d0, 1;", "%d0 is of Long, Word is wanted"),
        ("add.s32 %r2, %r99, 1;", "'%r99'"),
        ("add.s32 %r2, %r0, 4294967296;", "does not fit 32 bits"),
        ("add.rn.f32 %r2, %r0, 1;", "where a float is wanted"),
        ("add.rn.f16 %h2, %h0, 1;", "where a register is wanted"),
        ("bra $nowhere;", "unknown label '$nowhere'"),
        ("bar.sync 1;", "barrier 1"),
        ("add.s32 %r2, %r0;", "',' is wanted, not ';'"),
        ("add.s32 %r2, %r0, 1, 2;", "';' is wanted, not ','"),
    ] {
        let (code, said) = refused(body);
        assert_eq!(code, INVALID_PTX);
        assert!(said.contains(says), "{said:?} does not say {says:?}");
    }
}
