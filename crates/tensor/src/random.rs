//! Random numbers: one counter-based stream (Threefry) for the process.
//!
//! Element i of the stream is a function of the seed and i alone, so results are the same on every device, fused or
//! not. A draw takes the next elements of the stream, whatever its shape: `rand(3)` then `rand(2)` are the numbers of
//! `rand(5)`. The place in the stream travels as a small buffer, not as a constant, so the second step of a training
//! loop finds every kernel of the first.
//!
//! A forked process goes on with a stream of its own: its number is mixed into the seed, so that workers do not all draw
//! the same. [`manual_seed`] in the child makes its numbers repeatable; the parent's stream does not notice.

use crate::creation::sizes;
use crate::error::{Error, Result, call, fail, site};
use crate::realize;
use crate::shape::{self, Dims};
use crate::shuffle::{ROUNDS, shuffled};
use crate::tensor::{Tensor, expand_to, number};
use crate::watch::{self, Watched};
use frit_abi::fork;
use frit_abi::sync::Mutex;
use frit_uop::{Alu, DType, UOp, promote};
use std::cell::RefCell;
use std::f64::consts as c;

/// As many numbers are put in random order by sorting random keys, every order as likely as the next.
const SORTED: usize = 1 << 12;

struct Stream {
    seed: u64,
    next: u64,
    /// The process it belongs to: see [`fork::generation`].
    generation: u64,
}
static STREAM: Mutex<Stream> = Mutex::new(Stream { seed: 0, next: 0, generation: 0 });

/// Start the stream of random numbers again with this seed. In a forked process, which otherwise has a stream of its own
/// that differs each time, too.
pub fn manual_seed(seed: u64) {
    let generation = fork::generation();
    *STREAM.lock().unwrap_or_else(|e| e.into_inner()) = Stream { seed, next: 0, generation };
}

/// The seed of a child of the process with this seed: another one for each.
fn seed_of_child(seed: u64) -> u64 {
    // the number of a process may be used again, its parent's count of forks is not
    [std::process::id() as u64, fork::count()].into_iter().fold(seed, |seed, n| {
        let mixed = (seed ^ n).wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    })
}

/// Take the next `count` elements of the stream: its seed and where they begin.
pub(crate) fn reserve(count: u64) -> (u64, u64) {
    let mut s = STREAM.lock().unwrap_or_else(|e| e.into_inner());
    let generation = fork::generation();
    if s.generation != generation {
        *s = Stream { seed: seed_of_child(s.seed), generation, ..*s };
    }
    let at = s.next;
    s.next = s.next.wrapping_add(count);
    (s.seed, at)
}

/// A place in the stream as kernels read it.
pub(crate) fn place(seed: u64, at: u64) -> Vec<u8> {
    [at, seed].iter().flat_map(|v| v.to_ne_bytes()).collect()
}

thread_local! {
    static WATCHED: Watched<(UOp, u64)> = const { RefCell::new(None) };
}

/// Run `f` and list the draws it makes on this thread: the buffer with the place, and how many elements it takes.
pub(crate) fn watch<T>(f: impl FnOnce() -> T) -> (T, Vec<(UOp, u64)>) {
    watch::run(&WATCHED, f)
}

/// The next 64 random bits for each element.
fn bits(op: &'static str, dims: &Dims) -> Result<UOp> {
    let dims = sizes(op, dims)?;
    let n = shape::product(&dims);
    // a size with variables takes as many as it can be, so that a replay with other values draws what a call would
    let count = n.bounds.1;
    let (seed, at) = reserve(count as u64);
    let state = realize::from_bytes(DType::U64, 2, &place(seed, at))?;
    WATCHED.with_borrow_mut(|w| w.iter_mut().for_each(|list| list.push((state.clone(), count as u64))));
    let part =
        |i: i64| expand_to(&state.shrink(&[UOp::index(i)], &[UOp::index(1)]), std::slice::from_ref(&n));
    let counter = UOp::iota(&n, DType::U64).bin(Alu::Add, &part(0));
    Ok(counter.bin(Alu::Threefry, &part(1)).reshape(&dims))
}

/// Uniform in [0, 1): the top 24 bits of 32 (53 of 64 for float64), so 1 is never reached.
fn unit(bits: &UOp, dtype: DType) -> UOp {
    if dtype == DType::F64 {
        let b = bits.bin(Alu::Shr, &bits.const_like(11));
        return b.cast(DType::F64).bin(Alu::Mul, &number((2f64).powi(-53), DType::F64));
    }
    // fewer bits for types with fewer, so that rounding cannot reach 1
    let keep = match dtype.small_float() {
        Some(s) => s.man + 1,
        None => 24,
    };
    let low = bits.cast(DType::U32);
    let b = low.bin(Alu::Shr, &low.const_like(32 - keep as i64));
    b.cast(DType::F32).bin(Alu::Mul, &number((2f64).powi(-(keep as i32)), DType::F32)).cast(dtype)
}

/// Standard normal by Box and Muller: the two halves of the bits are the two uniforms.
fn gauss(bits: &UOp, dtype: DType) -> UOp {
    let work = if dtype == DType::F64 { DType::F64 } else { DType::F32 };
    let half = |shift: i64| {
        let b = bits.bin(Alu::Shr, &bits.const_like(shift)).cast(DType::U32);
        let b = b.bin(Alu::Shr, &b.const_like(8));
        b.cast(work).bin(Alu::Mul, &number((2f64).powi(-24), work))
    };
    // 1 - u is in (0, 1]: the logarithm is finite
    let r = number(1.0, work)
        .bin(Alu::Sub, &half(0))
        .un(Alu::Log)
        .bin(Alu::Mul, &number(-2.0, work))
        .un(Alu::Sqrt);
    let angle = half(32).bin(Alu::Mul, &number(c::TAU, work));
    r.bin(Alu::Mul, &angle.un(Alu::Cos)).cast(dtype)
}

impl Tensor {
    /// Uniform in [0, 1), float32.
    ///
    /// ```
    /// # use frit_tensor::*;
    /// manual_seed(1);
    /// let all = Tensor::rand([5]).to_vec::<f32>()?;
    /// manual_seed(1);
    /// let (a, b) = (Tensor::rand([3]), Tensor::rand([2]));
    /// assert_eq!([a.to_vec::<f32>()?, b.to_vec::<f32>()?].concat(), all);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn rand(dims: impl Into<Dims>) -> Tensor {
        Tensor::rand_dtype(dims, promote::defaults().float)
    }
    /// Uniform in [0, 1) of a float type.
    #[track_caller]
    pub fn rand_dtype(dims: impl Into<Dims>, dtype: DType) -> Tensor {
        let _c = call("rand");
        let dims = dims.into();
        Tensor::of(float("rand", dtype).and_then(|_| Ok(unit(&bits("rand", &dims)?, dtype))))
    }
    /// Standard normal, float32.
    #[track_caller]
    pub fn randn(dims: impl Into<Dims>) -> Tensor {
        Tensor::randn_dtype(dims, promote::defaults().float)
    }
    /// Standard normal of a float type.
    #[track_caller]
    pub fn randn_dtype(dims: impl Into<Dims>, dtype: DType) -> Tensor {
        let _c = call("randn");
        let dims = dims.into();
        Tensor::of(float("randn", dtype).and_then(|_| Ok(gauss(&bits("randn", &dims)?, dtype))))
    }
    /// Uniform in this tensor's shape and float type.
    #[track_caller]
    pub fn rand_like(&self) -> Tensor {
        let _c = call("rand_like");
        Tensor::rand_dtype(self.shape(), crate::creation::float_of(self.dtype()))
    }
    /// Standard normal in this tensor's shape and float type.
    #[track_caller]
    pub fn randn_like(&self) -> Tensor {
        let _c = call("randn_like");
        Tensor::randn_dtype(self.shape(), crate::creation::float_of(self.dtype()))
    }
    /// Integers in `lo..hi`, int32 (int64 where they do not fit).
    #[track_caller]
    pub fn randint(lo: i64, hi: i64, dims: impl Into<Dims>) -> Tensor {
        let _c = call("randint");
        let dims = dims.into();
        if lo >= hi {
            return Tensor::failed(Error::new("randint", format!("there is no integer in {lo}..{hi}")));
        }
        let d = if lo >= i32::MIN as i64 && hi - 1 <= i32::MAX as i64 { DType::I32 } else { DType::I64 };
        let span = (hi as i128 - lo as i128).min(u64::MAX as i128) as u64;
        Tensor::of(bits("randint", &dims).map(|b| {
            let span = UOp::constant(frit_uop::Scalar::int(span as i128, DType::U64), DType::U64);
            let r = b.bin(Alu::Mod, &span).cast(DType::I64);
            r.bin(Alu::Add, &UOp::int(lo, DType::I64)).cast(d)
        }))
    }
    /// Integers in `lo..hi` in this tensor's shape, as its type.
    #[track_caller]
    pub fn randint_like(&self, lo: i64, hi: i64) -> Tensor {
        let _c = call("randint_like");
        Tensor::randint(lo, hi, self.shape()).cast(self.dtype())
    }
    /// The numbers 0 to n-1 in random order, int32. Up to 4,096 of them by sorting, every order as likely as the next; more by a keyed
    /// permutation, of which there are fewer than orders.
    ///
    /// ```
    /// # use frit_tensor::*;
    /// let mut p = Tensor::randperm(9).to_vec::<i32>()?;
    /// p.sort();
    /// assert_eq!(p, [0, 1, 2, 3, 4, 5, 6, 7, 8]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn randperm(n: usize) -> Tensor {
        let _c = call("randperm");
        if (SORTED + 1..i32::MAX as usize).contains(&n) {
            let keys = bits("randperm", &(ROUNDS as usize).into());
            return Tensor::of(keys.map(|keys| shuffled(n as i64, &keys, site("randperm"))));
        }
        Tensor::of(bits("randperm", &n.into()).map(|b| b.cast(DType::U32))).argsort(0, false)
    }
    /// Places drawn by weights along the last axis, which need not add up to 1: `(samples,)` of a vector,
    /// `(rows, samples)` of a matrix; int32. Without `replacement` no place is drawn twice; there must be as many
    /// with a weight.
    ///
    /// ```
    /// # use frit_tensor::*;
    /// let drawn = Tensor::new([0.0, 1.0, 0.0, 2.0]).multinomial(50, true).to_vec::<i32>()?;
    /// assert!(drawn.iter().all(|i| [1, 3].contains(i)));
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn multinomial(&self, samples: usize, replacement: bool) -> Tensor {
        let _c = call("multinomial");
        let refuse =
            |m: String| Tensor::failed(self.check().err().unwrap_or_else(|| Error::new("multinomial", m)));
        let (shape, rank) = (self.shape(), self.rank());
        let n = &shape[-1];
        if !self.dtype().is_float() || !(1..=2).contains(&rank) || n.is_equal(0).unwrap_or(true) {
            return refuse(format!("weights of {} {shape}: a vector or a matrix of floats", self.dtype()));
        }
        if !replacement && n.is_less(samples).unwrap_or(true) {
            return refuse(format!("{samples} of {n} places, none twice"));
        }
        let w = if self.dtype() == DType::F64 { self.clone() } else { self.float() };
        if !replacement {
            // the weights, each by an exponential number of its own: the greatest are such a draw
            let waits = (-(1.0 - w.rand_like()).log()).clamp_min(1e-30);
            return (w / waits).topk(samples, -1, true).1;
        }
        let upto = w.cumsum(-1);
        let share = (&upto / upto.narrow(-1, n - 1, 1)).contiguous();
        let mut dims = Dims::from(&shape);
        dims.0[rank - 1] = samples.into();
        share.searchsorted(&Tensor::rand_dtype(dims, w.dtype()), true)
    }
    /// Uniform in [lo, hi), float32.
    #[track_caller]
    pub fn uniform(lo: f64, hi: f64, dims: impl Into<Dims>) -> Tensor {
        let _c = call("uniform");
        if lo > hi {
            return Tensor::failed(Error::new("uniform", format!("from {lo} to {hi}, which is less")));
        }
        Tensor::rand(dims) * (hi - lo) + lo
    }
    /// Normal with a mean and a deviation, float32.
    #[track_caller]
    pub fn normal(mean: f64, std: f64, dims: impl Into<Dims>) -> Tensor {
        let _c = call("normal");
        if std < 0.0 {
            return Tensor::failed(Error::new("normal", format!("a deviation of {std}")));
        }
        Tensor::randn(dims) * std + mean
    }
    /// Uniform in ±1/sqrt(number of elements).
    #[track_caller]
    pub fn scaled_uniform(dims: impl Into<Dims>) -> Tensor {
        let _c = call("scaled_uniform");
        let dims = dims.into();
        let n: f64 = dims.0.iter().map(|d| d.get() as f64).product();
        Tensor::uniform(-1.0, 1.0, dims) * n.max(1.0).sqrt().recip()
    }
    /// Glorot's (Xavier's) uniform initialisation.
    #[track_caller]
    pub fn glorot_uniform(dims: impl Into<Dims>) -> Tensor {
        let _c = call("glorot_uniform");
        let dims = dims.into();
        let (fan_out, fan_in) = fans(&dims);
        let b = (6.0 / (fan_in + fan_out)).sqrt();
        Tensor::uniform(-b, b, dims)
    }
    /// Kaiming's (He's) uniform initialisation; `a` is the negative slope of the rectifier.
    #[track_caller]
    pub fn kaiming_uniform(dims: impl Into<Dims>, a: f64) -> Tensor {
        let _c = call("kaiming_uniform");
        let dims = dims.into();
        let b = 3f64.sqrt() * (2.0 / (1.0 + a * a)).sqrt() / fan_in(&dims).sqrt();
        Tensor::uniform(-b, b, dims)
    }
    /// Kaiming's (He's) normal initialisation; `a` is the negative slope of the rectifier.
    #[track_caller]
    pub fn kaiming_normal(dims: impl Into<Dims>, a: f64) -> Tensor {
        let _c = call("kaiming_normal");
        let dims = dims.into();
        Tensor::normal(0.0, (2.0 / (1.0 + a * a)).sqrt() / fan_in(&dims).sqrt(), dims)
    }
    /// True with this probability (each element its own), as this tensor's type.
    #[track_caller]
    pub fn bernoulli(&self) -> Tensor {
        let _c = call("bernoulli");
        self.rand_like().lt(self).cast(self.dtype())
    }
    /// Elements set to 0 with probability `p`, the others divided by `1 - p`.
    #[track_caller]
    pub fn dropout(&self, p: f64) -> Tensor {
        let _c = call("dropout");
        match p {
            0.0 => self.clone(),
            1.0 => self.zeros_like(),
            p if !(0.0..=1.0).contains(&p) => {
                Tensor::failed(Error::new("dropout", format!("{p} is not a probability")))
            }
            p => {
                let keep = Tensor::rand(self.shape()).ge(p);
                keep.where_(self * (1.0 / (1.0 - p)), 0.0)
            }
        }
    }
}

fn float(op: &'static str, d: DType) -> Result<()> {
    if d.is_float() { Ok(()) } else { fail!(op, "of {d}; random floats need a float type") }
}
fn fan_in(dims: &Dims) -> f64 {
    dims.0.iter().skip(1).map(|d| d.get() as f64).product::<f64>().max(1.0)
}
fn fans(dims: &Dims) -> (f64, f64) {
    let out = dims.0.first().map_or(1.0, |d| d.get() as f64);
    let rest: f64 = dims.0.iter().skip(2).map(|d| d.get() as f64).product();
    (out * rest, fan_in(dims))
}
