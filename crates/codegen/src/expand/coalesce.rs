//! Group scalar accesses to neighbouring places into the vectors the target can move.
//!
//! For targets whose arithmetic is scalar but whose loads and stores may be wide, as long as they are aligned: what a
//! lane's copies read and write side by side becomes one access.
//!
//! ```text
//! Load(p[i*4]), Load(p[i*4 + 1]), …             ->  v = Load(p[i*4] x4);  v.0, v.1, …
//! Store(p[i*4], a), Store(p[i*4 + 1], b), …     ->  Store(p[i*4] x4, Stack(a, b, …))
//! ```

use crate::error::Error;
use crate::kernel::access::{factor, without_constant};
use crate::kernel::word::bytes_of_word;
use crate::pass::Ctx;
use frit_uop::rewrite::replaced;
use frit_uop::{Arg, DType, Op, Space, UOp};
use rustc_hash::FxHashMap;
use smallvec::{SmallVec, smallvec};

/// What accesses must have in common to become one: memory, the index without its constant, alternative and gate (or
/// the lack of them), whom a miss is told to.
type Key = (UOp, UOp, SmallVec<[UOp; 2]>, Arg);

/// Accesses to consecutive places, the first one aligned.
struct Run {
    buf: UOp,
    /// The index of the first one, less `offset`.
    rest: UOp,
    offset: i64,
    accesses: Vec<UOp>,
}

/// The pass.
pub fn coalesce(sink: &UOp, ctx: &mut Ctx) -> Result<UOp, Error> {
    let bytes = ctx.target.vector_access_bytes;
    if bytes < 2 {
        return Ok(sink.clone());
    }
    let has_words = ctx.target.has_dot4();
    let order = sink.toposort();
    let found = runs(order.iter().filter(|n| n.op == Op::Load), bytes);
    let place: FxHashMap<&UOp, (usize, u32)> = found
        .iter()
        .enumerate()
        .flat_map(|(r, run)| run.accesses.iter().enumerate().map(move |(i, l)| (l, (r, i as u32))))
        .collect();
    let mut done: FxHashMap<UOp, UOp> = FxHashMap::default();
    for n in &order {
        let new = match place.get(n) {
            Some((r, lane)) => {
                let run = &found[*r];
                let w = run.accesses.len() as u32;
                let start = done.get(&run.rest).unwrap_or(&run.rest).fold_add(&UOp::index(run.offset));
                let mut src: SmallVec<[UOp; 4]> = smallvec![done[&run.buf].at_lanes(&start, w)];
                if let (Some(alt), Some(gate)) = (n.src.get(1), n.src.get(2)) {
                    src.extend([UOp::stack((0..w).map(|_| done[alt].clone())), done[gate].clone()]);
                }
                let lane = UOp::new(Op::Load, n.dtype, src, n.arg.clone()).lane(*lane);
                replaced("a lane of one wide load", n, &lane);
                lane
            }
            None => {
                let new = n.with_src(n.src.iter().map(|s| done[s].clone()).collect());
                match n.op {
                    // stores that are done together are sources of one `Sink`
                    Op::Sink => join_stores(&new, bytes),
                    Op::Or if has_words => word(&new).unwrap_or(new),
                    _ => new,
                }
            }
        };
        done.insert(n.clone(), new);
    }
    Ok(done[sink].clone())
}

/// A word put together from four neighbouring lanes of one load.
fn word(n: &UOp) -> Option<UOp> {
    let bytes = bytes_of_word(n, |b| b.op == Op::Lane && b.input().op == Op::Load)?;
    let (wide, first) = (bytes[0].input(), lane_number(&bytes[0])?);
    let follows = |(i, b): (u32, &UOp)| b.input() == wide && lane_number(b) == Some(first + i);
    if first % 4 != 0 || !wide.lanes().is_multiple_of(8) || !(0..).zip(&bytes).all(follows) {
        return None;
    }
    let word = UOp::new(Op::Words, DType::U32, [wide.clone()], Arg::None).lane(first / 4);
    replaced("a word of one wide load", n, &word);
    Some(word)
}
fn lane_number(n: &UOp) -> Option<u32> {
    if let Arg::Lane(i) = n.arg { Some(i) } else { None }
}

fn join_stores(sink: &UOp, bytes: usize) -> UOp {
    let stores = sink.src.iter().filter(|n| n.op == Op::Store && n.arg == Arg::None);
    let mut map: FxHashMap<UOp, Option<UOp>> = FxHashMap::default();
    for run in runs(stores, bytes) {
        let start = run.rest.fold_add(&UOp::index(run.offset));
        let value = side_by_side(run.accesses.iter().map(|s| s.value()));
        let mut src: SmallVec<[UOp; 4]> =
            smallvec![run.buf.at_lanes(&start, run.accesses.len() as u32), value];
        src.extend(run.accesses[0].gate().cloned());
        let mut wide = Some(UOp::new(Op::Store, sink.dtype, src, Arg::None));
        for s in run.accesses {
            wide.iter().for_each(|wide| replaced("part of one wide store", &s, wide));
            map.insert(s, wide.take());
        }
    }
    if map.is_empty() {
        return sink.clone();
    }
    sink.with_src(
        sink.src.iter().filter_map(|s| map.get(s).cloned().unwrap_or_else(|| Some(s.clone()))).collect(),
    )
}

/// A vector of values; that whose lanes they are, where they are all of one.
fn side_by_side<'n>(values: impl Iterator<Item = &'n UOp> + Clone) -> UOp {
    let whole = values.clone().next().filter(|x| x.op == Op::Lane).map(|x| x.input());
    let is_lane =
        |(i, x): (usize, &UOp)| x.op == Op::Lane && x.arg == Arg::Lane(i as u32) && Some(x.input()) == whole;
    match whole {
        Some(v) if v.lanes() == values.clone().count() && values.clone().enumerate().all(is_lane) => {
            v.clone()
        }
        _ => UOp::stack(values.cloned()),
    }
}

/// Aligned runs of accesses to consecutive places.
fn runs<'n>(accesses: impl Iterator<Item = &'n UOp>, bytes: usize) -> Vec<Run> {
    let mut groups: FxHashMap<Key, Vec<(i64, UOp)>> = FxHashMap::default();
    let mut keys: Vec<Key> = vec![];
    for n in accesses {
        let Some((buf, idx)) = n.buffer_and_index().filter(|_| n.src[0].arg == Arg::None) else { continue };
        if matches!(buf.behind_after().arg, Arg::Define { space: Space::Reg, .. }) {
            continue;
        }
        let (rest, offset) = without_constant(idx);
        let common = n.src.iter().skip(if n.op == Op::Store { 2 } else { 1 }).cloned().collect();
        let key = (buf.clone(), rest, common, n.arg.clone());
        let group = groups.entry(key.clone()).or_insert_with(|| {
            keys.push(key);
            vec![]
        });
        group.push((offset, n.clone()));
    }
    let mut found = vec![];
    for key in keys {
        let Some(mut group) = groups.remove(&key) else { continue };
        group.sort_by_key(|(o, _)| *o);
        // two stores to one place are left as they are
        if group.windows(2).any(|w| w[0].0 == w[1].0) {
            continue;
        }
        let (buf, rest, ..) = key;
        let (align, most) = (factor(&rest), bytes / buf.dtype.size().max(1));
        let mut at = 0;
        while at < group.len() {
            let offset = group[at].0;
            let wide = |w: &usize| {
                let run = group.get(at..at + w);
                *w <= most
                    && align % *w as i64 == 0
                    && offset % *w as i64 == 0
                    && run.is_some_and(|r| r.iter().enumerate().all(|(k, (o, _))| *o == offset + k as i64))
            };
            let w = [16, 8, 4, 2].into_iter().find(wide).unwrap_or(1);
            if w > 1 {
                let accesses = group[at..at + w].iter().map(|(_, n)| n.clone()).collect();
                found.push(Run { buf: buf.clone(), rest: rest.clone(), offset, accesses });
            }
            at += w;
        }
    }
    found
}
