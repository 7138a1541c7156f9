//! A model in several files, `name-00001-of-00003.gguf` and so on: each says which it is, the first has the metadata.

use super::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// What a file says about itself as a part.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Part {
    /// Which it is, from 0.
    pub no: u64,
    /// How many there are.
    pub count: u64,
    /// Tensors of all parts together.
    tensors: Option<u64>,
}

impl Part {
    /// By its metadata; a file that says nothing is the only one.
    pub fn of(metadata: &BTreeMap<String, Value>) -> Result<Part, String> {
        let number = |key: &str| match metadata.get(key).map(|v| (v, v.as_u64())) {
            None => Ok(None),
            Some((_, Some(n))) => Ok(Some(n)),
            Some((v, None)) => Err(format!("{key} is {v:?}")),
        };
        let (no, count) = (number("split.no")?.unwrap_or(0), number("split.count")?.unwrap_or(1).max(1));
        if no >= count {
            return Err(format!("split.no is {no}, of {count} parts the last is {}", count - 1));
        }
        Ok(Part { no, count, tensors: number("split.tensors.count")? })
    }
    /// The other files of a model whose first part is this one, in order.
    pub fn others(self, path: &Path) -> Result<Vec<PathBuf>, String> {
        let Part { no, count, .. } = self;
        if count == 1 {
            return Ok(vec![]);
        }
        let name = path.file_name().and_then(|n| n.to_str()).unwrap_or_default();
        let (ends, first) = (ending(no, count), ending(0, count));
        let Some(stem) = name.strip_suffix(&ends) else {
            return Err(format!(
                "part {} of {count}, whose name should end in {ends:?} so that the others can be found",
                no + 1
            ));
        };
        if no != 0 {
            return Err(format!("part {} of {count}: the first is {stem}{first}", no + 1));
        }
        Ok((1..count).map(|no| path.with_file_name(format!("{stem}{}", ending(no, count)))).collect())
    }
    /// That a file is part `no` of the model that this is the first of.
    pub fn expect(self, no: u64, found: Part) -> Result<(), String> {
        match found == (Part { no, ..self }) {
            true => Ok(()),
            false => Err(format!("says that it is {found}, and should be {}", Part { no, ..self })),
        }
    }
    /// That all parts together have as many tensors as each says.
    pub fn expect_tensors(self, found: usize) -> Result<(), String> {
        match self.tensors {
            Some(n) if n != found as u64 => {
                Err(format!("the parts have {found} tensors, split.tensors.count is {n}"))
            }
            _ => Ok(()),
        }
    }
}

impl std::fmt::Display for Part {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "part {} of {}", self.no + 1, self.count)?;
        self.tensors.map_or(Ok(()), |n| write!(f, " with {n} tensors in all"))
    }
}

fn ending(no: u64, count: u64) -> String {
    format!("-{:05}-of-{count:05}.gguf", no + 1)
}
