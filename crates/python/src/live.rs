//! The tensors that Python holds, without keeping them: who may want a gradient, who still waits to be computed.

use frit::engine::sync::Mutex;
use frit::{Tensor, WeakTensor};

static LIVE: Mutex<Vec<WeakTensor>> = Mutex::new(Vec::new());

/// Remember a tensor that was handed to Python.
pub fn remember(t: &Tensor) {
    let mut live = LIVE.lock().unwrap_or_else(|e| e.into_inner());
    // forget the dead when there are as many as the living may be
    if live.len() >= live.capacity() {
        live.retain(WeakTensor::is_alive);
        let room = live.len().max(1024);
        live.reserve(room);
    }
    live.push(t.downgrade());
}

/// The tensors that Python holds now, in the order they were made.
pub fn all() -> Vec<Tensor> {
    LIVE.lock().unwrap_or_else(|e| e.into_inner()).iter().filter_map(WeakTensor::upgrade).collect()
}

/// Forget a tensor that wants no gradient.
pub fn exclude(t: &Tensor) {
    let mut live = LIVE.lock().unwrap_or_else(|e| e.into_inner());
    live.retain(|w| w.upgrade().is_some_and(|o| !o.is_same(t)));
}
