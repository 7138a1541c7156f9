//! Loops over a function body: one step described once, run as often as asked.
//!
//! What a loop promises: its steps run in order; what they do not change is computed once; the body is compiled once,
//! however many steps there are, and found again for other data; memory is two copies of the carries and the stacked
//! results. The number of steps is known before the first one. Gradients of any order pass through, as loops again.

use crate::error::{Error, Result, call, fail};
use crate::index::Index;
use crate::operand::Operand;
use crate::shape::{Dim, dim_as, same, show_all};
use crate::tensor::Tensor;
use frit_uop::loops::Open;
use frit_uop::{DType, Loop, UOp};

impl From<&Dim> for Index {
    fn from(d: &Dim) -> Index {
        Index::At(d.clone())
    }
}
/// A size, or the number of a loop's step, as an integer scalar.
impl From<&Dim> for Operand {
    fn from(d: &Dim) -> Operand {
        Operand::Tensor(d.into())
    }
}
/// A size, or the number of a loop's step, as a scalar: int32, int64 where it may not fit.
impl From<&Dim> for Tensor {
    fn from(d: &Dim) -> Tensor {
        Tensor::of(d.0.clone().map(|u| {
            let fits = u.bounds.0 >= i32::MIN as i128 && u.bounds.1 <= i32::MAX as i128;
            dim_as(&u, if fits { DType::I32 } else { DType::I64 })
        }))
    }
}

impl Tensor {
    /// Run `step(i, carries) -> (next carries, ys)` for i = 0, 1, … count - 1, and give back the last carries and the
    /// ys of all steps, stacked along a new first axis.
    ///
    /// `step` is called once, to describe a step; `i` is a size like any other: an index, an offset, an operand.
    /// Tensors from outside may be used freely. A carry keeps its shape and type from step to step. Where no tensor
    /// of the loop is on a device, it runs on the default one.
    ///
    /// ```
    /// # use frit_tensor::*;
    /// let x = Tensor::new([1.0, 2.0, 3.0]);
    /// let (last, all) = Tensor::scan(3, &[&Tensor::new(0.5)], |i, c| {
    ///     let next = &c[0] * 2.0 + x.at(i);
    ///     (vec![next.clone()], vec![next])
    /// });
    /// assert_eq!(all[0].to_vec::<f32>()?, [2.0, 6.0, 15.0]);
    /// assert_eq!(last[0].gradient(&[&x])?[0].to_vec::<f32>()?, [4.0, 2.0, 1.0]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn scan(
        count: impl Into<Dim>,
        init: &[&Tensor],
        step: impl FnOnce(&Dim, &[Tensor]) -> (Vec<Tensor>, Vec<Tensor>),
    ) -> (Vec<Tensor>, Vec<Tensor>) {
        let failed = |e: &Error, n: usize| vec![Tensor::failed(e.clone()); n];
        let opened = {
            let _c = call("scan");
            open(count.into(), init)
        };
        let opened = match opened {
            Ok(o) => o,
            Err(e) => {
                // how many ys there would be only the step can say
                let (next, ys) = step(&Dim(Err(e.clone())), &failed(&e, init.len()));
                return (failed(&e, next.len()), failed(&e, ys.len()));
            }
        };
        let carries: Vec<Tensor> = opened.inputs.iter().map(|n| Tensor::of(Ok(n.clone()))).collect();
        // not inside the call: errors of `step` belong to its own lines
        let (next, ys) = step(&Dim(Ok(opened.step.clone())), &carries);
        let _c = call("scan");
        match close(opened, init, &next, &ys) {
            Ok(mut results) => {
                let ys = results.split_off(init.len());
                (results, ys)
            }
            Err(e) => (failed(&e, init.len()), failed(&e, ys.len())),
        }
    }
    /// [`Tensor::scan`] for the last carries alone: `carries = step(i, carries)` for i = 0, 1, … count - 1.
    ///
    /// ```
    /// # use frit_tensor::*;
    /// let power = Tensor::fori(10, &[&Tensor::new(1)], |_, c| vec![&c[0] * 2]);
    /// assert_eq!(power[0].item::<i32>()?, 1024);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn fori(
        count: impl Into<Dim>,
        init: &[&Tensor],
        step: impl FnOnce(&Dim, &[Tensor]) -> Vec<Tensor>,
    ) -> Vec<Tensor> {
        Tensor::scan(count, init, |i, carries| (step(i, carries), vec![])).0
    }
}

fn open(count: Dim, init: &[&Tensor]) -> Result<Open> {
    let count = match count.0? {
        n if n.as_int().is_some_and(|n| n < 0) => return fail!("scan", "{} steps", crate::shape::show(&n)),
        n => crate::shape::not_negative("scan", &[n])?.remove(0),
    };
    let inits: Vec<UOp> = init.iter().map(|t| t.uop()).collect::<Result<_>>()?;
    Ok(Open::new(&count, &inits, &[]))
}

fn close(opened: Open, init: &[&Tensor], next: &[Tensor], ys: &[Tensor]) -> Result<Vec<Tensor>> {
    if next.len() != init.len() {
        return fail!("scan", "a step of {} carries gives {} back", init.len(), next.len());
    }
    let mut results = vec![];
    for (k, (from, to)) in init.iter().zip(next).enumerate() {
        let (a, b) = (from.uop()?, to.uop()?);
        let (s, t) = (a.shape(), b.shape());
        let mut fits = a.dtype == b.dtype && s.len() == t.len();
        for (x, y) in s.iter().zip(t) {
            fits = fits && same("scan", x, y)?;
        }
        if !fits {
            let (s, t) = (show_all(s), show_all(t));
            return fail!("scan", "carry {k} is {} {s} before a step and {} {t} after it", a.dtype, b.dtype);
        }
        results.push(crate::tensor::expand_to(&b, s));
    }
    for (k, y) in ys.iter().enumerate() {
        let y = y.uop()?;
        if y.shape().iter().any(|d| d.any(|n| *n == opened.step)) {
            return fail!("scan", "y {k} has another shape in every step: {}", show_all(y.shape()));
        }
        results.push(y);
    }
    finish("scan", opened, &results, "")
}

fn finish(op: &'static str, opened: Open, results: &[UOp], name: &str) -> Result<Vec<Tensor>> {
    let node = match opened.close(results, name) {
        Ok(n) => n,
        Err(m) => return fail!(op, "{m}"),
    };
    let out = |i| match Loop::of(&node) {
        Some(l) => Tensor::of(Ok(l.out(i))),
        None => Tensor::of(fail!(op, "a loop without a body")),
    };
    Ok((0..results.len()).map(out).collect())
}
/// `f(inputs)` as one node, whose gradient is the rule of that name in `gradient/named.rs`.
pub(crate) fn function(
    name: &'static str,
    inputs: &[&Tensor],
    f: impl FnOnce(&[Tensor]) -> Vec<Tensor>,
) -> Result<Vec<Tensor>> {
    one_step(name, name, inputs, f)
}
/// The same, for errors of `op`; without a name the gradient is that of the body.
#[track_caller]
pub(crate) fn one_step(
    op: &'static str,
    name: &str,
    inputs: &[&Tensor],
    f: impl FnOnce(&[Tensor]) -> Vec<Tensor>,
) -> Result<Vec<Tensor>> {
    let nodes: Vec<UOp> = inputs.iter().map(|t| t.uop()).collect::<Result<_>>()?;
    let opened = Open::new(&UOp::index(1), &[], &nodes);
    // a program that is written down has its calls where they are
    let traced = crate::trace::is_open();
    let given = if traced { &nodes } else { &opened.inputs };
    let inside: Vec<Tensor> = given.iter().map(|n| Tensor::of(Ok(n.clone()))).collect();
    let results: Vec<UOp> = f(&inside).iter().map(|t| t.uop()).collect::<Result<_>>()?;
    let _c = call(op);
    for (i, (t, given)) in inside.iter().zip(given).enumerate() {
        if t.uop()? != *given {
            return fail!(
                op,
                "argument {i} is assigned to, which its caller would not see: give the value back"
            );
        }
    }
    if traced {
        return Ok(results.into_iter().map(|r| Tensor::of(Ok(r))).collect());
    }
    let stacked = finish(op, opened, &results, name)?;
    // one step: its results are the only ones
    Ok(stacked.into_iter().zip(&results).map(|(t, r)| t.map(|x| Ok(x.reshape(r.shape())))).collect())
}
