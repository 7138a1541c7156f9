//! How alike sentences are: MiniLM makes a vector of each, and the angle between two says how much they mean the same.
//!
//! ```text
//! cargo run --release --example embed
//! cargo run --release --example embed -- "A sentence" "Another one" …
//! ```

mod models;

use frit::onnx::{Session, Value};
use frit::prelude::*;
use frit_tokenize::Tokenizer;
use models::*;

const SENTENCES: [&str; 5] = [
    "A cat sleeps on the sofa.",
    "The kitten is napping on a couch.",
    "Share prices fell sharply today.",
    "The stock market lost ground this afternoon.",
    "Add two eggs and stir until smooth.",
];

/// The vector of a sentence: the mean of its tokens', of length one.
fn embed(model: &Session, tokenizer: &Tokenizer, sentence: &str) -> frit::Result<Tensor> {
    let ids: Vec<i64> = tokenizer.encode(sentence).into_iter().map(i64::from).collect();
    let n = ids.len();
    let feeds = [
        ("input_ids", Tensor::from_vec(ids, [1, n])),
        ("attention_mask", Tensor::from_vec(vec![1i64; n], [1, n])),
        ("token_type_ids", Tensor::from_vec(vec![0i64; n], [1, n])),
    ];
    let states = model.run(feeds.map(|(name, t)| (name, Value::from(t))))?[0].tensor()?;
    states.mean(1).normalize(2.0, -1, 1e-12).realize()
}

fn main() -> Outcome<()> {
    let [model, tokenizer] = files(["minilm.onnx", "minilm.json"]);
    let (model, tokenizer) = (Session::load(model)?, Tokenizer::load(tokenizer)?);
    let given: Vec<String> = std::env::args().skip(1).collect();
    let sentences: Vec<&str> =
        if given.is_empty() { SENTENCES.to_vec() } else { given.iter().map(String::as_str).collect() };
    let vectors = sentences.iter().map(|s| embed(&model, &tokenizer, s)).collect::<frit::Result<Vec<_>>>()?;
    let all = Tensor::cat(&vectors, 0);
    let alike = all.matmul(&all.t()).to_vec::<f32>()?;
    for (i, sentence) in sentences.iter().enumerate() {
        let row = &alike[i * sentences.len()..][..sentences.len()];
        let numbers: Vec<String> = row.iter().map(|v| format!("{v:5.2}")).collect();
        println!("{}  {sentence}", numbers.join(" "));
    }
    Ok(())
}
