//! Arguments to measure at.

use frit::{DType, Scalar};

/// How many arguments.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Points {
    /// So many of each exponent and sign, and of each interval where functions change; all of an 8 or 16-bit type.
    Sampled(usize),
    /// All of a 32-bit type.
    Full,
}

/// Elements handed to a device at once.
const CHUNK: usize = 1 << 20;

/// Bits that depend on a seed only (splitmix64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let x = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }
    /// From -1 to 1.
    fn fraction(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 52) as f64 - 1.0
    }
}

/// All arguments of a function of one, in pieces.
pub fn singles(dtype: DType, points: Points) -> Box<dyn Iterator<Item = Vec<f64>>> {
    let of = move |bits: u64| Scalar::from_bits(bits, dtype).as_f64();
    match points {
        _ if dtype.size() <= 2 => Box::new(std::iter::once((0..1u64 << dtype.bits()).map(of).collect())),
        Points::Full if dtype == DType::F32 => {
            let chunk = CHUNK as u64;
            Box::new((0..(1u64 << 32) / chunk).map(move |i| (i * chunk..(i + 1) * chunk).map(of).collect()))
        }
        Points::Full => Box::new(std::iter::once(sampled(dtype, 400))),
        Points::Sampled(each) => Box::new(std::iter::once(sampled(dtype, each))),
    }
}

fn sampled(dtype: DType, each: usize) -> Vec<f64> {
    let mut r = Random(1);
    let mut v = vec![0.0, -0.0, f64::INFINITY, f64::NEG_INFINITY, f64::NAN];
    let (man, exponents) = if dtype == DType::F64 { (52, 2047) } else { (23, 255) };
    let each_exponent = if dtype == DType::F64 { each.div_ceil(8) } else { each };
    for e in 0..exponents as u64 {
        for i in 0..each_exponent.max(2) {
            let m = match i {
                0 => 0,
                1 => u64::MAX,
                _ => r.next(),
            } & ((1 << man) - 1);
            let x = Scalar::from_bits(e << man | m, dtype).as_f64();
            v.extend([x, -x]);
        }
    }
    // where results are neither trivial nor infinite, and around the places where methods change
    for _ in 0..each * 40 {
        for (centre, width) in
            [(0.0, 1.0), (0.0, 4.0), (0.0, 12.0), (0.0, 110.0), (0.0, 760.0), (1.0, 0.01), (1.0, 1.0)]
        {
            v.push(Scalar::float(centre + width * r.fraction(), dtype).as_f64());
        }
        let quarter = (r.next() % 4000) as f64 * std::f64::consts::FRAC_PI_4;
        v.push(Scalar::float(quarter * (1.0 + r.fraction() * 1e-4), dtype).as_f64());
    }
    v
}

/// Arguments of a function of two: special ones with each other, any with any, and near ones.
pub fn pairs(dtype: DType, points: Points) -> (Vec<f64>, Vec<f64>) {
    let all: Vec<f64> = match dtype.size() {
        0..=2 => singles(dtype, points).next().unwrap_or_default(),
        _ => sampled(dtype, if let Points::Sampled(n) = points { n } else { 400 }),
    };
    let round = |v: f64| Scalar::float(v, dtype).as_f64();
    let special =
        [0.0, -0.0, 1.0, -1.0, 2.0, -2.0, 0.5, 3.0, -3.0, 1.5, f64::INFINITY, f64::NEG_INFINITY, f64::NAN];
    let special = special.map(round);
    let mut r = Random(2);
    let (mut xs, mut ys) = (vec![], vec![]);
    let mut push = |x: f64, y: f64| {
        xs.push(x);
        ys.push(round(y));
    };
    for &x in &special {
        special.iter().for_each(|&y| push(x, y));
    }
    for &x in &all {
        push(x, all[r.next() as usize % all.len()]);
        push(x, x * r.fraction() * 2.0);
        push(x, r.fraction() * 20.0);
        // a power of x near the ends of the range
        push(x, 700.0 / x.abs().ln() * r.fraction());
    }
    (xs, ys)
}
