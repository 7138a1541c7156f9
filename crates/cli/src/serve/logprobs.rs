//! Probabilities of tokens, as the two APIs have them.

use frit_llm::engine::Logprobs;
use frit_tokenize::Tokenizer;
use serde_json::{Map, Value as Json, json};

/// A token that was chosen, with what is told of it.
pub struct Told {
    pub token: u32,
    /// Characters of the answer's text before it.
    pub at: usize,
    pub logprobs: Logprobs,
}

/// What a token adds to a text, as a text; bytes that are part of a character are written down, as OpenAI writes them.
fn name(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) => text.to_string(),
        Err(_) => bytes.iter().fold("bytes:".to_string(), |name, b| format!("{name}\\x{b:02x}")),
    }
}
fn bytes(tokenizer: &Tokenizer, id: u32) -> Vec<u8> {
    tokenizer.bytes(id).unwrap_or_default()
}

/// Those of a part of a chat.
pub fn of_chat(tokenizer: &Tokenizer, told: &[Told]) -> Json {
    let one = |id: u32, p: f32| {
        let bytes = bytes(tokenizer, id);
        json!({"token": name(&bytes), "logprob": p, "bytes": bytes})
    };
    let row = |t: &Told| {
        let mut row = one(t.token, t.logprobs.token);
        row["top_logprobs"] = t.logprobs.top.iter().map(|(t, p)| one(*t, *p)).collect();
        row
    };
    json!({"content": told.iter().map(row).collect::<Vec<_>>()})
}

/// Those of a part of a completion, before whose text there are so many characters.
pub fn of_completion(tokenizer: &Tokenizer, told: &[Told], before: usize) -> Json {
    let name = |id: u32| name(&bytes(tokenizer, id));
    let top = |l: &Logprobs| {
        let mut all = Map::new();
        for (id, p) in &l.top {
            let mut name = name(*id);
            // several tokens may have the same bytes, and none is left out
            if all.contains_key(&name) {
                name = format!("token_id:{id}");
            }
            all.insert(name, json!(p));
        }
        all
    };
    json!({
        "tokens": told.iter().map(|t| name(t.token)).collect::<Vec<_>>(),
        "token_logprobs": told.iter().map(|t| t.logprobs.token).collect::<Vec<_>>(),
        "top_logprobs": told.iter().map(|t| top(&t.logprobs)).collect::<Vec<_>>(),
        "text_offset": told.iter().map(|t| before + t.at).collect::<Vec<_>>(),
    })
}
