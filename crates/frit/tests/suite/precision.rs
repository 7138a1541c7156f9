//! Mixed precision: products on bfloat16, everything that is kept in float32, and the same losses but for noise.

use frit::nn::*;
use frit::prelude::*;
use frit::{Window, autocast, manual_seed};

const STEPS: usize = 40;

/// The loss of each step, with products in another type if one is given.
fn losses<M: Module>(
    make: fn() -> M,
    forward: fn(&M, &Tensor) -> Tensor,
    (x, y): (&Tensor, &Tensor),
    factors: Option<DType>,
) -> Vec<f32> {
    manual_seed(5);
    let model = make();
    let mut opt = AdamW::new(&model, 3e-3).unwrap();
    let mut all = vec![];
    for _ in 0..STEPS {
        let logits = training(true, || match factors {
            Some(d) => autocast(d, || forward(&model, x)),
            None => forward(&model, x),
        });
        assert_eq!(logits.dtype(), factors.unwrap_or(DType::F32));
        let loss = logits.cast(DType::F32).flatten(0, -2).cross_entropy(y);
        loss.backward().unwrap();
        opt.step_with(&[&loss]).unwrap();
        all.push(loss.item().unwrap());
    }
    for p in model.parameters() {
        assert_eq!(p.dtype(), DType::F32);
    }
    all
}

/// Whether learning goes the same way: losses fall alike, and end within what a rounding of products may do.
fn compare<M: Module>(make: fn() -> M, forward: fn(&M, &Tensor) -> Tensor, data: (&Tensor, &Tensor)) {
    let plain = losses(make, forward, data, None);
    let mixed = losses(make, forward, data, Some(DType::BF16));
    assert!(plain[STEPS - 1] < 0.5 * plain[0], "{plain:?}");
    assert_ne!(plain, mixed, "nothing was rounded");
    for (i, (a, b)) in plain.iter().zip(&mixed).enumerate() {
        assert!((a - b).abs() < 0.05 * plain[0], "step {i}: {a} and {b}");
    }
}

#[derive(Module)]
struct Digits {
    first: Conv2d,
    norm: BatchNorm,
    second: Conv2d,
    head: Linear,
}

impl Digits {
    fn new() -> Digits {
        Digits {
            first: Conv2d::new(1, 8, 3),
            norm: BatchNorm::new(8),
            second: Conv2d::new(8, 16, 3),
            head: Linear::new(16 * 4, 10),
        }
    }
    fn forward(&self, x: &Tensor) -> Tensor {
        let x = self.norm.forward(&self.first.forward(x).relu());
        let x = self.second.forward(&x.max_pool2d(2, Window::new())).relu().max_pool2d(2, Window::new());
        self.head.forward(&x.flatten(1, -1))
    }
}

#[test]
fn digits_are_learnt_alike() {
    manual_seed(5);
    let y = Tensor::arange(64) % 10;
    // each class is a pattern, under noise
    let x = (Tensor::randn([10, 1, 14, 14]) * 2.0).at(&y) + Tensor::randn([64, 1, 14, 14]);
    Tensor::realize_all(&[&x, &y]).unwrap();
    compare(Digits::new, Digits::forward, (&x, &y));
}

#[derive(Module)]
struct Writer {
    characters: Embedding,
    places: Embedding,
    body: TransformerEncoder,
    head: Linear,
}

const LENGTH: usize = 16;

impl Writer {
    fn new() -> Writer {
        let options = TransformerOptions {
            feedforward: 64,
            dropout: 0.0,
            activation: Tensor::gelu,
            batch_first: true,
            norm_first: true,
            ..TransformerOptions::default()
        };
        Writer {
            characters: Embedding::new(32, 32),
            places: Embedding::new(LENGTH, 32),
            body: TransformerEncoder::new(32, 4, 2, options),
            head: Linear::new(32, 32),
        }
    }
    fn forward(&self, text: &Tensor) -> Tensor {
        let x = self.characters.forward(text) + self.places.forward(&Tensor::arange(LENGTH));
        self.head.forward(&self.body.forward(&x, Masks::causal()))
    }
}

#[test]
fn text_is_learnt_alike() {
    let text = b"the quick brown fox jumps over the lazy dog and runs away from it ";
    let piece = |shift: usize| {
        let letters = (0..8).flat_map(|row| (0..LENGTH).map(move |i| row * 7 + i + shift));
        let numbers: Vec<i32> = letters.map(|i| (text[i % text.len()] % 32) as i32).collect();
        Tensor::from_vec(numbers, [8, LENGTH])
    };
    compare(Writer::new, Writer::forward, (&piece(0), &piece(1).flatten(0, -1)));
}
