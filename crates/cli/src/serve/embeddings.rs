//! `/v1/embeddings`: a vector for each text.

use super::ask::{self, Begin};
use super::error::ApiError;
use super::worker::{Refused, Worker};
use axum::http::StatusCode;
use frit_llm::chat::{Text, Value};
use serde_json::{Value as Json, json};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Texts of one call; OpenAI takes as many.
const MOST: usize = 2048;

/// What is answered to a request; `name` is the model's, and `context` the most tokens of a text.
pub async fn answer(
    worker: &Worker,
    text: &Arc<Text>,
    name: &str,
    context: usize,
    v: &Value,
) -> Result<Json, ApiError> {
    let texts = ask::read_prompts(v, "input", MOST)?;
    let is_base64 = match ask::text(v, "encoding_format")?.as_deref() {
        None | Some("float") => false,
        Some("base64") => true,
        Some(other) => {
            return Err(ApiError::field("encoding_format", format!("{other:?} is neither float nor base64")));
        }
    };
    let dimensions = ask::whole(v, "dimensions", 1, 1 << 20)?;
    if !worker.shared.ready.load(Ordering::Acquire) {
        return Err(ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "the model is not loaded yet"));
    }
    let text = text.clone();
    let made = tokio::task::spawn_blocking(move || {
        let tokens = |b: Begin| match b {
            Begin::Text(t) => text.tokenizer.encode(&t),
            Begin::Tokens(ids) => ids,
        };
        texts.into_iter().map(tokens).collect::<Vec<_>>()
    });
    let made = made.await.map_err(|e| ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, e.to_string()))?;
    if let Some(long) = made.iter().find(|t| t.len() > context) {
        let message = format!("{} tokens, and the context has {}", long.len(), context);
        return Err(ApiError::field("input", message).coded("context_length_exceeded"));
    }
    let total: usize = made.iter().map(Vec::len).sum();
    let mut data = vec![];
    for (index, tokens) in made.into_iter().enumerate() {
        let vector = worker.embed(tokens).await.map_err(|e| match e {
            Refused::Busy => ApiError::new(StatusCode::TOO_MANY_REQUESTS, "too many requests run and wait")
                .coded("rate_limit_exceeded"),
            Refused::Gone => {
                ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "the model does not run any more")
            }
            Refused::Bad(message) => ApiError::field("input", message).coded("unsupported_model"),
        })?;
        if dimensions.is_some_and(|d| d != vector.len() as u64) {
            let message = format!("the model's vectors have {} elements, and no others", vector.len());
            return Err(ApiError::field("dimensions", message));
        }
        let embedding = match is_base64 {
            true => Json::from(base64(&vector.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<u8>>())),
            false => Json::from(vector),
        };
        data.push(json!({"object": "embedding", "index": index, "embedding": embedding}));
    }
    let usage = json!({"prompt_tokens": total, "total_tokens": total});
    Ok(json!({"object": "list", "data": data, "model": name, "usage": usage}))
}

fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::new();
    for three in bytes.chunks(3) {
        let bits = three.iter().fold(0u32, |n, b| n << 8 | u32::from(*b)) << (8 * (3 - three.len()));
        for i in 0..4 {
            let letter = LETTERS[(bits >> (18 - 6 * i)) as usize & 63];
            out.push(if i <= three.len() { letter as char } else { '=' });
        }
    }
    out
}

#[cfg(test)]
mod tests {
    #[test]
    fn base64_is_that_of_the_rfc() {
        let cases = [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foobar", "Zm9vYmFy"),
            ("\u{fb}", "w7s="),
        ];
        for (plain, coded) in cases {
            assert_eq!(super::base64(plain.as_bytes()), coded);
        }
    }
}
