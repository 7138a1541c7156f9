//! The programs of the corpus: every family of operations, the models of `bench`, training steps.

use crate::bench::compile::train;
use crate::bench::models::{Config, GPT2, LLAMA_8B, Mnist, Resnet50, Transformer};
use frit::nn::*;
use frit::*;

/// Makes the outputs of a program on the default device.
pub type Build = fn() -> Result<Vec<Tensor>>;

/// Random floats in memory.
fn randn(dims: &[usize]) -> Result<Tensor> {
    let x = Tensor::randn(dims);
    x.realize()?;
    Ok(x)
}

/// Random integers in memory.
fn below(limit: i64, dims: &[usize]) -> Result<Tensor> {
    let x = Tensor::randint(0, limit, dims);
    x.realize()?;
    Ok(x)
}

fn cast(x: Tensor, dtype: DType) -> Result<Tensor> {
    let x = x.cast(dtype);
    x.realize()?;
    Ok(x)
}

/// A vector times weights in blocks.
fn quantised(kind: gguf::Kind, rows: usize, columns: usize) -> Result<Vec<Tensor>> {
    let bytes = columns / kind.block_len() * kind.block_bytes();
    let raw = cast(below(100, &[rows, bytes])?, DType::U8)?;
    Ok(vec![kind.dequantize(&raw).matmul(&randn(&[columns])?)])
}

/// Many vectors times weights in blocks, in whole numbers.
fn whole(kind: gguf::Kind, rows: usize, columns: usize, tokens: usize) -> Result<Vec<Tensor>> {
    let bytes = columns / kind.block_len() * kind.block_bytes();
    let raw = cast(below(100, &[rows, bytes])?, DType::U8)?;
    let words = kind.words(&raw).ok_or_else(|| Error::new("words", format!("{kind:?} has none")))?;
    Ok(vec![words.product(&randn(&[tokens, columns])?, gguf::Bytes::One)])
}

/// The gradient of the sum of an output to its inputs, and the output.
fn gradient(inputs: &[&Tensor], f: impl FnOnce() -> Tensor) -> Result<Vec<Tensor>> {
    let y = f();
    let mut all = y.sum(..).gradient(inputs)?;
    all.push(y);
    Ok(all)
}

/// Everything a training step updates, with the loss.
fn step<M: Module>(model: &M, loss: impl Fn(&M) -> Tensor) -> Result<Vec<Tensor>> {
    train(model, &mut Adam::new(model, 1e-3)?, loss)
}

/// The same kernels come again in every layer: two are enough.
const fn two_layers(c: Config) -> Config {
    Config { layers: 2, ..c }
}

/// The list.
pub fn programs() -> Vec<(&'static str, Build)> {
    [elementwise(), reductions(), movement(), products(), models()].concat()
}

fn elementwise() -> Vec<(&'static str, Build)> {
    vec![
        ("add", || Ok(vec![randn(&[1000, 1000])? + randn(&[1000])?])),
        ("fused", || {
            let (x, y) = (randn(&[1 << 20])?, randn(&[1 << 20])?);
            Ok(vec![x.sigmoid() * y + x])
        }),
        ("transcendental", || {
            let x = randn(&[4096])?;
            Ok(vec![x.exp(), x.log(), x.sin(), x.cos(), x.tanh(), x.erf(), x.sqrt()])
        }),
        ("gelu_gradient", || {
            let x = randn(&[512, 768])?;
            gradient(&[&x], || x.gelu())
        }),
        ("integers", || {
            let (x, y) = (below(100, &[4096])?, below(7, &[4096])? + 1);
            Ok(vec![&x / &y, &x * 3 + &y, x.maximum(&y)])
        }),
        ("casts", || {
            let x = randn(&[4096])?;
            let half = cast(x.clone(), DType::F16)?;
            Ok(vec![x.cast(DType::I32), x.cast(DType::BF16), half.cast(DType::F32), x.cast(DType::F64)])
        }),
        ("random", || Ok(vec![Tensor::rand([4096]), Tensor::randn([4095])])),
    ]
}

fn reductions() -> Vec<(&'static str, Build)> {
    vec![
        ("sum", || {
            let x = randn(&[1 << 20])?;
            Ok(vec![x.sum(..), x.max(..)])
        }),
        ("rows", || {
            let x = randn(&[1023, 1000])?;
            Ok(vec![x.sum(0), x.sum(1), x.max(0), x.mean(1), x.argmax(-1)])
        }),
        ("cumsum", || Ok(vec![randn(&[256, 1024])?.cumsum(-1)])),
        ("softmax", || Ok(vec![randn(&[1024, 1000])?.softmax(-1)])),
        ("softmax_gradient", || {
            let x = randn(&[256, 512])?;
            gradient(&[&x], || x.softmax(-1))
        }),
        ("layernorm", || Ok(vec![randn(&[1024, 768])?.layernorm(-1, None, None, 1e-5)])),
        ("layernorm_gradient", || {
            let x = randn(&[256, 768])?;
            gradient(&[&x], || x.layernorm(-1, None, None, 1e-5))
        }),
        ("cross_entropy", || Ok(vec![randn(&[64, 1000])?.cross_entropy(&below(1000, &[64])?)])),
        ("sort", || {
            let (values, at) = randn(&[64, 1000])?.sort(-1, false);
            Ok(vec![values, at])
        }),
    ]
}

fn movement() -> Vec<(&'static str, Build)> {
    vec![
        ("transpose", || Ok(vec![randn(&[1023, 1024])?.t().contiguous()])),
        ("permute", || Ok(vec![randn(&[8, 32, 48, 16])?.permute([0, 2, 3, 1]).contiguous()])),
        ("embedding", || Ok(vec![randn(&[5000, 768])?.embedding(&below(5000, &[128])?)])),
        ("embedding_gradient", || {
            let (table, at) = (randn(&[5000, 64])?, below(5000, &[128])?);
            gradient(&[&table], || table.embedding(&at))
        }),
        ("pool", || Ok(vec![randn(&[8, 32, 28, 28])?.max_pool2d(2, Window::new())])),
        ("pool_gradient", || {
            let x = randn(&[8, 32, 28, 28])?;
            gradient(&[&x], || x.max_pool2d(2, Window::new()))
        }),
    ]
}

fn products() -> Vec<(&'static str, Build)> {
    vec![
        ("matmul_256", || Ok(vec![randn(&[256, 256])?.matmul(&randn(&[256, 256])?)])),
        ("matmul_1023", || Ok(vec![randn(&[1023, 1000])?.matmul(&randn(&[1000, 1023])?)])),
        ("matmul_narrow", || Ok(vec![randn(&[64, 4096])?.matmul(&randn(&[4096, 512])?)])),
        ("matmul_transposed", || Ok(vec![randn(&[512, 512])?.t().matmul(&randn(&[512, 512])?.t())])),
        ("matmul_bf16", || {
            let (a, b) = (cast(randn(&[512, 512])?, DType::BF16)?, cast(randn(&[512, 512])?, DType::BF16)?);
            Ok(vec![a.matmul(&b)])
        }),
        ("matmul_int8", || {
            let (a, b) =
                (cast(below(100, &[256, 512])?, DType::I8)?, cast(below(100, &[512, 384])?, DType::I8)?);
            Ok(vec![a.cast(DType::I32).matmul(&b.cast(DType::I32))])
        }),
        ("gemv_q4_1", || quantised(gguf::Kind::Q4_1, 1536, 576)),
        ("gemv_q8_0", || quantised(gguf::Kind::Q8_0, 1536, 576)),
        ("gemv_q4_k", || quantised(gguf::Kind::Q4_K, 1024, 2048)),
        ("words_q8_0", || whole(gguf::Kind::Q8_0, 1536, 576, 128)),
        ("gemv", || Ok(vec![randn(&[4096, 4096])?.matmul(&randn(&[4096])?)])),
        ("batched", || Ok(vec![randn(&[16, 64, 96])?.matmul(&randn(&[16, 96, 64])?).relu()])),
        ("matmul_gradient", || {
            let (a, b) = (randn(&[128, 256])?, randn(&[256, 192])?);
            gradient(&[&a, &b], || a.matmul(&b).tanh())
        }),
        ("conv3x3", || {
            let (x, w) = (randn(&[4, 64, 28, 28])?, randn(&[128, 64, 3, 3])?);
            Ok(vec![x.conv2d(&w, None, Window::new().padding(1))])
        }),
        ("conv_stride2", || {
            let (x, w) = (randn(&[4, 63, 28, 28])?, randn(&[65, 63, 3, 3])?);
            Ok(vec![x.conv2d(&w, None, Window::new().padding(1).stride(2))])
        }),
        ("conv_depthwise", || {
            let (x, w) = (randn(&[4, 128, 28, 28])?, randn(&[128, 1, 3, 3])?);
            Ok(vec![x.conv2d(&w, None, Window::new().padding(1).groups(128))])
        }),
        ("conv_gradient", || {
            let (x, w) = (randn(&[4, 32, 28, 28])?, randn(&[64, 32, 3, 3])?);
            gradient(&[&x, &w], || x.conv2d(&w, None, Window::new().padding(1)))
        }),
        ("attention", || {
            let [q, k, v] = [randn(&[1, 8, 256, 64])?, randn(&[1, 8, 256, 64])?, randn(&[1, 8, 256, 64])?];
            Ok(vec![q.scaled_dot_product_attention(&k, &v, None, true)])
        }),
    ]
}

fn models() -> Vec<(&'static str, Build)> {
    vec![
        ("mnist_train", || {
            let (x, y) = (randn(&[512, 1, 28, 28])?, below(10, &[512])?);
            step(&Mnist::new(), |m| m.forward(&x).cross_entropy(&y))
        }),
        ("resnet50_infer", || {
            let model = Resnet50::new();
            model.realize_state()?;
            Ok(vec![model.forward(&randn(&[1, 3, 224, 224])?)])
        }),
        ("gpt2_train", || {
            let c = two_layers(GPT2);
            let (x, y) = (below(c.vocab as i64, &[4, 128])?, below(c.vocab as i64, &[512])?);
            step(&Transformer::new(c, true), |m| m.forward(&x).reshape((-1, c.vocab)).cross_entropy(&y))
        }),
        ("llama8b_token", || {
            let c = two_layers(LLAMA_8B);
            let model = Transformer::new(c, true);
            model.realize_state()?;
            Ok(vec![model.forward(&below(c.vocab as i64, &[1, 1])?)])
        }),
    ]
}
