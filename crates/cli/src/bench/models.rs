//! The networks that benchmarks run: shapes and graphs are real, weights are random.

use frit::nn::*;
use frit::*;

/// conv5-conv5-bn-pool-conv3-conv3-bn-pool-linear, for 28x28 digits.
#[derive(Module)]
pub struct Mnist {
    convs: Vec<Conv2d>,
    norms: Vec<BatchNorm>,
    out: Linear,
}

impl Mnist {
    /// Random weights.
    pub fn new() -> Mnist {
        Mnist {
            convs: vec![
                Conv2d::new(1, 32, 5),
                Conv2d::new(32, 32, 5),
                Conv2d::new(32, 64, 3),
                Conv2d::new(64, 64, 3),
            ],
            norms: vec![BatchNorm::new(32), BatchNorm::new(64)],
            out: Linear::new(576, 10),
        }
    }
    /// (B, 1, 28, 28) -> (B, 10)
    pub fn forward(&self, x: &Tensor) -> Tensor {
        let mut x = x.clone();
        for (pair, norm) in self.convs.chunks(2).zip(&self.norms) {
            for conv in pair {
                x = conv.forward(&x).relu();
            }
            x = norm.forward(&x).max_pool2d(2, Window::new());
        }
        self.out.forward(&x.flatten(1, -1))
    }
}

/// A convolution with its batch norm.
#[derive(Module)]
struct ConvNorm {
    conv: Conv2d,
    norm: BatchNorm,
}

impl ConvNorm {
    fn new(i: usize, o: usize, kernel: usize, stride: usize) -> ConvNorm {
        let conv = Conv2d::new(i, o, kernel).stride(stride).padding(kernel / 2).without_bias();
        ConvNorm { conv, norm: BatchNorm::new(o) }
    }
    fn forward(&self, x: &Tensor) -> Tensor {
        self.norm.forward(&self.conv.forward(x))
    }
}

/// 1x1, 3x3, 1x1 with a shortcut.
#[derive(Module)]
struct Bottleneck {
    convs: Vec<ConvNorm>,
    shortcut: Option<ConvNorm>,
}

impl Bottleneck {
    fn new(i: usize, width: usize, stride: usize) -> Bottleneck {
        let o = 4 * width;
        Bottleneck {
            convs: vec![
                ConvNorm::new(i, width, 1, 1),
                ConvNorm::new(width, width, 3, stride),
                ConvNorm::new(width, o, 1, 1),
            ],
            shortcut: (stride != 1 || i != o).then(|| ConvNorm::new(i, o, 1, stride)),
        }
    }
    fn forward(&self, x: &Tensor) -> Tensor {
        let y = self.convs[0].forward(x).relu();
        let y = self.convs[1].forward(&y).relu();
        let y = self.convs[2].forward(&y);
        (y + self.shortcut.as_ref().map_or_else(|| x.clone(), |s| s.forward(x))).relu()
    }
}

/// ResNet-50.
#[derive(Module)]
pub struct Resnet50 {
    stem: ConvNorm,
    blocks: Vec<Bottleneck>,
    out: Linear,
}

impl Resnet50 {
    /// Random weights.
    pub fn new() -> Resnet50 {
        let (mut blocks, mut i) = (vec![], 64);
        for (stage, n) in [3, 4, 6, 3].into_iter().enumerate() {
            for b in 0..n {
                let width = 64 << stage;
                blocks.push(Bottleneck::new(i, width, if b == 0 && stage > 0 { 2 } else { 1 }));
                i = 4 * width;
            }
        }
        Resnet50 { stem: ConvNorm::new(3, 64, 7, 2), blocks, out: Linear::new(2048, 1000) }
    }
    /// (B, 3, 224, 224) -> (B, 1000)
    pub fn forward(&self, x: &Tensor) -> Tensor {
        let x = self.stem.forward(x).relu().max_pool2d(3, Window::new().stride(2).padding(1));
        let x = self.blocks.iter().fold(x, |x, b| b.forward(&x));
        self.out.forward(&x.mean([2, 3]))
    }
}

/// What tells one transformer from another.
#[derive(Clone, Copy)]
pub struct Config {
    /// Width of the residual stream.
    pub dim: usize,
    /// Attention heads.
    pub heads: usize,
    /// Heads of keys and values.
    pub kv_heads: usize,
    /// Width inside the feed-forward part.
    pub hidden: usize,
    /// Blocks.
    pub layers: usize,
    /// Rows of the embedding.
    pub vocab: usize,
    /// Whether a token sees those after it.
    pub causal: bool,
    /// RMS norm, gated SiLU and no biases (llama) rather than layer norm and GELU (GPT-2, BERT).
    pub llama: bool,
}

/// Twelve blocks of width 768.
pub const GPT2: Config = Config {
    dim: 768,
    heads: 12,
    kv_heads: 12,
    hidden: 3072,
    layers: 12,
    vocab: 50257,
    causal: true,
    llama: false,
};
/// BERT-large.
pub const BERT_LARGE: Config = Config {
    dim: 1024,
    heads: 16,
    kv_heads: 16,
    hidden: 4096,
    layers: 24,
    vocab: 30522,
    causal: false,
    llama: false,
};
/// Llama 3 8B.
pub const LLAMA_8B: Config = Config {
    dim: 4096,
    heads: 32,
    kv_heads: 8,
    hidden: 14336,
    layers: 32,
    vocab: 128_256,
    causal: true,
    llama: true,
};

/// One block.
#[derive(Module)]
struct Block {
    norms: Vec<LayerNorm>,
    qkv: Linear,
    proj: Linear,
    up: Linear,
    gate: Option<Linear>,
    down: Linear,
    heads: usize,
    kv_heads: usize,
    causal: bool,
}

impl Block {
    fn new(c: Config) -> Block {
        let linear = |i, o| if c.llama { Linear::without_bias(i, o) } else { Linear::new(i, o) };
        let head = c.dim / c.heads;
        Block {
            norms: vec![LayerNorm::new([c.dim]), LayerNorm::new([c.dim])],
            qkv: linear(c.dim, (c.heads + 2 * c.kv_heads) * head),
            proj: linear(c.dim, c.dim),
            up: linear(c.dim, c.hidden),
            gate: c.llama.then(|| linear(c.dim, c.hidden)),
            down: linear(c.hidden, c.dim),
            heads: c.heads,
            kv_heads: c.kv_heads,
            causal: c.causal,
        }
    }
    fn norm(&self, i: usize, x: &Tensor) -> Tensor {
        match self.gate {
            Some(_) => x.rmsnorm(-1, self.norms[i].weight.as_ref(), 1e-5),
            None => self.norms[i].forward(x),
        }
    }
    /// (B, T, D) -> (B, T, D)
    fn forward(&self, x: &Tensor) -> Tensor {
        let s = x.shape();
        let (b, t, d) = (&s[0], &s[1], &s[2]);
        let qkv = self.qkv.forward(&self.norm(0, x)).reshape((b, t, self.heads + 2 * self.kv_heads, -1));
        let qkv = qkv.transpose(1, 2); // (B, H + 2K, T, head)
        let q = qkv.narrow(1, 0, self.heads);
        let k = qkv.narrow(1, self.heads, self.kv_heads).repeat_interleave(self.heads / self.kv_heads, 1);
        let v = qkv.narrow(1, self.heads + self.kv_heads, self.kv_heads);
        let v = v.repeat_interleave(self.heads / self.kv_heads, 1);
        let a = q.scaled_dot_product_attention(&k, &v, None, self.causal);
        let x = x + self.proj.forward(&a.transpose(1, 2).reshape((b, t, d)));
        let h = self.norm(1, &x);
        let up = self.up.forward(&h);
        let act = match &self.gate {
            Some(g) => g.forward(&h).silu() * up,
            None => up.gelu_tanh(),
        };
        x + self.down.forward(&act)
    }
}

/// A transformer.
#[derive(Module)]
pub struct Transformer {
    embed: Option<Embedding>,
    blocks: Vec<Block>,
    norm: LayerNorm,
    out: Option<Linear>,
}

impl Transformer {
    /// Random weights; without embeddings, `forward` takes vectors.
    pub fn new(c: Config, embeddings: bool) -> Transformer {
        Transformer {
            embed: embeddings.then(|| Embedding::new(c.vocab, c.dim)),
            blocks: (0..c.layers).map(|_| Block::new(c)).collect(),
            norm: LayerNorm::new([c.dim]),
            out: embeddings.then(|| Linear::without_bias(c.dim, c.vocab)),
        }
    }
    /// Tokens (B, T) -> (B, T, vocab), or vectors (B, T, D) -> (B, T, D)
    pub fn forward(&self, x: &Tensor) -> Tensor {
        let x = self.embed.as_ref().map_or_else(|| x.clone(), |e| e.forward(x));
        let x = self.blocks.iter().fold(x, |x, b| b.forward(&x));
        match &self.out {
            Some(o) => o.forward(&self.norm.forward(&x)),
            None => x,
        }
    }
}
