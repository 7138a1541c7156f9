//! Files of texts to examples: tokens, and which of them are learnt.
//!
//! ```text
//! *.jsonl    {"messages": [{"role": …, "content": …}, …]}     a conversation, by the model's template
//!            {"prompt": …, "completion": …}                   a text, of which the second part is learnt
//!            {"text": …}                                      a text
//! other      one text, in windows one after the other
//! ```

use crate::chat::{Prompt, Text, Value, parse};
use frit_tensor::{Error, Result};
use std::path::Path;

/// Tokens that belong together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Example {
    /// Their numbers.
    pub tokens: Vec<u32>,
    /// Whether each is one that the model shall learn to say.
    pub is_learnt: Vec<bool>,
}

/// What is learnt of conversations, and of texts after a prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Loss {
    /// What the assistant says.
    #[default]
    Answers,
    /// Everything.
    All,
}

impl Example {
    fn push(&mut self, tokens: Vec<u32>, is_learnt: bool) {
        self.is_learnt.extend(std::iter::repeat_n(is_learnt, tokens.len()));
        self.tokens.extend(tokens);
    }
    fn new() -> Example {
        Example { tokens: vec![], is_learnt: vec![] }
    }
    /// Windows of so many tokens and one more, which is the last to be learnt and begins the next; those of which nothing
    /// is learnt are left out.
    fn windows(self, length: usize) -> Vec<Example> {
        let last = self.tokens.len().saturating_sub(1);
        let windows = (0..last).step_by(length).map(|begin| {
            let range = begin..(begin + length + 1).min(self.tokens.len());
            Example { tokens: self.tokens[range.clone()].into(), is_learnt: self.is_learnt[range].into() }
        });
        windows.filter(|e| e.is_learnt[1..].contains(&true)).collect()
    }
}

/// The examples of a file, none with more than `length` tokens to read.
#[track_caller]
pub fn read(path: impl AsRef<Path>, text: &Text, length: usize, loss: Loss) -> Result<Vec<Example>> {
    let path = path.as_ref();
    let _c = frit_tensor::call("finetune");
    let wrong = |why: String| Error::new("finetune", format!("{}: {why}", path.display()));
    if length == 0 {
        return Err(Error::new("finetune", "examples of 0 tokens"));
    }
    let content = std::fs::read_to_string(path).map_err(|e| wrong(e.to_string()))?;
    let mut all = vec![];
    if path.extension().is_some_and(|e| e == "jsonl") {
        for (i, line) in content.lines().enumerate().filter(|(_, l)| !l.trim().is_empty()) {
            let example = of_line(line, text, loss).map_err(|e| wrong(format!("line {}: {e}", i + 1)))?;
            all.extend(example.windows(length));
        }
    } else {
        let mut example = Example::new();
        example.push(text.tokenizer.encode(&content), true);
        all.extend(example.windows(length));
    }
    match all.is_empty() {
        true => Err(wrong("there is nothing to learn in it".into())),
        false => Ok(all),
    }
}

type Found<T> = std::result::Result<T, String>;

fn of_line(line: &str, text: &Text, loss: Loss) -> Found<Example> {
    let value = parse(line).map_err(|e| e.to_string())?;
    let get = |name: &str| value.get_attr(name).ok().filter(|v| !v.is_undefined() && !v.is_none());
    let string = |name: &str| match get(name) {
        None => Ok(None),
        Some(v) => v.as_str().map(|s| Some(s.to_string())).ok_or(format!("{name} is not a text")),
    };
    if let Some(messages) = get("messages") {
        return of_messages(messages, get("tools"), text, loss);
    }
    let mut example = Example::new();
    // the text ends there, which is learnt too
    let end = text.ends.first().copied();
    let end = text.tokenizer.ends().eos.or(end);
    match (string("prompt")?, string("completion")?, string("text")?) {
        (Some(prompt), Some(completion), None) => {
            example.push(text.tokenizer.encode(&prompt), loss == Loss::All);
            example.push(text.tokenizer.encode_after(&prompt, &completion), true);
        }
        (None, None, Some(all)) => example.push(text.tokenizer.encode(&all), true),
        _ => return Err("neither messages, nor prompt and completion, nor text".into()),
    }
    if end.is_some() && example.tokens.last() != end.as_ref() {
        example.push(end.into_iter().collect(), true);
    }
    Ok(example)
}

/// A conversation: what the template writes up to each answer, and that answer. Each part goes on where the one before ends,
/// whose tokens stay as they are, as they do when a model answers.
fn of_messages(messages: Value, tools: Option<Value>, text: &Text, loss: Loss) -> Found<Example> {
    let template = text.template.as_ref().ok_or("the model has no chat template")?;
    let messages: Vec<Value> = messages.try_iter().map_err(|e| e.to_string())?.collect();
    let is_answer = |m: &Value| m.get_attr("role").is_ok_and(|r| r.as_str() == Some("assistant"));
    let render = |count: usize, answer: bool| {
        let mut prompt = Prompt::new(messages[..count].iter().cloned().collect());
        (prompt.tools, prompt.answer) = (tools.clone(), answer);
        template.render(&prompt).map_err(|e| e.to_string())
    };
    let mut example = Example::new();
    let mut written = String::new();
    let mut go_on = |whole: String, is_learnt: bool| match whole.strip_prefix(written.as_str()) {
        Some("") => Ok(()),
        Some(more) => {
            example.push(text.tokenizer.encode_after(&written, more), is_learnt);
            written = whole;
            Ok(())
        }
        None => Err("the template writes earlier messages otherwise when later ones follow".to_string()),
    };
    if loss == Loss::Answers {
        if !messages.iter().any(is_answer) {
            return Err("no message is the assistant's".into());
        }
        for (i, _) in messages.iter().enumerate().filter(|(_, m)| is_answer(m)) {
            let whole = render(i + 1, false)?;
            // some templates do not begin an answer as they write it down
            let asked = common_prefix(&whole, &render(i, true)?).to_string();
            go_on(asked, false)?;
            go_on(whole, true)?;
        }
    }
    go_on(render(messages.len(), false)?, loss == Loss::All)?;
    Ok(example)
}

/// What two texts begin with.
fn common_prefix<'a>(a: &'a str, b: &str) -> &'a str {
    let end = a.char_indices().zip(b.chars()).find(|((_, x), y)| x != y).map(|((at, _), _)| at);
    &a[..end.unwrap_or(a.len().min(b.len()))]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_share_a_token_and_hold_something_to_learn() {
        let mut e = Example::new();
        e.push((0..5).collect(), false);
        e.push((5..8).collect(), true);
        let windows = e.windows(3);
        let tokens: Vec<Vec<u32>> = windows.iter().map(|w| w.tokens.clone()).collect();
        assert_eq!(tokens, [vec![3, 4, 5, 6], vec![6, 7]]);
        assert_eq!(windows[0].is_learnt, [false, false, true, true]);
    }
}
