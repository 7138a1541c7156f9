//! An ONNX model from any bytes: loading returns, whatever they are.
#![no_main]

use frit_onnx::Session;
use frit_tensor::Blob;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    if let Ok(model) = Session::from_blob(&Blob::new(bytes.to_vec())) {
        assert!(model.summary().operators.values().all(|n| *n > 0));
    }
});
