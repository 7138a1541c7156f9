//! Counts of a server, in the text form of Prometheus.

use super::http::App;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Counts since the beginning.
#[derive(Default)]
pub struct Totals {
    pub requests: AtomicU64,
    pub errors: AtomicU64,
    pub active: AtomicUsize,
    pub first_tokens: AtomicU64,
    pub first_token_micros: AtomicU64,
    /// Of calls.
    pub next: AtomicU64,
}

/// All counts.
pub async fn metrics(State(app): State<Arc<App>>) -> Response {
    let (g, c) = (app.worker.gauges(), &app.counts);
    let load = |n: &AtomicU64| n.load(Ordering::Relaxed) as f64;
    let shared = &app.worker.shared;
    let rows = [
        ("requests_total", "counter", "requests to the API", load(&c.requests)),
        ("errors_total", "counter", "requests that ended with an error", load(&c.errors)),
        (
            "slow_readers_total",
            "counter",
            "answers that were dropped because no one read them",
            load(&shared.slow),
        ),
        ("readers_left_total", "counter", "answers whose reader left", load(&shared.left)),
        (
            "first_token_seconds_sum",
            "counter",
            "time until first tokens, all together",
            load(&c.first_token_micros) / 1e6,
        ),
        ("first_token_seconds_count", "counter", "first tokens", load(&c.first_tokens)),
        ("steps_total", "counter", "steps of the model", g.counts.steps as f64),
        ("prompt_tokens_total", "counter", "tokens of prompts that were computed", g.counts.prompt as f64),
        (
            "shared_tokens_total",
            "counter",
            "tokens of prompts that were found computed",
            g.counts.shared as f64,
        ),
        ("generated_tokens_total", "counter", "tokens that were generated", g.counts.generated as f64),
        ("drafted_tokens_total", "counter", "tokens that the draft proposed", g.counts.drafted as f64),
        ("accepted_tokens_total", "counter", "those of them that were taken", g.counts.accepted as f64),
        ("preempted_total", "counter", "sequences that gave up their blocks", g.counts.preempted as f64),
        ("sequences_running", "gauge", "sequences that run", g.running as f64),
        ("sequences_waiting", "gauge", "sequences that wait", g.waiting as f64),
        ("blocks_free", "gauge", "blocks of keys and values that are free", g.free_blocks as f64),
        ("blocks", "gauge", "blocks of keys and values", g.blocks as f64),
    ];
    let line = |(name, kind, about, value): &(&str, &str, &str, f64)| {
        format!("# HELP frit_{name} {about}\n# TYPE frit_{name} {kind}\nfrit_{name} {value}\n")
    };
    let text: String = rows.iter().map(line).collect();
    ([(CONTENT_TYPE, "text/plain; version=0.0.4")], text).into_response()
}
