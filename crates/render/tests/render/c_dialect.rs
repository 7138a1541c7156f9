//! One writer for the languages that are like C: a grid as OpenCL has it, which no device here runs.

use crate::build::*;
use frit_abi::{Code, DType, Target};
use frit_render::c::dialect::{CPU, Dialect, Entry, Grid};
use frit_render::{Error, c};
use frit_uop::{Op, UOp};

const F: DType = DType::F32;

const OPENCL: Dialect = Dialect {
    element: |d| match d {
        DType::F64 | DType::Index => None,
        DType::I64 => Some("long"),
        d => (CPU.element)(d),
    },
    has_vectors: false,
    inline: "static inline",
    function: |name, _| match name {
        "round" => Some("rint"),
        "sqrt" => Some("sqrt"),
        "fma" => Some("fma"),
        _ => None,
    },
    nan: ["NAN", "NAN"],
    infinity: ["INFINITY", "INFINITY"],
    entry: Entry::Grid(Grid {
        kernel: "__kernel void",
        global: "__global",
        local: "__local",
        barrier: "barrier(CLK_LOCAL_MEM_FENCE);",
        ids: [|dim| format!("get_group_id({dim})"), |dim| format!("get_local_id({dim})")],
    }),
};

#[test]
fn a_grid_has_ids_local_memory_and_barriers() {
    let (out, a, tmp) = (UOp::param(0, 128, F), UOp::param(1, 128, F), local(0, 64, F));
    let (block, lane) = (special("gidx0", 2), special("lidx0", 64));
    let base = &block * &int(64);
    let at = &base + &lane;
    let x = a.at(&at).load();
    let root = x.un(frit_abi::Alu::Sqrt);
    let (put, meet) = (tmp.at(&lane).store(&root), barrier());
    let other = &int(63) - &lane;
    let y = tmp.at(&other).load();
    let store = out.at(&at).store(&y);
    let program = linear(run(&[&base, &at, &x, &root, &put, &meet, &other, &y, &store]));
    let kernel = c::render_as(&program, &Target::interp_gpu(), &OPENCL).unwrap();
    let Code::C(text) = kernel.code else { panic!("it is text") };
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|l| !l.starts_with("typedef")).collect();
    assert_eq!(
        lines[0],
        "__kernel void test(__global f32 *p0, __global const f32 *p1, __global u32 *status) {"
    );
    for line in ["__local f32 tmp0[64];", "barrier(CLK_LOCAL_MEM_FENCE);"] {
        assert!(lines.contains(&line), "{line} is not in\n{text}");
    }
    for part in ["get_group_id(0)", "get_local_id(0)", "sqrt("] {
        assert!(text.contains(part), "{part} is not in\n{text}");
    }
    assert_eq!(kernel.scratch, 256);
}

#[test]
fn what_a_dialect_lacks_is_an_error_that_names_it() {
    let refused = |x: &UOp, out: &UOp| {
        let program = linear(run(&[x, &out.at(&int(0)).store(x)]));
        c::render_as(&program, &Target::interp_gpu(), &OPENCL).err()
    };
    let double = UOp::param(1, 4, DType::F64).at(&int(0)).load();
    let error = refused(&double, &UOp::param(0, 4, DType::F64));
    assert!(matches!(error, Some(Error::Unsupported { op: Op::Load, dtype: DType::F64, .. })), "{error:?}");
    let vector = UOp::param(1, 4, F).at_lanes(&int(0), 4).load();
    let error = refused(&vector, &UOp::param(0, 4, F));
    assert!(matches!(error, Some(Error::Unsupported { op: Op::Load, dtype: F, .. })), "{error:?}");
}
