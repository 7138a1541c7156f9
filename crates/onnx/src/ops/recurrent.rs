//! Recurrent layers: one cell, its steps a loop.

use super::quant::{rounded, rounded_by_row};
use super::{Op, op};
use crate::call::{Call, Outs, fail, give};
use frit_tensor::{DType, Result, Tensor};

pub(super) const OPS: &[Op] = &[
    op("GRU", 1, |c| recurrent(c, Weights::of(c)?, 3, 1, &["Sigmoid", "Tanh"], gru)),
    op("LSTM", 1, |c| recurrent(c, Weights::of(c)?, 4, 2, LSTM, lstm)),
    op("RNN", 1, |c| recurrent(c, Weights::of(c)?, 1, 1, &["Tanh"], rnn)),
];
pub(super) const MICROSOFT: &[Op] =
    &[op("DynamicQuantizeLSTM", 1, |c| recurrent(c, Weights::of_bytes(c)?, 4, 2, LSTM, lstm))];

const LSTM: &[&str] = &["Sigmoid", "Tanh", "Tanh"];

/// Weights of the input and of the state, (directions, gates * hidden, ..).
struct Weights {
    w: Tensor,
    r: Tensor,
    /// What they are multiplied with is rounded to bytes.
    rounds: bool,
}

impl Weights {
    fn of(c: &Call) -> Result<Weights> {
        Ok(Weights { w: c.tensor(1)?, r: c.tensor(2)?, rounds: false })
    }
    /// Of bytes, columns as rows, with a scale for a direction or for each of its columns.
    fn of_bytes(c: &Call) -> Result<Weights> {
        let real = |i: usize, scale: usize| -> Result<Tensor> {
            let (x, zero, scale) = (c.tensor(i)?, c.optional(scale + 1)?, c.tensor(scale)?);
            let beside = |t: &Tensor| t.reshape((&x.shape()[0], 1, -1));
            let moved = zero.map_or(x.int(), |z| x.int() - beside(&z.int()));
            Ok((moved.float() * beside(&scale)).t())
        };
        Ok(Weights { w: real(1, 8)?, r: real(2, 10)?, rounds: true })
    }
}

/// An activation with its parameters.
#[derive(Clone)]
struct Activation {
    name: String,
    alpha: Option<f64>,
    beta: Option<f64>,
}

impl Activation {
    fn apply(&self, x: &Tensor) -> Tensor {
        let (a, b) =
            (|default: f64| self.alpha.unwrap_or(default), |default: f64| self.beta.unwrap_or(default));
        match self.name.as_str() {
            "relu" => x.relu(),
            "tanh" => x.tanh(),
            "sigmoid" => x.sigmoid(),
            "affine" => x * a(1.0) + b(0.0),
            "leakyrelu" => x.leaky_relu(a(0.01)),
            "thresholdedrelu" => x.threshold(a(1.0), 0.0),
            "scaledtanh" => (x * b(1.0)).tanh() * a(1.0),
            "hardsigmoid" => (x * a(0.2) + b(0.5)).clamp(0.0, 1.0),
            "elu" => x.elu(a(1.0)),
            "softsign" => x.softsign(),
            "softplus" => x.logaddexp(0.0),
            other => {
                Tensor::failed(frit_tensor::Error::elsewhere("onnx", format!("no activation {other:?}")))
            }
        }
    }
}

/// One direction's weights, and what changes its arithmetic.
struct Cell {
    /// (hidden, gates * hidden)
    r: Tensor,
    /// (gates * hidden), of the input and of the state
    bias: Option<(Tensor, Tensor)>,
    peepholes: Option<Tensor>,
    activations: Vec<Activation>,
    clip: Option<f64>,
    coupled: bool,
    reset_after: bool,
    rounds: bool,
    hidden: usize,
}

impl Cell {
    /// A gate's part of the last dim.
    fn gate(&self, x: &Tensor, k: usize) -> Tensor {
        x.narrow(-1, k * self.hidden, self.hidden)
    }
    fn activate(&self, k: usize, x: Tensor) -> Tensor {
        let x = self.clip.map_or(x.clone(), |m| x.clamp(-m, m));
        self.activations[k].apply(&x)
    }
    /// What the hidden state gives the gates.
    fn of_state(&self, h: &Tensor) -> Tensor {
        // each sample by itself, whatever others there are
        let h = if self.rounds { &rounded_by_row(h) } else { h };
        let product = h.matmul(&self.r);
        self.bias.as_ref().map_or(product.clone(), |b| product + &b.1)
    }
}

type Step = fn(&Cell, &Tensor, &[Tensor]) -> Vec<Tensor>;

fn rnn(cell: &Cell, x: &Tensor, state: &[Tensor]) -> Vec<Tensor> {
    vec![cell.activate(0, x + cell.of_state(&state[0]))]
}
/// Gates: update, reset, new.
fn gru(cell: &Cell, x: &Tensor, state: &[Tensor]) -> Vec<Tensor> {
    let h = &state[0];
    let from_h = cell.of_state(h);
    let both = |k: usize| cell.gate(x, k) + cell.gate(&from_h, k);
    let (z, r) = (cell.activate(0, both(0)), cell.activate(0, both(1)));
    let past = match cell.reset_after {
        true => r * cell.gate(&from_h, 2),
        false => cell.gate(&cell.of_state(&(r * h)), 2),
    };
    let new = cell.activate(1, cell.gate(x, 2) + past);
    vec![&new + z * (h - &new)]
}
/// Gates: input, output, forget, cell.
fn lstm(cell: &Cell, x: &Tensor, state: &[Tensor]) -> Vec<Tensor> {
    let (from_h, c) = (cell.of_state(&state[0]), &state[1]);
    let both = |k: usize| cell.gate(x, k) + cell.gate(&from_h, k);
    let peep = |k: usize, c: &Tensor, x: Tensor| match &cell.peepholes {
        Some(p) => x + cell.gate(p, k) * c,
        None => x,
    };
    let input = cell.activate(0, peep(0, c, both(0)));
    let forget = match cell.coupled {
        true => 1.0 - &input,
        false => cell.activate(0, peep(2, c, both(2))),
    };
    let next = forget * c + input * cell.activate(1, both(3));
    let output = cell.activate(0, peep(1, &next, both(1)));
    vec![output * cell.activate_plain(2, &next), next]
}
impl Cell {
    fn activate_plain(&self, k: usize, x: &Tensor) -> Tensor {
        self.activations[k].apply(x)
    }
}

fn activations(c: &Call, defaults: &[&str], directions: usize) -> Result<Vec<Activation>> {
    let names: Vec<String> = match c.texts("activations")? {
        Some(n) => n.to_vec(),
        None => defaults.iter().cycle().take(defaults.len() * directions).map(|n| n.to_string()).collect(),
    };
    if names.len() != defaults.len() * directions {
        return fail(format!("{} activations, {} are wanted", names.len(), defaults.len() * directions));
    }
    let (alphas, betas) =
        (c.floats("activation_alpha")?.unwrap_or_default(), c.floats("activation_beta")?.unwrap_or_default());
    // each function takes the next of the parameters that it has
    let (mut alphas, mut betas) = (alphas.iter(), betas.iter());
    let mut one = |n: &String| {
        let name = n.to_lowercase();
        let has_beta = matches!(name.as_str(), "affine" | "scaledtanh" | "hardsigmoid");
        let has_alpha = has_beta || matches!(name.as_str(), "leakyrelu" | "thresholdedrelu" | "elu");
        let alpha = if has_alpha { alphas.next() } else { None };
        let beta = if has_beta { betas.next() } else { None };
        Activation { name, alpha: alpha.map(|v| f64::from(*v)), beta: beta.map(|v| f64::from(*v)) }
    };
    Ok(names.iter().map(&mut one).collect())
}

/// Rows (time first) of each sample backwards, up to its length.
fn reversed(x: &Tensor, lengths: Option<&Tensor>) -> Tensor {
    let Some(n) = lengths else { return x.flip(0) };
    let at = Tensor::arange(&x.shape()[0]).long().unsqueeze(1);
    let at = at.lt(n).where_(n - 1 - &at, &at); // (T, N)
    let at = (2..x.rank()).fold(at, |t, _| t.unsqueeze(-1));
    x.gather(0, &at.expand(x.shape()))
}

fn recurrent(
    c: &Call,
    weights: Weights,
    gates: usize,
    states: usize,
    defaults: &[&str],
    step: Step,
) -> Result<Outs> {
    let (layout, clip) = (c.flag("layout")?, c.float("clip")?);
    let (coupled, reset_after) = (c.flag("input_forget")?, c.flag("linear_before_reset")?);
    c.ignore(&["output_sequence"]);
    let backward: &[bool] = match c.text_or("direction", "forward")?.to_lowercase().as_str() {
        "forward" => &[false],
        "reverse" => &[true],
        "bidirectional" => &[false, true],
        other => return fail(format!("attribute \"direction\" is {other:?}")),
    };
    let (x, Weights { w, r, rounds }) = (c.tensor(0)?, weights);
    let hidden = r.dims()?.last().copied().unwrap_or(0);
    if c.int("hidden_size")?.is_some_and(|h| h != hidden as i64) {
        return fail(format!("attribute \"hidden_size\" is not the {hidden} of the weights"));
    }
    let x = if layout { x.transpose(0, 1) } else { x };
    let lengths = c.optional(4)?.map(|t| t.long());
    let batch = x.shape()[1].clone();
    let acts = activations(c, defaults, backward.len())?;
    let mut runs = vec![];
    for (k, back) in backward.iter().enumerate() {
        let part = |t: &Tensor| t.select(0, k as i64);
        let bias = c.optional(3)?.map(|b| {
            let b = part(&b);
            let n = gates * hidden;
            (b.narrow(0, 0, n), b.narrow(0, n, n))
        });
        let cell = Cell {
            r: part(&r).t(),
            bias,
            peepholes: if states == 2 { c.optional(7)?.map(|p| part(&p)) } else { None },
            activations: acts[k * defaults.len()..][..defaults.len()].to_vec(),
            clip,
            coupled,
            reset_after,
            rounds,
            hidden,
        };
        let first = |i: usize| -> Result<Tensor> {
            Ok(match c.optional(5 + i)? {
                Some(t) if layout => t.select(1, k as i64),
                Some(t) => part(&t),
                None => Tensor::full_dtype((&batch, hidden), 0, x.dtype()),
            })
        };
        let begin = (0..states).map(first).collect::<Result<Vec<_>>>()?;
        let input = if *back { reversed(&x, lengths.as_ref()) } else { x.clone() };
        let (last, y) = steps(&cell, step, &input, &part(&w), &begin, lengths.as_ref());
        runs.push((last, if *back { reversed(&y, lengths.as_ref()) } else { y }));
    }
    let axis = |a: isize, b: isize| if layout { b } else { a };
    let ys: Vec<Tensor> = runs.iter().map(|(_, y)| y.clone()).collect();
    let y = Tensor::stack(&ys, 1); // (T, D, N, H)
    let y = if layout { y.permute([2, 0, 1, 3]) } else { y };
    let lasts = (0..states)
        .map(|i| Tensor::stack(&runs.iter().map(|(l, _)| l[i].clone()).collect::<Vec<_>>(), axis(0, 1)));
    give([y].into_iter().chain(lasts).collect::<Vec<_>>())
}

/// All steps of one direction: the last states, and (T, N, H) of what each gave.
fn steps(
    cell: &Cell,
    step: Step,
    x: &Tensor,
    w: &Tensor,
    begin: &[Tensor],
    lengths: Option<&Tensor>,
) -> (Vec<Tensor>, Tensor) {
    if x.shape()[0] == 0 {
        return (begin.to_vec(), Tensor::full_dtype((0, &x.shape()[1], cell.hidden), 0, x.dtype()));
    }
    let product = if cell.rounds { rounded(x) } else { x.clone() }.matmul(&w.t());
    let from_x = cell.bias.as_ref().map_or(product.clone(), |b| product + &b.0).contiguous();
    let (last, ys) = Tensor::scan(&x.shape()[0], &begin.iter().collect::<Vec<_>>(), |t, state| {
        let next = step(cell, &from_x.select(0, t), state);
        let Some(n) = lengths else {
            let y = next[0].clone();
            return (next, vec![y]);
        };
        // samples that have ended keep their state and give zeros
        let on = n.gt(Tensor::from(t).cast(DType::I64)).unsqueeze(1);
        let y = on.where_(&next[0], 0.0);
        (next.iter().zip(state).map(|(a, b)| on.where_(a, b)).collect(), vec![y])
    });
    (last, ys[0].clone())
}
