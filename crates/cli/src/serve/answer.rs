//! Tokens of one answer, as the pieces that a client gets: text up to what stops it, tool calls, probabilities.

use frit_llm::chat::{Calls, Delta, Syntax};
use frit_llm::stops::Stops;
use frit_tokenize::{Stream, Tokenizer};

/// One answer on its way.
pub struct Answer<'a> {
    stream: Option<Stream<'a>>,
    stops: Stops,
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
    pub fn new(tokenizer: &'a Tokenizer, stops: &[String], syntax: Option<Syntax>) -> Answer<'a> {
        // marks of calls may be special tokens
        let stream = if syntax.is_some() { tokenizer.stream_all() } else { tokenizer.stream() };
        let calls = syntax.map(Calls::new);
        Answer {
            stream: Some(stream),
            stops: Stops::new(stops.to_vec()),
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
        let (known, is_stopped) = self.stops.push(text);
        self.is_stopped = is_stopped;
        self.give(&known)
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
        let held = std::mem::take(&mut self.stops).finish();
        deltas.extend(self.give(&held));
        if let Some(calls) = self.calls.take() {
            let rest = calls.finish();
            self.note(&rest);
            deltas.extend(rest);
        }
        deltas
    }
}
