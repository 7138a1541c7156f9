//! The server over a stand-in for a model, by plain sockets.

mod bodies;
mod connections;
mod tools;

use super::Options;
use super::ask::Limits;
use super::connections::{Bounds, serve};
use super::grammar::Grammars;
use super::http::{App, listen, router};
use super::ids::Ids;
use super::metrics::Totals;
use super::worker::{Gauges, Runner, Worker};
use frit_llm::chat::{Template, Text};
use frit_llm::engine::{Counts, Event, Id, Logprobs, Reason, Request};
use frit_tokenize::Tokenizer;
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

const CALL: &str =
    "Wait.\n<tool_call>\n{\"name\": \"add\", \"arguments\": {\"a\": 1, \"b\": [2]}}\n</tool_call>";

/// Says what the prompt asks for, a token a step.
struct Parrot {
    text: Tokenizer,
    running: Vec<(Id, Vec<u32>, Request)>,
    next: Id,
    cancelled: Arc<AtomicUsize>,
}

impl Runner for Parrot {
    fn submit(&mut self, request: Request) -> Result<Id, String> {
        let prompt = self.text.decode_all(&request.tokens);
        let answer = match () {
            () if prompt.contains("refused") => return Err("it is refused".into()),
            () if prompt.contains("endless") => "a ".repeat(1 << 16),
            () if prompt.contains("break down") => panic!("a test breaks the thread down"),
            () if prompt.contains("call it") => CALL.to_string(),
            () if prompt.contains("how long") => {
                format!("{} {}", request.sampling.prompt, request.tokens.len())
            }
            () if prompt.contains("say it back") => prompt,
            () if prompt.contains("a crab") => "ö🦀 b".to_string(),
            () => "Hello from größer frit!".to_string(),
        };
        let mut tokens = self.text.encode_plain(&answer);
        tokens.reverse();
        self.next += 1;
        self.running.push((self.next, tokens, request));
        Ok(self.next)
    }
    fn cancel(&mut self, id: Id) {
        self.running.retain(|r| r.0 != id);
        self.cancelled.fetch_add(1, Ordering::Relaxed);
    }
    fn step(&mut self) -> Result<Vec<Event>, String> {
        let mut events = vec![];
        self.running.retain_mut(|(id, tokens, request)| {
            let mut done = |reason| events.push(Event::Done { id: *id, reason });
            if request.max_tokens == 0 {
                done(Reason::Length);
                return false;
            }
            request.max_tokens -= 1;
            let mut token = tokens.pop();
            if let Some(rule) = &mut request.constraint {
                // blanks if they are asked for, else the end of an object, else the first that is not blank, or any
                let mut logits = vec![0.0; self.text.size() + 7];
                if let Err(e) = rule.mask(&mut logits) {
                    done(Reason::Failed(e.message().into()));
                    return false;
                }
                let is_text = |id: &u32| !self.text.bytes(*id).unwrap_or_default().trim_ascii().is_empty();
                let mut may = (1..logits.len() as u32).filter(|id| logits[*id as usize] == 0.0);
                let is_blank =
                    |id: &u32| matches!(self.text.bytes(*id).as_deref(), Some(b" " | b"\n" | b"\t"));
                let is_end = |id: &u32| self.text.bytes(*id).as_deref() == Some(b"}");
                let blank = self
                    .text
                    .decode_all(&request.tokens)
                    .contains("blanks")
                    .then(|| may.clone().find(is_blank));
                token = blank
                    .flatten()
                    .or_else(|| may.clone().find(is_end))
                    .or_else(|| may.clone().find(is_text));
                token = token.or_else(|| may.next());
                match token.map(|t| rule.accept(t)) {
                    Some(Ok(true)) => {
                        tokens.clear();
                        request.constraint = None;
                    }
                    Some(Err(e)) => {
                        done(Reason::Failed(e.message().into()));
                        return false;
                    }
                    _ => {}
                }
            }
            let Some(token) = token else {
                done(Reason::End);
                return false;
            };
            let top = |n| (0..n as u32).map(|i| (if i == 0 { token } else { 300 + i }, -0.5)).collect();
            let logprobs = request.logprobs.map(|n| Logprobs { token: -0.5, top: top(n) });
            events.push(Event::Token { id: *id, token, logprobs });
            true
        });
        std::thread::sleep(Duration::from_micros(200));
        Ok(events)
    }
    fn is_idle(&self) -> bool {
        self.running.is_empty()
    }
    fn gauges(&self) -> Gauges {
        let counts = Counts { drafted: 70, accepted: 50, ..Counts::default() };
        Gauges { counts, running: self.running.len(), ..Gauges::default() }
    }
    fn embed(&mut self, tokens: &[u32]) -> Result<Vec<f32>, String> {
        match self.text.decode_all(tokens).contains("refused") {
            true => Err("it is refused".into()),
            false => Ok(vec![tokens.len() as f32, 0.5]),
        }
    }
}

struct Server {
    address: SocketAddr,
    cancelled: Arc<AtomicUsize>,
    worker: Worker,
    runtime: tokio::runtime::Runtime,
    stop: tokio::sync::watch::Sender<bool>,
}

fn file(name: &str) -> String {
    format!("{}/../../tests-data/{name}", env!("CARGO_MANIFEST_DIR"))
}
fn start(key: Option<&str>, requests: usize) -> Server {
    Setup { key: key.map(str::to_string), requests, ..Setup::default() }.start()
}

/// How a server of a test differs from others.
struct Setup {
    key: Option<String>,
    requests: usize,
    bounds: Bounds,
    body_time: Duration,
    template: &'static str,
    /// Tokens that stand for something, beside those of the tokeniser.
    marks: &'static [&'static str],
}
impl Default for Setup {
    fn default() -> Setup {
        Setup {
            key: None,
            requests: 16,
            bounds: Bounds { most: None, header: Duration::from_secs(20) },
            body_time: Duration::from_secs(20),
            template: "marked",
            marks: &[],
        }
    }
}

impl Setup {
    fn tokenizer(&self) -> Tokenizer {
        let text = std::fs::read_to_string(file("tokenize/bytes.json")).unwrap();
        let mut json: Value = serde_json::from_str(&text).unwrap();
        let added = json["added_tokens"].as_array_mut().unwrap();
        for (i, mark) in self.marks.iter().enumerate() {
            added.push(json!({"id": 702 + i, "content": mark, "special": true, "normalized": false,
                "single_word": false, "lstrip": false, "rstrip": false}));
        }
        Tokenizer::from_json(&json.to_string()).unwrap()
    }
    fn start(self) -> Server {
        let template = std::fs::read_to_string(file(&format!("chat/{}.jinja", self.template))).unwrap();
        let template = Template::new(&template, "", "").unwrap();
        let cancelled = Arc::new(AtomicUsize::new(0));
        let parrot =
            Parrot { text: self.tokenizer(), running: vec![], next: 0, cancelled: cancelled.clone() };
        let worker = Worker::start(move || Ok(parrot));
        let app = Arc::new(App {
            worker: worker.clone(),
            text: Arc::new(Text {
                tokenizer: self.tokenizer(),
                template: Some(template),
                bos: None,
                ends: [0].into(),
            }),
            grammars: Grammars::new(),
            ids: Ids::new(1),
            name: "parrot".into(),
            key: self.key,
            limits: Limits {
                body: 1 << 20,
                body_time: self.body_time,
                count: 4,
                requests: self.requests,
                max_tokens: 1 << 20,
                shifts: false,
            },
            context: 1 << 20,
            counts: Totals::default(),
        });
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let listener = runtime.block_on(listen("127.0.0.1:0")).unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, is_over) = tokio::sync::watch::channel(false);
        runtime.spawn(serve(listener, router(app), self.bounds, is_over));
        while !worker.shared.ready.load(Ordering::Acquire) {
            std::thread::sleep(Duration::from_millis(1));
        }
        Server { address, cancelled, worker, runtime, stop }
    }
}

impl Server {
    fn send(&self, method: &str, path: &str, headers: &str, body: &[u8]) -> TcpStream {
        self.send_by(TcpStream::connect(self.address).unwrap(), method, path, headers, body)
    }
    fn send_by(
        &self,
        mut socket: TcpStream,
        method: &str,
        path: &str,
        headers: &str,
        body: &[u8],
    ) -> TcpStream {
        socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let length = body.len();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {length}\r\n{headers}\r\n"
        );
        socket.write_all(head.as_bytes()).unwrap();
        // a server that answers early may not read all of it
        let _ = socket.write_all(body);
        socket
    }
    /// The status and the body.
    fn ask(&self, method: &str, path: &str, headers: &str, body: &[u8]) -> (u16, String) {
        let mut all = vec![];
        let _ = self.send(method, path, headers, body).read_to_end(&mut all);
        let all = String::from_utf8(all).unwrap();
        let (head, body) = all.split_once("\r\n\r\n").unwrap_or((&all, ""));
        let status = head.split(' ').nth(1).unwrap_or_else(|| panic!("{head:?}")).parse().unwrap();
        let body = if head.contains("chunked") { unchunked(body) } else { body.to_string() };
        (status, body)
    }
    fn post(&self, path: &str, body: &Value) -> (u16, Value) {
        let (status, text) = self.ask("POST", path, "", body.to_string().as_bytes());
        (status, serde_json::from_str(&text).unwrap_or_else(|e| panic!("{e}: {text}")))
    }
    fn stream(&self, path: &str, body: &Value) -> Vec<Value> {
        let (status, text) = self.ask("POST", path, "", body.to_string().as_bytes());
        assert_eq!(status, 200, "{text}");
        let mut lines: Vec<&str> = text.split("\n\n").filter(|l| !l.is_empty()).collect();
        assert_eq!(lines.pop(), Some("data: [DONE]"));
        lines.iter().map(|l| serde_json::from_str(l.strip_prefix("data: ").unwrap()).unwrap()).collect()
    }
}
fn unchunked(body: &str) -> String {
    let (mut out, mut rest) = (vec![], body.as_bytes());
    while let Some(at) = rest.windows(2).position(|w| w == b"\r\n") {
        let size = usize::from_str_radix(std::str::from_utf8(&rest[..at]).unwrap(), 16).unwrap();
        out.extend(&rest[at + 2..at + 2 + size]);
        rest = &rest[at + 4 + size..];
    }
    String::from_utf8(out).unwrap()
}
fn chat(text: &str) -> Value {
    json!({"model": "parrot", "messages": [{"role": "user", "content": text}]})
}
fn with(mut body: Value, more: Value) -> Value {
    more.as_object().unwrap().iter().for_each(|(k, v)| body[k] = v.clone());
    body
}

#[test]
fn answers_come_whole_and_in_pieces() {
    let s = start(None, 16);
    let (status, body) = s.post("/v1/chat/completions", &chat("hi"));
    assert_eq!(
        (status, &body["choices"][0]["message"]["content"]),
        (200, &json!("Hello from größer frit!")),
        "{body}"
    );
    assert_eq!(body["choices"][0]["finish_reason"], "stop");
    assert_eq!(
        body["usage"]["total_tokens"],
        body["usage"]["prompt_tokens"].as_u64().unwrap()
            + body["usage"]["completion_tokens"].as_u64().unwrap()
    );
    let pieces = s.stream(
        "/v1/chat/completions",
        &with(chat("hi"), json!({"stream": true, "stream_options": {"include_usage": true}})),
    );
    let text: String = pieces.iter().filter_map(|p| p["choices"][0]["delta"]["content"].as_str()).collect();
    assert_eq!(text, "Hello from größer frit!");
    assert_eq!(pieces[0]["choices"][0]["delta"]["role"], "assistant");
    let last = pieces.last().unwrap();
    assert_eq!(
        (&last["choices"], &last["usage"]["completion_tokens"]),
        (&json!([]), &body["usage"]["completion_tokens"])
    );
    assert!(pieces[..pieces.len() - 1].iter().all(|p| p["usage"].is_null()));
    let (_, body) = s.post(
        "/v1/completions",
        &json!({"model": "parrot", "prompt": ["x", "y"], "n": 2, "echo": true, "max_tokens": 3}),
    );
    assert_eq!(body["choices"].as_array().unwrap().len(), 4, "{body}");
    assert!(body["choices"][3]["text"].as_str().unwrap().starts_with('y'));
    assert_eq!(
        (&body["choices"][3]["finish_reason"], &body["usage"]["completion_tokens"]),
        (&json!("length"), &json!(12))
    );
}

#[test]
fn stops_tools_and_probabilities_are_as_the_api_has_them() {
    let s = start(None, 16);
    for stop in [json!("größer"), json!(["zzz", "größ", "from g"])] {
        let (_, body) = s.post("/v1/chat/completions", &with(chat("hi"), json!({"stop": stop})));
        let text = body["choices"][0]["message"]["content"].as_str().unwrap().trim_end();
        assert!(text == "Hello from" || text == "Hello", "{body}");
        assert_eq!(body["choices"][0]["finish_reason"], "stop");
    }
    let tool = json!({"type": "function", "function": {"name": "add", "parameters": {"properties": {}, "required": []}}});
    let body = with(chat("call it"), json!({"tools": [tool]}));
    let (_, whole) = s.post("/v1/chat/completions", &body);
    let message = &whole["choices"][0]["message"];
    assert_eq!(
        (&message["content"], &whole["choices"][0]["finish_reason"]),
        (&json!("Wait."), &json!("tool_calls")),
        "{whole}"
    );
    assert_eq!(
        message["tool_calls"][0]["function"],
        json!({"name": "add", "arguments": "{\"a\": 1, \"b\": [2]}"})
    );
    let pieces = s.stream("/v1/chat/completions", &with(body, json!({"stream": true})));
    let calls: Vec<&Value> =
        pieces.iter().map(|p| &p["choices"][0]["delta"]["tool_calls"][0]).filter(|c| !c.is_null()).collect();
    assert!(calls.len() > 2 && calls[0]["id"].is_string());
    let arguments: String = calls.iter().filter_map(|c| c["function"]["arguments"].as_str()).collect();
    assert_eq!(arguments, "{\"a\": 1, \"b\": [2]}");
    let (_, body) = s.post(
        "/v1/chat/completions",
        &with(chat("hi"), json!({"logprobs": true, "top_logprobs": 2, "n": 2})),
    );
    let told = &body["choices"][1]["logprobs"]["content"];
    assert_eq!(
        (&told[0]["logprob"], told[0]["top_logprobs"].as_array().unwrap().len()),
        (&json!(-0.5), 2),
        "{body}"
    );
}

#[test]
fn forms_and_tools_are_enforced() {
    let s = start(None, 16);
    let schema = json!({
        "type": "object", "required": ["unit", "ok"], "additionalProperties": false,
        "properties": {"unit": {"enum": ["größer"]}, "ok": {"type": "boolean"}},
    });
    let format = json!({"type": "json_schema", "json_schema": {"name": "x", "schema": schema}});
    let (_, body) = s.post("/v1/chat/completions", &with(chat("hi"), json!({"response_format": format})));
    let text = body["choices"][0]["message"]["content"].as_str().unwrap_or_else(|| panic!("{body}"));
    let made: Value = serde_json::from_str(text).unwrap_or_else(|e| panic!("{e}: {text}"));
    assert!(made["unit"] == "größer" && made["ok"].is_boolean(), "{made}");
    let tool = |name: &str| {
        let parameters = json!({"type": "object", "properties": {"a": {"enum": [name]}}, "required": ["a"], "additionalProperties": false});
        json!({"type": "function", "function": {"name": name, "parameters": parameters}})
    };
    let choices =
        [(json!("required"), "add"), (json!({"type": "function", "function": {"name": "sub"}}), "sub")];
    for (choice, wanted) in choices {
        let more = json!({"tools": [tool("add"), tool("sub")], "tool_choice": choice});
        let (_, body) = s.post("/v1/chat/completions", &with(chat("hi"), more));
        assert_eq!(body["choices"][0]["finish_reason"], "tool_calls", "{body}");
        let call = &body["choices"][0]["message"]["tool_calls"][0]["function"];
        let arguments: Value = serde_json::from_str(call["arguments"].as_str().unwrap()).unwrap();
        assert_eq!(call["name"], arguments["a"], "{body}");
        assert!(choice == "required" || call["name"] == wanted, "{body}");
    }
    let (_, body) = s.post(
        "/v1/completions",
        &json!({"model": "parrot", "prompt": "x", "grammar": "start: \"frit\" /[0-9]{3}/"}),
    );
    let text = body["choices"][0]["text"].as_str().unwrap_or_else(|| panic!("{body}"));
    assert!(text.len() == 7 && text.starts_with("frit"), "{text}");
    for bad in [json!({"response_format": {"type": "json_schema"}}), json!({"grammar": "start: ("})] {
        assert_eq!(s.post("/v1/chat/completions", &with(chat("hi"), bad)).0, 400);
    }
}

#[test]
fn bad_requests_get_the_right_status_and_an_error() {
    let s = start(None, 16);
    let bad = [
        (json!({"messages": []}), 400, "model"),
        (json!({"model": "other", "messages": [{"role": "user", "content": "x"}]}), 404, "other"),
        (json!({"model": "parrot"}), 400, "messages"),
        (json!({"model": "parrot", "messages": []}), 400, "empty"),
        (
            json!({"model": "parrot", "messages": [{"role": "robot", "content": "x"}]}),
            400,
            "messages[0].role",
        ),
        (json!({"model": "parrot", "messages": [{"role": "user"}]}), 400, "messages[0].content"),
        (
            json!({"model": "parrot", "messages": [{"role": "user", "content": [{"type": "image_url"}]}]}),
            400,
            "image_url",
        ),
        (
            json!({"model": "parrot", "messages": [{"role": "user", "content": "x"}, {"role": "system", "content": "y"}]}),
            400,
            "comes first",
        ),
        (with(chat("x"), json!({"temperature": 3})), 400, "temperature"),
        (with(chat("x"), json!({"temperature": "hot"})), 400, "no number"),
        (with(chat("x"), json!({"n": 99})), 400, "n:"),
        (with(chat("x"), json!({"n": 1.5})), 400, "whole"),
        (with(chat("x"), json!({"max_tokens": 0})), 400, "max_tokens"),
        (with(chat("x"), json!({"stop": ["a", "b", "c", "d", "e"]})), 400, "stop"),
        (with(chat("x"), json!({"logit_bias": {"x": 1}})), 400, "logit_bias"),
        (with(chat("x"), json!({"top_logprobs": 2})), 400, "logprobs"),
        (with(chat("x"), json!({"stream_options": {}})), 400, "stream"),
        (with(chat("x"), json!({"tools": [{}]})), 400, "tools"),
        (with(chat("x"), json!({"tool_choice": "required"})), 400, "no tools"),
        (with(chat("x"), json!({"response_format": {"type": "music"}})), 400, "music"),
        (chat("refused"), 400, "refused"),
        (chat(&"long ".repeat(300_000)), 413, "larger"),
    ];
    for (body, wanted, word) in bad {
        let (status, answer) = s.post("/v1/chat/completions", &body);
        let message = answer["error"]["message"].as_str().unwrap_or_else(|| panic!("{answer}"));
        assert!(status == wanted && message.contains(word), "{status} {message}, not {wanted} {word}");
    }
    let raw: [(&str, &str, &[u8], u16); 8] = [
        ("POST", "/v1/chat/completions", b"{", 400),
        ("POST", "/v1/chat/completions", b"[]", 400),
        ("POST", "/v1/chat/completions", b"\xff\xfe", 400),
        ("POST", "/v1/completions", b"{\"model\": \"parrot\", \"prompt\": [99999999]}", 400),
        ("POST", "/v1/embeddings", b"{\"model\": \"parrot\", \"input\": [\"x\", 3]}", 400),
        ("GET", "/v1/chat/completions", b"", 405),
        ("GET", "/nowhere", b"", 404),
        ("GET", "/v1/models/other", b"", 404),
    ];
    for (method, path, body, wanted) in raw {
        let (status, text) = s.ask(method, path, "", body);
        let error: Value = serde_json::from_str(&text).unwrap_or_else(|e| panic!("{path}: {e}: {text}"));
        assert!(status == wanted && error["error"]["message"].is_string(), "{path}: {status} {text}");
    }
    assert_eq!(s.post("/v1/chat/completions", &chat("hi")).0, 200);
}

#[test]
fn keys_are_asked_for_and_limits_hold() {
    let s = start(Some("secret"), 1);
    let body = chat("hi").to_string();
    for (header, wanted) in
        [("", 401), ("authorization: Bearer wrong\r\n", 401), ("authorization: Bearer secret\r\n", 200)]
    {
        assert_eq!(s.ask("POST", "/v1/chat/completions", header, body.as_bytes()).0, wanted, "{header}");
    }
    assert_eq!(s.ask("GET", "/health", "", b""), (200, "{\"status\":\"ok\"}".into()));
    assert!(s.ask("GET", "/", "", b"").1.contains("<title>frit</title>"));
    let endless = with(chat("endless"), json!({"stream": true})).to_string();
    let mut first =
        s.send("POST", "/v1/chat/completions", "authorization: Bearer secret\r\n", endless.as_bytes());
    first.read_exact(&mut [0; 200]).unwrap();
    let (status, text) =
        s.ask("POST", "/v1/chat/completions", "authorization: Bearer secret\r\n", body.as_bytes());
    assert_eq!(status, 429, "{text}");
    let metrics = s.ask("GET", "/metrics", "", b"").1;
    assert!(
        metrics.contains("frit_requests_total 5\n") && metrics.contains("frit_errors_total 3\n"),
        "{metrics}"
    );
    let drafts = ["frit_drafted_tokens_total 70\n", "frit_accepted_tokens_total 50\n"];
    assert!(drafts.iter().all(|line| metrics.contains(line)), "{metrics}");
}

/// Waits until something is so.
fn until(what: impl Fn() -> bool) {
    let start = Instant::now();
    while !what() {
        assert!(start.elapsed() < Duration::from_secs(60), "it does not happen");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn embeddings_come_in_either_form_with_what_they_cost() {
    let s = start(None, 8);
    let ask = |more: Value| s.post("/v1/embeddings", &with(json!({"model": "parrot"}), more));
    let (status, v) = ask(json!({"input": ["aaa", "b"]}));
    assert_eq!((status, v["object"].as_str()), (200, Some("list")), "{v}");
    let lengths: Vec<f64> = (0..2).map(|i| v["data"][i]["embedding"][0].as_f64().unwrap()).collect();
    assert_eq!(v["data"][1]["index"], 1);
    assert_eq!(v["usage"]["prompt_tokens"].as_f64(), Some(lengths.iter().sum()));
    // the same as bytes: a float32 of the count, then of a half
    let (_, v) = ask(json!({"input": [1, 2, 3], "encoding_format": "base64", "dimensions": 2}));
    assert_eq!(v["data"][0]["embedding"], "AABAQAAAAD8=");
    let refused = [
        (json!({}), "input"),
        (json!({"input": []}), "0 texts"),
        (json!({"input": "x", "encoding_format": "hex"}), "hex"),
        (json!({"input": "x", "dimensions": 3}), "2 elements"),
        (json!({"input": "refused"}), "refused"),
    ];
    for (more, says) in refused {
        let (status, v) = ask(more);
        let message = v["error"]["message"].as_str().unwrap_or_else(|| panic!("{v}"));
        assert!(status == 400 && message.contains(says), "{status} {message}");
    }
}

#[test]
fn tokens_that_are_part_of_a_character_have_bytes_names_and_places() {
    let s = start(None, 16);
    let (_, body) =
        s.post("/v1/chat/completions", &with(chat("a crab"), json!({"logprobs": true, "top_logprobs": 1})));
    let told = body["choices"][0]["logprobs"]["content"].as_array().unwrap_or_else(|| panic!("{body}"));
    let bytes =
        |t: &Value| t["bytes"].as_array().unwrap().iter().map(|b| b.as_u64().unwrap() as u8).collect();
    let all: Vec<Vec<u8>> = told.iter().map(bytes).collect();
    assert_eq!(String::from_utf8(all.concat()).as_deref(), Ok("ö🦀 b"), "{body}");
    let parts: Vec<&str> = told.iter().filter_map(|t| t["token"].as_str()?.strip_prefix("bytes:")).collect();
    assert!(parts.concat().ends_with(r"\xf0\x9f\xa6\x80"), "{body}");
    assert_eq!(told[0]["token"], told[0]["top_logprobs"][0]["token"]);
    // places count characters of the text, in pieces as well, behind what is repeated of the prompt
    let body = json!({"model": "parrot", "prompt": "für a crab", "logprobs": 5, "echo": true});
    let (_, whole) = s.post("/v1/completions", &body);
    let whole = &whole["choices"][0];
    let (text, told) = (whole["text"].as_str().unwrap(), &whole["logprobs"]);
    let names = told["tokens"].as_array().unwrap();
    for (i, name) in names.iter().map(|n| n.as_str().unwrap()).enumerate() {
        let at = told["text_offset"][i].as_u64().unwrap() as usize;
        let here: String = text.chars().skip(at).collect();
        assert!(name.starts_with("bytes:") || here.starts_with(name), "{name} at {at}: {whole}");
        assert_eq!(told["top_logprobs"][i].as_object().unwrap().len(), 5, "{whole}");
    }
    assert_eq!(told["text_offset"][0], 10);
    let pieces = s.stream("/v1/completions", &with(body, json!({"stream": true})));
    let offsets = pieces.iter().filter_map(|p| p["choices"][0]["logprobs"]["text_offset"].as_array());
    assert_eq!(json!(offsets.flatten().collect::<Vec<_>>()), told["text_offset"]);
}

#[test]
fn a_call_that_is_cut_off_is_not_one() {
    let s = start(None, 16);
    let tool = json!({"type": "function", "function": {"name": "add", "parameters": {"properties": {}, "required": []}}});
    let tokenizer = Tokenizer::load(file("tokenize/bytes.json")).unwrap();
    let named = tokenizer.encode_plain(&CALL[..CALL.find("\"b\"").unwrap()]).len();
    let body = with(chat("call it"), json!({"tools": [tool]}));
    for (more, wanted) in [(json!({"max_tokens": named}), "length"), (json!({}), "tool_calls")] {
        let (_, whole) = s.post("/v1/chat/completions", &with(body.clone(), more.clone()));
        assert_eq!(whole["choices"][0]["finish_reason"], wanted, "{whole}");
        assert_eq!(whole["choices"][0]["message"]["tool_calls"][0]["function"]["name"], "add", "{whole}");
        let pieces =
            s.stream("/v1/chat/completions", &with(with(body.clone(), more), json!({"stream": true})));
        assert_eq!(pieces.last().unwrap()["choices"][0]["finish_reason"], wanted);
    }
}

#[test]
fn answers_are_counted_and_not_calls() {
    let s = start(None, 4);
    let many = |n: usize| with(chat("hi"), json!({"n": n}));
    let endless = with(chat("endless"), json!({"stream": true, "n": 3})).to_string();
    let mut first = s.send("POST", "/v1/chat/completions", "", endless.as_bytes());
    first.read_exact(&mut [0; 200]).unwrap();
    assert_eq!(s.post("/v1/chat/completions", &many(2)).0, 429);
    assert_eq!(s.post("/v1/chat/completions", &many(1)).0, 200);
    drop(first);
    until(|| s.worker.gauges().running == 0);
    until(|| s.post("/v1/chat/completions", &many(4)).0 == 200);
    // more than there can ever be is the caller's mistake
    let (status, v) =
        s.post("/v1/completions", &json!({"model": "parrot", "prompt": ["a", "b", "c"], "n": 2}));
    assert_eq!((status, &v["error"]["param"]), (400, &json!("n")), "{v}");
}

#[test]
fn forms_that_make_no_sense_are_the_callers_mistake() {
    let s = start(None, 16);
    let schema = |schema: Value| json!({"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}});
    let words: Vec<String> = (0..20_000).map(|i| format!("\"w{i}x{}\"", i * 7919)).collect();
    let tool = json!({"type": "function", "function": {"name": "add", "parameters": {"type": "nothing", "properties": {}, "required": []}}});
    let bad = [
        (schema(json!({"$ref": "#"})), "response_format"),
        (
            schema(
                json!({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}}),
            ),
            "response_format",
        ),
        (json!({"grammar": format!("start: {}", words.join(" | "))}), "grammar"),
        (json!({"grammar": "start: ("}), "grammar"),
        (json!({"tools": [tool], "tool_choice": "required"}), "tools"),
        (json!({"logit_bias": {"9999999": 1}}), "logit_bias"),
        (json!({"seed": 1.5}), "seed"),
        (json!({"best_of": 3}), "best_of"),
        (json!({"functions": []}), "functions"),
    ];
    for (more, param) in bad {
        let (status, v) = s.post("/v1/chat/completions", &with(chat("hi"), more));
        assert_eq!((status, &v["error"]["param"]), (400, &json!(param)), "{v}");
        let message = v["error"]["message"].as_str().unwrap();
        assert!(message.len() < 600 && !message.contains('\n'), "{message}");
    }
    let suffix = json!({"model": "parrot", "prompt": "x", "suffix": "y"});
    assert_eq!(s.post("/v1/completions", &suffix).1["error"]["param"], "suffix");
    for seed in [json!(1u64 << 62), json!(u64::MAX), json!(i64::MIN), json!(-1)] {
        assert_eq!(s.post("/v1/chat/completions", &with(chat("hi"), json!({"seed": seed}))).0, 200, "{seed}");
    }
}

#[test]
fn a_model_whose_thread_broke_down_is_not_well() {
    let s = start(None, 16);
    assert_eq!(s.ask("GET", "/health", "", b"").0, 200);
    assert_eq!(s.post("/v1/chat/completions", &chat("break down")).0, 503);
    until(|| s.ask("GET", "/health", "", b"").0 == 500);
    assert_eq!(s.post("/v1/chat/completions", &chat("hi")).0, 503);
}

#[test]
fn keys_may_be_any_bytes_and_options_say_what_they_mean() {
    let s = start(Some("schlüssel"), 4);
    assert_eq!(s.ask("GET", "/v1/models", "authorization: Bearer schlüssel\r\n", b"").0, 200);
    assert_eq!(s.ask("GET", "/v1/models", "authorization: Bearer schlussel\r\n", b"").0, 401);
    let read = |word: &str| Options::read("m.gguf", &[word]);
    for word in
        ["--api-key=", "--merge=perhaps", "--deterministic=1", "--cache=f8", "--budget=0", "--parallel"]
    {
        assert!(read(word).is_err(), "{word}");
    }
    assert!(read("--deterministic").is_ok_and(|o| o.deterministic));
    assert!(read("--deterministic=no").is_ok_and(|o| !o.deterministic));
    assert!(read("--merge=no").is_ok_and(|o| !o.is_merged));
    assert!(read("--shift").is_ok_and(|o| o.limits.shifts));
    // values come after a blank too, and flags need none
    let both =
        ["--port", "9", "--shift", "--merge", "no", "--context=3", "--deterministic", "--parallel", "5"];
    let o = Options::read("m.gguf", &both).unwrap();
    assert_eq!((o.port, o.context, o.parallel), (9, Some(3), 5));
    assert!(o.limits.shifts && !o.is_merged && o.deterministic);
    for bad in [&["--port", "--shift"][..], &["--port"], &["8080"], &["--shift", "9"], &["--port=1", "2"]] {
        assert!(Options::read("m.gguf", bad).is_err(), "{bad:?}");
    }
    // no one else on the network is let in unless it is asked for
    let o = Options::read("m.gguf", &[]).unwrap();
    assert_eq!((o.host.as_str(), o.port), ("127.0.0.1", 8080));
}

#[test]
fn penalties_are_told_where_the_answer_begins() {
    let s = start(None, 16);
    let (_, v) =
        s.post("/v1/completions", &json!({"model": "parrot", "prompt": "how long", "frequency_penalty": 1}));
    let said = v["choices"][0]["text"].as_str().unwrap().trim();
    let (prompt, all) = said.split_once(' ').unwrap();
    assert!(prompt == all && prompt != "0", "{v}");
}
