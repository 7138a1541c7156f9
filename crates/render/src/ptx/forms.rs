//! Every instruction that may be written: what an interpreter of our PTX must know, and nothing else.
//!
//! `d` is the result, `a b c` the operands from the left: registers of the size of the type, or constants. Before any of them
//! but a label may stand `@%p` or `@!%p`, which skips it where the predicate does not hold.

use frit_abi::sync::LazyLock;

/// Instructions, and what they do.
#[rustfmt::skip]
pub const FORMS: &[(&str, &str)] = &[
    // parameters and places
    ("ld.param.b32 ld.param.b64",                            "d = [name]"),
    ("cvta.to.global.u64",                                   "d = the address a in global memory"),
    ("mad.wide.s32",                                         "d (64 bits) = a * b + c, a and b of 32 bits, c of 64"),
    // memory; vectors are {d0, d1, ..}, places [a], [a+offset]
    ("ld.global.u8 ld.global.s8 ld.global.u16 ld.global.s16",                        "d (32 bits) = what is there, extended"),
    ("ld.global.b16 ld.global.b32 ld.global.b64",                                    "d = what is there"),
    ("ld.global.v2.b32 ld.global.v4.b32 ld.global.v2.b64",                           "d0, d1, .. = what is there, side by side"),
    ("st.global.u8 st.global.s8 st.global.u16 st.global.s16",                        "the low bits of a go there"),
    ("st.global.b16 st.global.b32 st.global.b64",                                    "a goes there"),
    ("st.global.v2.b32 st.global.v4.b32 st.global.v2.b64",                           "a0, a1, .. go there, side by side"),
    ("ld.shared.u8 ld.shared.s8 ld.shared.u16 ld.shared.s16",                        "the same in shared memory; addresses have 32 bits"),
    ("ld.shared.b16 ld.shared.b32 ld.shared.b64",                                    ""),
    ("ld.shared.v2.b32 ld.shared.v4.b32 ld.shared.v2.b64",                           ""),
    ("st.shared.u8 st.shared.s8 st.shared.u16 st.shared.s16",                        ""),
    ("st.shared.b16 st.shared.b32 st.shared.b64",                                    ""),
    ("st.shared.v2.b32 st.shared.v4.b32 st.shared.v2.b64",                           ""),
    // copies from global to shared memory, by [d], [a], bytes and as a register how many of them are read (the others are zeros)
    ("cp.async.ca.shared.global cp.async.cg.shared.global",  "what is at a goes to d in the background"),
    ("cp.async.commit_group",                                "the lane's copies since the last one are a group"),
    ("cp.async.wait_group",                                  "all of the lane's groups but the last a are there"),
    // matrices; all lanes of the warp come here
    ("ldmatrix.sync.aligned.m8n8.x2.shared.b16 ldmatrix.sync.aligned.m8n8.x4.shared.b16", "8 rows of 16 bytes a matrix, row l mod 8 of matrix l / 8 at lane l's a: d0, .. = word l mod 4 of row l / 4 of each"),
    ("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16", "halves 2 (l mod 4) and the next of column l / 4"),
    ("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32", "d = a b + c: d, c of 4 registers, a of 4, b of 2"),
    ("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 mma.sync.aligned.m16n8k32.row.col.s32.s8.u8.s32", "the same on bytes"),
    ("mma.sync.aligned.m16n8k32.row.col.s32.u8.s8.s32 mma.sync.aligned.m16n8k32.row.col.s32.u8.u8.s32", ""),
    ("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32",   "the same on float32 of ten bits of fraction"),
    ("cvt.rna.tf32.f32",                                     "d = a to ten bits of fraction, ties away from zero"),
    // moves; mov.b32 also from %tid.x, %ctaid.x (y, z), from the name of shared memory, and from and to {low, high} of 16 bits
    ("mov.pred mov.b16 mov.b32 mov.b64",                     "d = a"),
    ("selp.b16 selp.b32 selp.b64",                           "d = a if the predicate c holds, else b"),
    ("bfe.u32 bfe.s32",                                      "d = c bits of a from bit b on, extended by zeros or their sign"),
    ("bfi.b32",                                              "d = b with len bits from bit c on replaced by the low ones of a (d, a, b, c, len)"),
    // predicates
    ("and.pred or.pred xor.pred",                            "d = a op b"),
    ("not.pred",                                             "d = not a"),
    ("setp.lt.s32 setp.lt.u32 setp.lt.s64 setp.lt.u64",      "d = a < b"),
    ("setp.eq.s32 setp.eq.s64 setp.ne.s32 setp.ne.s64",      "d = a == b, a != b"),
    ("setp.lt.f32 setp.lt.f64 setp.eq.f32 setp.eq.f64 setp.ge.f32", "d = a op b, false for NaN"),
    ("setp.neu.f32 setp.neu.f64",                            "d = a != b, true for NaN"),
    ("setp.nan.f64",                                         "d = a or b is NaN"),
    // integers; they wrap
    ("add.s32 sub.s32 add.s64 sub.s64",                      "d = a op b"),
    ("mul.lo.s32 mul.lo.s64",                                "d = a * b"),
    ("mad.lo.s32 mad.lo.s64",                                "d = a * b + c"),
    ("dp4a.u32.s32",                                         "d = c and the sum of the four bytes of a times those of b, which have signs"),
    ("div.s32 div.u32 div.s64 div.u64",                      "d = a / b, towards zero; b is not 0 and the quotient fits"),
    ("neg.s32 neg.s64",                                      "d = -a"),
    ("max.s32 max.u32 max.s64 max.u64 min.s32 min.u32 min.s64 min.u64", "the greater, the lesser"),
    ("and.b32 or.b32 xor.b32 and.b64 or.b64 xor.b64",        "d = a op b"),
    ("not.b32 not.b64",                                      "d = all bits of a turned"),
    ("shl.b32 shl.b64",                                      "d = a << b, b of 32 bits and less than the width"),
    ("shr.s32 shr.u32 shr.s64 shr.u64",                      "d = a >> b, with the sign or with zeros"),
    // floats: IEEE, to nearest even, subnormals kept
    ("add.rn.f32 sub.rn.f32 mul.rn.f32 div.rn.f32 add.rn.f64 sub.rn.f64 mul.rn.f64 div.rn.f64", "d = a op b"),
    ("fma.rn.f32 fma.rn.f64 fma.rn.f16 fma.rn.bf16 fma.rn.f16x2 fma.rn.bf16x2",                "d = a * b + c, rounded once"),
    ("rcp.rn.f32 rcp.rn.f64 sqrt.rn.f32 sqrt.rn.f64",        "d = 1 / a, the square root"),
    ("ex2.approx.f32 rcp.approx.ftz.f32",                    "d = 2 to the a, within 2 units in the last place; 1 / a, within 1, zero for what is subnormal"),
    ("neg.f32 neg.f64 neg.f16 neg.bf16 neg.f16x2 neg.bf16x2", "d = a with the other sign"),
    ("abs.f32",                                              "d = a without its sign"),
    ("max.NaN.f32 max.NaN.f16 max.NaN.bf16 max.NaN.f16x2 max.NaN.bf16x2", "the greater, NaN where one is; +0 is more than -0"),
    ("min.NaN.f32 min.NaN.f16 min.NaN.bf16 min.NaN.f16x2 min.NaN.bf16x2", "the lesser"),
    ("max.f64 min.f64",                                      "the same, but the number where one is NaN"),
    ("add.rn.f16 sub.rn.f16 mul.rn.f16 add.rn.f16x2 sub.rn.f16x2 mul.rn.f16x2", "d = a op b; x2: of both halves of 32 bits"),
    // rounding to whole numbers: towards zero, down, to nearest even
    ("cvt.rzi.f32.f32 cvt.rmi.f32.f32 cvt.rni.f32.f32 cvt.rzi.f64.f64 cvt.rmi.f64.f64 cvt.rni.f64.f64", "d = a rounded"),
    // conversions, d's type first
    ("cvt.s32.s8 cvt.s32.s16",                               "d = the low bits of a, with their sign"),
    ("cvt.u32.u16 cvt.u16.u32",                              "d = a extended by zeros; the low bits of a"),
    ("cvt.s64.s32 cvt.u64.u32 cvt.u32.u64",                  "d = a extended by its sign, by zeros; the low bits of a"),
    ("cvt.rn.f32.s32 cvt.rn.f32.u32 cvt.rn.f32.s64 cvt.rn.f32.u64", "d = a to nearest even"),
    ("cvt.rn.f64.s32 cvt.rn.f64.u32 cvt.rn.f64.s64 cvt.rn.f64.u64", "d = a to nearest even"),
    ("cvt.rzi.s32.f32 cvt.rzi.u32.f32 cvt.rzi.s64.f32 cvt.rzi.u64.f32", "d = a towards zero, saturated; NaN is 0 in 32 bits"),
    ("cvt.rzi.s32.f64 cvt.rzi.u32.f64 cvt.rzi.s64.f64 cvt.rzi.u64.f64", "d = a towards zero, saturated; nothing depends on NaN's"),
    ("cvt.f64.f32 cvt.rn.f32.f64",                           "d = a"),
    ("cvt.f32.f16 cvt.rn.f16.f32 cvt.rn.bf16.f32",           "d = a"),
    ("cvt.rn.f16x2.f32 cvt.rn.bf16x2.f32",                   "d = a in the high half, b in the low one"),
    // from sm_89 on: two 8-bit floats in 16 bits
    ("cvt.rn.f16x2.e4m3x2 cvt.rn.f16x2.e5m2x2",              "d = both of a"),
    ("cvt.rn.satfinite.e4m3x2.f32 cvt.rn.satfinite.e5m2x2.f32", "d = a in the high byte, b in the low one; at most the greatest number"),
    // control
    ("bra",                                                  "to a label"),
    ("shfl.sync.bfly.b32",                                   "d = a of the lane of the warp whose number differs in the bits b; c is 31, all lanes come here"),
    ("bar.sync",                                             "all lanes of the block come here; a is 0"),
    // from sm_90 on: launches of a queue that begin before the one before them has ended
    ("griddepcontrol.wait",                                  "waits until the launch before has ended and its stores are seen"),
    ("ret",                                                  "the lane is done"),
];

/// Whether an instruction is in the table.
pub fn is_known(form: &str) -> bool {
    static ALL: LazyLock<rustc_hash::FxHashSet<&str>> =
        LazyLock::new(|| FORMS.iter().flat_map(|(forms, _)| forms.split(' ')).collect());
    ALL.contains(form)
}
