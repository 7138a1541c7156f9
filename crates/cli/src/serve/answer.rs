//! Tokens of one answer, as the pieces that a client gets: text up to what stops it, tool calls, probabilities.

use frit_llm::chat::{Calls, Delta, Syntax};
use frit_tokenize::{Stream, Tokenizer};

/// One answer on its way.
pub struct Answer<'a> {
    stream: Option<Stream<'a>>,
    stops: &'a [String],
    /// Text that may be the beginning of what stops.
    held: String,
    calls: Option<Calls>,
    /// How many calls there were.
    pub called: usize,
    /// Arguments of the last of them, as far as they came.
    arguments: String,
    /// How many tokens.
    pub tokens: usize,
    /// Characters of the text before the last token.
    pub at: usize,
    /// Characters of the text.
    characters: usize,
    pub is_stopped: bool,
}

impl<'a> Answer<'a> {
    /// `syntax` is that of tool calls, if the model may call tools.
    pub fn new(tokenizer: &'a Tokenizer, stops: &'a [String], syntax: Option<Syntax>) -> Answer<'a> {
        // marks of calls may be special tokens
        let stream = if syntax.is_some() { tokenizer.stream_all() } else { tokenizer.stream() };
        let calls = syntax.map(Calls::new);
        Answer {
            stream: Some(stream),
            stops,
            held: String::new(),
            calls,
            called: 0,
            arguments: String::new(),
            tokens: 0,
            at: 0,
            characters: 0,
            is_stopped: false,
        }
    }
    /// One more token.
    pub fn push(&mut self, token: u32) -> Vec<Delta> {
        self.tokens += 1;
        let text = self.stream.as_mut().map(|s| s.push(token)).unwrap_or_default();
        self.at = self.characters;
        self.characters += text.chars().count();
        self.text(&text)
    }
    fn text(&mut self, text: &str) -> Vec<Delta> {
        if self.is_stopped || text.is_empty() {
            return vec![];
        }
        self.held.push_str(text);
        let found = self.stops.iter().filter_map(|s| self.held.find(s.as_str())).min();
        let known = match found {
            Some(at) => {
                self.is_stopped = true;
                at
            }
            None => self.held.len() - self.beginning(),
        };
        let known: String = self.held.drain(..known).collect();
        if self.is_stopped {
            self.held.clear();
        }
        self.give(&known)
    }
    /// Bytes at the end of what is held that may begin what stops.
    fn beginning(&self) -> usize {
        let of = |stop: &String| {
            let ends = stop.char_indices().map(|(i, _)| i).rev();
            ends.into_iter().find(|n| self.held.ends_with(&stop[..*n])).unwrap_or(0)
        };
        self.stops.iter().map(of).max().unwrap_or(0)
    }
    fn give(&mut self, text: &str) -> Vec<Delta> {
        match &mut self.calls {
            _ if text.is_empty() => vec![],
            Some(calls) => {
                let deltas = calls.push(text);
                self.called = calls.count();
                self.note(&deltas);
                deltas
            }
            None => vec![Delta::Text(text.to_string())],
        }
    }
    fn note(&mut self, deltas: &[Delta]) {
        for delta in deltas {
            match delta {
                Delta::Text(_) => {}
                Delta::Call { .. } => self.arguments.clear(),
                Delta::Arguments { text, .. } => self.arguments.push_str(text),
            }
        }
    }
    /// Whether there is a call, and the last one is not cut off.
    pub fn has_called(&self) -> bool {
        self.called > 0 && serde_json::from_str::<serde_json::Value>(&self.arguments).is_ok()
    }
    /// Nothing more comes.
    pub fn finish(&mut self) -> Vec<Delta> {
        let rest = self.stream.take().map(Stream::finish).unwrap_or_default();
        let mut deltas = self.text(&rest);
        let held = std::mem::take(&mut self.held);
        deltas.extend(self.give(&held));
        if let Some(calls) = self.calls.take() {
            let rest = calls.finish();
            self.note(&rest);
            deltas.extend(rest);
        }
        deltas
    }
}
