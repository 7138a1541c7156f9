//! What several subjects use: devices, arrays to tensors and back, the evaluator, random numbers.

use frit::{DType, Device, Result, Tensor, engine};
use frit_abi::Scalar;
use frit_reference::Array;
use frit_reference::goldens::Kind;
use frit_uop::eval::{self, Inputs, Value};
use frit_uop::{Op, UOp};

/// Every device that computes.
pub const DEVICES: [&str; 3] = ["INTERP", "INTERP:GPU", "CPU"];

/// This machine's cores in every other way they can be used: less than the machine has, C through a compiler.
pub fn other_cpus() -> impl Iterator<Item = &'static str> {
    let all = ["CPU:SSE2", "CPU:AVX2", "CPU:C"];
    all.into_iter().filter(|d| engine::devices::canonical(d).is_ok())
}

/// A GPU: the one of a real driver where `FRIT_CUDA_DRIVER` names it, else one of a stand-in that checks every access.
pub fn gpu() -> &'static str {
    if std::env::var_os("FRIT_CUDA_DRIVER").is_none() {
        // SAFETY: the stand-in has the driver's functions under their names.
        let driver = unsafe { frit_runtime::cuda::driver::Driver::install(frit_mock::find) };
        driver.unwrap_or_else(|e| panic!("{e}"));
    }
    "CUDA"
}

/// Run `f` on a device; it must be there.
pub fn on<T>(device: &str, f: impl FnOnce() -> T) -> T {
    Device::scope(device, f).unwrap_or_else(|e| panic!("{e}"))
}

/// The type an array of the golden file had.
pub fn dtype(kind: Kind) -> DType {
    match kind {
        Kind::Bool => DType::Bool,
        Kind::I8 => DType::I8,
        Kind::U8 => DType::U8,
        Kind::I32 => DType::I32,
        Kind::F32 => DType::F32,
        Kind::I16 => DType::I16,
        Kind::U16 => DType::U16,
        Kind::U32 => DType::U32,
        Kind::I64 => DType::I64,
        Kind::F16 => DType::F16,
        Kind::BF16 => DType::BF16,
        Kind::F64 => DType::F64,
    }
}

/// Memory with the values of an array.
pub fn tensor(array: &Array, dtype: DType) -> Tensor {
    let bits = |v: f64| Scalar::Float(v).cast(dtype).to_bits(dtype).to_le_bytes();
    let bytes: Vec<u8> = array.data.iter().flat_map(|&v| bits(v)[..dtype.size()].to_vec()).collect();
    Tensor::from_bytes(dtype, &bytes, &array.shape)
}

/// Each element of `dtype` in `bytes`, as its bits.
fn words(bytes: &[u8], dtype: DType) -> impl Iterator<Item = u64> {
    bytes.chunks(dtype.size()).map(|b| {
        let mut word = [0u8; 8];
        word[..b.len()].copy_from_slice(b);
        u64::from_le_bytes(word)
    })
}

/// The values of a tensor.
pub fn array(x: &Tensor) -> Result<Array> {
    let (shape, dtype, bytes) = (x.dims()?, x.dtype(), x.to_bytes()?);
    let values = words(&bytes, dtype).map(|w| Scalar::from_bits(w, dtype).as_f64());
    Ok(Array::new(&shape, values.collect::<Vec<_>>()))
}

/// The values of a tensor, as the evaluator has them.
pub fn values(x: &Tensor) -> Result<Vec<Value>> {
    let (dtype, bytes) = (x.dtype(), x.to_bytes()?);
    Ok(words(&bytes, dtype).map(|w| Value::from_bits(w, dtype)).collect())
}

/// What graphs mean: their values by the evaluator, leaves read from memory.
pub fn evaluate(nodes: &[UOp]) -> std::result::Result<Vec<eval::Array<Value>>, String> {
    let buffer = |n: &UOp| {
        let bytes = (n.op == Op::Buffer).then(|| engine::read(n).ok())??;
        Some(words(&bytes, n.dtype).map(|w| Value::from_bits(w, n.dtype)).collect())
    };
    eval::eval_all(nodes, &Inputs { buffer: &buffer, variable: &|_| None }).map_err(|e| e.to_string())
}

/// Numbers that depend on the seed only (splitmix64).
pub struct Random(u64);

impl Random {
    /// The sequence of a seed.
    pub fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }
    /// 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let x = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }
    /// A number below `n`, which is not zero.
    pub fn below(&mut self, n: usize) -> usize {
        (self.bits() % n as u64) as usize
    }
    /// A number of a range, both ends included.
    pub fn within(&mut self, low: i64, high: i64) -> i64 {
        low + self.below((high - low + 1) as usize) as i64
    }
    /// One in `n`.
    pub fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }
    /// One of several.
    pub fn pick<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.below(of.len())]
    }
    /// A fraction from -1 to 1.
    pub fn fraction(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 52) as f64 - 1.0
    }
}

/// The output of a test of this binary run in a process of its own, with these variables set; it must pass. Such a test
/// does nothing unless [`is_child`].
pub fn child(test: &str, env: &[(&str, &str)]) -> String {
    let exe = std::env::current_exe().expect("a test binary has a path");
    let mut command = std::process::Command::new(exe);
    command.args([test, "--exact", "--nocapture", "--test-threads=1"]).env("SUITE_CHILD", "1");
    command.envs(env.iter().copied());
    let out = command.output().expect("the test binary runs");
    let text = String::from_utf8_lossy(&out.stdout).into_owned() + &String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "{test} with {env:?}:\n{text}");
    text
}

/// Whether `FRIT_LONG=1` asks for all that there is to try.
pub fn is_long() -> bool {
    std::env::var("FRIT_LONG").is_ok_and(|v| v == "1")
}

/// Whether this process was started by [`child`].
pub fn is_child() -> bool {
    std::env::var_os("SUITE_CHILD").is_some()
}
