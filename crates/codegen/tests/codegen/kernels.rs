//! A corpus of small kernels of every shape the scheduler makes.

use frit_uop::{Alu, Arg, AxisKind, DType, Op, UOp};

/// A kernel, the values of its variables to try, and how its input buffers are filled.
pub struct Case {
    pub name: &'static str,
    pub sink: UOp,
    pub vars: Vec<(&'static str, i64)>,
    /// Results are compared exactly: everything is small integers, also in floats.
    pub exact: bool,
}

const F: DType = DType::F32;

pub fn range(n: i64, id: u32, kind: AxisKind) -> UOp {
    UOp::range(&UOp::index(n), id, kind)
}
fn global(n: i64, id: u32) -> UOp {
    range(n, id, AxisKind::Global)
}
pub fn red(n: i64, id: u32) -> UOp {
    range(n, id, AxisKind::Reduce)
}
fn buf(slot: u32, len: i64, d: DType) -> UOp {
    UOp::param(slot, len as usize, d)
}
fn c(v: f64) -> UOp {
    UOp::float(v, F)
}
fn within(i: &UOp, lo: i64, hi: i64) -> UOp {
    i.ge_int(&UOp::index(lo)).and_(&i.lt(&UOp::index(hi)))
}
fn gated(g: &UOp, i: &UOp) -> UOp {
    g.select(i, &UOp::invalid())
}

pub fn matmul(m: i64, n: i64, k: i64) -> UOp {
    let (i, j, r) = (global(m, 0), global(n, 1), red(k, 2));
    let a = buf(1, m * k, F).at(&(&i * k + &r)).load();
    let b = buf(2, k * n, F).at(&(&r * n + &j)).load();
    let x = (&a * &b).reduce(Alu::Add, [r]);
    UOp::sink([buf(0, m * n, F).at(&(&i * n + &j)).store(&x).end([i, j])])
}

/// `max(x g, 0) (x u)`; `across`: with the transpose of x.
pub fn gated_products(m: i64, n: i64, k: i64, across: bool) -> UOp {
    let (i, j, r) = (global(m, 0), global(n, 1), red(k, 2));
    let at = if across { &r * m + &i } else { &i * k + &r };
    let x = buf(1, m * k, F).at(&at).load();
    let sum = |slot| (&x * buf(slot, k * n, F).at(&(&r * n + &j)).load()).reduce(Alu::Add, [r.clone()]);
    let value = sum(2).bin(Alu::Max, &c(0.0)) * sum(3);
    UOp::sink([buf(0, m * n, F).at(&(&i * n + &j)).store(&value).end([i, j])])
}

/// `max(x + y, 0) (2 w)`; `across`: with the transpose of x and y.
pub fn made_factors(m: i64, n: i64, k: i64, across: bool) -> UOp {
    let (i, j, r) = (global(m, 0), global(n, 1), red(k, 2));
    let at = if across { &r * m + &i } else { &i * k + &r };
    let [x, y] = [1, 2].map(|slot| buf(slot, m * k, F).at(&at).load());
    let w = buf(3, k * n, F).at(&(&r * n + &j)).load() * c(2.0);
    let sum = ((x + y).bin(Alu::Max, &c(0.0)) * w).reduce(Alu::Add, [r]);
    UOp::sink([buf(0, m * n, F).at(&(&i * n + &j)).store(&sum).end([i, j])])
}

pub fn conv(n: i64, ci: i64, co: i64, s: i64, k: i64) -> UOp {
    let pad = k / 2;
    let (b, o, y, x) = (global(n, 0), global(co, 1), global(s, 2), global(s, 3));
    let (c_, dy, dx) = (red(ci, 4), red(k, 5), red(k, 6));
    let (iy, ix) = (&y + &dy - pad, &x + &dx - pad);
    let g = within(&iy, 0, s).and_(&within(&ix, 0, s));
    let at = ((&b * ci + &c_) * s + &iy) * s + &ix;
    let input = buf(1, n * ci * s * s, F).at(&gated(&g, &at)).load();
    let weight = buf(2, co * ci * k * k, F).at(&(((&o * ci + &c_) * k + &dy) * k + &dx)).load();
    let bias = buf(3, co, F).at(&o).load();
    let v = ((&input * &weight).reduce(Alu::Add, [c_, dy, dx]) + &bias).bin(Alu::Max, &c(0.0));
    let out = ((&b * co + &o) * s + &y) * s + &x;
    UOp::sink([buf(0, n * co * s * s, F).at(&out).store(&v).end([b, o, y, x])])
}

/// A convolution of images by windows of 3 x 3 that are two steps apart, with padding.
pub fn strided_conv(n: i64, ci: i64, co: i64, s: i64) -> UOp {
    let to = (s - 1) / 2 + 1;
    let (b, o, y, x) = (global(n, 0), global(co, 1), global(to, 2), global(to, 3));
    let (c_, dy, dx) = (red(ci, 4), red(3, 5), red(3, 6));
    let (iy, ix) = (&y * 2 + &dy - 1, &x * 2 + &dx - 1);
    let g = within(&iy, 0, s).and_(&within(&ix, 0, s));
    let input = buf(1, n * ci * s * s, F).at(&gated(&g, &(((&b * ci + &c_) * s + &iy) * s + &ix))).load();
    let weight = buf(2, co * ci * 9, F).at(&(((&o * ci + &c_) * 3 + &dy) * 3 + &dx)).load();
    let sum = (&input * &weight).reduce(Alu::Add, [c_, dy, dx]);
    let out = ((&b * co + &o) * to + &y) * to + &x;
    UOp::sink([buf(0, n * co * to * to, F).at(&out).store(&sum).end([b, o, y, x])])
}

/// A transposed convolution over one dim: every `step`-th of the sum's steps is let through, `sign` saying which way it walks.
fn transposed(n: i64, k: i64, step: i64, sign: i64) -> UOp {
    let (o, i, r, ci) = (global(3, 0), global(n, 1), red(k, 3), red(4, 2));
    let e = &i + &r * sign + k * (sign < 0) as i64;
    let len = (n + k) / step + 2;
    let x = buf(1, 4 * len, F).at(&(&ci * len + e.floordiv(&UOp::index(step)))).load();
    let w = buf(2, 12 * k, F).at(&((&o * 4 + &ci) * k + &r)).load();
    let met = e.modulo(&UOp::index(step)).lt(&UOp::index(1));
    let v = met.select(&(&x * &w), &c(0.0)).reduce(Alu::Add, [ci, r]);
    UOp::sink([buf(0, 3 * n, F).at(&(&o * n + &i)).store(&v).end([o, i])])
}

/// A product with weights in blocks of 32: two bytes of a scale, two of an offset, and 16 bytes of two fields each. Both
/// numbers stay small enough to be exact.
fn quantised(tokens: i64, rows: i64, blocks: i64) -> UOp {
    let (t, o, k) = (global(tokens, 0), global(rows, 1), red(32 * blocks, 2));
    let block = (&o * blocks + k.floordiv(&UOp::index(32))) * 20;
    let bytes = buf(2, rows * blocks * 20, DType::U8);
    let word = |at: i64| {
        let byte = |i: i64| bytes.at(&(&block + (at + i))).load().cast(DType::U16);
        let word = byte(0).bin(Alu::Or, &byte(1).bin(Alu::Shl, &UOp::int(8, DType::U16)));
        word.bin(Alu::And, &UOp::int(0x301, DType::U16)).cast(F)
    };
    let field = k.floordiv(&UOp::index(16)).modulo(&UOp::index(2)).cast(DType::I32);
    let q = bytes.at(&(&block + k.modulo(&UOp::index(16)) + 4)).load().cast(DType::I32);
    let q = q.bin(Alu::Shr, &(field * &UOp::int(4, DType::I32))).bin(Alu::And, &UOp::int(15, DType::I32));
    let w = &word(0) * &q.cast(F) + &word(2);
    let x = buf(1, tokens * 32 * blocks, F).at(&(&t * (32 * blocks) + &k)).load();
    let v = (&x * &w).reduce(Alu::Add, [k]);
    UOp::sink([buf(0, tokens * rows, F).at(&(&t * rows + &o)).store(&v).end([t, o])])
}

pub fn softmax(rows: i64, n: i64) -> UOp {
    let (g, r, q) = (global(rows, 0), red(n, 1), range(n, 2, AxisKind::Loop));
    let x = |i: &UOp| buf(1, rows * n, F).at(&(&g * n + i)).load();
    let m = x(&r).reduce(Alu::Max, [r.clone()]);
    // the same range again, for a reduce that needs the first
    let s = (x(&r) - &m).un(Alu::Exp).reduce(Alu::Add, [r.clone()]);
    let v = (x(&q) - &m).un(Alu::Exp).bin(Alu::Fdiv, &s);
    UOp::sink([buf(0, rows * n, F).at(&(&g * n + &q)).store(&v).end([g.clone(), q])])
}

/// Sines, sums of cosines and a sine of a sine, of arguments that are small, and some that are large.
fn sines(m: i64, n: i64) -> UOp {
    let (i, j, r) = (global(m, 0), global(n, 1), red(n, 2));
    let x = |k: &UOp| buf(1, m * n, F).at(&(&i * n + k)).load() * &c(8000.0);
    let of_sine = (x(&j).un(Alu::Sin) * &c(50000.0)).un(Alu::Sin) * &c(1e-3);
    let sum = x(&r).un(Alu::Cos).reduce(Alu::Add, [r]);
    let v = x(&j).un(Alu::Sin) + &sum + &of_sine;
    UOp::sink([buf(0, m * n, F).at(&(&i * n + &j)).store(&v).end([i.clone(), j])])
}

pub fn cases() -> Vec<Case> {
    let mut all = vec![];
    let mut add = |name, sink| all.push(Case { name, sink, vars: vec![], exact: true });

    let i = global(64, 0);
    let (a, b) = (buf(1, 64, F).at(&i).load(), buf(2, 64, F).at(&i).load());
    add("add", UOp::sink([buf(0, 64, F).at(&i).store(&(&a + &b)).end([i.clone()])]));

    add("strided convolution", strided_conv(2, 3, 4, 9));
    let i = global(37, 0);
    let a = buf(1, 37, F).at(&i).load();
    let odd = (&a * &c(2.0)).bin(Alu::Max, &c(0.0));
    add("odd elementwise", UOp::sink([buf(0, 37, F).at(&i).store(&odd).end([i.clone()])]));

    // in place: what is read is what was there before
    let i = global(48, 0);
    let p = buf(0, 48, F);
    let v = p.at(&i).load() + &c(1.0);
    let q = p.at(&i).load() * &c(3.0);
    add(
        "two stores, one in place",
        UOp::sink([p.at(&i).store(&v).end([i.clone()]), buf(1, 48, F).at(&i).store(&q).end([i])]),
    );

    let (i, j) = (global(12, 0), global(20, 1));
    let t = buf(1, 240, F).at(&(&j * 12 + &i)).load();
    add("transpose", UOp::sink([buf(0, 240, F).at(&(&i * 20 + &j)).store(&t).end([i, j])]));

    // squares in registers, with edges; written across as well as read across
    let (i, j) = (global(33, 0), global(48, 1));
    let t = buf(1, 33 * 48, F).at(&(&j * 33 + &i)).load() + &buf(2, 33 * 48, F).at(&(&i * 48 + &j)).load();
    add("sum with a transpose", UOp::sink([buf(0, 33 * 48, F).at(&(&i * 48 + &j)).store(&t).end([i, j])]));
    let (i, j) = (global(32, 0), global(48, 1));
    let t = buf(1, 32 * 48, F).at(&(&j * 32 + &i)).load() * &buf(2, 32 * 48, F).at(&(&j * 32 + &i)).load();
    add("product, written across", UOp::sink([buf(0, 32 * 48, F).at(&(&i * 48 + &j)).store(&t).end([i, j])]));

    // every second and third element
    let i = global(40, 0);
    let p = |n: i64| buf(1, 120, F).at(&(&i * n + (n - 1))).load();
    let v = p(2) + p(3);
    add("steps of two and three", UOp::sink([buf(0, 40, F).at(&i).store(&v).end([i.clone()])]));

    // the same under gates of each lane, up to the very ends of the buffer
    for (name, d) in
        [("gated steps", F), ("gated steps of bytes", DType::U8), ("gated steps of doubles", DType::F64)]
    {
        let (j, i) = (global(3, 0), global(19, 1));
        let step = |n: i64| {
            let e = &i * n + &j - 1;
            buf(n as u32 - 1, 17 * n + 1, d).at(&gated(&within(&e, 0, 17 * n + 1), &e)).load()
        };
        let v = step(2) + step(3) + step(4);
        add(name, UOp::sink([buf(0, 57, d).at(&(&j * 19 + &i)).store(&v).end([j, i])]));
    }

    // each channel by itself, every second place, with edges
    let (c_, y, x, dy, dx) = (global(3, 0), global(8, 1), global(21, 2), red(3, 3), red(3, 4));
    let (iy, ix) = (&y * 2 + &dy - 1, &x * 2 + &dx - 1);
    let inside = within(&iy, 0, 16).and_(&within(&ix, 0, 41));
    let input = buf(1, 3 * 16 * 41, F).at(&gated(&inside, &((&c_ * 16 + &iy) * 41 + &ix))).load();
    let weight = buf(2, 27, F).at(&((&c_ * 3 + &dy) * 3 + &dx)).load();
    let v = (&input * &weight).reduce(Alu::Add, [dy, dx]);
    let at = (&c_ * 8 + &y) * 21 + &x;
    add("depthwise, every second", UOp::sink([buf(0, 3 * 8 * 21, F).at(&at).store(&v).end([c_, y, x])]));

    // lanes a constant distance apart, of every size, read and written, under a gate of all lanes too
    for (name, d) in [
        ("floats far apart", F),
        ("doubles far apart", DType::F64),
        ("bytes far apart", DType::U8),
        ("halves far apart", DType::F16),
        ("truths far apart", DType::Bool),
    ] {
        let (j, i) = (global(3, 0), global(32, 1));
        let inside = j.lt(&UOp::index(2));
        let read = buf(1, 32 * 9, d).at(&gated(&inside, &(&i * 9 + &j))).load();
        let near = buf(2, 96, d).at(&(&j * 32 + &i)).load();
        let v = if d == DType::Bool { read.or_(&near) } else { &read + &near };
        let far = buf(0, 32 * 11, d).at(&gated(&inside, &(&i * 11 + &j * 3))).store(&v);
        let side = buf(3, 96, d).at(&(&j * 32 + &i)).store(&v);
        add(name, UOp::sink([far.end([j.clone(), i.clone()]), side.end([j, i])]));
    }

    let (i, j) = (global(8, 0), global(6, 1));
    let x = buf(1, 48, F).at(&(&i * 6 + &j)).load() + &buf(2, 6, F).at(&j).load();
    let x = x.bin(Alu::Mul, &i.cast(F));
    add(
        "broadcast and a range as a value",
        UOp::sink([buf(0, 48, F).at(&(&i * 6 + &j)).store(&x).end([i, j])]),
    );

    add("every second step", transposed(32, 4, 2, 1));
    add("every second step of three, backwards", transposed(32, 3, 2, -1));
    add("every third step, results not a multiple", transposed(25, 5, 3, 1));

    let r = red(256, 0);
    let s = buf(1, 256, F).at(&r).load().reduce(Alu::Add, [r]);
    add("sum of all", UOp::sink([buf(0, 1, F).at(&UOp::index(0)).store(&s)]));

    let (i, r) = (global(10, 0), red(36, 1));
    let x = buf(1, 360, F).at(&(&i * 36 + &r)).load();
    let (sum, max, squares) =
        (x.reduce(Alu::Add, [r.clone()]), x.reduce(Alu::Max, [r.clone()]), (&x * &x).reduce(Alu::Add, [r]));
    let out = |slot| buf(slot, 10, F).at(&i);
    add(
        "sum, max and squares",
        UOp::sink([
            out(0).store(&sum).end([i.clone()]),
            out(2).store(&max).end([i.clone()]),
            out(3).store(&squares).end([i.clone()]),
        ]),
    );

    let (j, r) = (global(24, 0), red(15, 1));
    let s = buf(1, 360, F).at(&(&r * 24 + &j)).load().reduce(Alu::Add, [r]);
    add("sum of columns", UOp::sink([buf(0, 24, F).at(&j).store(&s).end([j])]));

    let (i, r, q) = (global(6, 0), red(5, 1), red(8, 2));
    let inner = buf(1, 240, F).at(&((&i * 5 + &r) * 8 + &q)).load().reduce(Alu::Max, [q]);
    let s = (inner + &c(1.0)).reduce(Alu::Add, [r]);
    add("sum of maxima", UOp::sink([buf(0, 6, F).at(&i).store(&s).end([i])]));

    add("matmul", matmul(16, 24, 20));
    add("odd matmul", matmul(5, 7, 9));
    add("matmul of primes", matmul(17, 37, 19));
    add("matmul of large primes", matmul(31, 101, 67));

    // by its input: windows of a padded gradient, walked backwards through the weights
    let (b, ci, y, x) = (global(2, 0), global(16, 1), global(10, 2), global(12, 3));
    let (co, u, v) = (red(4, 4), red(3, 5), red(3, 6));
    let (iy, ix) = (&y + &u - 2, &x + &v - 2);
    let g = within(&iy, 0, 8).and_(&within(&ix, 0, 10));
    let dy = buf(1, 2 * 4 * 80, F).at(&gated(&g, &(((&b * 4 + &co) * 8 + &iy) * 10 + &ix))).load();
    let w = buf(2, 4 * 16 * 9, F).at(&((&co * 16 + &ci) * 9 + 8 - &u * 3 - &v)).load();
    let dx = (&dy * &w).reduce(Alu::Add, [co, u, v]);
    let at = ((&b * 16 + &ci) * 10 + &y) * 12 + &x;
    add(
        "convolution by its input",
        UOp::sink([buf(0, 2 * 16 * 120, F).at(&at).store(&dx).end([b, ci, y, x])]),
    );

    // in steps of two: neighbours share one column
    let (o, y, x, c_, u, v) = (global(16, 0), global(5, 1), global(6, 2), red(3, 3), red(3, 4), red(3, 5));
    let i = buf(1, 3 * 11 * 13, F).at(&((&c_ * 11 + &y * 2 + &u) * 13 + &x * 2 + &v)).load();
    let w = buf(2, 16 * 27, F).at(&(((&o * 3 + &c_) * 3 + &u) * 3 + &v)).load();
    let s = (&i * &w).reduce(Alu::Add, [c_, u, v]);
    let at = (&o * 5 + &y) * 6 + &x;
    add("convolution in steps", UOp::sink([buf(0, 16 * 30, F).at(&at).store(&s).end([o, y, x])]));
    add("conv", conv(2, 3, 4, 6, 3));

    // each channel by itself, between zeros
    let (ch, y, x, u, v) = (global(6, 0), global(28, 1), global(28, 2), red(3, 3), red(3, 4));
    let (iy, ix) = (&y + &u - 1, &x + &v - 1);
    let g = within(&iy, 0, 28).and_(&within(&ix, 0, 28));
    let i = buf(1, 6 * 784, F).at(&gated(&g, &((&ch * 28 + &iy) * 28 + &ix))).load();
    let w = buf(2, 6 * 9, F).at(&((&ch * 3 + &u) * 3 + &v)).load();
    let s = (&i * &w).reduce(Alu::Add, [u, v]);
    let at = (&ch * 28 + &y) * 28 + &x;
    add("convolution of each channel", UOp::sink([buf(0, 6 * 784, F).at(&at).store(&s).end([ch, y, x])]));

    // argmax: the greatest of n - i where x is the maximum
    let (i, r, q) = (global(6, 0), red(32, 1), red(32, 2));
    let x = |r: &UOp| buf(1, 192, F).at(&(&i * 32 + r)).load();
    let m = x(&r).reduce(Alu::Max, [r]);
    let place = (UOp::index(32) - &q).cast(DType::I32);
    let hit = x(&q).eq_(&m).select(&place, &UOp::int(0, DType::I32)).reduce(Alu::Max, [q]);
    let arg = UOp::int(32, DType::I32) - &hit;
    add("argmax", UOp::sink([buf(0, 6, DType::I32).at(&i).store(&arg).end([i.clone()])]));

    // cumsum along the first axis: the ordered range comes first in the kernel
    let (r, j) = (range(9, 0, AxisKind::Ordered), global(16, 1));
    let x = buf(1, 144, F).at(&(&r * 16 + &j)).load();
    let s = UOp::new(Op::Scan, F, [x, r.clone()], Arg::Alu(Alu::Add));
    add("cumsum of columns", UOp::sink([buf(0, 144, F).at(&(&r * 16 + &j)).store(&s).end([r, j])]));

    let (j, r) = (global(8, 0), range(12, 1, AxisKind::Ordered));
    let x = buf(1, 96, F).at(&(&j * 12 + &r)).load();
    let s = UOp::new(Op::Scan, F, [x, r.clone()], Arg::Alu(Alu::Max));
    add("cummax of rows", UOp::sink([buf(0, 96, F).at(&(&j * 12 + &r)).store(&s).end([j, r])]));

    // what is combined does not depend on the range it is combined over
    let r = red(4, 0);
    let same = buf(1, 1, DType::I32).at(&UOp::index(0)).load().reduce(Alu::Mul, [r]);
    add("power by repetition", UOp::sink([buf(0, 1, DType::I32).at(&UOp::index(0)).store(&same)]));
    let (i, r) = (global(6, 0), red(12, 1));
    let same = buf(1, 6, DType::I32).at(&i).load().reduce(Alu::Add, [r]);
    add("multiple by repetition", UOp::sink([buf(0, 6, DType::I32).at(&i).store(&same).end([i])]));

    // every row counts from one again, though what it adds does not depend on the row
    let (j, r) = (global(5, 0), range(8, 1, AxisKind::Ordered));
    let x = j.lt(&UOp::index(3)).select(&buf(1, 40, F).at(&(&j * 8 + &r)).load(), &c(2.0));
    let s = UOp::new(Op::Scan, F, [x, r.clone()], Arg::Alu(Alu::Add));
    add("cumsum of masked rows", UOp::sink([buf(0, 40, F).at(&(&j * 8 + &r)).store(&s).end([j, r])]));
    let (j, r) = (global(5, 0), range(8, 1, AxisKind::Ordered));
    let s = UOp::new(Op::Scan, F, [buf(1, 8, F).at(&r).load(), r.clone()], Arg::Alu(Alu::Add));
    add("the same cumsum in every row", UOp::sink([buf(0, 40, F).at(&(&j * 8 + &r)).store(&s).end([j, r])]));

    // rows picked by data, checked
    let (i, j) = (global(10, 0), global(8, 1));
    let at = buf(1, 10, DType::I32).at(&i).load().cast(DType::Index);
    let idx = gated(&within(&at, 0, 5), &(&at * 8 + &j));
    let x = UOp::new(Op::Load, F, [buf(2, 40, F).at(&idx)], Arg::Site(3));
    add("gather", UOp::sink([buf(0, 80, F).at(&(&i * 8 + &j)).store(&x).end([i, j])]));

    // rows added at places given by data, in order
    let (m, j) = (range(10, 0, AxisKind::Ordered), global(8, 1));
    let at = buf(1, 10, DType::I32).at(&m).load().cast(DType::Index);
    let idx = gated(&within(&at, 0, 5), &(&at * 8 + &j));
    let place = buf(0, 40, F).at(&idx);
    let old = UOp::new(Op::Load, F, [place.clone()], Arg::Site(4));
    let v = old + &buf(2, 80, F).at(&(&m * 8 + &j)).load();
    let store = UOp::new(Op::Store, DType::Void, [place, v], Arg::Site(4));
    add("scatter add", UOp::sink([store.end([m.clone(), j.clone()])]));
    let idx = gated(&within(&at, 0, 5), &(&at * 8 + &j));
    let v = buf(2, 80, F).at(&(&m * 8 + &j)).load();
    let store = UOp::new(Op::Store, DType::Void, [buf(0, 40, F).at(&idx), v], Arg::Site(4));
    add("scatter", UOp::sink([store.end([m, j])]));

    // a padded and flipped read
    let i = global(40, 0);
    let at = UOp::index(34) - &i;
    let x = buf(1, 30, F).at(&gated(&within(&at, 0, 30), &at)).load();
    add("pad and flip", UOp::sink([buf(0, 40, F).at(&i).store(&x).end([i])]));

    // some of the unrolled terms are outside for certain: constants beside vectors
    let (i, j, r) = (global(2, 0), global(4, 1), red(5, 2));
    let row = &i - &r + 3;
    let at = gated(&within(&row, 0, 2), &(&row * 4 + &j));
    let s = buf(1, 8, F).at(&at).load().reduce(Alu::Add, [r]);
    add("a window larger than its input", UOp::sink([buf(0, 8, F).at(&(&i * 4 + &j)).store(&s).end([i, j])]));

    // through div and mod, as reshapes leave them
    let (i, j) = (global(12, 0), global(8, 1));
    let flat = &i * 8 + &j;
    let idx = flat.modulo(&UOp::index(6)) * 16 + flat.floordiv(&UOp::index(6));
    let x = buf(1, 96, F).at(&idx).load();
    add("reshape of a transpose", UOp::sink([buf(0, 96, F).at(&flat).store(&x).end([i, j])]));

    let i = global(32, 0);
    let x = buf(1, 32, DType::U8).at(&i).load().cast(DType::I64) * &UOp::int(3, DType::I64);
    let y = buf(2, 32, DType::F64).at(&i).load().cast(F);
    add(
        "several types",
        UOp::sink([
            buf(0, 32, DType::I64).at(&i).store(&x).end([i.clone()]),
            buf(3, 32, F).at(&i).store(&y).end([i.clone()]),
        ]),
    );

    // a matrix times a vector, both operands along the reduce
    let (i, r) = (global(12, 0), red(64, 1));
    let x = (buf(1, 768, F).at(&(&i * 64 + &r)).load() * &buf(2, 64, F).at(&r).load()).reduce(Alu::Add, [r]);
    add("matrix times vector", UOp::sink([buf(0, 12, F).at(&i).store(&x).end([i])]));

    // one number for all, computed in the kernel, and no range in common
    let (i, r) = (global(16, 0), red(16, 1));
    let total = buf(1, 16, F).at(&r).load().reduce(Alu::Add, [r]);
    let x = buf(1, 16, F).at(&i).load() - &total;
    add("minus the total", UOp::sink([buf(0, 16, F).at(&i).store(&x).end([i])]));

    // extents known at launch
    for n in [1, 5, 16] {
        let t = UOp::variable("t", 1, 16);
        let (i, r) = (UOp::range(&t, 0, AxisKind::Global), UOp::range(&t, 1, AxisKind::Reduce));
        let j = global(8, 2);
        let a = buf(1, 256, F).at(&(&i * &t + &r)).load();
        let b = buf(2, 128, F).at(&(&r * 8 + &j)).load();
        let x = (a * &b).reduce(Alu::Add, [r]);
        let sink = UOp::sink([buf(0, 128, F).at(&(&i * 8 + &j)).store(&x).end([i, j])]);
        all.push(Case { name: "symbolic matmul", sink, vars: vec![("t", n)], exact: true });
    }
    // rows of so many whole vectors, known at launch
    for blocks in [1, 3] {
        let n = UOp::variable("t", 1, 4) * 32;
        let (g, r, q) =
            (global(5, 0), UOp::range(&n, 1, AxisKind::Reduce), UOp::range(&n, 2, AxisKind::Loop));
        let x = |i: &UOp| buf(1, 5 * 128, F).at(&(&g * &n + i)).load();
        let most = x(&r).reduce(Alu::Max, [r.clone()]);
        let v = x(&q) - &most + &x(&r).reduce(Alu::Add, [r.clone()]);
        let sink = UOp::sink([buf(0, 5 * 128, F).at(&(&g * &n + &q)).store(&v).end([g.clone(), q])]);
        all.push(Case { name: "symbolic rows", sink, vars: vec![("t", blocks)], exact: true });
    }
    for across in [false, true] {
        all.push(Case {
            name: "gated products",
            sink: gated_products(7, 20, 6, across),
            vars: vec![],
            exact: true,
        });
        all.push(Case {
            name: "made factors",
            sink: made_factors(7, 20, 6, across),
            vars: vec![],
            exact: true,
        });
    }
    all.push(Case { name: "quantised product", sink: quantised(1, 12, 3), vars: vec![], exact: true });
    all.push(Case {
        name: "quantised product of a row",
        sink: quantised(1, 1, 3),
        vars: vec![],
        exact: true,
    });
    all.push(Case {
        name: "quantised product of tokens",
        sink: quantised(3, 12, 3),
        vars: vec![],
        exact: true,
    });
    all.push(Case { name: "sines", sink: sines(7, 83), vars: vec![], exact: false });
    all.push(Case { name: "softmax", sink: softmax(6, 24), vars: vec![], exact: false });
    // rows that are kept, once with an edge
    all.push(Case { name: "softmax of longer rows", sink: softmax(4, 80), vars: vec![], exact: false });
    all.push(Case { name: "softmax of odd rows", sink: softmax(3, 67), vars: vec![], exact: false });
    // longer rows, once with an edge
    all.push(Case { name: "softmax of longer rows", sink: softmax(3, 80), vars: vec![], exact: false });
    all.push(Case { name: "softmax of odd rows", sink: softmax(3, 67), vars: vec![], exact: false });
    all
}
