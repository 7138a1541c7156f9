//! What sentence-transformers' files beside an encoder say: how vectors of tokens become one, and how long a text may be.
//!
//! ```text
//! modules.json                  steps: Transformer, Pooling, Normalize; another is an error
//! 1_Pooling/config.json         cls, mean, max or lasttoken; another is an error
//! sentence_bert_config.json     max_seq_length
//! ```
//!
//! Vectors are made of length 1 whether `Normalize` is among the steps or not.

use crate::config::{Config, Pooling};
use frit_tensor::{Error, Result};
use serde_json::Value;
use std::path::Path;

/// Changes the configuration of an encoder in a folder as those files say, where they are.
pub fn read(folder: &Path, config: &mut Config) -> Result<()> {
    let listed = match json(folder, "modules.json")? {
        Some(steps) => pooling_of(&steps).map_err(|why| wrong("modules.json", &why))?,
        None => None,
    };
    let name = format!("{}/config.json", listed.as_deref().unwrap_or("1_Pooling"));
    match json(folder, &name)? {
        Some(said) => config.pooling = pooling(&said).map_err(|why| wrong(&name, &why))?,
        None if listed.is_some() => {
            return Err(wrong(&name, "there is no such file, and modules.json names it"));
        }
        None => {}
    }
    let name = "sentence_bert_config.json";
    match json(folder, name)?.map(|v| v["max_seq_length"].clone()) {
        None | Some(Value::Null) => Ok(()),
        Some(most) => match most.as_u64().filter(|n| *n > 0) {
            Some(n) => {
                config.longest_text = usize::try_from(n).ok();
                Ok(())
            }
            None => Err(wrong(name, &format!("max_seq_length is {most}"))),
        },
    }
}

fn wrong(name: &str, why: &str) -> Error {
    Error::new("load", format!("{name}: {why}"))
}

/// A file, if it is there.
fn json(folder: &Path, name: &str) -> Result<Option<Value>> {
    match std::fs::read_to_string(folder.join(name)) {
        Ok(text) => serde_json::from_str(&text).map(Some).map_err(|e| wrong(name, &e.to_string())),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(wrong(name, &e.to_string())),
    }
}

type Found<T> = std::result::Result<T, String>;

/// The folder of the step that pools, if the list has one.
fn pooling_of(steps: &Value) -> Found<Option<String>> {
    let mut found = None;
    for step in steps.as_array().ok_or("it is no list of steps")? {
        let (kind, path) =
            (step["type"].as_str().ok_or("a step has no type")?, step["path"].as_str().unwrap_or(""));
        match kind.rsplit('.').next() {
            Some("Transformer" | "Normalize") => {}
            Some("Pooling") => found = Some(path.to_string()),
            _ => return Err(format!("the step {path:?} of type {kind} is not known")),
        }
    }
    Ok(found)
}

/// The one way that is chosen: by its name, or by a flag for each.
fn pooling(said: &Value) -> Found<Pooling> {
    let members = said.as_object().ok_or("it is no object")?;
    let flags = members.iter().filter(|(_, v)| **v == Value::Bool(true));
    let flagged = flags.filter_map(|(name, _)| name.strip_prefix("pooling_mode_"));
    let chosen: Vec<&str> =
        members.get("pooling_mode").and_then(Value::as_str).into_iter().chain(flagged).collect();
    match chosen[..] {
        [] | ["mean" | "mean_tokens"] => Ok(Pooling::Mean),
        ["cls" | "cls_token"] => Ok(Pooling::First),
        ["max" | "max_tokens"] => Ok(Pooling::Max),
        ["lasttoken"] => Ok(Pooling::Last),
        [other] => Err(format!("pooling by {other} is not known")),
        _ => Err(format!("pooling by {} at once is not known", chosen.join(" and "))),
    }
}
