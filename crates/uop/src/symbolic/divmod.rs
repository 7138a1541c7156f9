//! Division and modulo by constants, with floor semantics: `-7 // 2 = -4`, `-7 % 2 = 1`.
//!
//! ```text
//! (i*32 + j) // 32      -> i                  j in 0..32
//! (i*4 + j) % 8         -> i%2*4 + j          j in 0..4
//! (x//a)//b             -> x//(a*b)
//! x%(a*b)//b            -> x//b%a
//! (x - 1)//4            -> (x + 3)//4 - 1     numerators are not negative where that can be had
//! ```
//!
//! A quotient and a remainder of the same value get the same numerator, so that sums can put them together again.

use super::sum::{Sum, gcd};
use crate::node::UOp;
use crate::op::Op;
use frit_abi::{Alu, DType};

/// `n = x // c` or `x % c` in canonical form; `None` if it has it or nothing is known.
pub fn simplify(n: &UOp) -> Option<UOp> {
    let [x, d] = n.operands();
    let Some(c) = d.as_int() else { return by_symbol(n, x, d) };
    match c {
        0 => Some(n.const_like(0)),
        1 => Some(if n.op == Op::Idiv { x.clone() } else { n.const_like(0) }),
        i64::MIN => None,
        c if c < 0 => by_negative(n, x, c),
        c => by_positive(n, x, c),
    }
}

/// `x // -c -> (x * -1) // c`, `x % -c -> (x * -1) % c * -1`, for values whose negation does not wrap.
fn by_negative(n: &UOp, x: &UOp, c: i64) -> Option<UOp> {
    let lowest = n.dtype.int_range()?.0;
    // an index that is not bounded is still one whose negation exists
    if n.dtype != DType::Index && (x.bounds.0 <= lowest || c as i128 == lowest) {
        return None;
    }
    let r = (x * -1).bin(n.op.alu()?, &n.const_like(-c));
    Some(if n.op == Op::Idiv { r } else { r * -1 })
}

fn by_positive(n: &UOp, x: &UOp, c: i64) -> Option<UOp> {
    let is_div = n.op == Op::Idiv;
    // one quotient for all values: also right where the sum wraps, since these are the bounds of what it wraps to
    let (c1, (lo, hi)) = (c as i128, x.bounds);
    if lo.div_euclid(c1) == hi.div_euclid(c1) {
        let q = i64::try_from(lo.div_euclid(c1)).ok()?;
        return Some(if is_div { n.const_like(q) } else { x + q.checked_mul(-c)? });
    }
    match (n.op, x.op) {
        // (y//a)//c -> y//(a*c)
        (Op::Idiv, Op::Idiv) => {
            if let Some(ac) = positive(x.rhs()).and_then(|a| product(a, c, n.dtype)) {
                return Some(x.lhs().floordiv(&n.const_like(ac)));
            }
        }
        // y%(a*c)//c -> y//c%a
        (Op::Idiv, Op::Mod) => {
            if let Some(m) = positive(x.rhs()).filter(|m| m % c == 0) {
                return Some(x.lhs().floordiv(&n.const_like(c)).modulo(&n.const_like(m / c)));
            }
        }
        _ => {}
    }
    let s = Sum::of(x);
    if !s.exact {
        return None;
    }
    // (y//a + k)//c -> (y + k*a)//(a*c)
    if let (true, [(t, 1)]) = (is_div, &s.terms[..])
        && t.op == Op::Idiv
        && s.constant != 0
        && let Some(a) = positive(t.rhs())
        && let (Some(ac), Some(ka)) = (product(a, c, n.dtype), s.constant.checked_mul(a))
    {
        let mut y = Sum::of(t.lhs());
        y.constant = y.constant.checked_add(ka)?;
        if y.exact && y.fits() {
            return Some(y.build().floordiv(&n.const_like(ac)));
        }
    }
    // (y%m + z)%c -> (y + z)%c where c divides m
    if !is_div && s.terms.iter().any(|(t, _)| mod_of_multiple(t, c).is_some()) {
        let mut y = Sum::constant(s.constant, s.dtype);
        for (t, k) in &s.terms {
            match mod_of_multiple(t, c) {
                Some(inner) => y.add(&Sum::of(inner), *k),
                None => y.push(t, *k),
            }
        }
        y.normalise();
        if y.exact && y.fits() {
            return Some(y.build().modulo(&n.const_like(c)));
        }
    }
    reduce(n, &s, c, is_div)
}

/// Split off multiples of `c`, then factors shared with `c`.
fn reduce(n: &UOp, s: &Sum, c: i64, is_div: bool) -> Option<UOp> {
    let c1 = c as i128;
    // remainders of the coefficients nearest to zero may have one quotient for all values: then it is all linear
    let near = s.clone().map(|k| nearest(k, c));
    let (lo, hi) = near.bounds();
    if lo.div_euclid(c1) == hi.div_euclid(c1) && near.fits() {
        let q = i64::try_from(lo.div_euclid(c1)).ok()?;
        let mut r =
            if is_div { s.clone().map(|k| ((k as i128 - nearest(k, c) as i128) / c1) as i64) } else { near };
        r.constant = r.constant.checked_add(if is_div { q } else { q.checked_mul(-c)? })?;
        return Some(r.build());
    }
    // k = c*q + r with r of k's sign, for every term; the constant makes the numerator not negative if it can
    let mut rest = s.clone().map(|k| k % c);
    rest.constant = s.constant.rem_euclid(c);
    let low = rest.bounds().0;
    if low < 0 && low > -(1 << 40) {
        rest.constant = rest.constant.checked_add(i64::try_from((-low + c1 - 1) / c1 * c1).ok()?)?;
    }
    if !rest.fits() {
        return None;
    }
    let mut whole = s.clone().map(|k| k / c);
    whole.constant = s.constant.checked_sub(rest.constant)? / c;
    let numerator = factored(&rest, n, c, is_div);
    let rest_node = numerator
        .unwrap_or_else(|| rest.build().bin(if is_div { Alu::Idiv } else { Alu::Mod }, &n.const_like(c)));
    if !is_div || (whole.terms.is_empty() && whole.constant == 0) {
        return Some(rest_node);
    }
    whole.push(&rest_node, 1);
    whole.normalise();
    Some(whole.build())
}

/// `(g*y + z) // (g*c) -> y // c` and `% -> y%c*g + z` where z stays below g.
fn factored(s: &Sum, n: &UOp, c: i64, is_div: bool) -> Option<UOp> {
    let mut tried = [0i64; 8];
    for (i, (_, k)) in s.terms.iter().enumerate().take(8) {
        let g = gcd(*k, c);
        tried[i] = g;
        if g <= 1 || tried[..i].contains(&g) {
            continue;
        }
        let (high, mut low) = s.partition(|k| k % g == 0);
        let q = low.constant.div_euclid(g);
        low.constant -= q * g;
        let (lo, hi) = low.bounds();
        let (g1, over) = (g as i128, lo.div_euclid(g as i128));
        if over != hi.div_euclid(g1) {
            continue;
        }
        let over = i64::try_from(over).ok()?;
        low.constant = low.constant.checked_sub(over.checked_mul(g)?)?;
        let mut y = high.map(|k| k / g);
        y.constant = q + over;
        if !y.fits() || !low.fits() {
            continue;
        }
        let y = y.build();
        return Some(if is_div {
            y.floordiv(&n.const_like(c / g))
        } else {
            y.modulo(&n.const_like(c / g)) * g + low.build()
        });
    }
    None
}

/// Division by a size that is not known: `(i*T + j) // T -> i` for j in 0..T.
fn by_symbol(n: &UOp, x: &UOp, d: &UOp) -> Option<UOp> {
    if n.dtype != DType::Index || d.bounds.0 <= 0 {
        return None;
    }
    let s = Sum::of(x);
    let (mut whole, mut rest) = (Sum::constant(0, s.dtype), Sum::constant(s.constant, s.dtype));
    for (t, k) in &s.terms {
        match over(t, *k, d) {
            Some((None, q)) => whole.constant += q,
            Some((Some(t), q)) => whole.push(&t, q),
            None => rest.push(t, *k),
        }
    }
    whole.normalise();
    rest.normalise();
    let mut above = rest.clone();
    above.add(&Sum::of(d), -1);
    if rest.bounds().0 >= 0 && above.is_negative() {
        return Some(if n.op == Op::Idiv { whole.build() } else { rest.build() });
    }
    if whole.terms.is_empty() && whole.constant == 0 {
        return None;
    }
    let rest = rest.build().bin(n.op.alu()?, d);
    Some(if n.op == Op::Idiv { whole.build() + rest } else { rest })
}

/// `t*k / d` where `d` is among the factors of the term: what is left of it.
fn over(t: &UOp, k: i64, d: &UOp) -> Option<(Option<UOp>, i64)> {
    let (d, dk) = super::sum::split_term(d);
    if dk == 0 || k % dk != 0 {
        return None;
    }
    if t == d {
        return Some((None, k / dk));
    }
    if t.op != Op::Mul {
        return None;
    }
    let [a, b] = t.operands();
    if b == d {
        return Some((Some(a.clone()), k / dk));
    }
    // factors lean to the left
    match over(a, 1, d)? {
        (None, _) => Some((Some(b.clone()), k / dk)),
        (Some(a), _) => Some((Some(a * b), k / dk)),
    }
}

fn nearest(k: i64, c: i64) -> i64 {
    let r = k.rem_euclid(c);
    if r > c / 2 { r - c } else { r }
}
fn positive(x: &UOp) -> Option<i64> {
    x.as_int().filter(|c| *c > 0)
}
fn product(a: i64, b: i64, d: DType) -> Option<i64> {
    a.checked_mul(b).filter(|p| d.int_range().is_some_and(|r| *p as i128 <= r.1))
}
fn mod_of_multiple(t: &UOp, c: i64) -> Option<&UOp> {
    (t.op == Op::Mod && positive(t.rhs()).is_some_and(|m| m % c == 0)).then(|| t.lhs())
}
