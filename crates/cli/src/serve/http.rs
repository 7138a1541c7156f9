//! Routes: OpenAI's, health, metrics, the chat page.

use super::answer::Answer;
use super::ask::{self, Ask, Begin, Limits};
use super::embeddings;
use super::error::ApiError;
use super::grammar::{self, Form, Grammars, Rule};
use super::ids::Ids;
use super::logprobs::{self, Told};
use super::metrics::{Totals, metrics};
use super::worker::{BEHIND, Happened, Refused, Ticket, What, Worker};
use axum::Router;
use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{Request as HttpRequest, State};
use axum::http::header::{AUTHORIZATION, CACHE_CONTROL, CONTENT_TYPE};
use axum::http::{HeaderMap, StatusCode};
use axum::middleware::Next;
use axum::response::{Html, IntoResponse, Response};
use axum::routing::{get, post};
use frit_llm::Llm;
use frit_llm::chat::{Delta, Prompt, Syntax, Text, Value};
use frit_llm::engine::{Reason, Request};
use serde_json::{Value as Json, json};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tokio::net::{TcpListener, TcpSocket, lookup_host};
use tokio::sync::mpsc;

/// Pieces that wait for the connection.
const PIECES: usize = 64;
/// A client that takes nothing for so long is dropped. The model does not wait for it, and drops it earlier if it is far behind.
const PIECE_TIME: Duration = Duration::from_secs(20);

/// What the system holds of an answer that its client does not read. Left to itself it holds megabytes, and a slow reader is noticed late.
const SEND_BUFFER: u32 = 64 << 10;

/// A listening socket whose connections hold little of what is not read.
pub async fn listen(address: &str) -> std::io::Result<TcpListener> {
    let mut failed = std::io::Error::other("no such address");
    for address in lookup_host(address).await? {
        let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
        // a server that starts again finds its port although old connections linger there
        socket.set_reuseaddr(cfg!(unix))?;
        socket.set_send_buffer_size(SEND_BUFFER)?;
        match socket.bind(address).and_then(|()| socket.listen(1024)) {
            Ok(listener) => return Ok(listener),
            Err(e) => failed = e,
        }
    }
    Err(failed)
}

/// What handlers share.
pub struct App {
    pub worker: Worker,
    pub text: Arc<Text>,
    pub grammars: Grammars,
    /// Of tool calls.
    pub ids: Ids,
    /// What the model is called.
    pub name: String,
    pub key: Option<String>,
    pub limits: Limits,
    pub context: usize,
    pub counts: Totals,
}

/// All routes.
pub fn router(app: Arc<App>) -> Router {
    let api = Router::new()
        .route("/v1/models", get(models))
        .route("/v1/models/{name}", get(model))
        .route("/v1/chat/completions", post(chat))
        .route("/v1/completions", post(complete))
        .route("/v1/embeddings", post(embed))
        .layer(axum::middleware::from_fn_with_state(app.clone(), authorize));
    Router::new()
        .merge(api)
        .route("/", get(async || Html(include_str!("page.html"))))
        .route("/health", get(health))
        .route("/metrics", get(metrics))
        .fallback(async |r: HttpRequest| {
            ApiError::new(StatusCode::NOT_FOUND, format!("there is no {} {}", r.method(), r.uri().path()))
        })
        .method_not_allowed_fallback(async || {
            ApiError::new(StatusCode::METHOD_NOT_ALLOWED, "this route has another method")
        })
        .with_state(app)
}

/// Keys are compared in time that does not depend on where they differ.
fn is_equal(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && a.iter().zip(b).fold(0, |d, (a, b)| d | (a ^ b)) == 0
}
async fn authorize(State(app): State<Arc<App>>, request: HttpRequest, next: Next) -> Response {
    // keys may be any bytes
    let given = request.headers().get(AUTHORIZATION).and_then(|h| h.as_bytes().strip_prefix(b"Bearer "));
    let is_allowed = match &app.key {
        None => true,
        Some(key) => given.is_some_and(|g| is_equal(g, key.as_bytes())),
    };
    app.counts.requests.fetch_add(1, Ordering::Relaxed);
    let response = match is_allowed {
        true => next.run(request).await,
        false => ApiError::new(StatusCode::UNAUTHORIZED, "a wrong API key, or none")
            .coded("invalid_api_key")
            .into_response(),
    };
    if !response.status().is_success() {
        app.counts.errors.fetch_add(1, Ordering::Relaxed);
    }
    response
}

async fn health(State(app): State<Arc<App>>) -> Response {
    let failed = app.worker.shared.failed.lock().ok().and_then(|f| f.clone());
    let (status, word) = match (failed, app.worker.shared.ready.load(Ordering::Acquire)) {
        (Some(_), _) => (StatusCode::INTERNAL_SERVER_ERROR, "failed"),
        (None, false) => (StatusCode::SERVICE_UNAVAILABLE, "loading"),
        (None, true) => (StatusCode::OK, "ok"),
    };
    (status, [(CONTENT_TYPE, "application/json")], json!({"status": word}).to_string()).into_response()
}

fn model_json(app: &App) -> Json {
    json!({"id": app.name, "object": "model", "created": 0, "owned_by": "frit", "context_length": app.context})
}
async fn models(State(app): State<Arc<App>>) -> Response {
    reply(json!({"object": "list", "data": [model_json(&app)]}))
}
async fn model(
    State(app): State<Arc<App>>,
    axum::extract::Path(name): axum::extract::Path<String>,
) -> Response {
    match name == app.name {
        true => reply(model_json(&app)),
        false => no_model(&name).into_response(),
    }
}
fn no_model(name: &str) -> ApiError {
    ApiError::new(StatusCode::NOT_FOUND, format!("there is no model {name:?} here")).coded("model_not_found")
}
fn reply(value: Json) -> Response {
    ([(CONTENT_TYPE, "application/json")], value.to_string()).into_response()
}

/// The body of a request, within its limits.
async fn body(app: &App, headers: &HeaderMap, body: Body) -> Result<Bytes, ApiError> {
    let large = || {
        let message = format!("the body is larger than {} bytes", app.limits.body);
        ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, message)
    };
    let length = headers.get("content-length").and_then(|h| h.to_str().ok()?.parse::<u64>().ok());
    if length.is_some_and(|n| n > app.limits.body as u64) {
        return Err(large());
    }
    match tokio::time::timeout(app.limits.body_time, to_bytes(body, app.limits.body)).await {
        Err(_) => Err(ApiError::new(StatusCode::REQUEST_TIMEOUT, "the body did not come")),
        Ok(Err(_)) => Err(large()),
        Ok(Ok(bytes)) => Ok(bytes),
    }
}
async fn read(app: &App, request: HttpRequest) -> Result<frit_llm::chat::Value, ApiError> {
    let (parts, stream) = request.into_parts();
    let bytes = body(app, &parts.headers, stream).await?;
    let v = ask::parse(&bytes)?;
    match ask::text(&v, "model")? {
        Some(name) if name != app.name => Err(no_model(&name)),
        None => Err(ApiError::field("model", "it is missing")),
        _ => Ok(v),
    }
}

async fn embed(State(app): State<Arc<App>>, request: HttpRequest) -> Result<Response, ApiError> {
    let v = read(&app, request).await?;
    embeddings::answer(&app.worker, &app.text, &app.name, app.context, &v).await.map(reply)
}

async fn chat(State(app): State<Arc<App>>, request: HttpRequest) -> Result<Response, ApiError> {
    let v = read(&app, request).await?;
    let ask = Ask::read(&v, &app.limits, true)?;
    let prompt = ask::read_chat(&v)?;
    let form = ask::read_form(&v, &prompt)?;
    let text = app.text.clone();
    let (has_tools, shifts) = (prompt.tools.is_some(), app.limits.shifts);
    let made = tokio::task::spawn_blocking(move || {
        let Some(template) = &text.template else {
            return Err(ApiError::new(
                StatusCode::BAD_REQUEST,
                "the model has no chat template: use completions",
            ));
        };
        // without a word the model would never hear of them
        if has_tools && !template.source().contains("tools") {
            return Err(ApiError::field("tools", "the model's chat template has no place for tools"));
        }
        let rendered = template.render(&prompt).map_err(|e| ApiError::field("messages", e.to_string()))?;
        let syntax = if has_tools { Syntax::of_template(template.source()) } else { None };
        let tokens = text.tokenizer.encode_plain(&rendered);
        let keep = if shifts { Llm::beginning(&text, &prompt, &tokens) } else { 0 };
        Ok((Start { text: String::new(), tokens, keep }, syntax))
    });
    let (start, syntax) =
        made.await.map_err(|e| ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, e.to_string()))??;
    generate(app, ask, vec![start], syntax, form, true).await
}

async fn complete(State(app): State<Arc<App>>, request: HttpRequest) -> Result<Response, ApiError> {
    let v = read(&app, request).await?;
    let ask = Ask::read(&v, &app.limits, false)?;
    let prompts = ask::read_prompts(&v, "prompt", app.limits.count)?;
    let form = ask::read_form(&v, &Prompt::new(Value::UNDEFINED))?;
    let (text, size) = (app.text.clone(), app.text.tokenizer.size() as u32);
    let made = tokio::task::spawn_blocking(move || {
        let start = |p: Begin| {
            let (prompt, tokens) = match p {
                Begin::Text(t) => {
                    let ids = text.tokenizer.encode(&t);
                    // an empty prompt begins a text
                    let ids = if ids.is_empty() {
                        text.bos.or(text.ends.first().copied()).into_iter().collect()
                    } else {
                        ids
                    };
                    (t, ids)
                }
                Begin::Tokens(ids) => (text.tokenizer.decode(&ids), ids),
            };
            let keep = usize::from(text.bos.is_some() && tokens.first().copied() == text.bos);
            Start { text: prompt, tokens, keep }
        };
        prompts.into_iter().map(start).collect::<Vec<_>>()
    });
    let made = made.await.map_err(|e| ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, e.to_string()))?;
    if let Some(id) = made.iter().flat_map(|s| &s.tokens).find(|id| **id >= size) {
        return Err(ApiError::field("prompt", format!("token {id} of a model that has {size}")));
    }
    generate(app, ask, made, None, form, false).await
}

/// What one answer or several go on from.
struct Start {
    text: String,
    tokens: Vec<u32>,
    /// So many of the first are kept where the context is full.
    keep: usize,
}

/// One call: what all its pieces have in common.
struct Call {
    app: Arc<App>,
    ask: Ask,
    syntax: Option<Syntax>,
    is_chat: bool,
    /// The field that asked for a form.
    form: Option<&'static str>,
    id: String,
    created: u64,
    prompts: Vec<String>,
    prompt_tokens: usize,
}

/// Counts the answers of a call as long as it runs.
struct Active {
    app: Arc<App>,
    count: usize,
}
impl Active {
    fn begin(app: &Arc<App>, count: usize) -> Result<Active, ApiError> {
        let most = app.limits.requests;
        if count > most {
            let message = format!("{count} answers at once: this server gives {most} to all");
            return Err(ApiError::field("n", message));
        }
        let active = Active { app: app.clone(), count };
        match app.counts.active.fetch_add(count, Ordering::Relaxed) + count > most {
            true => Err(busy()),
            false => Ok(active),
        }
    }
}
impl Drop for Active {
    fn drop(&mut self) {
        self.app.counts.active.fetch_sub(self.count, Ordering::Relaxed);
    }
}
fn busy() -> ApiError {
    ApiError::new(StatusCode::TOO_MANY_REQUESTS, "too many requests run and wait")
        .coded("rate_limit_exceeded")
}

async fn generate(
    app: Arc<App>,
    ask: Ask,
    prompts: Vec<Start>,
    syntax: Option<Syntax>,
    form: Option<Form>,
    is_chat: bool,
) -> Result<Response, ApiError> {
    if !app.worker.shared.ready.load(Ordering::Acquire) {
        return Err(ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "the model is not loaded yet"));
    }
    let active = Active::begin(&app, prompts.len() * ask.count)?;
    let param = if is_chat { "messages" } else { "prompt" };
    let size = app.text.tokenizer.size();
    if let Some((token, _)) = ask.sampling.bias.iter().find(|(token, _)| *token as usize >= size) {
        return Err(ApiError::field("logit_bias", format!("token {token} of a model that has {size}")));
    }
    for Start { tokens, .. } in &prompts {
        if tokens.len() >= app.context {
            let message = format!("{} tokens, and the context has {}", tokens.len(), app.context);
            return Err(ApiError::field(param, message).coded("context_length_exceeded"));
        }
    }
    let begun = Instant::now();
    let (to, events) = mpsc::channel(BEHIND * prompts.len() * ask.count);
    let (mut tickets, mut place) = (vec![], 0);
    let number = app.counts.next.fetch_add(1, Ordering::Relaxed);
    for Start { tokens, keep, .. } in &prompts {
        for _ in 0..ask.count {
            let room = if app.limits.shifts { usize::MAX } else { app.context - tokens.len() };
            let mut request =
                Request::new(tokens.clone(), ask.max_tokens.unwrap_or(app.limits.max_tokens).min(room));
            // calls are served in turns, however many answers each wants
            request.group = number;
            request.shift = app.limits.shifts.then_some(*keep);
            request.sampling = ask.sampling.clone();
            request.sampling.prompt = tokens.len();
            request.sampling.seed = ask.sampling.seed.map(|s| s.wrapping_add(place as u64));
            request.ends = app.text.ends.iter().copied().collect();
            request.logprobs = ask.logprobs;
            if let Some(form) = &form {
                request.constraint = Some(Box::new(rule(&app, form.clone(), syntax).await?));
            }
            let ticket = app.worker.submit(request, place, to.clone()).await.map_err(|e| match e {
                Refused::Busy => busy(),
                Refused::Gone => {
                    ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "the model does not run any more")
                }
                Refused::Bad(message) => ApiError::field(param, message),
            })?;
            tickets.push(ticket);
            place += 1;
        }
    }
    drop(to);
    let call = Call {
        id: format!("{}-{:x}-{}", if is_chat { "chatcmpl" } else { "cmpl" }, now(), number),
        created: now(),
        prompt_tokens: prompts.iter().map(|s| s.tokens.len()).sum(),
        prompts: prompts.into_iter().map(|s| s.text).collect(),
        form: form.map(|f| f.param()),
        app,
        ask,
        syntax,
        is_chat,
    };
    let reading = Reading { events, tickets, begun, has_first: false, _active: active };
    if call.ask.stream { Ok(stream(call, reading)) } else { whole(call, reading).await }
}
/// A rule for an answer, made beside the tasks that serve: a large schema takes a while.
async fn rule(app: &Arc<App>, form: Form, syntax: Option<Syntax>) -> Result<Rule, ApiError> {
    let (app, param) = (app.clone(), form.param());
    let made = tokio::task::spawn_blocking(move || {
        let end = app.text.ends.first().copied().unwrap_or(0);
        app.grammars.rule(&form, &app.text.tokenizer, end, syntax)
    });
    let made = made.await.map_err(|e| ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, e.to_string()))?;
    made.map_err(|e| ApiError::field(param, e))
}
fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs())
}

/// Events of a call. When it goes, so do its requests.
struct Reading {
    events: mpsc::Receiver<Happened>,
    tickets: Vec<Ticket>,
    begun: Instant,
    has_first: bool,
    _active: Active,
}

impl Reading {
    async fn next(&mut self, counts: &Totals) -> Option<Happened> {
        let event = self.events.recv().await;
        if !self.has_first && event.is_some() {
            self.has_first = true;
            counts.first_tokens.fetch_add(1, Ordering::Relaxed);
            counts.first_token_micros.fetch_add(self.begun.elapsed().as_micros() as u64, Ordering::Relaxed);
        }
        event
    }
}

impl Call {
    fn answers(&self) -> Vec<Answer<'_>> {
        let one = |_| Answer::new(&self.app.text.tokenizer, &self.ask.stops, self.syntax);
        (0..self.prompts.len() * self.ask.count).map(one).collect()
    }
    fn usage(&self, answers: &[Answer]) -> Json {
        let made: usize = answers.iter().map(|a| a.tokens).sum();
        json!({"prompt_tokens": self.prompt_tokens, "completion_tokens": made, "total_tokens": self.prompt_tokens + made})
    }
    /// Probabilities of tokens as the two APIs have them.
    fn logprobs(&self, place: usize, told: &[Told]) -> Json {
        let tokenizer = &self.app.text.tokenizer;
        match self.ask.logprobs {
            Some(_) if !told.is_empty() && self.is_chat => logprobs::of_chat(tokenizer, told),
            Some(_) if !told.is_empty() => {
                let before = self.echo(place).chars().count();
                logprobs::of_completion(tokenizer, told, before)
            }
            _ => Json::Null,
        }
    }
    /// What of the prompt an answer begins with.
    fn echo(&self, place: usize) -> &str {
        if self.ask.echo { &self.prompts[place / self.ask.count] } else { "" }
    }
    fn reason(&self, answer: &Answer, reason: &Reason) -> &'static str {
        match reason {
            // a call that is cut off is none that a client could make
            Reason::Length | Reason::Context if !answer.is_stopped && !answer.has_called() => "length",
            _ if answer.called > 0 => "tool_calls",
            _ => "stop",
        }
    }
    /// Why there is no answer. Some grammars turn out to be too large only while they are followed.
    fn failed(&self, message: &str) -> ApiError {
        match (message.strip_prefix(grammar::WRONG), self.form) {
            (Some(message), Some(form)) => ApiError::field(form, message),
            _ => ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, message),
        }
    }
    /// What a stream's piece holds for one delta.
    fn delta(&self, delta: &Delta) -> Json {
        match delta {
            Delta::Text(text) if self.is_chat => json!({"content": text}),
            Delta::Text(text) => json!(text),
            Delta::Call { index, name } => json!({"tool_calls": [{
                "index": index, "id": self.app.ids.next(), "type": "function",
                "function": {"name": name, "arguments": ""},
            }]}),
            Delta::Arguments { index, text } => {
                json!({"tool_calls": [{"index": index, "function": {"arguments": text}}]})
            }
        }
    }
    fn piece(&self, choices: Json, usage: Json) -> Json {
        let object = if self.is_chat { "chat.completion.chunk" } else { "text_completion" };
        let mut piece = json!({
            "id": self.id, "object": object, "created": self.created, "model": self.app.name, "choices": choices,
        });
        if self.ask.usage {
            piece["usage"] = usage;
        }
        piece
    }
    fn choice(&self, place: usize, content: Json, logprobs: Json, reason: Json) -> Json {
        let field = if self.is_chat { "delta" } else { "text" };
        json!([{"index": place, field: content, "logprobs": logprobs, "finish_reason": reason}])
    }
}

/// The whole answer at once.
async fn whole(call: Call, mut reading: Reading) -> Result<Response, ApiError> {
    let mut answers = call.answers();
    let mut made: Vec<Whole> = answers.iter().map(|_| Whole::default()).collect();
    while let Some((place, what)) = reading.next(&call.app.counts).await {
        let (answer, whole) = (&mut answers[place], &mut made[place]);
        if whole.reason.is_some() {
            continue;
        }
        match what {
            What::Token(token, logprobs) => {
                whole.add(answer.push(token));
                whole.told.extend(logprobs.map(|logprobs| Told { token, at: answer.at, logprobs }));
                if answer.is_stopped {
                    whole.reason = Some("stop");
                    // dropping a ticket ends its request; the others go on
                    let gone = std::mem::take(&mut reading.tickets);
                    reading.tickets = gone.into_iter().filter(|t| t.place != place).collect();
                }
            }
            What::Done(Reason::Failed(message)) => return Err(call.failed(&message)),
            What::Done(reason) => {
                whole.add(answer.finish());
                whole.reason = Some(call.reason(answer, &reason));
            }
        }
        if made.iter().all(|w| w.reason.is_some()) {
            break;
        }
    }
    if made.iter().any(|w| w.reason.is_none()) {
        return Err(ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "the answer was dropped"));
    }
    let choice = |(place, w): (usize, &Whole)| {
        let logprobs = call.logprobs(place, &w.told);
        if !call.is_chat {
            let before = call.echo(place);
            return json!({"index": place, "text": format!("{before}{}", w.text), "logprobs": logprobs, "finish_reason": w.reason});
        }
        let mut message = json!({"role": "assistant", "content": w.text, "refusal": null});
        if !w.calls.is_empty() {
            let one = |(name, arguments): &(String, String)| {
                let function = json!({"name": name, "arguments": arguments});
                json!({"id": call.app.ids.next(), "type": "function", "function": function})
            };
            message["tool_calls"] = w.calls.iter().map(one).collect();
            if w.text.is_empty() {
                message["content"] = Json::Null;
            }
        }
        json!({"index": place, "message": message, "logprobs": logprobs, "finish_reason": w.reason})
    };
    let object = if call.is_chat { "chat.completion" } else { "text_completion" };
    let choices: Vec<Json> = made.iter().enumerate().map(choice).collect();
    Ok(reply(json!({
        "id": call.id, "object": object, "created": call.created, "model": call.app.name, "choices": choices,
        "usage": call.usage(&answers),
    })))
}

/// One answer put together.
#[derive(Default)]
struct Whole {
    text: String,
    calls: Vec<(String, String)>,
    told: Vec<Told>,
    reason: Option<&'static str>,
}

impl Whole {
    fn add(&mut self, deltas: Vec<Delta>) {
        for delta in deltas {
            match delta {
                Delta::Text(text) => self.text.push_str(&text),
                Delta::Call { name, .. } => self.calls.push((name, String::new())),
                Delta::Arguments { index, text } => {
                    if let Some(call) = self.calls.get_mut(index) {
                        call.1.push_str(&text);
                    }
                }
            }
        }
    }
}

type Pieces = mpsc::Sender<Result<Bytes, std::convert::Infallible>>;

/// Whether a client took a piece in time.
async fn put(to: &Pieces, piece: String) -> bool {
    tokio::time::timeout(PIECE_TIME, to.send(Ok(Bytes::from(piece)))).await.is_ok_and(|sent| sent.is_ok())
}

/// The answer as server-sent events. The task ends when the client leaves: a piece finds no one, and its requests go.
fn stream(call: Call, mut reading: Reading) -> Response {
    let (to, pieces) = mpsc::channel(PIECES);
    tokio::spawn(async move {
        let send = async |json: Json| put(&to, format!("data: {json}\n\n")).await;
        let mut answers = call.answers();
        let mut open = answers.len();
        if call.is_chat {
            for place in 0..answers.len() {
                let content = json!({"role": "assistant", "content": ""});
                if !send(call.piece(call.choice(place, content, Json::Null, Json::Null), Json::Null)).await {
                    return;
                }
            }
        } else if call.ask.echo {
            for place in 0..answers.len() {
                let text = json!(call.echo(place));
                if !send(call.piece(call.choice(place, text, Json::Null, Json::Null), Json::Null)).await {
                    return;
                }
            }
        }
        while open > 0 {
            let event = tokio::select! {
                event = reading.next(&call.app.counts) => event,
                // the client left while nothing was to be sent
                () = to.closed() => return,
            };
            let Some((place, what)) = event else { break };
            let answer = &mut answers[place];
            let (deltas, told, reason): (_, Vec<Told>, _) = match what {
                What::Token(..) if answer.is_stopped => continue,
                What::Done(_) if answer.is_stopped => continue,
                What::Token(token, logprobs) => {
                    let deltas = answer.push(token);
                    let reason = answer.is_stopped.then_some("stop");
                    let told = logprobs.map(|logprobs| Told { token, at: answer.at, logprobs });
                    (deltas, told.into_iter().collect(), reason)
                }
                What::Done(Reason::Failed(message)) => {
                    send(call.failed(&message).json()).await;
                    return;
                }
                What::Done(reason) => {
                    let deltas = answer.finish();
                    (deltas, vec![], Some(call.reason(answer, &reason)))
                }
            };
            if reason.is_some() {
                open -= 1;
                let gone = std::mem::take(&mut reading.tickets);
                reading.tickets = gone.into_iter().filter(|t| t.place != place).collect();
            }
            let mut logprobs = call.logprobs(place, &told);
            // tokens that gave no text yet are told of too
            let empty = (deltas.is_empty() && !told.is_empty()).then(|| Delta::Text(String::new()));
            for delta in deltas.iter().chain(&empty) {
                let choice = call.choice(place, call.delta(delta), logprobs.take(), Json::Null);
                if !send(call.piece(choice, Json::Null)).await {
                    return;
                }
            }
            if let Some(reason) = reason {
                let nothing = if call.is_chat { json!({}) } else { json!("") };
                if !send(call.piece(call.choice(place, nothing, Json::Null, json!(reason)), Json::Null)).await
                {
                    return;
                }
            }
        }
        if call.ask.usage && !send(call.piece(json!([]), call.usage(&answers))).await {
            return;
        }
        put(&to, "data: [DONE]\n\n".into()).await;
    });
    let body = Body::from_stream(tokio_stream::wrappers::ReceiverStream::new(pieces));
    ([(CONTENT_TYPE, "text/event-stream"), (CACHE_CONTROL, "no-cache")], body).into_response()
}
