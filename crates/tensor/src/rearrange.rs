//! Rearranging by a pattern with named axes, as einops has it: `"b (h w) c -> b c h w"`.
//!
//! ```text
//! name      an axis            1     an axis of size 1
//! (a b)     one dim of both    ...   all dims that have no name
//! ```
//! The left side takes dims apart into named axes, the right side says in which order they are put together.

use crate::error::{Result, call, fail};
use crate::shape::{Dim, Dims};
use crate::tensor::Tensor;

/// An axis of a pattern.
#[derive(Clone, PartialEq, Debug)]
enum Axis {
    Named(String),
    /// A number; 1, or how often to repeat.
    Count(usize),
}

/// The axes of each dim of one side, `...` already a list of names.
type Side = Vec<Vec<Axis>>;

struct Pattern<'a> {
    op: &'static str,
    text: &'a str,
    left: Side,
    right: Side,
}

impl Tensor {
    /// Dims taken apart, reordered and put together by a pattern; `sizes` are of axes that the shape does not tell.
    ///
    /// ```
    /// # use frit_tensor::*;
    /// let x = Tensor::zeros([2, 12, 3]);
    /// assert_eq!(x.rearrange("b (h w) c -> b c h w", &[("h", 4)]).shape(), [2, 3, 4, 3]);
    /// assert_eq!(x.rearrange("b ... -> (...) b 1", &[]).shape(), [36, 2, 1]);
    /// ```
    #[track_caller]
    pub fn rearrange(&self, pattern: &str, sizes: &[(&str, usize)]) -> Tensor {
        let _c = call("rearrange");
        let done = Pattern::parse("rearrange", pattern, self.rank()).and_then(|p| {
            let (left, right) = (names(&p.left), names(&p.right));
            match left.iter().chain(&right).find(|n| !left.contains(n) || !right.contains(n)) {
                Some(lone) => p.fail(format!("{lone} is on one side only")),
                None => p.put_together(&p.take_apart(self, sizes)?, &left, sizes),
            }
        });
        self.check().and(done).unwrap_or_else(Tensor::failed)
    }
    /// Channels moved into space: `(…, C r², H, W)` becomes `(…, C, H r, W r)`.
    #[track_caller]
    pub fn pixel_shuffle(&self, r: usize) -> Tensor {
        let _c = call("pixel_shuffle");
        self.rearrange("... (c i j) h w -> ... c (h i) (w j)", &[("i", r), ("j", r)])
    }
    /// Space moved into channels: `(…, C, H r, W r)` becomes `(…, C r², H, W)`.
    #[track_caller]
    pub fn pixel_unshuffle(&self, r: usize) -> Tensor {
        let _c = call("pixel_unshuffle");
        self.rearrange("... c (h i) (w j) -> ... (c i j) h w", &[("i", r), ("j", r)])
    }
    /// [`Tensor::rearrange`] where the right side may have new axes, along which elements are repeated.
    ///
    /// ```
    /// # use frit_tensor::*;
    /// let x = Tensor::new([[1, 2]]).einops_repeat("h w -> (h 2) (w n)", &[("n", 2)]);
    /// assert_eq!(x.to_vec::<i32>()?, [1, 1, 2, 2, 1, 1, 2, 2]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn einops_repeat(&self, pattern: &str, sizes: &[(&str, usize)]) -> Tensor {
        let _c = call("einops_repeat");
        let done = Pattern::parse("einops_repeat", pattern, self.rank()).and_then(|p| {
            let (left, right) = (names(&p.left), names(&p.right));
            match left.iter().find(|n| !right.contains(n)) {
                Some(lone) => p.fail(format!("{lone} is on the left only")),
                None => p.put_together(&p.take_apart(self, sizes)?, &left, sizes),
            }
        });
        self.check().and(done).unwrap_or_else(Tensor::failed)
    }
    /// [`Tensor::rearrange`] where axes that are not on the right side are reduced: by "sum", "mean", "max", "min",
    /// "prod", "any" or "all".
    ///
    /// ```
    /// # use frit_tensor::*;
    /// let x = Tensor::arange(8).reshape([2, 4]).einops_reduce("b (t n) -> b t", "max", &[("n", 2)]);
    /// assert_eq!(x.to_vec::<i32>()?, [1, 3, 5, 7]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn einops_reduce(&self, pattern: &str, how: &str, sizes: &[(&str, usize)]) -> Tensor {
        let _c = call("einops_reduce");
        let done = Pattern::parse("einops_reduce", pattern, self.rank()).and_then(|p| {
            let (left, right) = (names(&p.left), names(&p.right));
            if let Some(lone) = right.iter().find(|n| !left.contains(n)) {
                return p.fail(format!("{lone} is on the right only"));
            }
            let gone: Vec<isize> =
                (0..left.len()).filter(|&i| !right.contains(&left[i])).map(|i| i as isize).collect();
            let kept: Vec<String> = left.iter().filter(|n| right.contains(n)).cloned().collect();
            let x = p.take_apart(self, sizes)?;
            let axes = &gone[..];
            let x = match how {
                _ if gone.is_empty() => x,
                "sum" => x.sum(axes),
                "mean" => x.mean(axes),
                "max" => x.max(axes),
                "min" => x.min(axes),
                "prod" => x.prod(axes),
                "any" => x.any(axes),
                "all" => x.all(axes),
                _ => return p.fail(format!("{how:?} is not sum, mean, max, min, prod, any or all")),
            };
            p.put_together(&x, &kept, sizes)
        });
        self.check().and(done).unwrap_or_else(Tensor::failed)
    }
}

/// All names of a side, in order.
fn names(side: &Side) -> Vec<String> {
    let named = |a: &Axis| match a {
        Axis::Named(n) => Some(n.clone()),
        Axis::Count(_) => None,
    };
    side.iter().flatten().filter_map(named).collect()
}

impl<'a> Pattern<'a> {
    fn fail<T>(&self, message: String) -> Result<T> {
        fail!(self.op, "{:?}: {message}", self.text)
    }
    fn parse(op: &'static str, text: &'a str, rank: usize) -> Result<Pattern<'a>> {
        let mut p = Pattern { op, text, left: vec![], right: vec![] };
        let Some((left, right)) = text.split_once("->") else {
            return p.fail("there is no ->".to_string());
        };
        // dims of an ellipsis have names that no pattern can spell
        let mark = Axis::Named("...".to_string());
        let marked = p.side(left, std::slice::from_ref(&mark))?;
        let dots: Vec<Axis> = match marked.iter().find(|g| g.contains(&mark)) {
            None => vec![],
            Some(g) if g.len() > 1 => return p.fail("... in a group on the left".to_string()),
            Some(_) => {
                (marked.len()..=rank).map(|i| Axis::Named(format!("...{}", i - marked.len()))).collect()
            }
        };
        if right.contains("...") && !left.contains("...") {
            return p.fail("... on the right only".to_string());
        }
        p.left = p.side(left, &dots)?;
        p.right = p.side(right, &dots)?;
        for (side, n) in [(&p.left, "left"), (&p.right, "right")] {
            let all = names(side);
            if let Some(twice) = (1..all.len()).find(|&i| all[..i].contains(&all[i])) {
                return p.fail(format!("{} is twice on the {n}", all[twice]));
            }
        }
        if p.left.iter().flatten().any(|a| matches!(a, Axis::Count(c) if *c != 1)) {
            return p.fail("the only number on the left can be 1".to_string());
        }
        Ok(p)
    }
    fn side(&self, text: &str, dots: &[Axis]) -> Result<Side> {
        let spaced = text.replace('(', " ( ").replace(')', " ) ").replace("...", " ... ");
        let (mut out, mut group): (Side, Option<Vec<Axis>>) = (vec![], None);
        for word in spaced.split_whitespace() {
            let axes = match (word, &mut group) {
                ("(", None) => {
                    group = Some(vec![]);
                    continue;
                }
                (")", Some(g)) => {
                    out.push(std::mem::take(g));
                    group = None;
                    continue;
                }
                ("(" | ")", _) => return self.fail("parentheses do not match".to_string()),
                ("...", _) => dots.to_vec(),
                _ => vec![self.axis(word)?],
            };
            match &mut group {
                Some(g) => g.extend(axes),
                None => out.extend(axes.into_iter().map(|a| vec![a])),
            }
        }
        if group.is_some() { self.fail("parentheses do not match".to_string()) } else { Ok(out) }
    }
    fn axis(&self, word: &str) -> Result<Axis> {
        if let Ok(n) = word.parse::<usize>() {
            return Ok(Axis::Count(n));
        }
        let letters = word.chars().all(|c| c.is_alphanumeric() || c == '_');
        if letters && !word.starts_with(|c: char| c.is_ascii_digit()) {
            Ok(Axis::Named(word.to_string()))
        } else {
            self.fail(format!("{word:?} is not a name"))
        }
    }
    /// One dim for each name of the left side, in its order.
    fn take_apart(&self, x: &Tensor, sizes: &[(&str, usize)]) -> Result<Tensor> {
        let shape = x.shape();
        if shape.rank() != self.left.len() {
            return self.fail(format!("{} dims, shape {shape} has {}", self.left.len(), shape.rank()));
        }
        if let Some((n, _)) = sizes.iter().find(|(n, _)| !self.names_any(n)) {
            return self.fail(format!("a size for {n}, which is not in it"));
        }
        let mut dims: Vec<Dim> = vec![];
        for (group, whole) in self.left.iter().zip(shape.as_slice()) {
            let given = |a: &Axis| match a {
                Axis::Count(n) => Some(*n),
                Axis::Named(n) => sizes.iter().find(|(m, _)| m == n).map(|(_, s)| *s),
            };
            let known: usize = group.iter().filter_map(given).product();
            let open = group.iter().filter(|a| given(a).is_none()).count();
            let wrong = match (open, whole.as_int()) {
                (2.., _) => return self.fail(format!("more than one unknown size in a dim of {whole}")),
                (0, Some(n)) => n as u128 != known as u128,
                (0, None) => true,
                (_, Some(n)) => known == 0 || !(n as u128).is_multiple_of(known as u128),
                (_, None) => known != 1,
            };
            if wrong {
                return self.fail(format!("a dim of {whole} of shape {shape} in parts of {known}"));
            }
            for axis in group.iter().filter(|a| matches!(a, Axis::Named(_))) {
                dims.push(match given(axis) {
                    Some(n) => Dim::from(n),
                    None if known == 1 => whole.clone(),
                    None => whole / Dim::from(known),
                });
            }
        }
        Ok(x.reshape(dims))
    }
    fn names_any(&self, name: &str) -> bool {
        names(&self.left).iter().chain(&names(&self.right)).any(|n| n == name)
    }
    /// The dims of the right side, from `x` whose dims are `have`; what it does not have is repeated.
    fn put_together(&self, x: &Tensor, have: &[String], sizes: &[(&str, usize)]) -> Result<Tensor> {
        let flat: Vec<&Axis> = self.right.iter().flatten().collect();
        let place = |a: &Axis| match a {
            Axis::Named(n) => have.iter().position(|h| h == n),
            Axis::Count(_) => None,
        };
        let order: Vec<usize> = flat.iter().filter_map(|a| place(a)).collect();
        let x = x.permute(&order[..]);
        let (shape, mut at) = (x.shape(), 0);
        let (mut thin, mut full) = (vec![], vec![]);
        for axis in flat {
            let size = match axis {
                _ if place(axis).is_some() => {
                    at += 1;
                    shape[at - 1].clone()
                }
                Axis::Count(n) => Dim::from(*n),
                Axis::Named(n) => match sizes.iter().find(|(m, _)| m == n) {
                    Some((_, s)) => Dim::from(*s),
                    None => return self.fail(format!("no size is given for {n}")),
                },
            };
            thin.push(if place(axis).is_some() { size.clone() } else { Dim::from(1) });
            full.push(size);
        }
        let mut rest = full.clone().into_iter();
        let out: Vec<Dim> = self
            .right
            .iter()
            .map(|group| rest.by_ref().take(group.len()).fold(Dim::from(1), |a, b| a * b))
            .collect();
        let wide = x.reshape(Dims::from(thin)).expand(Dims::from(full));
        Ok(wide.reshape(Dims::from(out)))
    }
}
