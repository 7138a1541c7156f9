//! Assignment against a plain model: random sequences of writes through views, reads in between, realising whenever.
//!
//! A tensor of the model is a list of numbers; a view is a list of places, and shows what is there now. Tensors computed
//! before a write keep the values they were computed from.

use crate::support::{DEVICES, Random, on};
use frit::engine::stats::stats;
use frit::engine::with_random_opts;
use frit::{Index, Tensor, step};

const SIDE: usize = 4;
const CELLS: usize = SIDE * SIDE;

/// A view: the tensor's, and for each of its elements the place in the memory behind it.
#[derive(Clone)]
struct View {
    tensor: Tensor,
    shape: Vec<usize>,
    places: Vec<usize>,
}

impl View {
    fn whole(tensor: &Tensor) -> View {
        View { tensor: tensor.clone(), shape: vec![SIDE, SIDE], places: (0..CELLS).collect() }
    }
    fn transpose(&self) -> View {
        let (r, c) = (self.shape[0], self.shape[1]);
        let places = (0..r * c).map(|i| self.places[i % r * c + i / r]).collect();
        View { tensor: self.tensor.t(), shape: vec![c, r], places }
    }
    fn flip(&self, axis: usize) -> View {
        let (r, c) = (self.shape[0], self.shape[1]);
        let at = |i: usize| match axis {
            0 => (r - 1 - i / c) * c + i % c,
            _ => i / c * c + (c - 1 - i % c),
        };
        let places = (0..r * c).map(|i| self.places[at(i)]).collect();
        let back = step(.., -1);
        let tensor = match axis {
            0 => self.tensor.at(back),
            _ => self.tensor.at((.., back)),
        };
        View { tensor, shape: self.shape.clone(), places }
    }
    /// `start..end` by `step` along one axis.
    fn slice(&self, axis: usize, start: usize, end: usize, step: usize) -> View {
        let rows: Vec<usize> = (start..end).step_by(step).collect();
        let mut idx = vec![Index::from(..); axis];
        let cut = Index::Slice { start: Some(start.into()), end: Some(end.into()), step: step as i64 };
        idx.push(cut);
        let (mut shape, c) = (self.shape.clone(), self.shape[1]);
        shape[axis] = rows.len();
        let (r2, c2) = (shape[0], shape[1]);
        let at = |i: usize| match axis {
            0 => rows[i / c2] * c + i % c2,
            _ => i / c2 * c + rows[i % c2],
        };
        let places = (0..r2 * c2).map(|i| self.places[at(i)]).collect();
        View { tensor: self.tensor.at(idx), shape, places }
    }
    fn read(&self, memory: &[i32]) -> Vec<i32> {
        self.places.iter().map(|&p| memory[p]).collect()
    }
}

/// One movement.
#[derive(Clone, Copy, Debug)]
enum Move {
    T,
    Flip(usize),
    Slice { axis: usize, start: usize, end: usize, step: usize },
}

/// What is written: a number, or another view as it is or changed a little.
#[derive(Clone, Debug)]
enum Source {
    Number(i32),
    Read(usize, Vec<Move>),
    TwicePlus(usize, Vec<Move>, i32),
}

/// One step of a program. Tensors are named by number.
#[derive(Clone, Debug)]
enum Step {
    /// Write through a view; with no movement, the whole tensor.
    Assign(usize, Vec<Move>, Source),
    /// Write rows by number: of several for one row the last stays.
    Rows(usize, [usize; 3], Source),
    /// Something built now and looked at in the end.
    Build(usize, Vec<Move>, i32),
    /// Compute some of the tensors there are.
    Realize(u64),
}

const TENSORS: usize = 3;

/// A random view and its shape.
fn moves(random: &mut Random) -> (Vec<Move>, Vec<usize>) {
    let (mut list, mut shape) = (vec![], vec![SIDE, SIDE]);
    for _ in 0..random.below(4) {
        let axis = random.below(2);
        list.push(match random.below(3) {
            0 => {
                shape.swap(0, 1);
                Move::T
            }
            1 => Move::Flip(axis),
            _ => {
                let start = random.below(shape[axis]);
                let end = start + 1 + random.below(shape[axis] - start);
                let step = 1 + random.below(2);
                shape[axis] = (end - start).div_ceil(step);
                Move::Slice { axis, start, end, step }
            }
        });
    }
    (list, shape)
}

fn source(random: &mut Random, shape: &[usize]) -> Source {
    for _ in 0..8 {
        let (list, found) = moves(random);
        if found == shape {
            let x = random.below(TENSORS);
            // half of the time the bare view, which may overlap with what is written
            return match random.one_in(2) {
                true => Source::Read(x, list),
                false => Source::TwicePlus(x, list, random.within(-3, 3) as i32),
            };
        }
    }
    Source::Number(random.within(-9, 9) as i32)
}

fn program(seed: u64) -> Vec<Step> {
    let mut random = Random::new(seed);
    let mut step = |_| {
        let x = random.below(TENSORS);
        match random.below(7) {
            0 => Step::Assign(x, vec![], source(&mut random, &[SIDE, SIDE])),
            1 | 2 => {
                let (list, shape) = moves(&mut random);
                Step::Assign(x, list, source(&mut random, &shape))
            }
            3 => {
                let rows = std::array::from_fn(|_| random.below(SIDE));
                Step::Rows(x, rows, source(&mut random, &[3, SIDE]))
            }
            4 | 5 => Step::Build(x, moves(&mut random).0, random.within(-9, 9) as i32),
            _ => Step::Realize(random.bits() & random.bits()),
        }
    };
    let n = 2 + seed as usize % 11;
    (0..n).map(&mut step).collect()
}

struct World {
    /// The tensors written to, with their contents.
    tensors: Vec<(Tensor, Vec<i32>)>,
    /// Tensors built on the way, with what they must be.
    built: Vec<(String, Tensor, Vec<i32>)>,
    /// Views that were written through, with the number of their tensor.
    windows: Vec<(String, usize, View)>,
}

impl World {
    fn new() -> World {
        let data = |t: usize| (0..CELLS).map(|i| (t * 100 + i) as i32).collect::<Vec<_>>();
        let tensors = (0..TENSORS).map(|t| (Tensor::from_vec(data(t), [SIDE, SIDE]), data(t)));
        World { tensors: tensors.collect(), built: vec![], windows: vec![] }
    }

    fn view(&self, x: usize, list: &[Move]) -> View {
        list.iter().fold(View::whole(&self.tensors[x].0), |v, m| match *m {
            Move::T => v.transpose(),
            Move::Flip(axis) => v.flip(axis),
            Move::Slice { axis, start, end, step } => v.slice(axis, start, end, step),
        })
    }

    fn value(&self, from: &Source, shape: &[usize]) -> (Tensor, Vec<i32>) {
        match from {
            Source::Number(c) => (Tensor::full(shape.to_vec(), *c), vec![*c; shape.iter().product()]),
            Source::Read(x, list) => {
                let v = self.view(*x, list);
                let data = v.read(&self.tensors[*x].1);
                (v.tensor, data)
            }
            Source::TwicePlus(x, list, c) => {
                let v = self.view(*x, list);
                let data = v.read(&self.tensors[*x].1);
                (&v.tensor * 2 + *c, data.iter().map(|e| e.wrapping_mul(2).wrapping_add(*c)).collect())
            }
        }
    }

    fn write(&mut self, x: usize, places: &[usize], values: &[i32]) {
        for (&p, &v) in places.iter().zip(values) {
            self.tensors[x].1[p] = v;
        }
    }

    fn step(&mut self, step: &Step) -> Result<(), String> {
        match step {
            Step::Assign(x, list, from) => {
                let v = self.view(*x, list);
                let (value, data) = self.value(from, &v.shape);
                v.tensor.assign(&value);
                self.write(*x, &v.places, &data);
                // the view is a window; without movement it is the tensor itself
                if !list.is_empty() {
                    self.windows.push((format!("the view {list:?} of {x}"), *x, v));
                }
            }
            Step::Rows(x, rows, from) => {
                let idx = Tensor::from_vec(rows.map(|r| r as i32), [3]);
                let (value, data) = self.value(from, &[3, SIDE]);
                self.tensors[*x].0.set(&idx, &value);
                for (k, r) in rows.iter().enumerate() {
                    let places: Vec<usize> = (r * SIDE..(r + 1) * SIDE).collect();
                    self.write(*x, &places, &data[k * SIDE..(k + 1) * SIDE]);
                }
            }
            Step::Build(x, list, c) => {
                let v = self.view(*x, list);
                let data = v.read(&self.tensors[*x].1).iter().map(|e| e.wrapping_add(*c)).collect();
                self.built.push((format!("{x}{list:?} + {c}"), &v.tensor + *c, data));
            }
            Step::Realize(which) => {
                let windows = self.windows.iter().map(|w| &w.2.tensor);
                let all =
                    self.tensors.iter().map(|t| &t.0).chain(self.built.iter().map(|b| &b.1)).chain(windows);
                let some: Vec<&Tensor> =
                    all.enumerate().filter(|(i, _)| which >> (i % 64) & 1 == 1).map(|(_, t)| t).collect();
                Tensor::realize_all(&some).map_err(|e| e.to_string())?;
            }
        }
        Ok(())
    }

    /// Everything must be what it was when it was built, and windows what their tensors are, in whatever order they are
    /// looked at.
    fn check(self, random: &mut Random) -> Result<(), String> {
        let seen = |(name, x, v): &(String, usize, View)| {
            (name.clone(), v.tensor.clone(), v.read(&self.tensors[*x].1))
        };
        let windows: Vec<_> = self.windows.iter().map(seen).collect();
        let named =
            self.tensors.into_iter().enumerate().map(|(i, (t, data))| (format!("tensor {i}"), t, data));
        let mut all: Vec<(String, Tensor, Vec<i32>)> = named.chain(self.built).chain(windows).collect();
        while !all.is_empty() {
            let (name, tensor, want) = all.swap_remove(random.below(all.len()));
            match tensor.to_vec::<i32>() {
                Ok(got) if got == want => {}
                Ok(got) => return Err(format!("{name} is\n{got:?}, not\n{want:?}")),
                Err(e) => return Err(format!("{name}: {e}")),
            }
        }
        Ok(())
    }
}

fn outcome(seed: u64, steps: &[Step]) -> Result<(), String> {
    let go = || {
        let mut world = World::new();
        steps.iter().try_for_each(|s| world.step(s))?;
        world.check(&mut Random::new(seed ^ 1))
    };
    if seed.is_multiple_of(2) { go() } else { with_random_opts(seed, go) }
}

fn run(device: &str, seeds: std::ops::Range<u64>) {
    on(device, || {
        for seed in seeds {
            let mut steps = program(seed);
            let Err(mut why) = outcome(seed, &steps) else { continue };
            // without steps that do not matter
            let mut at = 0;
            while at < steps.len() {
                let mut fewer = steps.clone();
                fewer.remove(at);
                match outcome(seed, &fewer) {
                    Err(e) => (steps, why) = (fewer, e),
                    Ok(()) => at += 1,
                }
            }
            let text: Vec<String> = steps.iter().map(|s| format!("{s:?}")).collect();
            panic!("seed {seed} on {device}: {why}\n{}", text.join("\n"));
        }
    });
}

#[test]
fn random_writes_on_the_interpreter() {
    run(DEVICES[0], 0..300);
}

#[test]
fn random_writes_on_the_interpreter_as_a_gpu() {
    run(DEVICES[1], 300..500);
}

#[test]
fn random_writes_on_the_cpu() {
    run(DEVICES[2], 500..516);
}

#[test]
fn a_long_chain_of_slice_writes() {
    for device in DEVICES {
        on(device, || {
            let x = Tensor::from_vec(vec![0i32; 64], [64]);
            for i in 0..64usize {
                x.set(i..i + 1, (i * i) as i32);
            }
            let want: Vec<i32> = (0..64).map(|i| i * i).collect();
            assert_eq!(x.to_vec::<i32>().unwrap(), want, "{device}");
        });
    }
}

#[test]
fn a_write_is_in_place_unless_someone_sees_the_old_values() {
    on("INTERP", || {
        let x = Tensor::from_vec(vec![1f32; 1000], [1000]);
        let moved = |x: &Tensor| {
            let before = stats();
            x.realize().unwrap();
            (stats() - before).bytes
        };
        x.set(10..12, 7.0);
        assert!(moved(&x) <= 16, "two elements in place");
        let old = x.sum(..);
        x.set(0..1, 5.0);
        assert!(moved(&x) >= 8000, "a copy, for the sum is of the old values");
        assert_eq!(old.item::<f32>().unwrap(), 1012.0);
        drop(old);
        x.set(0..1, 6.0);
        assert!(moved(&x) <= 16, "in place again");
        assert_eq!(x.sum(..).item::<f32>().unwrap(), 1017.0);
    });
}

#[test]
fn what_was_built_before_several_unrealised_writes_keeps_its_values() {
    on("INTERP", || {
        let x = Tensor::from_vec(vec![0i32; 4], [4]);
        for round in 0..8 {
            let old = &x + 0;
            x.assign(&x + 1);
            x.at(1..3).assign(x.at(1..3) * 1);
            if round % 3 == 0 {
                x.realize().unwrap();
            }
            assert_eq!(old.at(3).item::<i32>().unwrap(), round);
        }
    });
}

#[test]
fn what_was_written_is_what_is_copied_to_another_device() {
    on("INTERP", || {
        let x = Tensor::from_vec(vec![1i32, 2, 3, 4], [4]);
        x.assign(&x + 1);
        x.set(1..3, 0);
        let there = x.to("CPU") * 10;
        x.assign(7);
        assert_eq!(there.to_vec::<i32>().unwrap(), [20, 0, 0, 50]);
        // and written to there, from here
        let y = Tensor::from_vec(vec![0i32; 4], [4]).to("CPU").realize().unwrap();
        y.assign(x.to("CPU") + &there);
        x.assign(8);
        assert_eq!(y.to_vec::<i32>().unwrap(), [27, 7, 7, 57]);
        assert_eq!(x.to_vec::<i32>().unwrap(), [8; 4]);
    });
}
