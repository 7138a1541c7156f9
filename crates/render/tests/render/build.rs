//! Linear programs by hand, and how to run them on the interpreter.

use frit_abi::{DType, Kernel, LaunchDims, Target};
use frit_render::bytecode;
use frit_runtime::interp::Interp;
use frit_runtime::{Device, Error, Memory};
use frit_uop::graph::toposort;
use frit_uop::{Arg, AxisKind, Linear, Op, RangeArg, Space, Step, UOp};

pub fn int(v: i64) -> UOp {
    UOp::int(v, DType::I32)
}
pub fn range_over(extent: &UOp, id: u32, kind: AxisKind) -> UOp {
    UOp::new(Op::Range, DType::I32, [extent.clone()], Arg::Range(RangeArg { id, kind }))
}
pub fn range(extent: i64, id: u32) -> UOp {
    range_over(&int(extent), id, AxisKind::Loop)
}
pub fn special(name: &str, extent: i64) -> UOp {
    UOp::new(Op::Special, DType::I32, [int(extent)], Arg::Name(name.into()))
}
pub fn local(id: u32, len: usize, dtype: DType) -> UOp {
    UOp::define(Space::Local, id, len, dtype)
}
pub fn register(id: u32, len: usize, dtype: DType) -> UOp {
    UOp::define(Space::Reg, id, len, dtype)
}
pub fn gated_load(address: &UOp, alt: &UOp, gate: &UOp, site: Option<u32>) -> UOp {
    let arg = site.map_or(Arg::None, Arg::Site);
    UOp::new(Op::Load, address.dtype, [address.clone(), alt.clone(), gate.clone()], arg)
}
pub fn gated_store(address: &UOp, value: &UOp, gate: &UOp, site: Option<u32>) -> UOp {
    let arg = site.map_or(Arg::None, Arg::Site);
    UOp::new(Op::Store, DType::Void, [address.clone(), value.clone(), gate.clone()], arg)
}
pub fn barrier() -> UOp {
    UOp::new(Op::Barrier, DType::Void, [], Arg::None)
}

/// The values in order, each after what it needs: what a step list says between two loops.
pub fn run(nodes: &[&UOp]) -> Vec<Step> {
    nodes.iter().map(|n| Step::Do((*n).clone())).collect()
}
/// A loop around steps.
pub fn looped(range: &UOp, inside: Vec<Step>) -> Vec<Step> {
    let mut steps = vec![Step::Open(range.clone())];
    steps.extend(inside);
    steps.push(Step::Close(range.clone()));
    steps
}

/// A program of these steps; parameters and the rest are found in them.
pub fn linear(steps: Vec<Step>) -> Linear {
    let roots: Vec<UOp> = steps.iter().map(|s| s.node().clone()).collect();
    let all = toposort(&roots);
    let of = |op: Op| all.iter().filter(|n| n.op == op).cloned().collect::<Vec<_>>();
    let mut params = of(Op::Param);
    params.sort_by_key(|p| if let Arg::Param { slot, .. } = p.arg { slot } else { 0 });
    let stored = |p: &UOp| {
        let is_it = |s: &UOp| s.src[0].src.first().is_some_and(|b| b == p);
        all.iter().any(|n| n.op == Op::Store && is_it(n))
    };
    let is_thread = |n: &&UOp| n.range_arg().is_some_and(|r| r.kind == AxisKind::Thread);
    Linear {
        name: "test".into(),
        written: params.iter().map(stored).collect(),
        params,
        vars: of(Op::Variable),
        defines: of(Op::Define),
        specials: of(Op::Special),
        thread: all.iter().find(is_thread).cloned(),
        flops: UOp::index(0),
        bytes: UOp::index(0),
        steps,
    }
}

pub fn cpu_kernel(steps: Vec<Step>) -> Kernel {
    bytecode::render(&linear(steps), &Target::interp()).unwrap()
}
pub fn gpu_kernel(steps: Vec<Step>) -> Kernel {
    bytecode::render(&linear(steps), &Target::interp_gpu()).unwrap()
}
pub fn threads(extent: i64) -> LaunchDims {
    LaunchDims { global: [1; 3], local: [1; 3], thread_extent: extent }
}
pub fn grid(global: u32, local: u32) -> LaunchDims {
    LaunchDims { global: [global, 1, 1], local: [local, 1, 1], thread_extent: 1 }
}

/// An element type as bytes.
pub trait Element: Copy {
    fn bytes(self) -> Vec<u8>;
    fn of(bytes: &[u8]) -> Self;
}
macro_rules! elements {
    ($($t:ty)*) => {$(
        impl Element for $t {
            fn bytes(self) -> Vec<u8> {
                self.to_le_bytes().to_vec()
            }
            fn of(bytes: &[u8]) -> $t {
                <$t>::from_le_bytes(bytes.try_into().unwrap())
            }
        }
    )*};
}
elements!(f32 f64 i32 i64 u8 i8 u32 u64);

pub fn memory<T: Element>(device: &dyn Device, values: &[T]) -> Memory {
    let bytes: Vec<u8> = values.iter().flat_map(|v| v.bytes()).collect();
    let m = device.alloc(bytes.len()).unwrap();
    m.copy_in(0, &bytes).unwrap();
    m
}
pub fn values<T: Element>(m: &Memory) -> Vec<T> {
    let mut bytes = vec![0; m.len_bytes()];
    m.copy_out(0, &mut bytes).unwrap();
    bytes.chunks(size_of::<T>()).map(T::of).collect()
}

/// Run on buffers of one type, the first of which is the result, with several orders.
pub fn launch<T: Element>(
    kernel: &Kernel,
    bufs: &[Vec<T>],
    vars: &[i64],
    dims: LaunchDims,
) -> Result<Vec<T>, Error> {
    let mut last = None;
    for seed in 0..8 {
        let is_grid = dims.global != [1; 3] || dims.local != [1; 3];
        let device = if is_grid { Interp::gpu(seed) } else { Interp::cpu(seed) };
        let memories: Vec<Memory> = bufs.iter().map(|b| memory(&device, b)).collect();
        let loaded = device.load(kernel)?;
        loaded.launch(&memories.iter().collect::<Vec<_>>(), vars, dims)?;
        last = Some(values(&memories[0]));
    }
    Ok(last.unwrap())
}
