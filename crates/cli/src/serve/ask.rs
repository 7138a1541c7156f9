//! Bodies of requests: what OpenAI's API says they hold, checked.

use super::error::ApiError;
use super::grammar::Form;
use frit_llm::chat::{self, Prompt, Value, ValueKind};
use frit_llm::sample::Sampling;
use std::time::Duration;

type Checked<T> = Result<T, ApiError>;

/// What is wanted of the model, whichever way it was asked for.
#[derive(Clone, Debug)]
pub struct Ask {
    /// How many answers to each prompt.
    pub count: usize,
    pub max_tokens: Option<usize>,
    pub sampling: Sampling,
    pub stops: Vec<String>,
    pub stream: bool,
    /// Whether the last piece of a stream says how many tokens there were.
    pub usage: bool,
    /// How many likely tokens are told with each.
    pub logprobs: Option<usize>,
    /// Whether the prompt is part of the answer.
    pub echo: bool,
}

/// What is to be continued.
pub enum Begin {
    Text(String),
    Tokens(Vec<u32>),
}

/// The limits of this server.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    pub body: usize,
    /// A body must come in this time.
    pub body_time: Duration,
    pub count: usize,
    /// Answers that are made or wait.
    pub requests: usize,
    pub max_tokens: usize,
    /// Whether an answer goes on at the end of the context, without the oldest tokens.
    pub shifts: bool,
}

/// The object of a body.
pub fn parse(body: &[u8]) -> Checked<Value> {
    let bad = |e: String| ApiError::new(axum::http::StatusCode::BAD_REQUEST, e);
    let text = std::str::from_utf8(body).map_err(|e| bad(format!("the body is not UTF-8: {e}")))?;
    let value = chat::parse(text).map_err(|e| bad(format!("the body is not JSON: {e}")))?;
    match value.kind() {
        ValueKind::Map => Ok(value),
        other => Err(bad(format!("the body is a {other}, not an object"))),
    }
}

/// A field; none where it is not there or null.
pub fn field(v: &Value, name: &str) -> Option<Value> {
    v.get_attr(name).ok().filter(|v| !v.is_undefined() && !v.is_none())
}
pub fn text(v: &Value, name: &str) -> Checked<Option<String>> {
    let Some(value) = field(v, name) else { return Ok(None) };
    value.as_str().map(|t| Some(t.to_string())).ok_or_else(|| ApiError::field(name, "it is no text"))
}
fn flag(v: &Value, name: &str) -> Checked<bool> {
    match field(v, name) {
        None => Ok(false),
        Some(value) if value.kind() == ValueKind::Bool => Ok(value.is_true()),
        Some(_) => Err(ApiError::field(name, "it is neither true nor false")),
    }
}
fn number(v: &Value, name: &str, least: f64, most: f64) -> Checked<Option<f64>> {
    let Some(value) = field(v, name) else { return Ok(None) };
    let is_number = value.kind() == ValueKind::Number;
    match f64::try_from(value).ok().filter(|_| is_number) {
        Some(n) if n >= least && n <= most => Ok(Some(n)),
        Some(n) => Err(ApiError::field(name, format!("{n} is not between {least} and {most}"))),
        None => Err(ApiError::field(name, "it is no number")),
    }
}
pub fn whole(v: &Value, name: &str, least: u64, most: u64) -> Checked<Option<u64>> {
    match number(v, name, least as f64, most as f64)? {
        Some(n) if n.fract() != 0.0 => Err(ApiError::field(name, format!("{n} is no whole number"))),
        n => Ok(n.map(|n| n as u64)),
    }
}
/// A whole number of 64 bits, with a sign or without.
fn seed(v: &Value) -> Checked<Option<u64>> {
    let Some(value) = field(v, "seed") else { return Ok(None) };
    let is_number = value.kind() == ValueKind::Number;
    let signed = i64::try_from(value.clone()).ok().map(i64::cast_unsigned);
    match signed.or_else(|| u64::try_from(value).ok()).filter(|_| is_number) {
        None => Err(ApiError::field("seed", "it is no whole number of 64 bits")),
        seed => Ok(seed),
    }
}
fn items(v: &Value, name: &str) -> Checked<Vec<Value>> {
    match v.kind() {
        ValueKind::Seq => {
            v.try_iter().map(Iterator::collect).map_err(|e| ApiError::field(name, e.to_string()))
        }
        _ => Err(ApiError::field(name, "it is no list")),
    }
}

impl Ask {
    /// What chats and completions have in common.
    pub fn read(v: &Value, limits: &Limits, is_chat: bool) -> Checked<Ask> {
        refuse(v, is_chat)?;
        let default = Sampling::default();
        let f = |n: Option<f64>, default: f32| n.map_or(default, |n| n as f32);
        let bias = match field(v, "logit_bias") {
            None => vec![],
            Some(all) => read_bias(&all)?,
        };
        let sampling = Sampling {
            temperature: f(number(v, "temperature", 0.0, 2.0)?, 1.0),
            top_p: f(number(v, "top_p", 0.0, 1.0)?, default.top_p),
            top_k: whole(v, "top_k", 0, 1 << 20)?.map_or(default.top_k, |n| n as usize),
            min_p: f(number(v, "min_p", 0.0, 1.0)?, default.min_p),
            typical_p: f(number(v, "typical_p", 0.0, 1.0)?, default.typical_p),
            repetition_penalty: f(number(v, "repetition_penalty", 0.01, 10.0)?, default.repetition_penalty),
            frequency_penalty: f(number(v, "frequency_penalty", -2.0, 2.0)?, default.frequency_penalty),
            presence_penalty: f(number(v, "presence_penalty", -2.0, 2.0)?, default.presence_penalty),
            seed: seed(v)?,
            bias,
            ..default
        };
        let logprobs = if is_chat {
            let top = whole(v, "top_logprobs", 0, 20)?;
            match (flag(v, "logprobs")?, top) {
                (false, Some(_)) => return Err(ApiError::field("top_logprobs", "logprobs is not true")),
                (wanted, top) => wanted.then_some(top.unwrap_or(0) as usize),
            }
        } else {
            whole(v, "logprobs", 0, 5)?.map(|n| n as usize)
        };
        let most = limits.max_tokens as u64;
        let max_tokens = match whole(v, "max_completion_tokens", 1, u32::MAX as u64)? {
            None => whole(v, "max_tokens", u64::from(is_chat), u32::MAX as u64)?,
            n => n,
        };
        let stream = flag(v, "stream")?;
        let options = field(v, "stream_options");
        if options.is_some() && !stream {
            return Err(ApiError::field("stream_options", "stream is not true"));
        }
        Ok(Ask {
            count: whole(v, "n", 1, limits.count as u64)?.unwrap_or(1) as usize,
            max_tokens: max_tokens.map(|n| n.min(most) as usize),
            sampling,
            stops: read_stops(v)?,
            stream,
            usage: options.map(|o| flag(&o, "include_usage")).transpose()?.unwrap_or(false),
            logprobs,
            echo: !is_chat && flag(v, "echo")?,
        })
    }
}

/// What the API knows and this server does not; to pass it over would give another answer than was asked for.
fn refuse(v: &Value, is_chat: bool) -> Checked<()> {
    let unknown: &[&str] = match is_chat {
        true => &["functions", "function_call", "audio", "web_search_options"],
        false => &["suffix"],
    };
    if let Some(name) = unknown.iter().find(|name| field(v, name).is_some()) {
        return Err(ApiError::field(name, "this server does not support it"));
    }
    // the best of as many as are answered are all of them
    match whole(v, "best_of", 1, 1 << 20)? {
        Some(n) if n != whole(v, "n", 1, 1 << 20)?.unwrap_or(1) => {
            Err(ApiError::field("best_of", "this server supports none but n"))
        }
        _ => Ok(()),
    }
}

fn read_bias(all: &Value) -> Checked<Vec<(u32, f32)>> {
    let wrong = || ApiError::field("logit_bias", "it maps token numbers to numbers between -100 and 100");
    if all.kind() != ValueKind::Map {
        return Err(wrong());
    }
    let pair = |key: Value| {
        let token = key.to_string().parse::<u32>().ok()?;
        let bias = f64::try_from(all.get_item(&key).ok()?).ok().filter(|b| b.abs() <= 100.0)?;
        Some((token, bias as f32))
    };
    let keys: Vec<Value> = all.try_iter().map_err(|_| wrong())?.collect();
    keys.into_iter().map(pair).collect::<Option<Vec<_>>>().ok_or_else(wrong)
}

fn read_stops(v: &Value) -> Checked<Vec<String>> {
    let Some(stop) = field(v, "stop") else { return Ok(vec![]) };
    let all = if stop.as_str().is_some() { vec![stop] } else { items(&stop, "stop")? };
    if all.len() > 4 {
        return Err(ApiError::field("stop", format!("{} texts, at most 4 are taken", all.len())));
    }
    let one = |s: &Value| match s.as_str() {
        Some(text) if !text.is_empty() => Ok(text.to_string()),
        _ => Err(ApiError::field("stop", "what stops is a text that is not empty")),
    };
    all.iter().map(one).collect()
}

const ROLES: [&str; 6] = ["system", "developer", "user", "assistant", "tool", "function"];

/// What of a body a chat template is given.
pub fn read_chat(v: &Value) -> Checked<Prompt> {
    let messages = field(v, "messages").ok_or_else(|| ApiError::field("messages", "it is missing"))?;
    let messages = items(&messages, "messages")?;
    if messages.is_empty() {
        return Err(ApiError::field("messages", "it is empty"));
    }
    let messages =
        messages.iter().enumerate().map(|(i, m)| message(i, m)).collect::<Checked<Vec<Value>>>()?;
    let mut prompt = Prompt::new(Value::from(messages));
    prompt.tools = read_tools(v)?;
    if let Some(more) = field(v, "chat_template_kwargs") {
        let keys = more.try_iter().map_err(|_| ApiError::field("chat_template_kwargs", "it is no object"))?;
        for key in keys.collect::<Vec<_>>() {
            let value = more.get_item(&key).unwrap_or_default();
            prompt.more.insert(key.to_string(), value);
        }
    }
    Ok(prompt)
}

fn message(i: usize, m: &Value) -> Checked<Value> {
    let place = |name: &str| format!("messages[{i}].{name}");
    let Some(role) = field(m, "role") else { return Err(ApiError::field(&place("role"), "it is missing")) };
    let Some(role) = role.as_str().filter(|r| ROLES.contains(r)) else {
        return Err(ApiError::field(&place("role"), format!("{role} is none of {ROLES:?}")));
    };
    let role = if role == "developer" { "system" } else { role };
    // an empty list is a call without an end to some templates
    let calls = field(m, "tool_calls").filter(|c| c.len() != Some(0));
    let calls = calls.map(|c| tool_calls(&c, &place("tool_calls"))).transpose()?;
    let content = match field(m, "content") {
        Some(c) => content(&c, &place("content"))?,
        None if role == "assistant" && calls.is_some() => String::new(),
        None => return Err(ApiError::field(&place("content"), "it is missing")),
    };
    let mut made =
        vec![("role".to_string(), Value::from(role)), ("content".to_string(), Value::from(content))];
    for name in ["name", "tool_call_id", "reasoning_content"] {
        made.extend(field(m, name).map(|v| (name.to_string(), v)));
    }
    made.extend(calls.map(|c| ("tool_calls".to_string(), c)));
    Ok(chat::object(made))
}

/// A text, or parts that are texts.
fn content(c: &Value, place: &str) -> Checked<String> {
    if let Some(text) = c.as_str() {
        return Ok(text.to_string());
    }
    let part = |p: Value| match (field(&p, "type").map(|t| t.to_string()).as_deref(), field(&p, "text")) {
        (Some("text"), Some(text)) => Ok(text.to_string()),
        (Some(other), _) => {
            Err(ApiError::field(place, format!("parts of type {other:?} are not taken here")))
        }
        (None, _) => Err(ApiError::field(place, "a part without a type")),
    };
    items(c, place)?.into_iter().map(part).collect::<Checked<Vec<_>>>().map(|parts| parts.concat())
}

/// Templates want arguments as objects, clients send them as texts.
fn tool_calls(calls: &Value, place: &str) -> Checked<Value> {
    let call = |c: Value| {
        let Some(function) = field(&c, "function") else {
            return Err(ApiError::field(place, "a call without a function"));
        };
        let Some(name) = field(&function, "name").filter(|n| n.as_str().is_some()) else {
            return Err(ApiError::field(place, "a function without a name"));
        };
        let arguments = field(&function, "arguments").unwrap_or_else(|| Value::from("{}"));
        let arguments = match arguments.as_str() {
            Some(text) => chat::parse(text).unwrap_or_else(|_| arguments.clone()),
            None => arguments,
        };
        let function = chat::object([("name".to_string(), name), ("arguments".to_string(), arguments)]);
        let id = field(&c, "id").unwrap_or_else(|| Value::from(""));
        let made = [
            ("id".to_string(), id),
            ("type".to_string(), Value::from("function")),
            ("function".to_string(), function),
        ];
        Ok(chat::object(made))
    };
    items(calls, place)?.into_iter().map(call).collect::<Checked<Vec<_>>>().map(Value::from)
}

/// The tools that the model may call: none if it shall call none, one if it shall call that one.
fn read_tools(v: &Value) -> Checked<Option<Value>> {
    let tools = match field(v, "tools") {
        Some(tools) => items(&tools, "tools")?,
        None => vec![],
    };
    let mut names = vec![];
    for tool in &tools {
        let function =
            field(tool, "function").ok_or_else(|| ApiError::field("tools", "a tool without a function"))?;
        let name = field(&function, "name").and_then(|n| n.as_str().map(str::to_string));
        names.push(name.ok_or_else(|| ApiError::field("tools", "a function without a name"))?);
    }
    let all = (!tools.is_empty()).then(|| Value::from(tools.clone()));
    match field(v, "tool_choice") {
        None => Ok(all),
        Some(choice) => match (choice.as_str(), all) {
            (Some("none"), _) => Ok(None),
            (Some("auto"), all) => Ok(all),
            (_, None) => Err(ApiError::field("tool_choice", "there are no tools")),
            (Some("required"), all) => Ok(all),
            (Some(other), _) => Err(ApiError::field("tool_choice", format!("{other:?} is not known"))),
            (None, _) => {
                let function = field(&choice, "function");
                let name = function.and_then(|f| field(&f, "name")).map(|n| n.to_string());
                let at = names.iter().position(|n| Some(n) == name.as_ref());
                match at.and_then(|at| tools.get(at)) {
                    Some(tool) => Ok(Some(Value::from(vec![tool.clone()]))),
                    None => Err(ApiError::field("tool_choice", "it names none of the tools")),
                }
            }
        },
    }
}

/// What a field has to be continued or embedded: a text, several, tokens, or several lists of them.
pub fn read_prompts(v: &Value, name: &str, most: usize) -> Checked<Vec<Begin>> {
    let prompt = field(v, name).ok_or_else(|| ApiError::field(name, "it is missing"))?;
    if let Some(text) = prompt.as_str() {
        return Ok(vec![Begin::Text(text.to_string())]);
    }
    let tokens = |all: &[Value]| {
        let one = |v: &Value| v.is_integer().then(|| u32::try_from(v.clone()).ok()).flatten();
        let read = all.iter().map(one).collect::<Option<Vec<u32>>>();
        read.ok_or_else(|| ApiError::field(name, "neither a text nor tokens"))
    };
    let all = items(&prompt, name)?;
    if all.first().is_some_and(|v| v.kind() == ValueKind::Number) {
        return Ok(vec![Begin::Tokens(tokens(&all)?)]);
    }
    if all.is_empty() || all.len() > most {
        return Err(ApiError::field(name, format!("{} texts, 1 to {most} are taken", all.len())));
    }
    let one = |v: &Value| match v.as_str() {
        Some(text) => Ok(Begin::Text(text.to_string())),
        None => Ok(Begin::Tokens(tokens(&items(v, name)?)?)),
    };
    all.iter().map(one).collect()
}

/// JSON of a value, in its order.
fn json_of(v: &Value, name: &str) -> Checked<serde_json::Value> {
    let text = chat::to_json(v).map_err(|e| ApiError::field(name, e.to_string()))?;
    serde_json::from_str(&text).map_err(|e| ApiError::field(name, e.to_string()))
}

/// The form that an answer must have, if one is asked for: by `response_format`, a `grammar`, or a tool that must be called.
pub fn read_form(v: &Value, prompt: &Prompt) -> Checked<Option<Form>> {
    let must_call = match field(v, "tool_choice") {
        Some(choice) => prompt.tools.is_some() && choice.as_str() != Some("auto"),
        None => false,
    };
    if let (true, Some(tools)) = (must_call, &prompt.tools) {
        let tool = |t: Value| {
            let function = field(&t, "function").unwrap_or_default();
            let name = field(&function, "name").map(|n| n.to_string()).unwrap_or_default();
            let schema = field(&function, "parameters").map(|p| json_of(&p, "tools")).transpose()?;
            Ok((name, schema.unwrap_or_default()))
        };
        return items(tools, "tools")?
            .into_iter()
            .map(tool)
            .collect::<Checked<Vec<_>>>()
            .map(|t| Some(Form::Call(t)));
    }
    if let Some(grammar) = text(v, "grammar")? {
        return Ok(Some(Form::Lark(grammar)));
    }
    let Some(format) = field(v, "response_format") else { return Ok(None) };
    match field(&format, "type").map(|t| t.to_string()).as_deref() {
        Some("text") => Ok(None),
        Some("json_object") => Ok(Some(Form::Json)),
        Some("json_schema") => {
            let schema = field(&format, "json_schema").and_then(|s| field(&s, "schema"));
            let Some(schema) = schema else {
                return Err(ApiError::field("response_format", "json_schema.schema is missing"));
            };
            Ok(Some(Form::Schema(json_of(&schema, "response_format")?)))
        }
        Some(other) => Err(ApiError::field("response_format", format!("{other:?} is not known here"))),
        None => Err(ApiError::field("response_format", "it has no type")),
    }
}
