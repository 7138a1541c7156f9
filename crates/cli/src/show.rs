//! `frit show`: what is in a state file.

use frit::nn::{StateDict, gguf::Gguf, load};
use frit::*;

/// Lists the tensors of a file, or prints one of them.
pub fn run(path: &str, tensor: Option<&str>) -> std::result::Result<(), String> {
    match tensor {
        Some(name) => print_one(path, name),
        None => list(path),
    }
    .map_err(|e| e.to_string())
}

fn list(path: &str) -> Result<()> {
    let state = load(path)?;
    // of a GGUF file also how its tensors are stored
    let stored = Gguf::open(path).ok();
    for (name, t) in &state {
        let kind = stored.as_ref().and_then(|f| f.tensors().get(name)).map(|i| format!(" as {}", i.kind));
        println!("{name}  {} {}{}", t.dtype(), t.shape(), kind.unwrap_or_default());
    }
    println!("{} tensors, {} elements", state.len(), elements(&state)?);
    Ok(())
}

fn elements(state: &StateDict) -> Result<usize> {
    state.values().try_fold(0, |n, t| Ok(n + t.numel()?))
}

fn print_one(path: &str, name: &str) -> Result<()> {
    let state = load(path)?;
    match state.get(name) {
        Some(t) => {
            println!("{t}");
            Ok(())
        }
        None => Err(Error::elsewhere("show", format!("{path}: no tensor {name:?}"))),
    }
}
