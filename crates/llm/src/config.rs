//! Everything in which one decoder differs from another, as values.

use crate::keys::Keys;
use crate::rope::{Rope, Scaling};
use frit_tensor::{Error, Result};

/// What a model is. Biases, norms of queries and keys, norms after a block and a head of its own are not here: a model has
/// them where its file has their tensors.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// What the file calls its architecture.
    pub architecture: String,
    /// Elements of a token's vector.
    pub width: usize,
    /// Blocks of attention and feed-forward.
    pub layers: usize,
    /// Heads of queries.
    pub heads: usize,
    /// Heads of keys and values, shared by groups of heads of queries.
    pub kv_heads: usize,
    /// Elements of a head.
    pub head: usize,
    /// Elements between the two products of a feed-forward.
    pub hidden: usize,
    /// Positions it was made for.
    pub context: usize,
    /// What vectors are divided by.
    pub norm: Norm,
    /// Between the two products of a feed-forward.
    pub activation: Activation,
    /// Rotations of queries and keys; without, positions are vectors that are added.
    pub rope: Option<Rope>,
    /// Rotations in layers with a window, where they are others.
    pub local_rope: Option<Rope>,
    /// How many positions back each layer sees, itself included; all if not said.
    pub windows: Vec<Option<usize>>,
    /// What scores are multiplied by.
    pub scale: f64,
    /// What vectors of tokens are multiplied by.
    pub embedding_scale: f64,
    /// Scores x become `cap * tanh(x / cap)`.
    pub attention_cap: Option<f64>,
    /// Logits likewise.
    pub logit_cap: Option<f64>,
    /// Feed-forwards of which some are chosen for each token.
    pub experts: Option<Experts>,
    /// The head is the table of embeddings, whatever else is in the file.
    pub is_tied: bool,
    /// Every position sees every other: an encoder.
    pub is_bidirectional: bool,
    /// How the vectors of an encoder become one.
    pub pooling: Pooling,
    /// Tokens of the longest text that an encoder is given, where that is fewer than it has positions for.
    pub longest_text: Option<usize>,
    /// Factors of products of more than [`FEW`] tokens are rounded to bfloat16, which the device has units for.
    pub is_rounded: bool,
}

/// Tokens up to which a product only reads its weight, so that how it multiplies costs nothing.
pub const FEW: usize = 4;

/// Tokens from which a CPU without matrix units multiplies in whole numbers of a byte: what that takes to lay weights out is little
/// then.
pub const MANY: usize = 16;

/// The same for those of two bytes, which multiply twice as much.
pub const MANY_OF_TWO: usize = 64;

/// The most elements of all heads together: what is computed with them fits in a word.
const MOST: usize = 1 << 40;

/// A norm over the elements of a vector.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Norm {
    /// Only scaled by the root mean square, without a mean and a bias.
    pub is_rms: bool,
    /// Added to the mean square.
    pub eps: f64,
    /// Added to the weights of a file.
    pub offset: f64,
}

/// How the vectors of all tokens of a text become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Pooling {
    /// Their mean.
    #[default]
    Mean,
    /// The first token's.
    First,
    /// The greatest of each element.
    Max,
    /// The last token's.
    Last,
}

/// A function between products.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Activation {
    Silu,
    Gelu,
    GeluTanh,
    Relu,
}

/// Feed-forwards of which some are chosen for each token.
#[derive(Clone, Debug, PartialEq)]
pub struct Experts {
    /// How many there are.
    pub count: usize,
    /// How many are chosen.
    pub used: usize,
    /// Elements between the two products of one.
    pub hidden: usize,
    /// The weights of the chosen ones sum to 1.
    pub is_normalised: bool,
}

impl Config {
    /// What most decoders have in common; a family changes the rest.
    pub fn common(keys: &Keys) -> Result<Config> {
        let (width, heads) = (keys.need_size("embedding_length")?, keys.need_size("attention.head_count")?);
        let layers = keys.need_size("block_count")?;
        if layers > 10_000 {
            return Err(Error::new("load", format!("{layers} layers are too many to be true")));
        }
        let kv_heads = keys.size("attention.head_count_kv")?.unwrap_or(heads);
        let head = match keys.size("attention.key_length")? {
            Some(head) => head,
            None if width.is_multiple_of(heads) => width / heads,
            None => return Err(Error::new("load", format!("{width} elements in {heads} heads"))),
        };
        if kv_heads == 0 || !heads.is_multiple_of(kv_heads) || head == 0 {
            let message = format!("{heads} heads of {head} elements share {kv_heads} heads of keys");
            return Err(Error::new("load", message));
        }
        if heads.checked_mul(head).is_none_or(|n| n > MOST) {
            let message = format!("{heads} heads of {head} elements are too many to be true");
            return Err(Error::new("load", message));
        }
        let context = keys.need_size("context_length")?;
        let epsilon = |key: &str| match keys.number(key)? {
            Some(n) if n < 0.0 => Err(Error::new("load", format!("the key {} is {n}", keys.name(key)))),
            found => Ok(found),
        };
        let rms = epsilon("attention.layer_norm_rms_epsilon")?;
        let eps = match (rms, epsilon("attention.layer_norm_epsilon")?) {
            (Some(eps), _) | (None, Some(eps)) => eps,
            (None, None) => return Err(Error::new("load", "the model has no epsilon for its norms")),
        };
        keys.ignore(&["vocab_size"]);
        Ok(Config {
            architecture: keys.architecture().to_string(),
            width,
            layers,
            heads,
            kv_heads,
            head,
            hidden: keys.size("feed_forward_length")?.unwrap_or(4 * width),
            context,
            norm: Norm { is_rms: rms.is_some(), eps, offset: 0.0 },
            activation: activation(keys)?,
            rope: None,
            local_rope: None,
            windows: vec![None; layers],
            scale: 1.0 / (head as f64).sqrt(),
            embedding_scale: 1.0,
            attention_cap: None,
            logit_cap: None,
            experts: None,
            is_tied: keys.flag("tie_word_embeddings")?.unwrap_or(false),
            is_bidirectional: false,
            pooling: Pooling::default(),
            longest_text: None,
            is_rounded: false,
        })
    }
    /// The rotation of a layer.
    pub fn rope_of(&self, layer: usize) -> Option<&Rope> {
        match self.windows[layer] {
            Some(_) => self.local_rope.as_ref().or(self.rope.as_ref()),
            None => self.rope.as_ref(),
        }
    }
    /// The frequencies of rotation that a model gives: for `limit` positions at most, which long-context factors go by.
    pub fn read_rope(&self, keys: &Keys, limit: Option<usize>, interleaved: bool) -> Result<Rope> {
        let base = keys.positive("rope.freq_base")?.unwrap_or(10000.0);
        let part = keys.number("partial_rotary_factor")?.unwrap_or(1.0);
        let dims = match keys.size("rope.dimension_count")? {
            Some(dims) => dims,
            None => (self.head as f64 * part) as usize,
        };
        if dims == 0 || !dims.is_multiple_of(2) || dims > self.head || base <= 1.0 {
            let message = format!("{dims} of {} elements of a head turn, by the base {base}", self.head);
            return Err(Error::new("load", message));
        }
        Ok(Rope { base, dims, interleaved, scaling: self.read_scaling(keys, limit, dims / 2)? })
    }
    fn read_scaling(&self, keys: &Keys, limit: Option<usize>, pairs: usize) -> Result<Scaling> {
        const ORIGINAL: &str = "rope.scaling.original_context_length";
        const LOW: &str = "rope.scaling.low_freq_factor";
        const HIGH: &str = "rope.scaling.high_freq_factor";
        let kind = keys.text("rope.scaling.type")?.unwrap_or_else(|| "none".into());
        let trained = keys.number(ORIGINAL)?.unwrap_or(self.context as f64);
        let original = || Ok(keys.positive(ORIGINAL)?.unwrap_or(trained));
        let magnitude = keys.positive("rope.scaling.attn_factor")?;
        let factor = || keys.need_positive("rope.scaling.factor");
        Ok(match kind.as_str() {
            "none" | "default" => {
                keys.ignore(&["rope.scaling.factor"]);
                Scaling::None
            }
            "linear" => Scaling::Linear(factor()?),
            "llama3" => {
                let (low, high) = (keys.need_positive(LOW)?, keys.need_positive(HIGH)?);
                if low >= high {
                    let [low_name, high_name] = [LOW, HIGH].map(|k| keys.name(k));
                    let message = format!("the key {high_name} is {high}, {low_name} {low}");
                    return Err(Error::new("load", message));
                }
                Scaling::Llama3 { factor: factor()?, low, high, original: original()? }
            }
            "yarn" => {
                let factor = factor()?;
                Scaling::Yarn {
                    factor,
                    fast: keys.positive("rope.scaling.yarn_beta_fast")?.unwrap_or(32.0),
                    slow: keys.positive("rope.scaling.yarn_beta_slow")?.unwrap_or(1.0),
                    original: original()?,
                    magnitude: magnitude.unwrap_or(if factor > 1.0 { 0.1 * factor.ln() + 1.0 } else { 1.0 }),
                }
            }
            "longrope" | "su" => {
                let trained = original()?;
                if trained <= 1.0 {
                    let message = format!("the key {} is {trained}", keys.name(ORIGINAL));
                    return Err(Error::new("load", message));
                }
                let factor = keys.positive("rope.scaling.factor")?.unwrap_or(self.context as f64 / trained);
                let grown = (1.0 + factor.ln() / trained.ln()).sqrt();
                let is_long = limit.unwrap_or(self.context) as f64 > trained;
                let [short, long] = ["rope.scaling.short_factor", "rope.scaling.long_factor"]
                    .map(|k| factors(keys, k, pairs));
                let (short, long) = (short?, long?);
                Scaling::Factors {
                    factors: if is_long { long } else { short },
                    magnitude: magnitude.unwrap_or(if factor > 1.0 { grown } else { 1.0 }),
                }
            }
            other => return Err(Error::new("load", format!("rope scaling {other:?} is not known"))),
        })
    }
    /// The experts that a model has, if it has any.
    pub fn read_experts(&self, keys: &Keys, is_normalised: bool) -> Result<Option<Experts>> {
        let Some(count) = keys.size("expert_count")?.filter(|n| *n > 0) else { return Ok(None) };
        let used = keys.need_size("expert_used_count")?;
        if used > count {
            return Err(Error::new("load", format!("{used} of {count} experts are used")));
        }
        let hidden = keys.size("expert_feed_forward_length")?.unwrap_or(self.hidden);
        Ok(Some(Experts { count, used, hidden, is_normalised }))
    }
}

/// What each pair's frequency is divided by; in GGUF that is a tensor, read where the tensors are.
fn factors(keys: &Keys, key: &str, pairs: usize) -> Result<Vec<f64>> {
    match keys.numbers(key)? {
        None if !keys.is_folder() => Ok(vec![]),
        None => Err(Error::new("load", format!("the model has no key {}", keys.name(key)))),
        Some(all) => check_factors(keys.name(key), all, pairs),
    }
}

/// That there is a factor above 0 for each pair.
pub(crate) fn check_factors(name: &str, factors: Vec<f64>, pairs: usize) -> Result<Vec<f64>> {
    let wrong = factors.iter().find(|f| !f.is_finite() || **f <= 0.0);
    match (factors.len() == pairs, wrong) {
        (true, None) => Ok(factors),
        (false, _) => Err(Error::new(
            "load",
            format!("{name} has {} factors for {pairs} pairs that turn", factors.len()),
        )),
        (true, Some(f)) => Err(Error::new("load", format!("a factor of {name} is {f}"))),
    }
}

fn activation(keys: &Keys) -> Result<Activation> {
    Ok(match keys.text("hidden_act")?.as_deref() {
        None | Some("silu" | "swish") => Activation::Silu,
        Some("gelu") => Activation::Gelu,
        Some("gelu_new" | "gelu_pytorch_tanh" | "gelu_fast") => Activation::GeluTanh,
        Some("relu") => Activation::Relu,
        Some(other) => return Err(Error::new("load", format!("the activation {other:?} is not known"))),
    })
}
