//! What a model takes of memory.

use crate::build::{Model, stored};
use frit_onnx::Element::Float;
use frit_onnx::{Session, Value};
use frit_tensor::{Result, Tensor};

/// Bytes of this process in memory, those of mapped files too; none where no one says so.
fn resident() -> Option<usize> {
    let text = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = text.lines().find(|l| l.starts_with("VmRSS:"))?;
    Some(line.split_whitespace().nth(1)?.parse::<usize>().ok()? << 10)
}

#[test]
fn weights_are_in_memory_once_wherever_they_lie() -> Result<()> {
    // beyond what an allocator keeps for the next one
    const N: usize = 4096;
    let weights = vec![0u8; 4 * N * N];
    let dims = [N as i64, N as i64];
    let dir = std::env::temp_dir();
    for name in ["w", "w_", "w__", "w___"] {
        // each byte of a name moves what is behind it
        let path = dir.join(format!("frit-onnx-{}-{name}.onnx", std::process::id()));
        let node = format!("y = MatMul(x, {name})");
        let model = Model::new(13)
            .input("x", Float, &["1", "4096"])
            .initializer(stored(name, Float, &dims, &weights));
        let bytes = model.node(&node).output("y").bytes();
        let failed = |e: std::io::Error| frit_tensor::Error::new("test", e.to_string());
        std::fs::write(&path, bytes).map_err(failed)?;
        // other tests of this process take memory meanwhile: the least of a few
        let mut grown = usize::MAX;
        for _ in 0..3 {
            let Some(before) = resident() else { return Ok(()) };
            let session = Session::load(&path)?;
            for _ in 0..4 {
                session.run([("x", Value::from(Tensor::ones([1, N])))])?[0].tensor()?.to_vec::<f32>()?;
            }
            grown = grown.min(resident().unwrap_or_default().saturating_sub(before));
        }
        std::fs::remove_file(&path).map_err(failed)?;
        assert!(grown < weights.len() * 3 / 2, "{grown} bytes for {} of weights", weights.len());
    }
    Ok(())
}
