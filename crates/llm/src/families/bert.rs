//! bert and what has its shape (MiniLM, bge, e5): encoders, in which every token sees all others.

use super::Family;
use crate::config::{Activation, Config, Pooling};
use crate::keys::Keys;
use crate::weights::Names;
use frit_tensor::{Error, Result};

/// bert.
pub const BERT: Family = Family {
    architectures: &["bert", "BertModel", "BertForMaskedLM"],
    names: Names {
        prefixes: &["bert."],
        layer: "encoder.layer.{}.",
        table: &[
            ("token_embd", "embeddings.word_embeddings"),
            ("token_types", "embeddings.token_type_embeddings"),
            ("position_embd", "embeddings.position_embeddings"),
            ("token_embd_norm", "embeddings.LayerNorm"),
            ("attn_q", "attention.self.query"),
            ("attn_k", "attention.self.key"),
            ("attn_v", "attention.self.value"),
            ("attn_output", "attention.output.dense"),
            ("attn_output_norm", "attention.output.LayerNorm"),
            ("ffn_up", "intermediate.dense"),
            ("ffn_down", "output.dense"),
            ("layer_output_norm", "output.LayerNorm"),
        ],
        transposed: &[],
        // what stands on top of it for other tasks
        unused: &["position_ids", "pooler.dense.weight", "pooler.dense.bias"],
        beside: &[],
    },
    defaults: &[],
    config,
};

fn config(keys: &Keys, _limit: Option<usize>) -> Result<Config> {
    let mut c = Config::common(keys)?;
    if !keys.is_folder() {
        c.activation = Activation::Gelu;
    }
    if keys.flag("attention.causal")?.unwrap_or(false) {
        return Err(Error::new("load", "a bert whose tokens do not see later ones is not known"));
    }
    // the numbers of llama.cpp; a folder says it elsewhere
    c.pooling = match keys.size("pooling_type")? {
        None | Some(0 | 1) => Pooling::Mean,
        Some(2) => Pooling::First,
        Some(3) => Pooling::Last,
        Some(other) => return Err(Error::new("load", format!("pooling of type {other} is not known"))),
    };
    // the table of types says how many there are
    keys.ignore(&["type_vocab_size"]);
    c.is_bidirectional = true;
    Ok(c)
}
