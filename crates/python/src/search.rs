//! Searches on GPUs in processes of their own: the interpreter, started again to import this module.

use pyo3::prelude::*;
use std::process::Command;

/// Let searches start this interpreter. In a process that was started for one, this serves it and does not return.
pub fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    let sys = m.py().import("sys")?;
    let executable: Option<String> = sys.getattr("executable")?.extract()?;
    let Some(executable) = executable.filter(|e| !e.is_empty()) else { return Ok(()) };
    frit::engine::search::in_children(move || {
        // where modules are found may have changed since this one was
        let path = Python::attach(|py| py.import("sys")?.getattr("path")?.extract::<Vec<String>>());
        let path = std::env::join_paths(path.unwrap_or_default()).unwrap_or_default();
        let mut command = Command::new(&executable);
        command.args(["-c", "import frit"]).env("PYTHONPATH", path);
        Ok(command)
    });
    Ok(())
}
