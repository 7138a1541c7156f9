//! gemma 1 to 3: embeddings are scaled, norms of a folder count from 1, layers with a window alternate with those
//! without, and from 2 on there are norms after each block too. Of a model that sees pictures the part that reads text is taken.

use super::Family;
use super::llama::NAMES;
use crate::config::{Activation, Config};
use crate::keys::Keys;
use crate::rope::{Rope, Scaling};
use crate::weights::Names;
use frit_tensor::{Error, Result};

/// gemma 1.
pub const GEMMA: Family =
    Family { architectures: &["gemma", "GemmaForCausalLM"], names: NAMES, defaults: &[], config };

/// gemma 2 and 3.
pub const GEMMA2: Family = Family {
    architectures: &["gemma2", "gemma3", "Gemma2ForCausalLM", "Gemma3ForCausalLM"],
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
            // where there is one before the feed-forward, the other is after attention
            ("ffn_norm", "pre_feedforward_layernorm"),
            ("post_attention_norm", "post_attention_layernorm"),
            ("post_ffw_norm", "post_feedforward_layernorm"),
            ("ffn_gate", "mlp.gate_proj"),
            ("ffn_up", "mlp.up_proj"),
            ("ffn_down", "mlp.down_proj"),
        ],
        ..NAMES
    },
    defaults: &[],
    config,
};

/// gemma 3 with pictures.
pub const GEMMA3_WITH_PICTURES: Family = Family {
    architectures: &[WITH_PICTURES],
    names: Names {
        prefixes: &["language_model.model.", "model.language_model.", "language_model."],
        beside: &[
            "vision_tower.",
            "multi_modal_projector.",
            "model.vision_tower.",
            "model.multi_modal_projector.",
        ],
        ..GEMMA2.names
    },
    // what transformers takes for keys that are left out, as they are in most files
    defaults: &[
        ("num_attention_heads", 8.0),
        ("num_key_value_heads", 4.0),
        ("head_dim", 256.0),
        ("max_position_embeddings", 131_072.0),
        ("rms_norm_eps", 1e-6),
        ("query_pre_attn_scalar", 256.0),
        ("sliding_window", 4096.0),
        ("rope_theta", 1e6),
    ],
    config,
};
const WITH_PICTURES: &str = "Gemma3ForConditionalGeneration";

fn config(keys: &Keys, limit: Option<usize>) -> Result<Config> {
    let mut c = Config::common(keys)?;
    c.norm.offset = if keys.is_folder() { 1.0 } else { 0.0 };
    c.activation = Activation::GeluTanh;
    c.embedding_scale = (c.width as f64).sqrt();
    c.is_tied = true;
    let rope = c.read_rope(keys, limit, false)?;
    let is_third = matches!(keys.architecture(), "gemma3" | "Gemma3ForCausalLM" | WITH_PICTURES);
    if is_third {
        let base = keys.positive("rope.freq_base_swa")?.unwrap_or(10000.0);
        let kind = keys.text("rope.sliding_attention.rope_type")?;
        if base <= 1.0 || kind.as_ref().is_some_and(|k| k != "default") {
            let kind = kind.unwrap_or_default();
            let message = format!("rotations of sliding_attention by the base {base} of the kind {kind:?}");
            return Err(Error::new("load", message));
        }
        c.local_rope = Some(Rope { base, scaling: Scaling::None, ..rope.clone() });
    }
    c.rope = Some(rope);
    c.attention_cap = keys.positive("attn_logit_softcapping")?;
    c.logit_cap = keys.positive("final_logit_softcapping")?;
    // GGUF has no key for it: the largest of each generation are those that differ
    let largest = if is_third { 62 } else { 46 };
    let by = match keys.positive("query_pre_attn_scalar")? {
        Some(by) => by,
        None if c.layers == largest => c.width as f64 / c.heads as f64,
        None => c.head as f64,
    };
    c.scale = 1.0 / by.sqrt();
    let window = keys.window(c.context)?;
    let every = keys.size("sliding_window_pattern")?.unwrap_or(if is_third { 6 } else { 2 });
    let kinds = keys.texts("layer_types")?;
    for (i, w) in c.windows.iter_mut().enumerate() {
        let sliding = match &kinds {
            Some(kinds) => kinds.get(i).is_some_and(|k| k == "sliding_attention"),
            None => (i + 1) % every.max(1) != 0,
        };
        *w = window.filter(|_| sliding);
    }
    if keys.flag("use_bidirectional_attention")?.unwrap_or(false) {
        return Err(Error::new("load", "a gemma whose tokens see later ones is not known"));
    }
    // marks around a picture and the places that it takes
    keys.ignore(&["boi_token_index", "eoi_token_index", "image_token_index", "mm_tokens_per_image"]);
    Ok(c)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_of_each_generation_scale_scores_by_their_width() {
        let scale = |architecture: &str, layers: usize, width: usize| {
            let text = format!(
                r#"{{"architectures": ["{architecture}"], "num_hidden_layers": {layers}, "hidden_size": {width},
                    "num_attention_heads": 32, "num_key_value_heads": 16, "head_dim": 128, "intermediate_size": 64,
                    "max_position_embeddings": 8192, "rms_norm_eps": 1e-6, "vocab_size": 100}}"#
            );
            config(&Keys::of_json(&text).unwrap(), None).unwrap().scale
        };
        assert_eq!(scale("Gemma3ForCausalLM", 62, 5376), 1.0 / 168f64.sqrt());
        assert_eq!(scale("Gemma3ForCausalLM", 48, 3840), 1.0 / 128f64.sqrt());
        assert_eq!(scale("Gemma2ForCausalLM", 46, 4608), 1.0 / 144f64.sqrt());
    }
}
