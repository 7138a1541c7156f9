//! A model with its tokeniser, for one answer at a time: what a chat, a script and Python need.

use crate::chat::{self, Prompt, Text};
use crate::engine::{Engine, Event, Reason, Request, Settings};
use crate::model::{Options, open};
use crate::sample::Sampling;
use crate::stops::Stops;
use frit_tensor::{Error, Result};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A model that is ready to answer.
pub struct Llm {
    engine: Engine,
    text: Text,
}

/// How an answer is made.
#[derive(Clone, Debug, PartialEq)]
pub struct Ask {
    /// The most tokens.
    pub max_tokens: usize,
    /// How they are chosen.
    pub sampling: Sampling,
    /// Texts that end it.
    pub stops: Vec<String>,
}

impl Default for Ask {
    fn default() -> Ask {
        Ask { max_tokens: usize::MAX, sampling: Sampling::default(), stops: vec![] }
    }
}

/// One part of a conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// `system`, `user`, `assistant`.
    pub role: String,
    /// What was said.
    pub content: String,
}

/// What came out.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// The text.
    pub text: String,
    /// Its tokens.
    pub tokens: Vec<u32>,
    /// Why it ended.
    pub reason: Reason,
    /// Tokens of the prompt.
    pub prompt: usize,
    /// Time to the first token.
    pub first: Duration,
    /// Time from there to the end.
    pub rest: Duration,
}

impl Answer {
    /// Tokens a second, behind the first.
    pub fn rate(&self) -> f64 {
        (self.tokens.len().saturating_sub(1)) as f64 / self.rest.as_secs_f64().max(1e-9)
    }
}

fn of_text(e: impl std::fmt::Display) -> Error {
    Error::new("load", e.to_string())
}

impl Llm {
    /// A GGUF file, or a folder of Hugging Face with `tokenizer.json`.
    #[track_caller]
    pub fn open(path: impl AsRef<Path>, options: &Options, settings: Settings) -> Result<Llm> {
        Llm::with_draft(path, None, options, settings)
    }
    /// The same with a model that drafts.
    #[track_caller]
    pub fn with_draft(
        path: impl AsRef<Path>,
        draft: Option<&Path>,
        options: &Options,
        settings: Settings,
    ) -> Result<Llm> {
        let model = Arc::new(open(&path, options)?);
        let text = chat::text_of(&path).map_err(of_text)?;
        let draft = draft.map(|d| open(d, options).map(Arc::new)).transpose()?;
        Ok(Llm { engine: Engine::with_draft(model, draft, settings)?, text })
    }
    /// What runs it.
    pub fn engine(&mut self) -> &mut Engine {
        &mut self.engine
    }
    /// Its tokeniser and template.
    pub fn text(&self) -> &Text {
        &self.text
    }
    /// The tokens of a text to be continued.
    pub fn encode(&self, text: &str) -> Vec<u32> {
        self.text.tokenizer.encode(text)
    }
    /// The tokens of a conversation to be answered, by the model's own template.
    #[track_caller]
    pub fn conversation(&self, messages: &[Message]) -> Result<Vec<u32>> {
        let Some(template) = &self.text.template else {
            return Err(Error::new("generate", "the model has no chat template"));
        };
        let json = self.to_json(messages);
        let wrong = |e: chat::Error| Error::new("generate", e.to_string());
        let text = template.render(&Prompt::new(chat::parse(&json).map_err(wrong)?)).map_err(wrong)?;
        Ok(self.text.tokenizer.encode_plain(&text))
    }
    /// A conversation as JSON.
    pub fn to_json(&self, messages: &[Message]) -> String {
        let one = |m: &Message| serde_json::json!({"role": m.role, "content": m.content});
        serde_json::Value::from(messages.iter().map(one).collect::<Vec<_>>()).to_string()
    }
    /// Goes on from tokens. `told` is given the text as it comes, and ends the answer by saying false.
    #[track_caller]
    pub fn generate(
        &mut self,
        tokens: Vec<u32>,
        ask: &Ask,
        told: &mut dyn FnMut(&str) -> bool,
    ) -> Result<Answer> {
        let (begin, prompt) = (Instant::now(), tokens.len());
        let mut answer = Answer {
            text: String::new(),
            tokens: vec![],
            reason: Reason::Length,
            prompt,
            first: Duration::ZERO,
            rest: Duration::ZERO,
        };
        let mut request = Request::new(tokens, ask.max_tokens);
        request.sampling = ask.sampling.clone();
        request.ends = self.text.ends.iter().copied().collect();
        let id = self.engine.submit(request)?;
        let (mut stream, mut stops) = (self.text.tokenizer.stream(), Stops::new(ask.stops.clone()));
        let mut is_open = true;
        while !self.engine.is_idle() {
            for event in self.engine.step()? {
                match event {
                    Event::Token { id: of, token, .. } if of == id && is_open => {
                        if answer.tokens.is_empty() {
                            answer.first = begin.elapsed();
                        }
                        answer.tokens.push(token);
                        let (piece, stopped) = stops.push(&stream.push(token));
                        answer.text.push_str(&piece);
                        let go_on = told(&piece);
                        if stopped || !go_on {
                            is_open = false;
                            answer.reason = if stopped { Reason::End } else { Reason::Cancelled };
                            self.engine.cancel(id);
                        }
                    }
                    Event::Done { id: of, reason } if of == id && is_open => answer.reason = reason,
                    _ => {}
                }
            }
        }
        if is_open {
            let rest = stops.finish();
            told(&rest);
            answer.text.push_str(&rest);
        }
        answer.rest = begin.elapsed().saturating_sub(answer.first);
        match &answer.reason {
            Reason::Failed(why) => Err(Error::new("generate", why.clone())),
            _ => Ok(answer),
        }
    }
}
