//! Printing as numpy prints.

use crate::error::Result;
use crate::tensor::Tensor;
use frit_uop::{DType, Scalar};
use std::fmt;

/// Beyond this many elements only the edges are shown.
const SUMMARISE: usize = 1000;
/// How many at each edge.
const EDGE: usize = 3;
/// Columns of a line.
const WIDTH: usize = 75;
/// Digits after the point.
const PRECISION: usize = 4;

/// Computes and prints the values; a failed tensor prints its error.
impl fmt::Display for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match text(self) {
            Ok(s) => f.write_str(&s),
            Err(e) => write!(f, "<{e}>"),
        }
    }
}

fn text(t: &Tensor) -> Result<String> {
    let dims = t.dims()?;
    let values = t.to_scalars()?;
    let big = values.len() > SUMMARISE;
    let shown = visible(&dims, big);
    let format =
        Format::of(&shown.iter().filter_map(|&i| values.get(i).copied()).collect::<Vec<_>>(), t.dtype());
    let mut out = String::new();
    block(&mut out, &dims, 0, 0, big, &|i| values.get(i).map_or_else(String::new, |v| format.show(*v)));
    Ok(out)
}

/// The places that are printed.
fn visible(dims: &[usize], big: bool) -> Vec<usize> {
    dims.iter().fold(vec![0], |places, &d| {
        let keep: Vec<usize> =
            (0..d).filter(|i| !big || d <= 2 * EDGE || *i < EDGE || *i >= d - EDGE).collect();
        places.iter().flat_map(|p| keep.iter().map(move |i| p * d + i)).collect()
    })
}

fn block(
    out: &mut String,
    dims: &[usize],
    depth: usize,
    at: usize,
    big: bool,
    show: &dyn Fn(usize) -> String,
) {
    let Some(&d) = dims.get(depth) else {
        out.push_str(&show(at));
        return;
    };
    let last = depth + 1 == dims.len();
    let inner: usize = dims[depth + 1..].iter().product();
    let gap = if big && d > 2 * EDGE { Some(EDGE) } else { None };
    out.push('[');
    let mut column = depth + 1;
    let mut first = true;
    let mut i = 0;
    while i < d {
        let dots = gap == Some(i);
        let item = if dots {
            "...".to_string()
        } else if last {
            show(at + i)
        } else {
            let mut s = String::new();
            block(&mut s, dims, depth + 1, at + i * inner, big, show);
            s
        };
        if !first {
            if last && column + 1 + item.len() <= WIDTH {
                out.push(' ');
                column += 1;
            } else if last {
                out.push('\n');
                out.push_str(&" ".repeat(depth + 1));
                column = depth + 1;
            } else {
                out.push_str(&"\n".repeat(dims.len() - depth - 1));
                out.push_str(&" ".repeat(depth + 1));
            }
        }
        first = false;
        column += item.len();
        out.push_str(&item);
        i = if dots { d - EDGE } else { i + 1 };
    }
    out.push(']');
}

/// One way of writing for all elements, so that columns line up.
struct Format {
    width: usize,
    digits: usize,
    exponent: bool,
}

impl Format {
    fn of(values: &[Scalar], dtype: DType) -> Format {
        let mut f = Format { width: 0, digits: 0, exponent: false };
        if dtype.is_float() {
            let finite = || values.iter().map(|v| v.as_f64()).filter(|v| v.is_finite());
            let nonzero = || finite().map(f64::abs).filter(|v| *v != 0.0);
            let (lo, hi) = (nonzero().fold(f64::INFINITY, f64::min), nonzero().fold(0.0, f64::max));
            f.exponent = hi >= 1e8 || (lo.is_finite() && (lo < 1e-4 || hi / lo > 1e3 && lo < 1e-3));
            // as many digits as the longest needs, up to the precision
            let need = |v: f64| {
                let s = if f.exponent { format!("{v:.PRECISION$e}") } else { format!("{v:.PRECISION$}") };
                let mantissa = s.split('e').next().unwrap_or("").trim_end_matches('0').to_string();
                mantissa.split('.').nth(1).map_or(0, str::len)
            };
            f.digits = finite().map(need).max().unwrap_or(0);
        }
        f.width = values.iter().map(|v| f.plain(*v).len()).max().unwrap_or(0);
        f
    }
    fn plain(&self, v: Scalar) -> String {
        match v {
            Scalar::Bool(b) => if b { "True" } else { "False" }.into(),
            Scalar::Int(i) => i.to_string(),
            Scalar::Uint(u) => u.to_string(),
            Scalar::Float(x) if x.is_nan() => "nan".into(),
            Scalar::Float(x) if x.is_infinite() => if x < 0.0 { "-inf" } else { "inf" }.into(),
            Scalar::Float(x) if self.exponent => {
                // numpy writes at least two digits of exponent, with a sign
                let s = format!("{x:.*e}", self.digits);
                let (m, e) = s.split_once('e').unwrap_or((&s, "0"));
                let e: i32 = e.parse().unwrap_or(0);
                format!(
                    "{m}{}e{}{:02}",
                    if self.digits == 0 { "." } else { "" },
                    if e < 0 { '-' } else { '+' },
                    e.abs()
                )
            }
            Scalar::Float(x) if self.digits == 0 => format!("{x:.0}."),
            Scalar::Float(x) => {
                // trailing zeros become spaces, as numpy's columns have them
                let s = format!("{x:.*}", self.digits);
                let t = s.trim_end_matches('0');
                format!("{t}{}", " ".repeat(s.len() - t.len()))
            }
        }
    }
    fn show(&self, v: Scalar) -> String {
        format!("{:>1$}", self.plain(v), self.width)
    }
}
