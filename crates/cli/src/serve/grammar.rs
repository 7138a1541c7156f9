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
            Form::Json => TopLevelGrammar::from_json_schema(with_few_blanks(json!({"type": "object"}))),
            Form::Schema(schema) => TopLevelGrammar::from_json_schema(with_few_blanks(schema.clone())),
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

/// What may stand between two parts of JSON: a model that knows no better would write blanks for ever.
const BLANKS: &str = r"\x20|\n{1,2}[\x20\t]{0,20}";

/// A schema whose JSON has few blanks, unless it says itself what there may be.
fn with_few_blanks(mut schema: Value) -> Value {
    if let Some(fields) = schema.as_object_mut() {
        fields.entry("x-guidance").or_insert(json!({"whitespace_pattern": BLANKS}));
    }
    schema
}

/// The grammar of a call, as the model writes it.
fn call(tools: &[(String, Value)], syntax: Option<Syntax>, tokenizer: &Tokenizer) -> Result<String, String> {
    let arguments = if syntax == Some(Syntax::Llama3) { "parameters" } else { "arguments" };
    let of = |schema: &Value| if schema.is_object() { schema.clone() } else { json!({"type": "object"}) };
    let one = |(name, schema): &(String, Value)| {
        json!({
            "type": "object",
            "properties": {"name": {"const": name}, arguments: of(schema)},
            "required": ["name", arguments],
            "additionalProperties": false,
        })
    };
    let any = match tools {
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
            "start: {} \"\\n\" call \"\\n\" {}\ncall: %json {}\n",
            mark("<tool_call>"),
            mark("</tool_call>"),
            with_few_blanks(any),
        )),
        Some(Syntax::Llama3) => Ok(format!("start: %json {}\n", with_few_blanks(any))),
        Some(Syntax::Mistral) => {
            let list = with_few_blanks(json!({"type": "array", "items": any, "minItems": 1, "maxItems": 1}));
            Ok(format!("start: {} call\ncall: %json {list}\n", mark("[TOOL_CALLS]")))
        }
        Some(Syntax::MistralNamed) => {
            let rule = |(i, (name, schema)): (usize, &(String, Value))| {
                let (name, schema) = (json!(name), with_few_blanks(of(schema)));
                format!("call{i}: {name} id? {} arguments{i}\narguments{i}: %json {schema}\n", mark("[ARGS]"))
            };
            let rules: String = tools.iter().enumerate().map(rule).collect();
            let all: Vec<String> = (0..tools.len()).map(|i| format!("call{i}")).collect();
            let (calls, id) = (mark("[TOOL_CALLS]"), mark("[CALL_ID]"));
            Ok(format!("start: {calls} ({})\nid: {id} /[a-zA-Z0-9]{{9}}/\n{rules}", all.join(" | ")))
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

#[cfg(test)]
mod tests {
    use super::*;

    const MARKS: [&str; 3] = ["[TOOL_CALLS]", "[ARGS]", "[CALL_ID]"];

    fn tokenizer(marks: &[&str]) -> Tokenizer {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests-data/tokenize/bytes.json");
        let mut json: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
        for (i, mark) in marks.iter().enumerate() {
            let token = json!({"id": 702 + i, "content": mark, "special": true, "normalized": false,
                "single_word": false, "lstrip": false, "rstrip": false});
            json["added_tokens"].as_array_mut().unwrap().push(token);
        }
        Tokenizer::from_json(&json.to_string()).unwrap()
    }
    /// Whether tokens may be an answer of a form, up to its end.
    fn takes(form: &Form, syntax: Option<Syntax>, tokenizer: &Tokenizer, tokens: &[u32]) -> bool {
        const END: u32 = 0;
        let mut rule = Grammars::new().rule(form, tokenizer, END, syntax).unwrap();
        for token in tokens.iter().chain([&END]) {
            let mut logits = vec![0.0; tokenizer.size()];
            rule.mask(&mut logits).unwrap();
            if logits[*token as usize] != 0.0 {
                return false;
            }
            if rule.accept(*token).unwrap() {
                return true;
            }
        }
        false
    }
    fn form() -> Form {
        let schema = json!({"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"], "additionalProperties": false});
        Form::Call(vec![("add".into(), schema), ("now".into(), Value::Null)])
    }

    #[test]
    fn calls_have_the_form_that_the_template_writes() {
        use Syntax::*;
        let forms = [
            (Hermes, "<tool_call>\n{\"name\": \"add\", \"arguments\": {\"a\": 1}}\n</tool_call>"),
            (Llama3, "{\"name\": \"add\", \"parameters\": {\"a\": 1}}"),
            (Mistral, "[TOOL_CALLS][{\"name\": \"add\", \"arguments\": {\"a\": 1}}]"),
            (MistralNamed, "[TOOL_CALLS]add[ARGS]{\"a\": 1}"),
            (MistralNamed, "[TOOL_CALLS]now[CALL_ID]abcDEF234[ARGS]{\"any\": [\"thing\"]}"),
        ];
        for marks in [&MARKS[..], &[]] {
            let tokenizer = tokenizer(marks);
            for (of, text) in forms {
                for syntax in [Hermes, Llama3, Mistral, MistralNamed] {
                    let tokens = tokenizer.encode_plain(text);
                    assert_eq!(
                        takes(&form(), Some(syntax), &tokenizer, &tokens),
                        of == syntax,
                        "{syntax:?} {text}"
                    );
                }
                for (right, wrong) in [("add", "sub"), ("now", "then"), ("1", "\"x\""), ("1", "1, \"b\": 2")]
                {
                    let tokens = tokenizer.encode_plain(&text.replace(right, wrong));
                    let is_same = !text.contains(right);
                    assert_eq!(takes(&form(), Some(of), &tokenizer, &tokens), is_same, "{text} {wrong}");
                }
            }
        }
        assert!(Grammars::new().rule(&form(), &tokenizer(&[]), 0, None).is_err());
    }

    #[test]
    fn marks_that_are_tokens_are_not_spelled() {
        let tokenizer = tokenizer(&MARKS);
        let text = "[TOOL_CALLS]add[ARGS]{\"a\": 1}";
        let (marked, spelled) = (tokenizer.encode_plain(text), tokenizer.encode_ordinary(text));
        assert!(marked.len() < spelled.len() && marked[0] == 702);
        assert!(takes(&form(), Some(Syntax::MistralNamed), &tokenizer, &marked));
        assert!(!takes(&form(), Some(Syntax::MistralNamed), &tokenizer, &spelled));
    }

    #[test]
    fn json_is_an_object_with_few_blanks() {
        let tokenizer = tokenizer(&[]);
        let is_taken = |text: &str| takes(&Form::Json, None, &tokenizer, &tokenizer.encode_plain(text));
        for good in ["{}", "{\"a\": [1, {\"b\":null}]}", "{\n    \"größe\": -1.5e3,\n    \"b\": true\n}"] {
            assert!(is_taken(good), "{good}");
        }
        let blanks = format!("{{\"a\":{}1}}", " ".repeat(40));
        for bad in ["[1]", "1", "{\"a\": 01}", "{a: 1}", "{\"a\": 1", &blanks] {
            assert!(!is_taken(bad), "{bad}");
        }
    }
}
