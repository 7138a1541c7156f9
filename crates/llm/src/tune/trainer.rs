//! The steps of a run: a batch of examples, the loss, an update of the adapter.

use super::data::Example;
use crate::adapter::Adapter;
use crate::config::Config;
use crate::decoder::{Attend, Decoder};
use crate::layers::{attend, seen};
use crate::sample::Random;
use frit_nn::optim::schedule::{Cosine, Linear, Schedule, Warmup};
use frit_nn::{AdamW, Optimizer, optim, safetensors};
use frit_tensor::{CrossEntropy, Error, Jit, Result, Tensor, manual_seed, training};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};

/// How the learning rate goes on after the first steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Rate {
    /// It stays.
    Constant,
    /// In a straight line to 0.
    Linear,
    /// Along half a cosine to 0.
    #[default]
    Cosine,
}

/// How an adapter is trained.
#[derive(Clone, Debug, PartialEq)]
pub struct Tuning {
    /// Steps in all.
    pub steps: usize,
    /// Examples of a step.
    pub batch: usize,
    /// The highest learning rate.
    pub lr: f64,
    /// Steps in which it rises to that.
    pub warmup: usize,
    /// How it goes on.
    pub rate: Rate,
    /// How much the adapter is drawn to zero.
    pub weight_decay: f64,
    /// The most that all gradients are long, as one vector.
    pub clip: Option<f64>,
    /// What everything random follows from.
    pub seed: u64,
    /// Examples come in another order each time round, and not in that of the file.
    pub is_shuffled: bool,
}

impl Default for Tuning {
    fn default() -> Tuning {
        Tuning {
            steps: 100,
            batch: 4,
            lr: 2e-4,
            warmup: 10,
            rate: Rate::default(),
            weight_decay: 0.0,
            clip: Some(1.0),
            seed: 0,
            is_shuffled: true,
        }
    }
}

impl Tuning {
    /// The learning rate of a step.
    pub fn lr_of(&self, step: usize) -> f64 {
        let (lr, length) = (self.lr, self.steps.saturating_sub(self.warmup).max(1));
        // the first step already moves
        let start = 1.0 / (self.warmup as f64 + 1.0);
        let warm = |then: &dyn Schedule| match step < self.warmup {
            true => Warmup { length: self.warmup, start, then: lr }.lr(step),
            false => then.lr(step - self.warmup),
        };
        match self.rate {
            Rate::Constant => warm(&lr),
            Rate::Linear => warm(&Linear { lr, start: 1.0, end: 0.0, length }),
            Rate::Cosine => warm(&Cosine { lr, min: 0.0, length }),
        }
    }
}

/// A target that does not count.
const NOTHING: i64 = -100;

type Batch = (Tensor, Tensor);

/// A run of fine-tuning.
pub struct Trainer {
    model: Arc<Decoder>,
    adapter: Arc<Adapter>,
    optimizer: Arc<Mutex<AdamW>>,
    examples: Vec<Example>,
    tuning: Tuning,
    /// Tokens of a row.
    length: usize,
    /// Steps that were made.
    step: usize,
    program: Jit<Batch, Tensor>,
}

impl Trainer {
    /// A run from the beginning.
    #[track_caller]
    pub fn new(model: Decoder, adapter: Adapter, examples: Vec<Example>, tuning: Tuning) -> Result<Trainer> {
        let _c = frit_tensor::call("finetune");
        let longest = examples.iter().map(|e| e.tokens.len().saturating_sub(1)).max().unwrap_or(0);
        let context = model.config().context;
        if longest == 0 || longest > context || tuning.batch == 0 {
            let message = format!(
                "batches of {} examples of {longest} tokens for a context of {context}",
                tuning.batch
            );
            return Err(Error::new("finetune", message));
        }
        let most = model.tokens() as u32;
        if let Some(t) = examples.iter().flat_map(|e| &e.tokens).find(|t| **t >= most) {
            return Err(Error::new("finetune", format!("token {t} of a model that has {most}")));
        }
        // round sizes make better kernels
        let length = longest.next_multiple_of(16).min(context);
        let (model, adapter) = (Arc::new(model), Arc::new(adapter));
        let optimizer = AdamW::new(&*adapter, tuning.lr)?.weight_decay(tuning.weight_decay);
        let optimizer = Arc::new(Mutex::new(optimizer));
        let (parameters, opt, clip) = (adapter.clone(), optimizer.clone(), tuning.clip);
        let (trained, rows) = (model.clone(), tuning.batch);
        let program = Jit::new(move |(ids, targets): Batch| {
            training(true, || {
                let loss = loss(&trained, [rows, length], &ids, &targets)?;
                loss.backward()?;
                if let Some(most) = clip {
                    optim::clip_grad_norm(&*parameters, most)?;
                }
                locked(&opt).step_with(&[&loss])?;
                Ok(loss)
            })
        });
        Ok(Trainer { model, adapter, optimizer, examples, tuning, length, step: 0, program })
    }
    /// The model with what was learnt so far.
    pub fn model(&self) -> &Arc<Decoder> {
        &self.model
    }
    /// What is trained.
    pub fn adapter(&self) -> &Adapter {
        &self.adapter
    }
    /// Steps that were made.
    pub fn steps(&self) -> usize {
        self.step
    }
    /// Tokens of a step, with those that only fill it.
    pub fn tokens(&self) -> usize {
        self.tuning.batch * self.length
    }
    /// How often each example was seen when all steps are made.
    pub fn epochs(&self) -> f64 {
        (self.tuning.steps * self.tuning.batch) as f64 / self.examples.len() as f64
    }
    /// Makes a step: the mean loss of its tokens, before it.
    #[track_caller]
    pub fn step(&mut self) -> Result<f32> {
        let _c = frit_tensor::call("finetune");
        let batch = self.batch(self.step)?;
        locked(&self.optimizer).set_lr(self.tuning.lr_of(self.step))?;
        if self.adapter.lora().dropout > 0.0 {
            // what is left out follows from the number of the step
            manual_seed(self.tuning.seed ^ (self.step as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        }
        let loss = self.program.call(batch)?.item::<f32>()?;
        self.step += 1;
        match loss.is_finite() {
            true => Ok(loss),
            false => Err(Error::new("finetune", format!("the loss of step {} is {loss}", self.step))),
        }
    }
    /// Tokens and the ones that follow them, `(rows * length)` each.
    fn batch(&self, step: usize) -> Result<Batch> {
        let size = self.tuning.batch * self.length;
        let (mut ids, mut targets) = (vec![0i32; size], vec![NOTHING as i32; size]);
        for row in 0..self.tuning.batch {
            let example = &self.examples[self.example(step * self.tuning.batch + row)];
            let begin = row * self.length;
            for (i, next) in example.tokens.iter().enumerate().skip(1) {
                ids[begin + i - 1] = example.tokens[i - 1] as i32;
                if example.is_learnt[i] {
                    targets[begin + i - 1] = *next as i32;
                }
            }
        }
        Ok((Tensor::from_slice(&ids).realize()?, Tensor::from_slice(&targets).realize()?))
    }
    /// The number of the example that comes at a place of the run.
    fn example(&self, at: usize) -> usize {
        let count = self.examples.len();
        let (round, within) = (at / count, at % count);
        if !self.tuning.is_shuffled {
            return within;
        }
        let mut order: Vec<usize> = (0..count).collect();
        let mut random = Random::new(self.tuning.seed.wrapping_add(round as u64));
        for i in (1..count).rev() {
            order.swap(i, (random.uniform() * (i + 1) as f64) as usize);
        }
        order[within]
    }
    /// Writes all that a run needs to go on: the adapter in PEFT's files, and the optimiser's state.
    #[track_caller]
    pub fn save(&self, folder: impl AsRef<Path>, base: &str) -> Result<()> {
        let folder = folder.as_ref();
        self.adapter.save(folder, base)?;
        let about = BTreeMap::from([
            ("steps".to_string(), self.step.to_string()),
            ("settings".to_string(), self.settings()),
        ]);
        safetensors::save_with(folder.join(STATE), &locked(&self.optimizer).state_dict(), &about)
    }
    /// Goes on from what [`Trainer::save`] wrote, with the same settings and examples.
    #[track_caller]
    pub fn resume(&mut self, folder: impl AsRef<Path>) -> Result<()> {
        let folder = folder.as_ref();
        let file = safetensors::SafeTensors::open(folder.join(STATE))?;
        let about = |name: &str| file.metadata().get(name).cloned().unwrap_or_default();
        let (saved, here) = (about("settings"), self.settings());
        if saved != here {
            let message = format!("{}: was made with {saved}, and this is {here}", folder.display());
            return Err(Error::new("finetune", message));
        }
        let step = about("steps").parse();
        self.step = step.map_err(|_| {
            Error::new("finetune", format!("{}: it does not say after how many steps", folder.display()))
        })?;
        self.adapter.load(folder)?;
        locked(&self.optimizer).load_state_dict(&file.state()?)
    }
    /// What a run depends on besides the model.
    fn settings(&self) -> String {
        let tokens = self.examples.iter().flat_map(|e| e.tokens.iter().zip(&e.is_learnt));
        // FNV
        let hash = tokens.fold(0xcbf2_9ce4_8422_2325u64, |h, (t, l)| {
            (h ^ (u64::from(*t) << 1 | u64::from(*l))).wrapping_mul(0x0100_0000_01b3)
        });
        let (t, lora) = (&self.tuning, self.adapter.lora());
        format!("{t:?} {lora:?}, {} examples ({hash:016x})", self.examples.len())
    }
}

const STATE: &str = "optimizer.safetensors";

fn locked(optimizer: &Mutex<AdamW>) -> MutexGuard<'_, AdamW> {
    // a step that panicked leaves numbers, which are as good as any
    optimizer.lock().unwrap_or_else(|e| e.into_inner())
}

fn loss(model: &Decoder, shape: [usize; 2], ids: &Tensor, targets: &Tensor) -> Result<Tensor> {
    let [rows, length] = shape;
    let positions =
        Tensor::arange(length).int().unsqueeze(0).expand([rows, length]).flatten(0, 1).contiguous();
    let x = model.forward(ids, &positions, &mut Rows { config: model.config(), shape })?;
    let options = CrossEntropy { ignore_index: Some(NOTHING), ..CrossEntropy::default() };
    Ok(model.logits(&x).cross_entropy_with(targets, options))
}

/// Attention of several texts of one length, each over itself.
struct Rows<'a> {
    config: &'a Config,
    shape: [usize; 2],
}

impl Attend for Rows<'_> {
    fn attend(&mut self, layer: usize, q: &Tensor, k: &Tensor, v: &Tensor) -> Result<Tensor> {
        let keys = Tensor::arange(self.shape[1]).int();
        let seen = seen(&keys.unsqueeze(0), &keys, self.config.windows[layer]);
        let [q, k, v] = [q, k, v].map(|t| t.unflatten(0, self.shape));
        Ok(attend(self.config, &q, &k, &v, &seen).flatten(0, 1))
    }
}
