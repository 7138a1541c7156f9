//! Values by name, and taking them over into a module.

use frit_tensor::{Error, Result, Tensor};
use std::collections::{BTreeMap, BTreeSet};

/// Tensors by name.
pub type StateDict = BTreeMap<String, Tensor>;

/// Assigns the values of `state` to the tensors of a module, or names all that does not fit and changes nothing.
#[track_caller]
pub(crate) fn load(tensors: &[(String, Tensor)], state: &StateDict) -> Result<()> {
    let _c = frit_tensor::call("load_state_dict");
    let mut shapes = Vec::new();
    for (name, t) in tensors {
        t.check()?;
        if let Some(value) = state.get(name) {
            value.check()?;
            if value.shape() != t.shape() {
                shapes.push(format!("{name} is {} here and {} in the state", t.shape(), value.shape()));
            }
        }
    }
    let known: BTreeSet<&str> = tensors.iter().map(|(name, _)| name.as_str()).collect();
    let missing = known.iter().filter(|name| !state.contains_key(**name)).map(|name| name.to_string());
    let unexpected = state.keys().filter(|name| !known.contains(name.as_str())).cloned();
    let complaints: Vec<String> =
        [("missing", missing.collect()), ("unexpected", unexpected.collect()), ("of another shape", shapes)]
            .into_iter()
            .filter(|(_, names): &(_, Vec<String>)| !names.is_empty())
            .map(|(what, names)| format!("{} {what}: {}", names.len(), names.join(", ")))
            .collect();
    if !complaints.is_empty() {
        return Err(Error::new("load_state_dict", complaints.join("; ")));
    }
    for (name, t) in tensors {
        if let Some(value) = state.get(name) {
            t.replace(&value.cast(t.dtype()).to(&t.device()?));
        }
    }
    Ok(())
}
