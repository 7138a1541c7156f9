//! Lower a kernel, run it on INTERP, compare with the slow evaluation.

use crate::evaluate::{Buffers, evaluate};
use crate::kernels::Case;
use frit_abi::{Code, Language, LaunchDims, Target};
use frit_codegen::{Error, Opt, Opts};
use frit_runtime::Device;
use frit_runtime::interp::Interp;
use frit_uop::{Arg, DType, Linear, Op, Scalar, UOp};
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

/// The interpreter as a CPU and as a GPU.
pub fn targets() -> Vec<Target> {
    vec![Target::interp(), Target::interp_gpu()]
}

/// The CPU under a name, if this machine has that.
pub fn cpu(name: &str) -> Option<Arc<dyn Device>> {
    frit_runtime::device(name).ok()
}

fn params(sink: &UOp) -> Vec<UOp> {
    let mut p: Vec<UOp> = sink.toposort().into_iter().filter(|n| n.op == Op::Param).collect();
    p.sort_by_key(|p| if let Arg::Param { slot, .. } = p.arg { slot } else { 0 });
    p
}

/// Bytes whose products and sums are the largest there are, and others.
const BYTES: [u8; 11] = [0, 255, 128, 127, 1, 254, 129, 100, 255, 128, 255];

/// Small integers, different in every buffer; of bytes the largest too.
fn inputs(params: &[UOp]) -> Buffers {
    let value = |slot: usize, i: usize, d: DType| {
        let v = (i * 7 + slot * 3 + i / 5) % 11;
        match d {
            DType::I32 => Scalar::Int(v as i64 % 5), // also an index
            DType::U8 | DType::I8 => Scalar::from_bits(BYTES[v] as u64, d),
            d => Scalar::int(v as i128 - if d.is_float() { 5 } else { 0 }, d),
        }
    };
    params
        .iter()
        .enumerate()
        .map(|(slot, p)| {
            (0..p.shape()[0].as_int().unwrap() as usize).map(|i| value(slot, i, p.dtype)).collect()
        })
        .collect()
}

fn extent(n: &UOp, vars: &HashMap<String, i64>) -> i64 {
    let mut none: Buffers = vec![];
    let sink = UOp::param(0, 1, DType::I64).at(&UOp::index(0)).store(&n.cast(DType::I64));
    none.push(vec![Scalar::Int(0)]);
    evaluate(&UOp::sink([sink]), &mut none, vars);
    none[0][0].as_i64().unwrap()
}

pub fn dims(linear: &Linear, vars: &HashMap<String, i64>) -> LaunchDims {
    let mut d = LaunchDims { global: [1; 3], local: [1; 3], thread_extent: 1 };
    if let Some(t) = &linear.thread {
        d.thread_extent = extent(&t.src[0], vars);
    }
    for s in &linear.specials {
        let Arg::Name(name) = &s.arg else { panic!() };
        let at = name[4..].parse::<usize>().unwrap();
        let row = if name.starts_with("gidx") { &mut d.global } else { &mut d.local };
        row[at] = extent(&s.src[0], vars) as u32;
    }
    d
}

/// A kernel and the values of its variables.
type Question = (UOp, Vec<(&'static str, i64)>);

thread_local! {
    /// What kernels that were evaluated mean: each is run in many ways.
    static MEANINGS: RefCell<HashMap<Question, Rc<Buffers>>> = RefCell::default();
}

/// The buffers after the kernel, the slow way.
fn expected(case: &Case, inputs: &Buffers, vars: &HashMap<String, i64>) -> Rc<Buffers> {
    let key = (case.sink.clone(), case.vars.clone());
    let known = MEANINGS.with_borrow(|m| m.get(&key).cloned());
    known.unwrap_or_else(|| {
        let mut buffers = inputs.clone();
        evaluate(&case.sink, &mut buffers, vars);
        MEANINGS.with_borrow_mut(|m| m.entry(key).or_insert(Rc::new(buffers)).clone())
    })
}

/// The program of a kernel that is not cut.
pub fn lower(sink: &UOp, target: &Target, opts: Opts) -> Result<Linear, Error> {
    let mut lowered = frit_codegen::lower(sink, target, opts)?;
    assert_eq!((lowered.programs.len(), lowered.workspaces.len()), (1, 0));
    Ok(lowered.programs.remove(0))
}

/// Lower with these opts and run; `Err` says what failed.
pub fn run(case: &Case, target: &Target, opts: Opts) -> Result<(), String> {
    let close = |got: f64, want: f64| !case.exact && (got - want).abs() <= 1e-5 * want.abs().max(1e-3);
    let vars = case.vars.iter().map(|(n, v)| (n.to_string(), *v)).collect();
    run_against(|inputs| expected(case, inputs, &vars), close, case, target, opts)
}

/// The same with what is expected of its inputs, and what is close to it.
pub fn run_against(
    expected: impl Fn(&Buffers) -> Rc<Buffers>,
    close: impl Fn(f64, f64) -> bool,
    case: &Case,
    target: &Target,
    opts: Opts,
) -> Result<(), String> {
    let lowered = frit_codegen::lower(&case.sink, target, opts).map_err(|e| format!("lower: {e}"))?;
    let device: Arc<dyn Device> = match &target.grid {
        _ if target.language != Language::Bytecode => cpu("CPU:C").expect("a CPU"),
        Some(_) => Arc::new(Interp::gpu(1)),
        None => Arc::new(Interp::cpu(1)),
    };
    let params = params(&case.sink);
    let inputs = inputs(&params);
    let memories: Vec<_> = params
        .iter()
        .zip(&inputs)
        .map(|(p, values)| {
            let bytes: Vec<u8> = values
                .iter()
                .flat_map(|v| v.to_bits(p.dtype).to_le_bytes()[..p.dtype.size()].to_vec())
                .collect();
            let m = device.alloc(bytes.len()).unwrap();
            m.copy_in(0, &bytes).unwrap();
            m
        })
        .collect();
    let vars: HashMap<String, i64> = case.vars.iter().map(|(n, v)| (n.to_string(), *v)).collect();
    let mut names: Vec<&String> = vars.keys().collect();
    names.sort();
    let values: Vec<i64> = names.iter().map(|n| vars[*n]).collect();
    let workspaces: Vec<_> = lowered.workspaces.iter().map(|bytes| device.alloc(*bytes).unwrap()).collect();
    let bufs: Vec<_> = memories.iter().chain(&workspaces).collect();
    let mut source = String::new();
    for linear in &lowered.programs {
        frit_codegen::verify(linear, target)?;
        let kernel = frit_render::render(linear, target).map_err(|e| format!("render: {e}\n{linear}"))?;
        source += &match &kernel.code {
            Code::C(text) => text.clone(),
            _ => linear.to_string(),
        };
        let loaded = device.load(&kernel).map_err(|e| format!("load: {e}\n{source}"))?;
        let launched = loaded.launch(&bufs[..loaded.buffers()], &values, dims(linear, &vars));
        launched.and_then(|()| device.synchronize()).map_err(|e| format!("launch: {e}\n{source}"))?;
    }
    let expected = expected(&inputs);
    for (slot, (p, m)) in params.iter().zip(&memories).enumerate() {
        let size = p.dtype.size();
        let mut bytes = vec![0u8; expected[slot].len() * size];
        m.copy_out(0, &mut bytes).unwrap();
        for (i, want) in expected[slot].iter().enumerate() {
            let mut raw = [0u8; 8];
            raw[..size].copy_from_slice(&bytes[i * size..(i + 1) * size]);
            let got = Scalar::from_bits(u64::from_le_bytes(raw), p.dtype);
            let is_close = close(got.as_f64(), want.as_f64());
            if !(got == *want || got.as_f64() == want.as_f64() || is_close) {
                return Err(format!("buffer {slot}[{i}] is {got:?}, not {want:?}\n{source}"));
            }
        }
    }
    Ok(())
}

/// Panic with everything needed to see what is wrong.
pub fn check(case: &Case, target: &Target, opts: &[Opt]) {
    if let Err(e) = run(case, target, Opts::List(opts)) {
        panic!("{} on {} with {opts:?}: {e}", case.name, target.name);
    }
}
