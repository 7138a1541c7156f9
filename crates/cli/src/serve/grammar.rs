//! Answers in a given form: JSON, a schema, a grammar, a call of a tool.
//!
//! What may come next is computed by a thread for each answer while the model computes its step: it has the token that was
//! chosen as soon as it is, and the mask is there when the logits are.

use frit_llm::chat::Syntax;
use frit_llm::engine::Constraint;
use frit_tokenize::Tokenizer;
use llguidance::api::TopLevelGrammar;
use llguidance::toktrie::{ApproximateTokEnv, SimpleVob, TokEnv, TokRxInfo, TokTrie};
use llguidance::{Matcher, ParserFactory};
use serde_json::{Value, json};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, OnceLock};

/// A form that an answer must have.
#[derive(Clone, Debug, PartialEq)]
pub enum Form {
    /// Any JSON object.
    Json,
    /// JSON of a schema.
    Schema(Value),
    /// A grammar in llguidance's form of Lark.
    Lark(String),
    /// A call of one of some tools: names, and schemas of arguments.
    Call(Vec<(String, Value)>),
}

impl Form {
    /// The field that asks for it.
    pub fn param(&self) -> &'static str {
        match self {
            Form::Json | Form::Schema(_) => "response_format",
            Form::Lark(_) => "grammar",
            Form::Call(_) => "tools",
        }
    }
}

/// What makes rules for one model's tokens. It is made when the first is asked for.
pub struct Grammars {
    factory: OnceLock<Result<Arc<ParserFactory>, String>>,
}

impl Grammars {
    pub fn new() -> Grammars {
        Grammars { factory: OnceLock::new() }
    }
    /// A rule for an answer.
    pub fn rule(
        &self,
        form: &Form,
        tokenizer: &Tokenizer,
        end: u32,
        syntax: Option<Syntax>,
    ) -> Result<Rule, String> {
        let made = self.factory.get_or_init(|| factory(tokenizer, end).map(Arc::new));
        let factory = made.as_ref().map_err(Clone::clone)?;
        let grammar = match form {
            Form::Json => TopLevelGrammar::from_json_schema(json!({"type": "object"})),
            Form::Schema(schema) => TopLevelGrammar::from_json_schema(schema.clone()),
            Form::Lark(text) => TopLevelGrammar::from_lark(text.clone()),
            Form::Call(tools) => TopLevelGrammar::from_lark(call(tools, syntax, tokenizer)?),
        };
        let parser = factory.create_parser(grammar).map_err(first_line)?;
        let mut matcher = Matcher::new(Ok(parser));
        match matcher.get_error() {
            Some(e) => Err(first_line(e)),
            // what is wrong with references and sizes is found only here
            None => matcher.compute_mask_or_eos().map(|mask| Rule::start(matcher, mask)).map_err(first_line),
        }
    }
}

/// What is wrong, without the state of the library behind it.
fn first_line(e: impl std::fmt::Display) -> String {
    e.to_string().lines().next().unwrap_or("it is wrong").trim().to_string()
}

fn factory(tokenizer: &Tokenizer, end: u32) -> Result<ParserFactory, String> {
    let word = |id: u32| match tokenizer.token(id) {
        // the library's mark of what is no text
        Some(name) if tokenizer.is_special(id) => {
            [&[TokTrie::SPECIAL_TOKEN_MARKER], name.as_bytes()].concat()
        }
        _ => tokenizer.bytes(id).unwrap_or_default(),
    };
    let size = tokenizer.size() as u32;
    let words: Vec<Vec<u8>> = (0..size).map(word).collect();
    let trie = TokTrie::from(&TokRxInfo::new(size, end), &words);
    let env: TokEnv = Arc::new(ApproximateTokEnv::new(trie));
    let mut factory = ParserFactory::new_simple(&env).map_err(|e| e.to_string())?;
    factory.quiet();
    factory.limits_mut().verbose_errors = false;
    Ok(factory)
}

/// The grammar of a call, as the model writes it.
fn call(tools: &[(String, Value)], syntax: Option<Syntax>, tokenizer: &Tokenizer) -> Result<String, String> {
    let arguments = if syntax == Some(Syntax::Llama3) { "parameters" } else { "arguments" };
    let one = |(name, schema): &(String, Value)| {
        let schema = if schema.is_object() { schema.clone() } else { json!({"type": "object"}) };
        json!({
            "type": "object",
            "properties": {"name": {"const": name}, arguments: schema},
            "required": ["name", arguments],
            "additionalProperties": false,
        })
    };
    let one = match tools {
        [tool] => one(tool),
        _ => json!({"anyOf": tools.iter().map(one).collect::<Vec<_>>()}),
    };
    // a mark that is a special token is named by its number
    let mark = |text: &str| match tokenizer.id(text).filter(|id| tokenizer.is_special(*id)) {
        Some(id) => format!("<[{id}]>"),
        None => json!(text).to_string(),
    };
    match syntax {
        None => Err("the model's chat template has no way to call tools".into()),
        Some(Syntax::Hermes) => Ok(format!(
            "start: {} \"\\n\" call \"\\n\" {}\ncall: %json {one}\n",
            mark("<tool_call>"),
            mark("</tool_call>")
        )),
        Some(Syntax::Llama3) => Ok(format!("start: %json {one}\n")),
        Some(Syntax::Mistral) => {
            let list = json!({"type": "array", "items": one, "minItems": 1, "maxItems": 1});
            Ok(format!("start: {} call\ncall: %json {list}\n", mark("[TOOL_CALLS]")))
        }
    }
}

/// What a token did to an answer: whether it is at its end.
type Taken = Result<bool, String>;

/// One answer's rule. Its thread ends when this goes.
pub struct Rule {
    tokens: SyncSender<u32>,
    taken: Receiver<Taken>,
    masks: Receiver<Result<SimpleVob, String>>,
    /// The mask of the next token, once it is there.
    mask: Option<SimpleVob>,
}

impl Rule {
    /// `mask` is that of the first token.
    fn start(mut matcher: Matcher, mask: SimpleVob) -> Rule {
        let (tokens, chosen) = sync_channel::<u32>(1);
        let (told, taken) = sync_channel(1);
        let (made, masks) = sync_channel(1);
        std::thread::spawn(move || {
            while let Ok(token) = chosen.recv() {
                let is_over = matcher.consume_token(token).map(|()| matcher.is_stopped()).map_err(first_line);
                let goes_on = is_over == Ok(false);
                if told.send(is_over).is_err() || !goes_on {
                    return;
                }
                if made.send(matcher.compute_mask_or_eos().map_err(first_line)).is_err() {
                    return;
                }
            }
        });
        Rule { tokens, taken, masks, mask: Some(mask) }
    }
}

/// What the reason begins with where an answer ends because of its grammar.
pub const WRONG: &str = "the grammar: ";

fn wrong(e: impl std::fmt::Display) -> frit::Error {
    frit::Error::new("generate", format!("{WRONG}{e}"))
}

impl Constraint for Rule {
    fn mask(&mut self, logits: &mut [f32]) -> Result<(), frit::Error> {
        let mask = match self.mask.take() {
            Some(mask) => mask,
            None => self.masks.recv().map_err(wrong)?.map_err(wrong)?,
        };
        for (id, logit) in logits.iter_mut().enumerate() {
            if id >= mask.len() || !mask.is_allowed(id as u32) {
                *logit = f32::NEG_INFINITY;
            }
        }
        self.mask = Some(mask);
        Ok(())
    }
    fn accept(&mut self, token: u32) -> Result<bool, frit::Error> {
        self.mask = None;
        self.tokens.send(token).map_err(wrong)?;
        self.taken.recv().map_err(wrong)?.map_err(wrong)
    }
}
