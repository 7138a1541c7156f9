//! A kernel for each form: a lane reads its operands, performs the instruction, and writes the result.

use crate::ptx::forms::{self, Form};
use crate::run::regs::{Class, Kind};

/// A kernel that shows what a form does.
pub struct Snippet {
    /// The form, and after a `:` which use of it.
    pub name: String,
    /// Words of operands that it reads.
    pub operands: usize,
    /// What its operands are.
    pub kinds: Vec<Kind>,
    /// The text of its module.
    pub text: String,
}

/// Forms whose operands are not plain registers: the use of it, its operands, and its instructions.
#[rustfmt::skip]
const OTHERS: &[(&str, &[Kind], &str)] = &[
    ("mov.b32:split", &[Kind::Bits(32)], "
        ld.global.b32 %r1, [%d4];
        mov.b32 {%h0, %h1}, %r1;
        st.global.b16 [%d5], %h1;
        st.global.b16 [%d5+2], %h0;"),
    ("mov.b32:join", &[Kind::Bits(16); 2], "
        ld.global.b16 %h0, [%d4];
        ld.global.b16 %h1, [%d4+8];
        mov.b32 %r1, {%h0, %h1};
        st.global.b32 [%d5], %r1;"),
    ("mov.b32:ids", &[], "
        mov.b32 %r1, %ctaid.x;
        mov.b32 %r2, %tid.y;
        add.s32 %r1, %r1, %r2;
        mov.b32 %r2, %laneid;
        st.global.b32 [%d5], %r0;
        st.global.b32 [%d5+4], %r1;
        st.global.b32 [%d5+8], %r2;"),
    ("ld.param.b32", &[], "
        ld.param.b32 %r1, [n];
        st.global.b32 [%d5], %r1;"),
    ("ld.param.b64", &[], "
        ld.param.b64 %d6, [m];
        st.global.b64 [%d5], %d6;"),
    // a loop as long as the operand says, which lanes leave one by one
    ("bra", &[Kind::Bits(32)], "
        ld.global.b32 %r1, [%d4];
        and.b32 %r1, %r1, 15;
        mov.b32 %r2, 0;
        mov.b32 %r3, 1;
      $L0:
        mad.lo.s32 %r3, %r3, 3, %r2;
        add.s32 %r2, %r2, 1;
        setp.lt.u32 %p0, %r2, %r1;
        @%p0 bra $L0;
        setp.eq.s32 %p1, %r2, 4;
        @!%p1 bra $E0;
        add.s32 %r3, %r3, 1000;
      $E0:
        st.global.b32 [%d5], %r3;"),
    ("ret", &[Kind::Bits(32)], "
        ld.global.b32 %r1, [%d4];
        setp.lt.s32 %p0, %r1, 0;
        st.global.b32 [%d5], %r1;
        @%p0 ret;
        st.global.b32 [%d5+4], %r1;"),
    // the lane's neighbour in the other half of the block
    // one launch alone has none to wait for
    ("griddepcontrol.wait", &[Kind::Bits(32)], "
        griddepcontrol.wait;
        ld.global.b32 %r1, [%d4];
        st.global.b32 [%d5], %r1;"),
    ("bar.sync", &[Kind::Bits(32)], "
        ld.global.b32 %r1, [%d4];
        mov.b32 %r2, local;
        mad.lo.s32 %r3, %r0, 4, %r2;
        st.shared.b32 [%r3], %r1;
        bar.sync 0;
        xor.b32 %r4, %r0, 64;
        mad.lo.s32 %r4, %r4, 4, %r2;
        ld.shared.b32 %r5, [%r4];
        st.global.b32 [%d5], %r5;"),
    // copies of one word or more each, of which odd lanes read nothing
    ("cp.async.ca.shared.global:8", &[Kind::Bits(64)], "
        mov.b32 %r2, local;
        mad.lo.s32 %r3, %r0, 8, %r2;
        and.b32 %r4, %r0, 1;
        setp.eq.s32 %p0, %r4, 0;
        selp.b32 %r5, 8, 0, %p0;
        cp.async.ca.shared.global [%r3], [%d4], 8, %r5;
        cp.async.commit_group;
        cp.async.wait_group 0;
        ld.shared.b64 %d6, [%r3];
        st.global.b64 [%d5], %d6;"),
    ("cp.async.cg.shared.global", &[Kind::Bits(64); 2], "
        mov.b32 %r2, local;
        mad.lo.s32 %r3, %r0, 16, %r2;
        cp.async.cg.shared.global [%r3], [%d4], 16;
        cp.async.commit_group;
        cp.async.wait_group 0;
        bar.sync 0;
        xor.b32 %r4, %r0, 1;
        mad.lo.s32 %r4, %r4, 16, %r2;
        ld.shared.b64 %d6, [%r4];
        ld.shared.b64 %d7, [%r4+8];
        st.global.b64 [%d5], %d6;
        st.global.b64 [%d5+8], %d7;"),
    // two groups, of which the first is waited for
    ("cp.async.commit_group", &[Kind::Bits(64); 2], "
        mov.b32 %r2, local;
        mad.lo.s32 %r3, %r0, 16, %r2;
        cp.async.ca.shared.global [%r3], [%d4], 8;
        cp.async.commit_group;
        cp.async.ca.shared.global [%r3+8], [%d4+8], 8;
        cp.async.commit_group;
        cp.async.wait_group 1;
        ld.shared.b64 %d6, [%r3];
        st.global.b64 [%d5], %d6;
        cp.async.wait_group 0;
        ld.shared.b64 %d7, [%r3+8];
        st.global.b64 [%d5+8], %d7;"),
    ("cp.async.wait_group", &[Kind::Bits(32)], "
        mov.b32 %r2, local;
        mad.lo.s32 %r3, %r0, 4, %r2;
        cp.async.ca.shared.global [%r3], [%d4], 4;
        cp.async.commit_group;
        cp.async.wait_group 0;
        ld.shared.b32 %r1, [%r3];
        st.global.b32 [%d5], %r1;"),
];

/// One for each form, or more where it has several shapes.
pub fn all() -> Vec<Snippet> {
    let others = OTHERS.iter().map(|(name, kinds, body)| made(name, kinds.to_vec(), body));
    forms::all().map(computes).chain(accesses()).chain(others).chain(shuffles()).chain(matrices()).collect()
}

/// Matrices of what a warp has in shared memory, a row for each lane, and their products: whole numbers, whose sums are exact
/// in any order.
fn matrices() -> Vec<Snippet> {
    let mut all = vec![];
    for shape in ["x2", "x4", "x2.trans", "x4.trans"] {
        let count = if shape.starts_with("x2") { 2 } else { 4 };
        let regs: Vec<String> = (4..4 + count).map(|i| format!("%r{i}")).collect();
        let stores: Vec<String> =
            regs.iter().enumerate().map(|(i, r)| format!("st.global.b32 [%d5+{}], {r};", i * 4)).collect();
        let name = format!("ldmatrix.sync.aligned.m8n8.{shape}.shared.b16");
        let body = format!(
            "mov.b32 %r2, local;\n mad.lo.s32 %r3, %r0, 16, %r2;\n ld.global.b64 %d6, [%d4];\n ld.global.b64 %d7, [%d4+8];\n \
             st.shared.b64 [%r3], %d6;\n st.shared.b64 [%r3+8], %d7;\n bar.sync 0;\n \
             {name} {{{}}}, [%r3];\n {}",
            regs.join(", "),
            stores.join("\n ")
        );
        all.push(made(&name, vec![Kind::Bits(64); 2], &body));
    }
    // bytes of the operands, as whole numbers from -128 on where they have a sign
    let halves = |convert: &str, to: usize| {
        let bits =
            |from: usize, to: &str| format!("bfe.s32 %r14, %r15, {from}, 8;\n cvt.rn.f32.s32 {to}, %r14;\n ");
        format!("{}{}{convert} %r{to}, %r13, %r12;\n ", bits(0, "%r12"), bits(8, "%r13"))
    };
    let tf32 = |to: usize| format!("bfe.s32 %r14, %r15, 0, 8;\n cvt.rn.f32.s32 %r{to}, %r14;\n ");
    let bytes = |to: usize| format!("mov.b32 %r{to}, %r15;\n ");
    let mut product = |types: &str, begin: &dyn Fn(usize) -> String, added: String| {
        let mut body = String::new();
        for i in 0..6 {
            body += &format!("ld.global.b32 %r15, [%d4+{}];\n {}", i * 4, begin(i + 1));
        }
        let name = format!("mma.sync.aligned.m16n8{types}");
        body += &format!(
            "ld.global.b32 %r15, [%d4+24];\n {added}\
             {name} {{%r9, %r10, %r11, %r12}}, {{%r1, %r2, %r3, %r4}}, {{%r5, %r6}}, {{%r8, %r8, %r8, %r8}};\n \
             st.global.b32 [%d5], %r9;\n st.global.b32 [%d5+4], %r10;\n st.global.b32 [%d5+8], %r11;\n \
             st.global.b32 [%d5+12], %r12;"
        );
        all.push(made(&name, vec![Kind::Bits(64); 4], &body));
    };
    product("k16.row.col.f32.f16.f16.f32", &|to| halves("cvt.rn.f16x2.f32", to), tf32(8));
    product("k16.row.col.f32.bf16.bf16.f32", &|to| halves("cvt.rn.bf16x2.f32", to), tf32(8));
    product("k8.row.col.f32.tf32.tf32.f32", &tf32, tf32(8));
    for (a, b) in [("s8", "s8"), ("s8", "u8"), ("u8", "s8"), ("u8", "u8")] {
        product(&format!("k32.row.col.s32.{a}.{b}.s32"), &bytes, bytes(8));
    }
    all
}

/// Shuffles by a distance within a warp, and within 8 lanes.
fn shuffles() -> Vec<Snippet> {
    let mut all = vec![];
    for mode in ["bfly", "down", "up", "idx"] {
        // the last lane that counts, or for `up` the first
        let last = if mode == "up" { 0 } else { 31 };
        for (distance, bounds) in [(1, last), (16, last), (3, 0x1800 | last)] {
            let body = format!(
                "ld.global.b32 %r1, [%d4];\n shfl.sync.{mode}.b32 %r2, %r1, {distance}, {bounds}, -1;\n \
                 st.global.b32 [%d5], %r2;"
            );
            all.push(made(&format!("shfl.sync.{mode}.b32:{distance}"), vec![Kind::Bits(32)], &body));
        }
    }
    all
}

/// Around the instructions of a lane whose operands begin at %d4 and whose answers go to %d5.
fn made(name: &str, kinds: Vec<Kind>, body: &str) -> Snippet {
    let text = format!(
        ".version 8.1\n.target sm_90a\n.address_size 64\n\n.visible .entry snippet(\n  .param .u64 .ptr .global .align 16 given,\n  \
         .param .u64 .ptr .global .align 16 answers,\n  .param .s32 n,\n  .param .s64 m\n)\n{{\n \
         .reg .pred %p<8>;\n .reg .b16 %h<8>;\n .reg .b32 %r<16>;\n .reg .b64 %d<16>;\n .shared .align 16 .b8 local[4096];\n \
         mov.b32 %r0, %tid.x;\n ld.param.b64 %d0, [given];\n ld.param.b64 %d1, [answers];\n \
         cvta.to.global.u64 %d2, %d0;\n cvta.to.global.u64 %d3, %d1;\n \
         mad.wide.s32 %d4, %r0, 32, %d2;\n mad.wide.s32 %d5, %r0, 16, %d3;\n {body}\n ret;\n}}\n"
    );
    Snippet { name: name.into(), operands: kinds.len(), kinds, text }
}

/// The register of a class by its number.
fn reg(kind: Kind, i: usize) -> String {
    let letter = ["p", "h", "r", "d"][kind.class() as usize];
    format!("%{letter}{}", i + if kind.class() == Class::Long { 6 } else { 1 })
}

fn computes(form: &Form) -> Snippet {
    let mut body = String::new();
    for (i, kind) in form.from.iter().enumerate() {
        let (r, at) = (reg(*kind, i), 8 * i);
        body += &match kind.class() {
            Class::Pred => format!("ld.global.b32 %r{0}, [%d4+{at}];\n setp.ne.s32 {r}, %r{0}, 0;\n ", i + 8),
            Class::Half => format!("ld.global.b16 {r}, [%d4+{at}];\n "),
            Class::Word => format!("ld.global.b32 {r}, [%d4+{at}];\n "),
            Class::Long => format!("ld.global.b64 {r}, [%d4+{at}];\n "),
        };
    }
    let to = reg(form.to, 5);
    let from: Vec<String> = form.from.iter().enumerate().map(|(i, k)| reg(*k, i)).collect();
    body += &format!("{} {to}, {};\n ", form.name, from.join(", "));
    body += &match form.to.class() {
        Class::Pred => format!("selp.b32 %r12, 1, 0, {to};\n st.global.b32 [%d5], %r12;"),
        Class::Half => format!("st.global.b16 [%d5], {to};"),
        Class::Word => format!("st.global.b32 [%d5], {to};"),
        Class::Long => format!("st.global.b64 [%d5], {to};"),
    };
    made(form.name, form.from.to_vec(), &body)
}

/// Loads and stores of two words of operands.
fn accesses() -> Vec<Snippet> {
    let shapes = [
        ("u8", 1, "r"),
        ("s8", 1, "r"),
        ("u16", 1, "r"),
        ("s16", 1, "r"),
        ("b16", 1, "h"),
        ("b32", 1, "r"),
        ("b64", 1, "d"),
        ("v2.b32", 2, "r"),
        ("v4.b32", 4, "r"),
        ("v2.b64", 2, "d"),
    ];
    let mut all = vec![];
    for space in ["global", "shared"] {
        for (shape, count, letter) in shapes {
            let first = if letter == "d" { 8 } else { 1 };
            let regs: Vec<String> = (0..count).map(|i| format!("%{letter}{}", first + i)).collect();
            let list = if count == 1 { regs[0].clone() } else { format!("{{{}}}", regs.join(", ")) };
            let (bytes, bits) = match letter {
                "h" => (2, "b16"),
                "r" => (4, "b32"),
                _ => (8, "b64"),
            };
            let each = |verb: &str| -> String {
                let one = |(i, r): (usize, &String)| match verb {
                    "ld" => format!("ld.global.{bits} {r}, [%d4+{}];\n ", i * bytes),
                    _ => format!("st.global.{bits} [%d5+{}], {r};\n ", i * bytes),
                };
                regs.iter().enumerate().map(one).collect()
            };
            let place = "mov.b32 %r9, local;\n mad.lo.s32 %r10, %r0, 16, %r9;\n ld.global.b64 %d6, [%d4];\n ld.global.b64 %d7, [%d4+8];\n st.shared.b64 [%r10], %d6;\n st.shared.b64 [%r10+8], %d7;\n ";
            let back = "ld.shared.b64 %d6, [%r10];\n ld.shared.b64 %d7, [%r10+8];\n st.global.b64 [%d5], %d6;\n st.global.b64 [%d5+8], %d7;";
            let (load, store) = match space {
                "global" => (
                    format!("ld.global.{shape} {list}, [%d4];\n {}", each("st")),
                    format!("{}st.global.{shape} [%d5], {list};", each("ld")),
                ),
                _ => (
                    format!("{place}ld.shared.{shape} {list}, [%r10];\n {}", each("st")),
                    format!("{place}{}st.shared.{shape} [%r10], {list};\n {back}", each("ld")),
                ),
            };
            let kinds = vec![Kind::Bits(64); 2];
            all.push(made(&format!("ld.{space}.{shape}"), kinds.clone(), load.trim_end()));
            all.push(made(&format!("st.{space}.{shape}"), kinds, &store));
        }
    }
    all
}
