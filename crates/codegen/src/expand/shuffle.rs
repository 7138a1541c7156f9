//! Vectors transposed in registers: what is read along one axis and wanted along another, and every n-th element of
//! what lies side by side.
//!
//! ```text
//! rows (a b c d), (e f g h), …    ->   (a e i m), (b f j n), …          a square of both axes
//! a b c d e f g h                 ->   a c e g                          every second one of two vectors
//! ```
//!
//! Everything is written as shuffles of two vectors, of the kinds that machines have: neighbours interleaved within
//! chunks, then whole chunks exchanged.

use frit_uop::UOp;

/// Transpose squares of `n` by `n`, side by side in `n` vectors: lane `b*n + i` of the j-th result is lane `b*n + j` of
/// the i-th vector.
pub fn transpose(rows: &[UOp], bytes: usize, chunk_bytes: usize) -> Vec<UOp> {
    let n = rows.len();
    let w = rows[0].lanes();
    let chunk = n.min((chunk_bytes / bytes.max(1)).max(1));
    let (near, all) = (chunk.trailing_zeros(), n.trailing_zeros());
    let mut v: Vec<UOp> = rows.to_vec();
    // the row and column each lane comes from
    let mut lanes: Vec<Vec<(usize, usize)>> =
        (0..n).map(|r| (0..n).map(|c| (r, c)).collect::<Vec<_>>()).collect();
    for stage in 0..all {
        let (even, odd) = if stage < near { interleaved(n, chunk, 1 << stage) } else { exchanged(n, chunk) };
        let wide = |square: &[u8]| -> Vec<u8> {
            // the table of one square for all that stand side by side
            (0..w)
                .map(|l| {
                    let (block, from) = (l / n * n, square[l % n] as usize);
                    (block + from % n + from / n * w) as u8
                })
                .collect()
        };
        for i in (0..n).filter(|i| i >> stage & 1 == 0) {
            let j = i | 1 << stage;
            let (a, b) = (v[i].clone(), v[j].clone());
            (v[i], v[j]) = (a.shuffle(&b, &wide(&even)), a.shuffle(&b, &wide(&odd)));
            let of = |t: &[u8]| -> Vec<(usize, usize)> {
                t.iter()
                    .map(|&l| if (l as usize) < n { lanes[i][l as usize] } else { lanes[j][l as usize - n] })
                    .collect()
            };
            (lanes[i], lanes[j]) = (of(&even), of(&odd));
        }
    }
    let mut columns: Vec<(usize, UOp)> = lanes.iter().map(|l| l[0].1).zip(v).collect();
    columns.sort_by_key(|c| c.0);
    columns.into_iter().map(|c| c.1).collect()
}

/// Groups of `g` lanes of two vectors in turn: of the lower half of every chunk, and of the upper.
fn interleaved(n: usize, chunk: usize, g: usize) -> (Vec<u8>, Vec<u8>) {
    let table = |upper: usize| {
        (0..n)
            .map(|l| {
                let (base, k) = (l / chunk * chunk, l % chunk);
                let (group, within) = (k / g, k % g);
                let lane = base + upper * chunk / 2 + group / 2 * g + within;
                (lane + group % 2 * n) as u8
            })
            .collect()
    };
    (table(0), table(1))
}

/// The even chunks of one vector, then those of the other; and the odd ones.
fn exchanged(n: usize, chunk: usize) -> (Vec<u8>, Vec<u8>) {
    let table = |odd: usize| {
        (0..n)
            .map(|l| {
                let (k, within) = (l / chunk, l % chunk);
                let half = n / chunk / 2;
                (within + (k % half * 2 + odd) * chunk + k / half * n) as u8
            })
            .collect()
    };
    (table(0), table(1))
}

/// Short vectors side by side in one of `w` lanes; as many as fill it.
pub fn join(mut parts: Vec<UOp>) -> UOp {
    while parts.len() > 1 {
        parts = parts
            .chunks(2)
            .map(|p| {
                let all: Vec<u8> = (0..2 * p[0].lanes() as u8).collect();
                if p.len() == 2 { p[0].shuffle(&p[1], &all) } else { p[0].clone() }
            })
            .collect();
    }
    parts.swap_remove(0)
}

/// `n` lanes of a vector, from `at` on.
pub fn cut(x: &UOp, at: usize, n: usize) -> UOp {
    if n == x.lanes() {
        return x.clone();
    }
    let part: Vec<u8> = (at..at + n).map(|l| l as u8).collect();
    x.shuffle(x, &part)
}

/// Where vectors of `w` lanes begin that hold every `step`-th element, `w` of them, and nothing beyond the last.
pub fn covering(w: usize, step: usize) -> Vec<usize> {
    let span = (w - 1) * step + 1;
    (0..span.div_ceil(w)).map(|k| (k * w).min(span - w)).collect()
}

/// Every `step`-th element of vectors that begin where [`covering`] says.
pub fn every(vectors: &[UOp], step: usize) -> UOp {
    use std::cmp::Ordering::*;
    let w = vectors[0].lanes();
    let starts = covering(w, step);
    let owner = |e: usize| starts.iter().position(|s| e < s + w).unwrap_or(0);
    let mut found = vectors[0].clone();
    for (k, v) in vectors.iter().enumerate().skip(1) {
        let from = |i: usize| match owner(i * step).cmp(&k) {
            Less if k == 1 => i * step,
            Less => i, // in its place already
            Equal => w + i * step - starts[k],
            Greater => 0, // a later vector has it
        };
        let table: Vec<u8> = (0..w).map(|i| from(i) as u8).collect();
        found = found.shuffle(v, &table);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use frit_uop::{Arg, Op};

    /// The lanes of a value made by shuffles of stacks of numbers.
    fn lanes(n: &UOp) -> Vec<i64> {
        match (n.op, &n.arg) {
            (Op::Shuffle, Arg::Axes(from)) => {
                let both = [lanes(&n.src[0]), lanes(&n.src[1])].concat();
                from.iter().map(|&l| both[l as usize]).collect()
            }
            _ => n.src.iter().filter_map(|s| s.as_int()).collect(),
        }
    }
    fn numbers(from: usize, n: usize, step: usize) -> UOp {
        UOp::stack((0..n).map(|i| UOp::int((from + i * step) as i64, frit_uop::DType::I32)))
    }

    #[test]
    fn squares_are_transposed_for_every_width() {
        for bytes in [1, 2, 4, 8] {
            for (n, w) in [(2, 2), (4, 4), (8, 8), (16, 16), (4, 16), (8, 16), (2, 8), (32, 32)] {
                let rows: Vec<UOp> = (0..n).map(|r| numbers(1000 * r, w, 1)).collect();
                for (j, column) in transpose(&rows, bytes, 16).iter().enumerate() {
                    let wanted: Vec<i64> = (0..w).map(|l| (l % n * 1000 + l / n * n + j) as i64).collect();
                    assert_eq!(lanes(column), wanted, "{bytes} bytes, {n} of {w}, column {j}");
                }
            }
        }
    }
    #[test]
    fn every_nth_element_is_found_and_nothing_beyond_the_last_is_read() {
        for w in [2, 4, 8, 16] {
            for step in [2, 3, 4] {
                let starts = covering(w, step);
                let span = (w - 1) * step + 1;
                assert!(starts.iter().all(|s| s + w <= span));
                let vectors: Vec<UOp> = starts.iter().map(|&s| numbers(s, w, 1)).collect();
                let wanted: Vec<i64> = (0..w).map(|i| (i * step) as i64).collect();
                assert_eq!(lanes(&every(&vectors, step)), wanted, "{w} lanes, step {step}");
            }
        }
    }
    #[test]
    fn parts_are_joined_and_cut_again() {
        let parts: Vec<UOp> = (0..4).map(|k| numbers(4 * k, 4, 1)).collect();
        let all = join(parts);
        assert_eq!(lanes(&all), (0..16).collect::<Vec<i64>>());
        assert_eq!(lanes(&cut(&all, 8, 4)), vec![8, 9, 10, 11]);
    }
}
