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

/// One for each form, or more where it has several shapes.
pub fn all() -> Vec<Snippet> {
    let mut all: Vec<Snippet> = forms::all().map(computes).collect();
    all.extend(accesses());
    let words = |n: usize| vec![Kind::Bits(32); n];
    all.extend([
        made("mov.b32:split", words(1), "ld.global.b32 %r1, [%d4];\n mov.b32 {%h0, %h1}, %r1;\n st.global.b16 [%d5], %h1;\n st.global.b16 [%d5+2], %h0;"),
        made("mov.b32:join", vec![Kind::Bits(16); 2], "ld.global.b16 %h0, [%d4];\n ld.global.b16 %h1, [%d4+8];\n mov.b32 %r1, {%h0, %h1};\n st.global.b32 [%d5], %r1;"),
        made("mov.b32:ids", vec![], "mov.b32 %r1, %ctaid.x;\n mov.b32 %r2, %tid.y;\n add.s32 %r1, %r1, %r2;\n mov.b32 %r2, %laneid;\n st.global.b32 [%d5], %r0;\n st.global.b32 [%d5+4], %r1;\n st.global.b32 [%d5+8], %r2;"),
        made("ld.param.b32", vec![], "ld.param.b32 %r1, [n];\n st.global.b32 [%d5], %r1;"),
        made("ld.param.b64", vec![], "ld.param.b64 %d6, [m];\n st.global.b64 [%d5], %d6;"),
        // a loop as long as the operand says, which lanes leave one by one
        made("bra", words(1), "ld.global.b32 %r1, [%d4];\n and.b32 %r1, %r1, 15;\n mov.b32 %r2, 0;\n mov.b32 %r3, 1;\n$L0:\n mad.lo.s32 %r3, %r3, 3, %r2;\n add.s32 %r2, %r2, 1;\n setp.lt.u32 %p0, %r2, %r1;\n @%p0 bra $L0;\n setp.eq.s32 %p1, %r2, 4;\n @!%p1 bra $E0;\n add.s32 %r3, %r3, 1000;\n$E0:\n st.global.b32 [%d5], %r3;"),
        made("ret", words(1), "ld.global.b32 %r1, [%d4];\n setp.lt.s32 %p0, %r1, 0;\n st.global.b32 [%d5], %r1;\n @%p0 ret;\n st.global.b32 [%d5+4], %r1;"),
        // the lane's neighbour in the other half of the block
        made("bar.sync", words(1), "ld.global.b32 %r1, [%d4];\n mov.b32 %r2, local;\n mad.lo.s32 %r3, %r0, 4, %r2;\n st.shared.b32 [%r3], %r1;\n bar.sync 0;\n xor.b32 %r4, %r0, 64;\n mad.lo.s32 %r4, %r4, 4, %r2;\n ld.shared.b32 %r5, [%r4];\n st.global.b32 [%d5], %r5;"),
    ]);
    for mode in ["bfly", "down", "up", "idx"] {
        for (b, c) in [
            (1, if mode == "up" { 0 } else { 31 }),
            (16, if mode == "up" { 0 } else { 31 }),
            (3, if mode == "up" { 0x1800 } else { 0x181f }),
        ] {
            let body = format!(
                "ld.global.b32 %r1, [%d4];\n shfl.sync.{mode}.b32 %r2, %r1, {b}, {c}, -1;\n st.global.b32 [%d5], %r2;"
            );
            all.push(made(&format!("shfl.sync.{mode}.b32:{b}"), words(1), &body));
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
