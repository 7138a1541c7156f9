//! Tool calls in what a model writes, read as it streams.
//!
//! ```text
//! Hermes, Qwen   <tool_call>{"name": "f", "arguments": {…}}</tool_call>
//! Llama 3        {"name": "f", "parameters": {…}}                    the whole answer, after <|python_tag|> or not
//! Mistral        [TOOL_CALLS][{"name": "f", "arguments": {…}}, …]    or, of later models, [TOOL_CALLS]f[ARGS]{…}
//! ```
//!
//! Text goes out as it comes, but for what may be the beginning of a mark. Arguments go out as they come, once the name is
//! known. What turns out to be no call goes out as text.

/// How a model writes calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Syntax {
    /// Objects between `<tool_call>` and `</tool_call>`.
    Hermes,
    /// The answer is an object, or several with `;` between.
    Llama3,
    /// A list after `[TOOL_CALLS]`.
    Mistral,
    /// A name between `[TOOL_CALLS]` and `[ARGS]`, with an id after `[CALL_ID]` or none, and an object.
    MistralNamed,
}

impl Syntax {
    /// That of a chat template, by the marks that it writes.
    pub fn of_template(source: &str) -> Option<Syntax> {
        let marks = [
            ("[ARGS]", Syntax::MistralNamed),
            ("[TOOL_CALLS]", Syntax::Mistral),
            ("<tool_call>", Syntax::Hermes),
            ("<|python_tag|>", Syntax::Llama3),
            ("\"parameters\": ", Syntax::Llama3),
        ];
        marks.iter().find(|(mark, _)| source.contains(mark)).map(|(_, syntax)| *syntax)
    }
    /// Whether calls follow `[TOOL_CALLS]`; a model may write them in either way, whichever its template does.
    fn is_mistral(self) -> bool {
        matches!(self, Syntax::Mistral | Syntax::MistralNamed)
    }
    fn mark(self) -> &'static str {
        match self {
            Syntax::Hermes => "<tool_call>",
            Syntax::Llama3 => "<|python_tag|>",
            Syntax::Mistral | Syntax::MistralNamed => "[TOOL_CALLS]",
        }
    }
}

/// What came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Delta {
    /// More of the text.
    Text(String),
    /// A call begins: its place among the calls, and the tool's name.
    Call {
        /// From 0.
        index: usize,
        /// Which tool.
        name: String,
    },
    /// More of the JSON of a call's arguments.
    Arguments {
        /// Which call.
        index: usize,
        /// To be put after what came before.
        text: String,
    },
}

/// Where in the text it is.
enum State {
    /// What is written so far is blank: an object may be the answer.
    Start,
    Text,
    /// After a mark or a call.
    Between,
    Object(Object),
}

/// Reads calls from text that comes in pieces.
pub struct Calls {
    syntax: Syntax,
    state: State,
    /// Characters that are not yet known to be text or part of a mark.
    held: String,
    count: usize,
    out: Vec<Delta>,
}

impl Calls {
    /// Calls of a syntax.
    pub fn new(syntax: Syntax) -> Calls {
        Calls { syntax, state: State::Start, held: String::new(), count: 0, out: vec![] }
    }
    /// How many calls there were.
    pub fn count(&self) -> usize {
        self.count
    }
    /// More text.
    pub fn push(&mut self, text: &str) -> Vec<Delta> {
        text.chars().for_each(|c| self.character(c));
        self.flush_arguments();
        std::mem::take(&mut self.out)
    }
    /// The end: what is held goes out.
    pub fn finish(mut self) -> Vec<Delta> {
        self.flush_arguments();
        match std::mem::replace(&mut self.state, State::Text) {
            State::Object(object) if !object.is_named => self.text(&object.seen),
            // the rest of a list or of a mark
            State::Between if self.count > 0 => {}
            State::Object(_) => {}
            _ => {
                let held = std::mem::take(&mut self.held);
                if self.count == 0 || !held.trim().is_empty() {
                    self.text(&held);
                }
            }
        }
        self.out
    }
    fn text(&mut self, text: &str) {
        match self.out.last_mut() {
            _ if text.is_empty() => {}
            Some(Delta::Text(last)) => last.push_str(text),
            _ => self.out.push(Delta::Text(text.to_string())),
        }
    }
    fn character(&mut self, c: char) {
        match &mut self.state {
            State::Object(_) => return self.object(c),
            // an answer that is an object is a call
            State::Start if c == '{' && self.syntax == Syntax::Llama3 && self.held.trim().is_empty() => {
                return self.open(c);
            }
            State::Between => return self.between(c),
            State::Start | State::Text => self.held.push(c),
        }
        let mark = self.syntax.mark();
        if self.held.ends_with(mark) {
            let text = self.held[..self.held.len() - mark.len()].trim_end().to_string();
            self.held.clear();
            self.text(&text);
            self.state = State::Between;
            return;
        }
        // the longest end that may begin a mark waits, and blanks before it, which are none of the text before a call
        let part = (0..mark.len()).rev().find(|n| self.held.ends_with(&mark[..*n])).unwrap_or(0);
        let known = self.held[..self.held.len() - part].trim_end();
        let is_blank = known.is_empty();
        let known = known.to_string();
        self.held.drain(..known.len());
        self.text(&known);
        if !is_blank || (part == 0 && !self.held.trim().is_empty()) {
            self.state = State::Text;
        }
    }
    fn between(&mut self, c: char) {
        const END: &str = "</tool_call>";
        self.held.push(c);
        match self.syntax {
            _ if c == '{' => {
                let before = std::mem::take(&mut self.held);
                let before = before.trim_matches(|c: char| c.is_whitespace() || "[,;{".contains(c));
                // a name before its arguments
                let name =
                    before.strip_suffix("[ARGS]").map(|n| n.split("[CALL_ID]").next().unwrap_or(n).trim());
                match name {
                    Some(name) if self.syntax.is_mistral() && !name.is_empty() => {
                        let name = name.strip_prefix("TOOL_CALLS]").unwrap_or(name).to_string();
                        self.call(name);
                        self.state = State::Object(Object::arguments());
                        self.object(c);
                    }
                    _ => self.open(c),
                }
            }
            Syntax::Hermes if self.held.ends_with(END) => {
                self.held.clear();
                self.state = State::Text;
            }
            Syntax::Mistral | Syntax::MistralNamed if self.held.ends_with(self.syntax.mark()) => {
                self.held.clear();
            }
            // no call comes here any more
            Syntax::Llama3 if !c.is_whitespace() && c != ';' => self.state = State::Text,
            _ => {}
        }
    }
    fn open(&mut self, c: char) {
        // blanks before an object that is no call are text too
        let seen = std::mem::take(&mut self.held);
        self.state = State::Object(Object { seen, ..Object::default() });
        self.object(c);
    }
    fn call(&mut self, name: String) {
        self.out.push(Delta::Call { index: self.count, name });
        self.count += 1;
    }
    fn object(&mut self, c: char) {
        let State::Object(object) = &mut self.state else { return };
        let is_done = object.push(c);
        if let Some(name) = object.name.take_if(|_| !object.is_named) {
            object.is_named = true;
            self.call(name);
        }
        if is_done {
            self.flush_arguments();
            if let State::Object(object) = std::mem::replace(&mut self.state, State::Between) {
                if !object.is_named {
                    self.text(&object.seen);
                    self.state = State::Text;
                } else if !object.has_arguments {
                    let index = self.count.saturating_sub(1);
                    self.out.push(Delta::Arguments { index, text: "{}".into() });
                }
            }
        }
    }
    fn flush_arguments(&mut self) {
        let State::Object(object) = &mut self.state else { return };
        if object.is_named && !object.arguments.is_empty() {
            let (index, text) = (self.count.saturating_sub(1), std::mem::take(&mut object.arguments));
            self.out.push(Delta::Arguments { index, text });
        }
    }
}

/// A call's object, character by character.
#[derive(Default)]
struct Object {
    /// All of it while it may be text.
    seen: String,
    /// How many brackets are open.
    depth: usize,
    in_text: bool,
    escaped: bool,
    /// The last text at the first depth, with its quotes: a key, or a value that is a text.
    last: String,
    key: String,
    /// After a colon at the first depth.
    is_value: bool,
    name: Option<String>,
    is_named: bool,
    /// Characters of the arguments that are not given out.
    arguments: String,
    has_arguments: bool,
    /// All of the object is the arguments.
    is_arguments: bool,
}

impl Object {
    fn arguments() -> Object {
        Object { is_named: true, is_arguments: true, has_arguments: true, ..Object::default() }
    }
    fn in_arguments(&self) -> bool {
        self.is_arguments || self.is_value && matches!(self.key.as_str(), "arguments" | "parameters")
    }
    /// One more character; whether it was the last.
    fn push(&mut self, c: char) -> bool {
        if !self.is_named {
            self.seen.push(c);
        }
        if self.in_text {
            self.pass(c);
            if self.depth == 1 {
                self.last.push(c);
            }
            self.in_text = self.escaped || c != '"';
            self.escaped = !self.escaped && c == '\\';
            if !self.in_text && self.depth == 1 && self.is_value && self.key == "name" && self.name.is_none()
            {
                self.name = serde_json::from_str(&self.last).ok();
            }
            return false;
        }
        match c {
            '"' => {
                self.in_text = true;
                if self.depth == 1 {
                    self.last = "\"".into();
                }
            }
            '{' | '[' => self.depth += 1,
            ':' if self.depth == 1 && !self.is_value && !self.is_arguments => {
                self.key = serde_json::from_str(&self.last).unwrap_or_default();
                self.is_value = true;
                return false;
            }
            ',' if self.depth == 1 && !self.is_arguments => {
                self.is_value = false;
                return false;
            }
            '}' | ']' => {
                self.depth = self.depth.saturating_sub(1);
                if self.depth == 0 {
                    if self.is_arguments {
                        self.pass(c);
                    }
                    return true;
                }
            }
            _ => {}
        }
        self.pass(c);
        false
    }
    /// Characters of the arguments go on, but for blanks before them.
    fn pass(&mut self, c: char) {
        if self.in_arguments() && (self.has_arguments || !c.is_whitespace()) {
            self.has_arguments = true;
            self.arguments.push(c);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Text and calls, with texts and arguments put together; the same in any pieces.
    fn read(syntax: Syntax, text: &str) -> (String, Vec<(String, String)>) {
        let together = |deltas: Vec<Delta>| {
            let (mut texts, mut calls) = (String::new(), vec![]);
            for d in deltas {
                match d {
                    Delta::Text(t) => texts.push_str(&t),
                    Delta::Call { index, name } => {
                        assert_eq!(index, calls.len());
                        calls.push((name, String::new()));
                    }
                    Delta::Arguments { index, text } => calls[index].1.push_str(&text),
                }
            }
            (texts, calls)
        };
        let mut made = vec![];
        for size in [1, 2, 3, 7, usize::MAX] {
            let mut calls = Calls::new(syntax);
            let all: Vec<char> = text.chars().collect();
            let mut deltas = vec![];
            for piece in all.chunks(size.min(all.len().max(1))) {
                deltas.extend(calls.push(&piece.iter().collect::<String>()));
            }
            deltas.extend(calls.finish());
            made.push(together(deltas));
        }
        made.iter().for_each(|m| assert_eq!(m, &made[0]));
        made.remove(0)
    }
    fn call(name: &str, arguments: &str) -> (String, String) {
        (name.to_string(), arguments.to_string())
    }

    #[test]
    fn hermes_calls_are_read() {
        let one = r#"<tool_call>
{"name": "get_weather", "arguments": {"city": "Zürich }", "n": [1, {"a": "\"}"}]}}
</tool_call>"#;
        let arguments = r#"{"city": "Zürich }", "n": [1, {"a": "\"}"}]}"#;
        assert_eq!(read(Syntax::Hermes, one), (String::new(), vec![call("get_weather", arguments)]));
        let (text, calls) = read(Syntax::Hermes, &format!("Let me see.\n{one}\n{one}"));
        assert_eq!((text.as_str(), calls.len()), ("Let me see.", 2));
        let turned = r#"<tool_call>{"arguments": {"a": 1}, "name": "f"}</tool_call>"#;
        assert_eq!(read(Syntax::Hermes, turned).1, [call("f", r#"{"a": 1}"#)]);
        assert_eq!(read(Syntax::Hermes, r#"<tool_call>{"name": "f"}</tool_call>"#).1, [call("f", "{}")]);
    }
    #[test]
    fn text_that_is_no_call_stays_text() {
        for syntax in [Syntax::Hermes, Syntax::Llama3, Syntax::Mistral, Syntax::MistralNamed] {
            for text in
                ["", "plain", " a < b <tool_ [TOOL <|py ", "x {\"name\": 1}\n", "line\n\nline ", "\n{}", "  "]
            {
                assert_eq!(read(syntax, text), (text.to_string(), vec![]), "{syntax:?} {text:?}");
            }
        }
        assert_eq!(read(Syntax::Llama3, r#"{"a": 1} more"#), (r#"{"a": 1} more"#.into(), vec![]));
    }
    #[test]
    fn llama_3_calls_are_read() {
        let one = r#"{"name": "f", "parameters": {"a": "b"}}"#;
        assert_eq!(read(Syntax::Llama3, one), (String::new(), vec![call("f", r#"{"a": "b"}"#)]));
        assert_eq!(read(Syntax::Llama3, &format!("<|python_tag|>{one}; {one}")).1.len(), 2);
    }
    #[test]
    fn mistral_calls_are_read() {
        let list = r#"[TOOL_CALLS] [{"name": "f", "arguments": {"a": 1}, "id": "123456789"}, {"name": "g", "arguments": {}}]"#;
        let named = r#"I call.[TOOL_CALLS]f[ARGS]{"a": {"b": 2}}[TOOL_CALLS]g[CALL_ID]12[ARGS]{}"#;
        for syntax in [Syntax::Mistral, Syntax::MistralNamed] {
            let wanted = vec![call("f", r#"{"a": 1}"#), call("g", "{}")];
            assert_eq!(read(syntax, list), (String::new(), wanted));
            let wanted = vec![call("f", r#"{"a": {"b": 2}}"#), call("g", "{}")];
            assert_eq!(read(syntax, named), ("I call.".into(), wanted));
        }
    }
    #[test]
    fn arguments_stream() {
        let mut calls = Calls::new(Syntax::Hermes);
        assert_eq!(
            calls.push(r#"<tool_call>{"name": "f", "argu"#),
            [Delta::Call { index: 0, name: "f".into() }]
        );
        assert_eq!(calls.push(r#"ments": {"a""#), [Delta::Arguments { index: 0, text: r#"{"a""#.into() }]);
        assert_eq!(calls.push(": 1}}"), [Delta::Arguments { index: 0, text: ": 1}".into() }]);
        assert_eq!((calls.push("</tool_call>"), calls.count()), (vec![], 1));
        assert_eq!(calls.finish(), []);
    }
    #[test]
    fn templates_tell_their_syntax() {
        assert_eq!(Syntax::of_template("… <tool_call> …"), Some(Syntax::Hermes));
        assert_eq!(Syntax::of_template("{{ '[TOOL_CALLS]' }}"), Some(Syntax::Mistral));
        let named = Syntax::of_template("{{ '[TOOL_CALLS]' + call.name + '[ARGS]' }}");
        assert_eq!(named, Some(Syntax::MistralNamed));
        assert_eq!(Syntax::of_template("{{ '<|python_tag|>' }}"), Some(Syntax::Llama3));
        assert_eq!(Syntax::of_template("{{ x }}"), None);
    }
}
