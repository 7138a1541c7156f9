//! `frit serve MODEL`: OpenAI's API over a model.
//!
//! ```text
//! http  ->  ask  ->  worker  ->  answer  ->  http
//! ```
//!
//! - `ask` reads and checks bodies, `error` says what is wrong with them;
//! - `worker` is the one thread that owns the model;
//! - `grammar` holds answers to a form;
//! - `answer` makes text and tool calls of tokens, `logprobs` tells their probabilities, `embeddings` makes vectors of texts;
//! - `ids` names tool calls, `metrics` counts what happened;
//! - `http` has the routes, `connections` the sockets, `linger` what is not read of bodies.

mod error;
mod worker;
mod grammar;
mod ids;
mod ask;
mod answer;
mod logprobs;
mod embeddings;
mod metrics;
mod http;
mod linger;
mod connections;
#[cfg(test)]
mod tests;

use crate::llm::options::cache;
use crate::progress::Progress;
use ask::Limits;
use connections::Bounds;
use frit_llm::Products;
use frit_llm::cache::CacheType;
use frit_llm::engine::{Engine, Settings};
use grammar::Grammars;
use http::App;
use ids::Ids;
use metrics::Totals;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::sync::watch;
use worker::{Embeds, Runner, Worker};

pub const HELP: &str = "\
frit serve MODEL: a model for OpenAI's clients; an encoder answers /v1/embeddings, the others everything else

usage:
  frit serve MODEL [OPTION=VALUE...]
                               or OPTION VALUE; MODEL is a GGUF file, or a folder with config.json, safetensors and tokenizer.json

options:
  --host=127.0.0.1             the address that it listens at
  --port=8080                  and the port; 0 for any that is free
  --api-key=KEY                what clients must send; also from the environment, as FRIT_API_KEY
  --name=NAME                  what the model is called (its file's name)
  --context=N                  positions of a sequence (what the model was made for)
  --shift                      an answer goes on at the end of the context, without the oldest half behind the system message
                               (it ends there)
  --positions=N                positions of all sequences together (16384)
  --parallel=N                 sequences that run at once (8)
  --requests=N                 answers that are made and wait, more are refused (256)
  --max-tokens=N               tokens of an answer at most (4096)
  --connections=N              connections at once (as many as the system lets a process have files open); where there are
                               more, those that wait for a request are closed, the longest first
  --body=BYTES                 the largest body (8388608)
  --adapter=FOLDER             what frit finetune or PEFT made of it; --merge takes it into the weights
  --products=rounded|bytes|float
                               few tokens are rounded to bytes for quantised weights, many to bfloat16 on a GPU, and with AMX
                               for quantised weights (without AMX to two bytes, if it has VNNI); or many to one byte
                               too; or all is float32 (rounded)
  --cache=f32|f16|bf16|int8    how keys and values are kept (f16)
  --draft=MODEL                a smaller model of the same tokens, which proposes several tokens at once to one that is alone
  --budget=N                   tokens of a step: more read long prompts faster, fewer let answers beside them wait less (512)
  --deterministic              an answer depends on its request alone: each is computed in steps of its own, more slowly, in float32
                               and without the draft. Otherwise a seed fixes what is drawn, but the last bits of logits may
                               depend on what runs beside it, and so which of two tokens comes that are nearly as likely

routes:
  /v1/models  /v1/chat/completions  /v1/completions  /v1/embeddings  /health  /metrics  / (a chat page)
";

/// How long answers may take to end when the server is stopped.
const FAREWELL: Duration = Duration::from_secs(30);

/// How long a connection may take for a request's header, or wait for its next request.
const HEADER_TIME: Duration = Duration::from_secs(30);

/// A body that does not come in this time is no longer waited for.
const BODY_TIME: Duration = Duration::from_secs(60);

/// How a process ends that was interrupted.
const INTERRUPTED: i32 = 130;

/// What is said on the command line.
pub struct Options {
    host: String,
    port: u16,
    key: Option<String>,
    pub name: String,
    pub context: Option<usize>,
    pub positions: usize,
    pub parallel: usize,
    pub deterministic: bool,
    cache: CacheType,
    draft: Option<PathBuf>,
    budget: usize,
    adapter: Option<PathBuf>,
    is_merged: bool,
    products: Products,
    limits: Limits,
    connections: Option<usize>,
}

impl Options {
    pub fn read(model: &str, words: &[&str]) -> Result<Options, String> {
        let stem = Path::new(model).file_stem().map_or("model".into(), |s| s.to_string_lossy().into_owned());
        let mut o = Options {
            host: "127.0.0.1".into(),
            port: 8080,
            key: std::env::var("FRIT_API_KEY").ok().filter(|k| !k.is_empty()),
            name: stem,
            context: None,
            positions: 16384,
            parallel: 8,
            deterministic: false,
            cache: CacheType::default(),
            draft: None,
            budget: Settings::default().budget,
            adapter: None,
            is_merged: false,
            products: Products::default(),
            limits: Limits {
                body: 8 << 20,
                body_time: BODY_TIME,
                count: 16,
                requests: 256,
                max_tokens: 4096,
                shifts: false,
            },
            connections: None,
        };
        let mut rest = words.iter().peekable();
        while let Some(word) = rest.next() {
            let (name, value) = match word.split_once('=') {
                Some((name, value)) => (name, Some(value)),
                None => (*word, rest.next_if(|next| !next.starts_with("--")).copied()),
            };
            let flag = || match value {
                None | Some("yes") => Ok(true),
                Some("no") => Ok(false),
                Some(other) => Err(format!("{name} is yes or no, not {other:?}")),
            };
            let text = || value.filter(|v| !v.is_empty()).ok_or(format!("{name} needs a value: {name}=..."));
            let number = || match text()?.parse::<usize>() {
                Ok(n) if n > 0 => Ok(n),
                _ => Err(format!("{word}: a number that is not 0")),
            };
            match name {
                "--host" => o.host = text()?.into(),
                "--port" => o.port = text()?.parse().map_err(|_| format!("{word}: a port"))?,
                "--api-key" => o.key = Some(text()?.to_string()),
                "--name" => o.name = text()?.into(),
                "--context" => o.context = Some(number()?),
                "--positions" => o.positions = number()?,
                "--parallel" => o.parallel = number()?,
                "--requests" => o.limits.requests = number()?,
                "--max-tokens" => o.limits.max_tokens = number()?,
                "--connections" => o.connections = Some(number()?),
                "--body" => o.limits.body = number()?,
                "--deterministic" => o.deterministic = flag()?,
                "--shift" => o.limits.shifts = flag()?,
                "--cache" => o.cache = cache(text()?)?,
                "--draft" => o.draft = Some(text()?.into()),
                "--budget" => o.budget = number()?,
                "--adapter" => o.adapter = Some(text()?.into()),
                "--merge" => o.is_merged = flag()?,
                "--products" => match text()? {
                    "rounded" => o.products = Products::Rounded,
                    "bytes" => o.products = Products::Bytes,
                    "float" => o.products = Products::Float,
                    _ => return Err(format!("{word}: rounded or bytes or float")),
                },
                _ => return Err(format!("{word:?} is no option of frit serve")),
            }
        }
        Ok(o)
    }
}

/// Serves a model until it is told to stop.
pub fn run(model: &str, words: &[&str]) -> Result<(), String> {
    let options = Options::read(model, words)?;
    let text = frit_llm::chat::text_of(model).map_err(|e| e.to_string())?;
    if frit_llm::is_encoder(model).map_err(|e| e.to_string())? {
        let encoder = frit_llm::open_encoder(model).map_err(|e| e.to_string())?;
        let context = encoder.config().context;
        return serve(options, text, context, move || {
            let mut embedder = frit_llm::Embedder::new(encoder);
            embedder.warm_up().map_err(|e| e.to_string())?;
            Ok(Embeds(embedder))
        });
    }
    let opening = frit_llm::Options {
        context: options.context,
        adapter: options.adapter.clone(),
        is_merged: options.is_merged,
        // with a draft tokens are checked several at a time, and must be those that are written one at a time
        products: match options.deterministic || options.draft.is_some() {
            true => Products::Float,
            false => options.products,
        },
        ..frit_llm::Options::default()
    };
    let opened = frit_llm::open(model, &opening);
    let decoder = Arc::new(opened.map_err(|e| e.to_string())?);
    let context = decoder.config().context.min(options.positions);
    // what the model learnt is not the draft's
    let plain = frit_llm::Options { adapter: None, ..opening };
    let draft = options.draft.as_ref().map(|d| frit_llm::open(d, &plain).map(Arc::new)).transpose();
    let draft = draft.map_err(|e| e.to_string())?;
    let settings = Settings {
        cache: options.cache,
        budget: options.budget,
        sequences: options.parallel,
        positions: options.positions,
        deterministic: options.deterministic,
        ..Settings::default()
    };
    serve(options, text, context, move || {
        let mut engine = Engine::with_draft(decoder, draft, settings).map_err(|e| e.to_string())?;
        engine.warm_up().map_err(|e| e.to_string())?;
        Ok(engine)
    })
}

/// Serves until it is told to stop. `make` opens the model, in the thread that owns it; `context` is how many positions it has.
pub fn serve<R: Runner>(
    options: Options,
    text: frit_llm::chat::Text,
    context: usize,
    make: impl FnOnce() -> Result<R, String> + Send + 'static,
) -> Result<(), String> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = runtime.map_err(|e| e.to_string())?;
    let done = runtime.block_on(async {
        let address = format!("{}:{}", options.host, options.port);
        let listener = http::listen(&address).await.map_err(|e| format!("{address}: {e}"))?;
        let address = listener.local_addr().map_err(|e| e.to_string())?;
        let worker = Worker::start(make);
        let app = Arc::new(App {
            worker: worker.clone(),
            text: Arc::new(text),
            grammars: Grammars::new(),
            ids: Ids::new(ids::beginning()),
            name: options.name,
            key: options.key,
            limits: options.limits,
            context,
            counts: Totals::default(),
        });
        let told = announce(worker.clone(), address, app.name.clone());
        let (stop, is_over) = watch::channel(false);
        let bounds = Bounds { most: options.connections, header: HEADER_TIME };
        let server = connections::serve(listener, http::router(app), bounds, is_over);
        let farewell = async {
            stopped().await;
            eprintln!("stopping: answers have {FAREWELL:?} to end; once more ends them now");
            stop.send_replace(true);
            tokio::select! {
                () = tokio::time::sleep(FAREWELL) => {}
                () = stopped() => std::process::exit(INTERRUPTED),
            }
        };
        tokio::select! {
            () = server => Ok(()),
            () = farewell => Ok(()),
            Err(e) = told => Err(e),
        }
    });
    // what is still computed beside the tasks is not waited for
    runtime.shutdown_background();
    done
}

/// Says when the model is there. It ends only if the model is not to be had.
async fn announce(worker: Worker, address: std::net::SocketAddr, name: String) -> Result<(), String> {
    let loading = Progress::show(&format!("loading {name}"));
    loop {
        if let Some(e) = worker.shared.failed.lock().ok().and_then(|f| f.clone()) {
            return Err(e);
        }
        if worker.shared.ready.load(Ordering::Acquire) {
            drop(loading);
            println!("serving {name} at http://{address} (/v1, / is a chat page)");
            return std::future::pending().await;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Ctrl-C, or a request to end.
async fn stopped() {
    let interrupted = tokio::signal::ctrl_c();
    #[cfg(unix)]
    {
        let ended = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate());
        if let Ok(mut ended) = ended {
            tokio::select! {
                _ = interrupted => {}
                _ = ended.recv() => {}
            }
            return;
        }
    }
    let _ = interrupted.await;
}
