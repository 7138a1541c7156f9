//! llama 1 to 3, mistral, smollm; mixtral, which has experts. In GGUF all are `llama`, rows of queries and keys being
//! reordered so that neighbours turn together.

use super::Family;
use crate::config::Config;
use crate::keys::Keys;
use crate::weights::Names;
use frit_tensor::Result;

/// What most folders call their tensors.
pub const NAMES: Names = Names {
    prefixes: &["model."],
    layer: "layers.{}.",
    table: &[
        ("token_embd", "embed_tokens"),
        ("output_norm", "norm"),
        ("output", "lm_head"),
        ("attn_norm", "input_layernorm"),
        ("attn_q", "self_attn.q_proj"),
        ("attn_k", "self_attn.k_proj"),
        ("attn_v", "self_attn.v_proj"),
        ("attn_q_norm", "self_attn.q_norm"),
        ("attn_k_norm", "self_attn.k_norm"),
        ("attn_output", "self_attn.o_proj"),
        ("ffn_norm", "post_attention_layernorm"),
        ("ffn_gate", "mlp.gate_proj"),
        ("ffn_up", "mlp.up_proj"),
        ("ffn_down", "mlp.down_proj"),
    ],
    transposed: &[],
    unused: &["rotary_emb.inv_freq"],
    beside: &[],
};

/// llama, mistral, smollm.
pub const LLAMA: Family = Family {
    architectures: &["llama", "LlamaForCausalLM", "MistralForCausalLM"],
    names: NAMES,
    defaults: &[],
    config,
};

/// mixtral.
pub const MIXTRAL: Family = Family {
    architectures: &["MixtralForCausalLM"],
    names: Names {
        table: &[
            ("token_embd", "embed_tokens"),
            ("output_norm", "norm"),
            ("output", "lm_head"),
            ("attn_norm", "input_layernorm"),
            ("attn_q", "self_attn.q_proj"),
            ("attn_k", "self_attn.k_proj"),
            ("attn_v", "self_attn.v_proj"),
            ("attn_output", "self_attn.o_proj"),
            ("ffn_norm", "post_attention_layernorm"),
            ("ffn_gate_inp", "block_sparse_moe.gate"),
            ("ffn_gate_exps", "block_sparse_moe.experts.{}.w1"),
            ("ffn_up_exps", "block_sparse_moe.experts.{}.w3"),
            ("ffn_down_exps", "block_sparse_moe.experts.{}.w2"),
        ],
        ..NAMES
    },
    defaults: &[],
    config,
};

fn config(keys: &Keys, limit: Option<usize>) -> Result<Config> {
    let mut c = Config::common(keys)?;
    let interleaved = !keys.is_folder() || keys.flag("rope_interleaved")?.unwrap_or(false);
    c.rope = Some(c.read_rope(keys, limit, interleaved)?);
    c.windows = vec![keys.window(c.context)?; c.layers];
    c.experts = c.read_experts(keys, true)?;
    Ok(c)
}
