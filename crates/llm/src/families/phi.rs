//! phi 3 and 4: queries, keys and values in one weight, gate and up in another; rotations with factors for long contexts.

use super::Family;
use super::llama::NAMES;
use crate::config::Config;
use crate::keys::Keys;
use crate::weights::Names;
use frit_tensor::Result;

/// phi 3 and 4.
pub const PHI: Family = Family {
    architectures: &["phi3", "Phi3ForCausalLM"],
    names: Names {
        table: &[
            ("token_embd", "embed_tokens"),
            ("output_norm", "norm"),
            ("output", "lm_head"),
            ("attn_norm", "input_layernorm"),
            ("attn_qkv", "self_attn.qkv_proj"),
            ("attn_output", "self_attn.o_proj"),
            ("ffn_norm", "post_attention_layernorm"),
            ("ffn_up", "mlp.gate_up_proj"),
            ("ffn_down", "mlp.down_proj"),
        ],
        ..NAMES
    },
    defaults: &[],
    config,
};

fn config(keys: &Keys, limit: Option<usize>) -> Result<Config> {
    let mut c = Config::common(keys)?;
    c.rope = Some(c.read_rope(keys, limit, false)?);
    c.windows = vec![keys.window(c.context)?; c.layers];
    Ok(c)
}
