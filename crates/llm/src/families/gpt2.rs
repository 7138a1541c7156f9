//! gpt-2: vectors for positions, norms with biases, a feed-forward without a gate; a folder has its weights transposed.

use super::Family;
use crate::config::{Activation, Config};
use crate::keys::Keys;
use crate::weights::Names;
use frit_tensor::{Error, Result};

/// gpt-2.
pub const GPT2: Family = Family {
    architectures: &["gpt2", "GPT2LMHeadModel"],
    names: Names {
        prefixes: &["transformer."],
        layer: "h.{}.",
        table: &[
            ("token_embd", "wte"),
            ("position_embd", "wpe"),
            ("output_norm", "ln_f"),
            ("output", "lm_head"),
            ("attn_norm", "ln_1"),
            ("attn_qkv", "attn.c_attn"),
            ("attn_output", "attn.c_proj"),
            ("ffn_norm", "ln_2"),
            ("ffn_up", "mlp.c_fc"),
            ("ffn_down", "mlp.c_proj"),
        ],
        transposed: &["attn_qkv", "attn_output", "ffn_up", "ffn_down"],
        unused: &["attn.bias", "attn.masked_bias"],
        beside: &[],
    },
    defaults: &[],
    config,
};

fn config(keys: &Keys, _limit: Option<usize>) -> Result<Config> {
    let mut c = Config::common(keys)?;
    if !keys.is_folder() {
        c.activation = Activation::GeluTanh;
    }
    let scaled = keys.flag("scale_attn_weights")?.unwrap_or(true);
    if !scaled || keys.flag("scale_attn_by_inverse_layer_idx")?.unwrap_or(false) {
        return Err(Error::new(
            "load",
            "scores that are not scaled by the root of a head's size are not known",
        ));
    }
    Ok(c)
}
