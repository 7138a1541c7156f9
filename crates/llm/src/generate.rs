//! A model with its tokeniser, for one answer at a time: what a chat, a script and Python need.

use crate::chat::{self, Prompt, Text, Value};
use crate::engine::{Engine, Event, Id, Logprobs, Reason, Request, Settings};
use crate::model::{Options, Products, open};
use crate::sample::Sampling;
use crate::stops::Stops;
use frit_tensor::{Error, Result};
use frit_tokenize::Growing;
use std::collections::{BTreeMap, VecDeque};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A model that is ready to answer.
pub struct Llm {
    engine: Engine,
    text: Text,
    /// What happened to answers while another was taken further.
    events: BTreeMap<Id, VecDeque<Event>>,
}

/// An answer on its way.
pub struct Running {
    id: Id,
    begun: Instant,
    stream: Growing,
    stops: Stops,
    is_open: bool,
    /// What came so far.
    pub answer: Answer,
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
    /// At the end of the context the older half behind the first so many tokens is left out, instead of ending there.
    pub shift: Option<usize>,
    /// Probabilities are told of each token, and of so many likely ones beside it.
    pub logprobs: Option<usize>,
}

impl Default for Ask {
    fn default() -> Ask {
        let sampling = Sampling::default();
        Ask { max_tokens: usize::MAX, sampling, stops: vec![], shift: None, logprobs: None }
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
    /// Probabilities of each, if they were asked for.
    pub logprobs: Vec<Logprobs>,
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
        // tokens are checked several at a time with a draft and written one at a time without, and both must be the same ones;
        // so must those of other batches where that is asked for
        let is_float = draft.is_some() || settings.deterministic;
        let products = if is_float { Products::Float } else { options.products };
        let options = &Options { products, ..options.clone() };
        let model = Arc::new(open(&path, options)?);
        let text = chat::text_of(&path).map_err(of_text)?;
        // what the model learnt is not the draft's
        let plain = Options { adapter: None, ..options.clone() };
        let draft = draft.map(|d| open(d, &plain).map(Arc::new)).transpose()?;
        Ok(Llm { engine: Engine::with_draft(model, draft, settings)?, text, events: BTreeMap::new() })
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
        let wrong = |e: chat::Error| Error::new("generate", e.to_string());
        let text = template.render(&self.prompt(messages).map_err(wrong)?).map_err(wrong)?;
        Ok(self.text.tokenizer.encode_plain(&text))
    }
    /// What a template is given of a conversation.
    pub fn prompt(&self, messages: &[Message]) -> chat::Result<Prompt> {
        chat::parse(&self.to_json(messages)).map(Prompt::new)
    }
    /// How many of a conversation's tokens come before anything that a user said: those of its system message and tools.
    pub fn beginning(text: &Text, prompt: &Prompt, tokens: &[u32]) -> usize {
        let Some(template) = &text.template else { return 0 };
        let role = |m: &Value| m.get_attr("role").map(|r| r.to_string()).unwrap_or_default();
        let all = prompt.messages.try_iter().into_iter().flatten();
        let mut messages: Vec<Value> = all.take_while(|m| role(m) == "system").collect();
        let other = [("role", "user"), ("content", "?")].map(|(k, v)| (k.to_string(), Value::from(v)));
        messages.push(chat::object(other));
        let other = Prompt { messages: Value::from(messages), ..prompt.clone() };
        let other = template.render(&other).map(|t| text.tokenizer.encode_plain(&t)).unwrap_or_default();
        tokens.iter().zip(&other).take_while(|(a, b)| a == b).count()
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
        let mut running = self.begin(tokens, ask)?;
        while let Some(piece) = self.go_on(&mut running)? {
            if !told(&piece) {
                self.cancel(&mut running);
            }
        }
        Ok(running.answer)
    }
    /// Begins an answer, which [`Llm::go_on`] takes further. Several that are begun share their steps.
    #[track_caller]
    pub fn begin(&mut self, tokens: Vec<u32>, ask: &Ask) -> Result<Running> {
        let (begun, prompt) = (Instant::now(), tokens.len());
        let mut request = Request::new(tokens, ask.max_tokens);
        request.sampling = Sampling { prompt, ..ask.sampling.clone() };
        request.shift = ask.shift;
        request.logprobs = ask.logprobs;
        request.ends = self.text.ends.iter().copied().collect();
        let id = self.engine.submit(request)?;
        self.events.insert(id, VecDeque::new());
        let answer = Answer {
            text: String::new(),
            tokens: vec![],
            logprobs: vec![],
            reason: Reason::Length,
            prompt,
            first: Duration::ZERO,
            rest: Duration::ZERO,
        };
        let (stream, stops) = (Growing::default(), Stops::new(ask.stops.clone()));
        Ok(Running { id, begun, stream, stops, is_open: true, answer })
    }
    /// The next piece of an answer; none at its end. It is empty where a step made none, as while the prompt is read: whoever
    /// calls has a word after each.
    #[track_caller]
    pub fn go_on(&mut self, running: &mut Running) -> Result<Option<String>> {
        let _c = frit_tensor::call("generate");
        if running.is_open {
            if self.events.get(&running.id).is_none_or(VecDeque::is_empty) {
                for event in self.engine.step()? {
                    let (Event::Token { id, .. } | Event::Done { id, .. }) = &event;
                    // no one waits for those that were cancelled
                    if let Some(events) = self.events.get_mut(id) {
                        events.push_back(event);
                    }
                }
            }
            match self.events.get_mut(&running.id).and_then(VecDeque::pop_front) {
                None => return Ok(Some(String::new())),
                Some(Event::Token { token, logprobs, .. }) => {
                    let answer = &mut running.answer;
                    if answer.tokens.is_empty() {
                        answer.first = running.begun.elapsed();
                    }
                    answer.tokens.push(token);
                    answer.logprobs.extend(logprobs);
                    let piece = running.stream.push(&self.text.tokenizer, token);
                    let (piece, stopped) = running.stops.push(&piece);
                    answer.text.push_str(&piece);
                    if stopped {
                        self.end(running, Reason::End);
                        self.engine.cancel(running.id);
                    }
                    return Ok(Some(piece));
                }
                Some(Event::Done { reason, .. }) => {
                    self.end(running, reason);
                    if let Reason::Failed(why) = &running.answer.reason {
                        return Err(Error::new("generate", why.clone()));
                    }
                    // part of a character is all that there will be of it
                    let rest = std::mem::take(&mut running.stream).finish(&self.text.tokenizer);
                    let (mut rest, _) = running.stops.push(&rest);
                    rest.push_str(&std::mem::take(&mut running.stops).finish());
                    running.answer.text.push_str(&rest);
                    return Ok(Some(rest));
                }
            }
        }
        Ok(None)
    }
    /// Ends an answer; nothing more comes.
    pub fn cancel(&mut self, running: &mut Running) {
        if running.is_open {
            self.end(running, Reason::Cancelled);
            self.engine.cancel(running.id);
        }
    }
    fn end(&mut self, running: &mut Running, reason: Reason) {
        running.is_open = false;
        running.answer.reason = reason;
        running.answer.rest = running.begun.elapsed().saturating_sub(running.answer.first);
        self.events.remove(&running.id);
    }
}
