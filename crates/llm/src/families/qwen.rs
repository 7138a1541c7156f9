//! qwen 2, 2.5 and 3, with and without experts. Biases (2) and norms of queries and keys (3) are where their tensors are.

use super::Family;
use super::llama::NAMES;
use crate::config::Config;
use crate::keys::Keys;
use crate::weights::Names;
use frit_tensor::Result;

/// qwen 2, 2.5 and 3.
pub const QWEN: Family = Family {
    architectures: &["qwen2", "qwen3", "Qwen2ForCausalLM", "Qwen3ForCausalLM"],
    names: NAMES,
    defaults: &[],
    config,
};

/// The same with experts.
pub const QWEN_MOE: Family = Family {
    architectures: &["qwen2moe", "qwen3moe", "Qwen2MoeForCausalLM", "Qwen3MoeForCausalLM"],
    names: Names {
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
            ("ffn_gate_inp", "mlp.gate"),
            ("ffn_gate_exps", "mlp.experts.{}.gate_proj"),
            ("ffn_up_exps", "mlp.experts.{}.up_proj"),
            ("ffn_down_exps", "mlp.experts.{}.down_proj"),
            ("ffn_gate_inp_shexp", "mlp.shared_expert_gate"),
            ("ffn_gate_shexp", "mlp.shared_expert.gate_proj"),
            ("ffn_up_shexp", "mlp.shared_expert.up_proj"),
            ("ffn_down_shexp", "mlp.shared_expert.down_proj"),
        ],
        ..NAMES
    },
    defaults: &[],
    config,
};

fn config(keys: &Keys, limit: Option<usize>) -> Result<Config> {
    let mut c = Config::common(keys)?;
    c.rope = Some(c.read_rope(keys, limit, false)?);
    let window = keys.window(c.context)?;
    let is_windowed = keys.flag("use_sliding_window")?.unwrap_or(!keys.is_folder());
    let first = keys.size("max_window_layers")?.unwrap_or(0);
    let kinds = keys.texts("layer_types")?;
    for (i, w) in c.windows.iter_mut().enumerate() {
        let sliding = match &kinds {
            Some(kinds) => kinds.get(i).is_some_and(|k| k == "sliding_attention"),
            None => i >= first,
        };
        *w = window.filter(|_| is_windowed && sliding);
    }
    // layers without experts are known by their tensors
    keys.ignore(&["decoder_sparse_step", "mlp_only_layers", "shared_expert_intermediate_size"]);
    keys.ignore(&["expert_shared_feed_forward_length"]);
    // in GGUF the architecture says it
    let is_normalised = keys.flag("norm_topk_prob")?.unwrap_or(keys.architecture() == "qwen3moe");
    c.experts = c.read_experts(keys, is_normalised)?;
    Ok(c)
}
