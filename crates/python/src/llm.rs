//! Language models: `frit.llm`, whose Python part has the names that people call.

use crate::device::within;
use crate::error::{compute, raised};
use crate::tensor::{PyTensor, out};
use frit::{Error, Tensor};
use frit_llm::cache::CacheType;
use frit_llm::chat::{Prompt, parse, text_of};
use frit_llm::engine::{Reason, Settings};
use frit_llm::sample::Sampling;
use frit_llm::{Ask, Embedder, Llm, Options, Products, Running, open_encoder};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard};

/// A model, which calls from several threads take in turns, each for a step.
#[pyclass(frozen, module = "frit", name = "LlmModel")]
pub struct PyLlm(Arc<Mutex<Llm>>);

fn locked<T>(m: &Mutex<T>) -> MutexGuard<'_, T> {
    // a call that panicked leaves a model that goes on with the next request
    m.lock().unwrap_or_else(|e| e.into_inner())
}

fn wrong(e: impl std::fmt::Display) -> Error {
    Error::new("generate", e.to_string())
}

#[pymethods]
impl PyLlm {
    /// A GGUF file or a folder of Hugging Face.
    #[new]
    #[pyo3(signature = (path, context=None, adapter=None, merge=false, draft=None, parallel=8, positions=16384, cache="f16",
        products="rounded", deterministic=false))]
    #[allow(clippy::too_many_arguments)] // they are the API's
    fn new(
        py: Python<'_>,
        path: PathBuf,
        context: Option<usize>,
        adapter: Option<PathBuf>,
        merge: bool,
        draft: Option<PathBuf>,
        parallel: usize,
        positions: usize,
        cache: &str,
        products: &str,
        deterministic: bool,
    ) -> PyResult<PyLlm> {
        let cache = match cache {
            "f32" => CacheType::F32,
            "f16" => CacheType::F16,
            "bf16" => CacheType::BF16,
            "int8" => CacheType::Int8,
            other => return Err(PyValueError::new_err(format!("cache {other:?}: f32, f16, bf16 or int8"))),
        };
        let products = match products {
            "rounded" => Products::Rounded,
            "bytes" => Products::Bytes,
            "float" => Products::Float,
            other => {
                return Err(PyValueError::new_err(format!("products {other:?}: rounded, bytes or float")));
            }
        };
        let options = Options { context, adapter, is_merged: merge, products, ..Options::default() };
        let settings =
            Settings { sequences: parallel, positions, cache, deterministic, ..Settings::default() };
        let opened =
            py.detach(|| within(None, || Llm::with_draft(&path, draft.as_deref(), &options, settings)))?;
        Ok(PyLlm(Arc::new(Mutex::new(opened.map_err(raised)?))))
    }
    /// The numbers of a text's tokens, with those around it that the model expects.
    #[pyo3(signature = (text, special=true))]
    fn encode(&self, py: Python<'_>, text: &str, special: bool) -> Vec<u32> {
        py.detach(|| {
            let llm = locked(&self.0);
            let tokenizer = &llm.text().tokenizer;
            if special { tokenizer.encode(text) } else { tokenizer.encode_ordinary(text) }
        })
    }
    /// The text of tokens.
    #[pyo3(signature = (tokens, special=false))]
    fn decode(&self, py: Python<'_>, tokens: Vec<u32>, special: bool) -> String {
        py.detach(|| {
            let llm = locked(&self.0);
            let tokenizer = &llm.text().tokenizer;
            if special { tokenizer.decode_all(&tokens) } else { tokenizer.decode(&tokens) }
        })
    }
    /// The text that the model's template makes of messages, and of tools, both as JSON.
    #[pyo3(signature = (messages, tools=None, answer=true))]
    fn render(&self, py: Python<'_>, messages: &str, tools: Option<&str>, answer: bool) -> PyResult<String> {
        compute(py, || {
            let llm = locked(&self.0);
            let template =
                llm.text().template.as_ref().ok_or_else(|| wrong("the model has no chat template"))?;
            let mut prompt = Prompt::new(parse(messages).map_err(wrong)?);
            prompt.tools = tools.map(parse).transpose().map_err(wrong)?;
            prompt.answer = answer;
            template.render(&prompt).map_err(wrong)
        })
    }
    /// The tokens of a text that a template wrote.
    fn encode_rendered(&self, py: Python<'_>, text: &str) -> Vec<u32> {
        py.detach(|| locked(&self.0).text().tokenizer.encode_plain(text))
    }
    /// Begins an answer: its pieces, one after the other.
    #[pyo3(signature = (tokens, max_tokens=None, temperature=0.0, top_k=0, top_p=1.0, min_p=0.0, typical_p=1.0,
        repetition_penalty=1.0, presence_penalty=0.0, frequency_penalty=0.0, seed=None, stop=vec![],
        logprobs=None, logit_bias=BTreeMap::new()))]
    #[allow(clippy::too_many_arguments)] // they are the API's
    fn begin(
        &self,
        py: Python<'_>,
        tokens: Vec<u32>,
        max_tokens: Option<usize>,
        temperature: f32,
        top_k: usize,
        top_p: f32,
        min_p: f32,
        typical_p: f32,
        repetition_penalty: f32,
        presence_penalty: f32,
        frequency_penalty: f32,
        seed: Option<u64>,
        stop: Vec<String>,
        logprobs: Option<usize>,
        logit_bias: BTreeMap<u32, f32>,
    ) -> PyResult<PyAnswer> {
        let sampling = Sampling {
            temperature,
            top_k,
            top_p,
            min_p,
            typical_p,
            repetition_penalty,
            presence_penalty,
            frequency_penalty,
            seed,
            bias: logit_bias.into_iter().collect(),
            ..Sampling::default()
        };
        let max_tokens = max_tokens.unwrap_or(usize::MAX);
        let ask = Ask { max_tokens, sampling, stops: stop, logprobs, ..Ask::default() };
        let running = compute(py, || locked(&self.0).begin(tokens, &ask))?;
        Ok(PyAnswer { llm: self.0.clone(), running: Mutex::new(running) })
    }
    /// The logits after each of some tokens, which are a whole text: (tokens, vocabulary).
    fn logits(&self, py: Python<'_>, tokens: Vec<u32>) -> PyResult<PyTensor> {
        let logits = compute(py, || {
            let mut llm = locked(&self.0);
            let model = llm.engine().model().clone();
            if tokens.is_empty() || tokens.iter().any(|t| *t as usize >= model.tokens()) {
                return Err(wrong(format!("tokens of a text, each below {}", model.tokens())));
            }
            model.whole(&tokens)?.realize()
        })?;
        out(logits)
    }
    /// Positions of a sequence, and tokens that are known.
    fn sizes(&self, py: Python<'_>) -> (usize, usize) {
        py.detach(|| {
            let mut llm = locked(&self.0);
            let model = llm.engine().model();
            (model.config().context, model.tokens())
        })
    }
}

/// An answer on its way: an iterator over its pieces.
#[pyclass(frozen, module = "frit", name = "LlmAnswer")]
pub struct PyAnswer {
    llm: Arc<Mutex<Llm>>,
    running: Mutex<Running>,
}

#[pymethods]
impl PyAnswer {
    fn __iter__(this: PyRef<'_, Self>) -> PyRef<'_, Self> {
        this
    }
    fn __next__(&self, py: Python<'_>) -> PyResult<Option<String>> {
        compute(py, || {
            let mut running = locked(&self.running);
            loop {
                match locked(&self.llm).go_on(&mut running)? {
                    // part of a character, or of a stop
                    Some(piece) if piece.is_empty() => {}
                    other => return Ok(other),
                }
            }
        })
    }
    /// Ends it.
    fn cancel(&self, py: Python<'_>) {
        py.detach(|| locked(&self.llm).cancel(&mut locked(&self.running)));
    }
    /// Natural logarithms of the probabilities of its tokens so far, each with those of the likeliest.
    fn logprobs(&self, py: Python<'_>) -> Vec<(f32, Vec<(u32, f32)>)> {
        let told = py.detach(|| locked(&self.running).answer.logprobs.clone());
        told.into_iter().map(|l| (l.token, l.top)).collect()
    }
    /// Its text so far, its tokens, why it ended, tokens of the prompt, seconds to the first token and from there.
    fn state(&self, py: Python<'_>) -> (String, Vec<u32>, &'static str, usize, f64, f64) {
        let a = py.detach(|| locked(&self.running).answer.clone());
        let reason = match a.reason {
            Reason::End => "stop",
            Reason::Length => "length",
            Reason::Context => "context",
            Reason::Cancelled => "cancelled",
            Reason::Failed(_) => "failed",
        };
        (a.text, a.tokens, reason, a.prompt, a.first.as_secs_f64(), a.rest.as_secs_f64())
    }
}

impl Drop for PyAnswer {
    fn drop(&mut self) {
        // one that no one reads any more need not be computed; another thread may hold the model meanwhile
        Python::attach(|py| py.detach(|| locked(&self.llm).cancel(&mut locked(&self.running))));
    }
}

/// An encoder with its tokeniser.
#[pyclass(frozen, module = "frit", name = "LlmEmbedder")]
pub struct PyEmbedder {
    embedder: Mutex<Embedder>,
    text: frit_llm::chat::Text,
}

#[pymethods]
impl PyEmbedder {
    /// A GGUF file or a folder of Hugging Face.
    #[new]
    fn new(py: Python<'_>, path: PathBuf) -> PyResult<PyEmbedder> {
        let opened = py.detach(|| {
            within(None, || {
                let text = text_of(&path).map_err(|e| Error::new("load", e.to_string()))?;
                Ok((Embedder::new(open_encoder(&path)?), text))
            })
        })?;
        let (embedder, text) = opened.map_err(raised)?;
        Ok(PyEmbedder { embedder: Mutex::new(embedder), text })
    }
    /// A vector of length 1 for each text: (texts, elements).
    fn embed(&self, py: Python<'_>, texts: Vec<String>) -> PyResult<PyTensor> {
        let all = compute(py, || {
            let mut embedder = locked(&self.embedder);
            let one = |t: &String| embedder.embed(&self.text.tokenizer.encode(t));
            let vectors = texts.iter().map(one).collect::<frit::Result<Vec<_>>>()?;
            let width = vectors.first().map_or(0, Vec::len);
            Tensor::from_vec(vectors.concat(), [texts.len(), width]).realize()
        })?;
        out(all)
    }
    /// The numbers of a text's tokens.
    fn encode(&self, text: &str) -> Vec<u32> {
        self.text.tokenizer.encode(text)
    }
}

/// Add this part to the module.
pub fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_class::<PyLlm>()?;
    m.add_class::<PyAnswer>()?;
    m.add_class::<PyEmbedder>()
}
