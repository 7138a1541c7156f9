//! A model's chat template, rendered as the `transformers` package does it with jinja2.

use super::error::{Error, Result};
use super::json::{Style, float};
use super::time::strftime;
use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Kwargs, Value, ValueKind};
use minijinja::{Environment, ErrorKind, State};
use std::collections::BTreeMap;
use std::time::SystemTime;

/// Steps that a template may take: more than any conversation needs, too few to hang.
const FUEL: u64 = 10_000_000;

/// A template, read once.
pub struct Template {
    env: Environment<'static>,
    bos: String,
    eos: String,
    source: String,
}

/// What a template is given.
#[derive(Clone, Debug)]
pub struct Prompt {
    /// The list of messages: `role`, `content`, `tool_calls` and what else a template reads.
    pub messages: Value,
    /// The list of tools as OpenAI has them, if any.
    pub tools: Option<Value>,
    /// Whether the model is to answer: the text ends with the beginning of its turn.
    pub answer: bool,
    /// What else a template may read, like `enable_thinking`.
    pub more: BTreeMap<String, Value>,
    /// What `strftime_now` says it is.
    pub now: SystemTime,
}

impl Prompt {
    /// Messages that the model is to answer.
    pub fn new(messages: Value) -> Prompt {
        Prompt { messages, tools: None, answer: true, more: BTreeMap::new(), now: SystemTime::now() }
    }
}

impl Template {
    /// From its source, and the texts of the tokens that begin and end texts.
    pub fn new(source: &str, bos: &str, eos: &str) -> Result<Template> {
        let mut env = Environment::new();
        let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build();
        env.set_syntax(syntax.map_err(|e| message(&e))?);
        env.set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
        env.set_fuel(Some(FUEL));
        env.set_formatter(|out, state, value| match printed(value) {
            Some(text) => out.write_str(&text).map_err(minijinja::Error::from),
            None => minijinja::escape_formatter(out, state, value),
        });
        env.set_auto_escape_callback(|_| minijinja::AutoEscape::None);
        env.add_filter("tojson", to_json);
        env.add_filter("string", |v: Value| printed(&v).unwrap_or_else(|| v.to_string()));
        env.add_filter("indent", indent);
        env.add_filter("length", length);
        env.add_filter("count", length);
        // nothing is none of them, and what is not defined is an empty one
        env.add_test("iterable", |v: Value| !v.is_none() && (v.is_undefined() || v.try_iter().is_ok()));
        env.add_function("raise_exception", |text: String| -> std::result::Result<Value, minijinja::Error> {
            Err(minijinja::Error::new(ErrorKind::InvalidOperation, text))
        });
        env.add_template_owned("chat", without_generation(source)).map_err(|e| message(&e))?;
        Ok(Template { env, bos: bos.into(), eos: eos.into(), source: source.into() })
    }
    /// The text of a conversation.
    pub fn render(&self, prompt: &Prompt) -> Result<String> {
        let mut values = prompt.more.clone();
        let now = prompt.now;
        let strftime_now = Value::from_function(move |format: String| strftime(now, &format));
        let given = [
            ("messages", prompt.messages.clone()),
            ("add_generation_prompt", Value::from(prompt.answer)),
            ("bos_token", Value::from(self.bos.as_str())),
            ("eos_token", Value::from(self.eos.as_str())),
            ("strftime_now", strftime_now),
        ];
        values.extend(given.into_iter().map(|(name, v)| (name.to_string(), v)));
        values.extend(prompt.tools.iter().map(|t| ("tools".to_string(), t.clone())));
        let template = self.env.get_template("chat").map_err(|e| message(&e))?;
        template.render(&values).map_err(|e| message(&e))
    }
    /// The source it was read from.
    pub fn source(&self) -> &str {
        &self.source
    }
}

fn message(e: &minijinja::Error) -> Error {
    let place = e.line().map_or(String::new(), |line| format!(" (line {line} of the template)"));
    Error(format!("{}{place}", e.detail().map_or_else(|| e.to_string(), str::to_string)))
}

/// `{% generation %}` marks what the model wrote, for training; it prints what is in it.
fn without_generation(source: &str) -> String {
    let (mut out, mut rest) = (String::new(), source);
    while let Some(at) = rest.find("{%") {
        let (before, tag) = rest.split_at(at);
        out.push_str(before);
        let end = tag.find("%}").map_or(tag.len(), |e| e + 2);
        let (tag, after) = tag.split_at(end);
        let name = tag.trim_matches(|c: char| matches!(c, '{' | '}' | '%' | '-' | '+') || c.is_whitespace());
        match name {
            "generation" => out.push_str(&tag.replace(name, "if true")),
            "endgeneration" => out.push_str(&tag.replace(name, "endif")),
            _ => out.push_str(tag),
        }
        rest = after;
    }
    out + rest
}

/// What Python prints where the engine prints something else: floats, alone and in lists.
fn printed(value: &Value) -> Option<String> {
    match value.kind() {
        ValueKind::Number if !value.is_integer() => f64::try_from(value.clone()).ok().map(float),
        ValueKind::Seq | ValueKind::Map if holds_float(value, 0) => Some(repr(value, 0)),
        _ => None,
    }
}
/// Deeper values are printed as the engine prints them.
const MAX_DEPTH: usize = 64;

fn holds_float(value: &Value, depth: usize) -> bool {
    let any = |values: Vec<Value>| depth < MAX_DEPTH && values.iter().any(|v| holds_float(v, depth + 1));
    match value.kind() {
        ValueKind::Number => !value.is_integer(),
        ValueKind::Seq => value.try_iter().is_ok_and(|all| any(all.collect())),
        ValueKind::Map => {
            value.try_iter().is_ok_and(|keys| any(keys.filter_map(|k| value.get_item(&k).ok()).collect()))
        }
        _ => false,
    }
}
fn repr(value: &Value, depth: usize) -> String {
    let all = |values: Vec<String>| values.join(", ");
    match (value.kind(), value.try_iter()) {
        (ValueKind::Seq, Ok(items)) if depth < MAX_DEPTH => {
            format!("[{}]", all(items.map(|v| repr(&v, depth + 1)).collect()))
        }
        (ValueKind::Map, Ok(keys)) if depth < MAX_DEPTH => {
            let pair = |k: Value| {
                let v = value.get_item(&k).unwrap_or_default();
                format!("{}: {}", repr(&k, depth + 1), repr(&v, depth + 1))
            };
            format!("{{{}}}", all(keys.map(pair).collect()))
        }
        (ValueKind::Number, _) => printed(value).unwrap_or_else(|| value.to_string()),
        // the engine writes texts in lists as Python does
        _ => {
            let one = Value::from(vec![value.clone()]).to_string();
            one.strip_prefix('[').and_then(|t| t.strip_suffix(']')).unwrap_or(&one).to_string()
        }
    }
}

/// How long something is; what is not defined is empty.
fn length(value: Value) -> std::result::Result<usize, minijinja::Error> {
    let wrong =
        || minijinja::Error::new(ErrorKind::InvalidOperation, format!("{} has no length", value.kind()));
    if value.is_undefined() { Ok(0) } else { value.len().ok_or_else(wrong) }
}

/// Lines further to the right; a line end at the end of a text stays.
fn indent(
    text: String,
    width: Option<Value>,
    kwargs: Kwargs,
) -> std::result::Result<String, minijinja::Error> {
    let width = match kwargs.get::<Option<Value>>("width")?.or(width) {
        None => " ".repeat(4),
        Some(w) => match w.as_str() {
            Some(text) => text.to_string(),
            None => " ".repeat(usize::try_from(w)?.min(1 << 10)),
        },
    };
    let first = kwargs.get::<Option<bool>>("first")?.unwrap_or(false);
    let blank = kwargs.get::<Option<bool>>("blank")?.unwrap_or(false);
    kwargs.assert_all_used()?;
    let mut out = String::new();
    for (i, line) in text.split('\n').enumerate() {
        if i > 0 {
            out.push('\n');
        }
        if (i == 0 && first) || (i > 0 && (blank || !line.is_empty())) {
            out.push_str(&width);
        }
        out.push_str(line);
    }
    Ok(out)
}

/// Python's `json.dumps` with its arguments.
fn to_json(_state: &mut State, value: Value, kwargs: Kwargs) -> std::result::Result<Value, minijinja::Error> {
    let wrong = |what: String| minijinja::Error::new(ErrorKind::InvalidOperation, what);
    let mut style = Style::default();
    if let Some(indent) = kwargs.get::<Option<Value>>("indent")?.filter(|v| !v.is_none()) {
        style.indent = Some(match indent.as_str() {
            Some(text) => text.to_string(),
            None => " ".repeat(usize::try_from(indent.clone())?.min(64)),
        });
        style.comma = ",".into();
    }
    if let Some(pair) = kwargs.get::<Option<Value>>("separators")?.filter(|v| v.kind() == ValueKind::Seq) {
        let part = |i: usize| pair.get_item_by_index(i).map(|v| v.to_string());
        (style.comma, style.colon) = (part(0)?, part(1)?);
    }
    style.sort_keys = kwargs.get::<Option<bool>>("sort_keys")?.unwrap_or(false);
    style.ascii = kwargs.get::<Option<bool>>("ensure_ascii")?.unwrap_or(false);
    kwargs.assert_all_used()?;
    style.write(&value).map(Value::from).map_err(wrong)
}
