//! From a pickle's objects to values: what each class that torch uses for data means.

use super::pickle::{Id, Object, Pickle};
use super::storage::{self, Strided};
use crate::state::StateDict;
use frit_tensor::{Blob, DType, Result, Tensor};
use std::collections::BTreeMap;

/// What was saved.
#[derive(Clone, Debug)]
pub enum Value {
    /// `None`.
    None,
    /// A truth value.
    Bool(bool),
    /// An integer of at most 64 bits.
    Int(i64),
    /// A float.
    Float(f64),
    /// A string; also a type or a device, by its name.
    Str(String),
    /// Bytes.
    Bytes(Vec<u8>),
    /// A list, a tuple or a set.
    List(Vec<Value>),
    /// A dict, or the attributes of a TorchScript module, in order.
    Dict(Vec<(Value, Value)>),
    /// A tensor; its data is read when it is used.
    Tensor(Tensor),
}

impl Value {
    /// The value of a string key.
    pub fn get(&self, key: &str) -> Option<&Value> {
        match self {
            Value::Dict(items) => items.iter().rev().find(|(k, _)| k.as_str() == Some(key)).map(|(_, v)| v),
            _ => None,
        }
    }
    /// The string.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Value::Str(s) => Some(s),
            _ => None,
        }
    }
    /// The integer.
    pub fn as_int(&self) -> Option<i64> {
        match self {
            Value::Int(v) => Some(*v),
            _ => None,
        }
    }
    /// The number.
    pub fn as_float(&self) -> Option<f64> {
        match self {
            Value::Float(v) => Some(*v),
            Value::Int(v) => Some(*v as f64),
            _ => None,
        }
    }
    /// The tensor.
    pub fn as_tensor(&self) -> Option<&Tensor> {
        match self {
            Value::Tensor(t) => Some(t),
            _ => None,
        }
    }
    /// Every tensor in it, by the keys and places on the way to it, joined by dots.
    pub fn state(&self) -> StateDict {
        let mut all = StateDict::new();
        self.collect("", &mut all);
        all
    }
    // as deep as values are, which is bounded
    fn collect(&self, path: &str, out: &mut StateDict) {
        let below = |key: &str| if path.is_empty() { key.to_string() } else { format!("{path}.{key}") };
        match self {
            Value::Tensor(t) => {
                out.insert(path.to_string(), t.clone());
            }
            Value::List(all) => {
                all.iter().enumerate().for_each(|(i, v)| v.collect(&below(&i.to_string()), out));
            }
            Value::Dict(items) => items.iter().for_each(|(k, v)| match k {
                Value::Str(k) => v.collect(&below(k), out),
                Value::Int(k) => v.collect(&below(&k.to_string()), out),
                _ => {}
            }),
            _ => {}
        }
    }
}

/// Values may be this deep. Objects can contain themselves, values cannot.
const MAX_DEPTH: usize = 200;
/// And this many. Objects can be shared, values are not.
const MAX_VALUES: usize = 1 << 22;

/// Whether a class or function has a meaning here.
pub(super) fn is_known(module: &str, name: &str) -> bool {
    match module {
        "collections" => matches!(name, "OrderedDict" | "defaultdict" | "Counter"),
        "builtins" | "__builtin__" => {
            matches!(name, "set" | "frozenset" | "dict" | "list" | "tuple" | "int" | "float" | "bool" | "str")
        }
        "_codecs" => name == "encode",
        "torch" => {
            matches!(name, "Size" | "device" | "Tensor") || storage::dtype(name).is_some() || is_storage(name)
        }
        "torch.storage" => is_storage(name),
        "torch._utils" => name.starts_with("_rebuild_"),
        "torch._tensor" => name == "_rebuild_from_type_v2",
        "torch.nn.parameter" => name == "Parameter",
        "torch.jit._pickle" => name.starts_with("build_") || name == "restore_type_tag",
        // classes of TorchScript: their objects are attributes, their code is elsewhere
        _ => module == "__torch__" || module.starts_with("__torch__."),
    }
}
/// Storages of types there are not are errors of their own.
fn is_storage(name: &str) -> bool {
    name.ends_with("Storage")
}

/// What a persistent id says.
pub(super) struct StorageName {
    pub key: String,
    pub dtype: DType,
    /// A part of the storage, in elements: legacy files have those.
    part: Option<(usize, usize)>,
}

/// `("storage", class, key, device, length[, (key, offset, length)])`
pub(super) fn storage_name(p: &Pickle, id: Id) -> std::result::Result<StorageName, String> {
    let wrong = || "a persistent id that names no storage".to_string();
    let Object::Tuple(parts) = &p.objects[id] else { return Err(wrong()) };
    let at = |i: usize| parts.get(i).map(|id| &p.objects[*id]);
    let (Some(Object::Str(tag)), Some(Object::Global(_, class)), Some(key)) = (at(0), at(1), at(2)) else {
        return Err(wrong());
    };
    let key = match key {
        Object::Str(key) => key.clone(),
        Object::Int(key) => key.to_string(),
        _ => return Err(wrong()),
    };
    if tag != "storage" {
        return Err(wrong());
    }
    let dtype = storage::storage_dtype(class)
        .ok_or_else(|| format!("storage {key:?} is a {class}, whose type has no counterpart"))?;
    let part = match at(5) {
        Some(Object::Tuple(view)) => match view.iter().map(|id| &p.objects[*id]).collect::<Vec<_>>()[..] {
            [_, Object::Int(offset), Object::Int(len)] => {
                Some(((*offset).try_into().map_err(|_| wrong())?, (*len).try_into().map_err(|_| wrong())?))
            }
            _ => return Err(wrong()),
        },
        _ => None,
    };
    Ok(StorageName { key, dtype, part })
}

/// The value of a pickle's root.
pub(super) fn build(
    p: &Pickle,
    storages: &BTreeMap<String, Blob>,
) -> std::result::Result<Result<Value>, String> {
    let mut b = Builder { p, storages, left: MAX_VALUES };
    match b.value(p.root, 0) {
        Ok(v) => Ok(Ok(v)),
        Err(Failed::Text(e)) => Err(e),
        Err(Failed::Tensor(e)) => Ok(Err(e)),
    }
}

/// Something in the file, or something about a tensor.
enum Failed {
    Text(String),
    Tensor(frit_tensor::Error),
}
impl From<String> for Failed {
    fn from(e: String) -> Failed {
        Failed::Text(e)
    }
}
impl From<&str> for Failed {
    fn from(e: &str) -> Failed {
        Failed::Text(e.into())
    }
}
type Built<T> = std::result::Result<T, Failed>;

struct Builder<'a> {
    p: &'a Pickle,
    storages: &'a BTreeMap<String, Blob>,
    left: usize,
}

impl<'a> Builder<'a> {
    fn object(&self, id: Id) -> &'a Object {
        &self.p.objects[id]
    }
    fn value(&mut self, id: Id, depth: usize) -> Built<Value> {
        if depth > MAX_DEPTH {
            return Err("objects are nested too deeply, or contain themselves".into());
        }
        self.left = self.left.checked_sub(1).ok_or("objects are shared so often that they are too many")?;
        Ok(match self.object(id) {
            Object::None => Value::None,
            Object::Bool(v) => Value::Bool(*v),
            Object::Int(v) => Value::Int(*v),
            Object::Long(_) => return Err("an integer beyond 64 bits".into()),
            Object::Float(v) => Value::Float(*v),
            Object::Str(v) => Value::Str(v.clone()),
            Object::Bytes(v) => Value::Bytes(v.clone()),
            Object::List(all) | Object::Tuple(all) | Object::Set(all) => {
                Value::List(self.values(all, depth)?)
            }
            Object::Dict(items) => Value::Dict(self.items(items, depth)?),
            Object::Global(module, name) => Value::Str(format!("{module}.{name}")),
            Object::Persistent(_) => return Err("a storage that belongs to no tensor".into()),
            Object::Made { what, args, state, items, list } => {
                let Object::Global(module, name) = self.object(*what) else {
                    return Err("a call of what is no class".into());
                };
                let args = match self.object(*args) {
                    Object::Tuple(args) => args.as_slice(),
                    _ => return Err(format!("{module}.{name} is called with no tuple").into()),
                };
                match module.as_str() {
                    "collections" => self.dict(name, args, items, depth)?,
                    m if m.starts_with("__torch__") => self.attributes(*state, depth)?,
                    _ if !list.is_empty() || !items.is_empty() => {
                        return Err(format!("items are put into a {module}.{name}").into());
                    }
                    _ => self.call(module, name, args, depth).map_err(|e| match e {
                        Failed::Text(e) if !e.contains(name.as_str()) => format!("{name}: {e}").into(),
                        e => e,
                    })?,
                }
            }
        })
    }
    fn values(&mut self, all: &[Id], depth: usize) -> Built<Vec<Value>> {
        all.iter().map(|id| self.value(*id, depth + 1)).collect()
    }
    fn items(&mut self, items: &[(Id, Id)], depth: usize) -> Built<Vec<(Value, Value)>> {
        items.iter().map(|(k, v)| Ok((self.value(*k, depth + 1)?, self.value(*v, depth + 1)?))).collect()
    }
    /// An OrderedDict and the like: items given at once as pairs, and later one by one. Its state is of no use.
    fn dict(&mut self, name: &str, args: &[Id], items: &[(Id, Id)], depth: usize) -> Built<Value> {
        let mut all = Vec::new();
        // the first argument of a defaultdict is not its content
        if let (Some(first), false) = (args.first(), name == "defaultdict") {
            match self.value(*first, depth + 1)? {
                Value::Dict(given) => all.extend(given),
                Value::List(pairs) => {
                    for pair in pairs {
                        let Value::List(kv) = pair else { return Err("an item that is no pair".into()) };
                        let [k, v] = <[Value; 2]>::try_from(kv).map_err(|_| "an item that is no pair")?;
                        all.push((k, v));
                    }
                }
                _ => return Err("a dict made of something else".into()),
            }
        }
        all.extend(self.items(items, depth)?);
        Ok(Value::Dict(all))
    }
    /// An object of TorchScript.
    fn attributes(&mut self, state: Option<Id>, depth: usize) -> Built<Value> {
        match state {
            None => Ok(Value::Dict(vec![])),
            Some(state) => self.value(state, depth + 1),
        }
    }
    fn call(&mut self, module: &str, name: &str, args: &[Id], depth: usize) -> Built<Value> {
        let arg =
            |i: usize| args.get(i).copied().ok_or_else(|| Failed::from(format!("argument {i} is missing")));
        Ok(match (module, name) {
            ("torch._utils", "_rebuild_tensor" | "_rebuild_tensor_v2") => {
                Value::Tensor(self.tensor(&[arg(0)?, arg(1)?, arg(2)?, arg(3)?], None)?)
            }
            ("torch._utils", "_rebuild_tensor_v3") => {
                Value::Tensor(self.tensor(&[arg(0)?, arg(1)?, arg(2)?, arg(3)?], Some(arg(6)?))?)
            }
            ("torch._utils", "_rebuild_parameter" | "_rebuild_parameter_with_state") => {
                self.value(arg(0)?, depth + 1)?
            }
            ("torch._utils", kind) => {
                let what = kind.trim_start_matches("_rebuild_");
                return Err(format!("{kind}: tensors of this kind ({what}) are not read").into());
            }
            ("torch._tensor", "_rebuild_from_type_v2") => {
                match (self.object(arg(0)?), self.object(arg(2)?)) {
                    (Object::Global(module, name), Object::Tuple(inner)) if depth < MAX_DEPTH => {
                        self.call(module, name, inner, depth + 1)?
                    }
                    _ => return Err("a tensor made in an unknown way".into()),
                }
            }
            ("torch.jit._pickle", "restore_type_tag") => self.value(arg(0)?, depth + 1)?,
            ("torch.jit._pickle", _)
            | ("builtins" | "__builtin__", "set" | "frozenset" | "list" | "tuple") => match args.first() {
                None => Value::List(vec![]),
                Some(first) => self.value(*first, depth + 1)?,
            },
            ("builtins" | "__builtin__", "dict") if args.is_empty() => Value::Dict(vec![]),
            // the elements are the arguments, or the only argument
            ("torch", "Size") => match args {
                [only] => self.value(*only, depth + 1)?,
                all => Value::List(self.values(all, depth)?),
            },
            ("torch", "device") => {
                let all = self.values(args, depth)?;
                let part = |v: &Value| match v {
                    Value::Str(s) => s.clone(),
                    Value::Int(i) => i.to_string(),
                    _ => String::new(),
                };
                Value::Str(all.iter().map(part).collect::<Vec<_>>().join(":"))
            }
            ("_codecs", "encode") => match self.object(arg(0)?) {
                // how protocol 2 writes bytes
                Object::Str(s) => {
                    let bytes: Option<Vec<u8>> = s.chars().map(|c| u8::try_from(c as u32).ok()).collect();
                    Value::Bytes(bytes.ok_or("text that is not bytes")?)
                }
                _ => return Err("of what is no text".into()),
            },
            _ => return Err(format!("{module}.{name} is called, which is not data").into()),
        })
    }
    fn tensor(&mut self, [from, offset, shape, strides]: &[Id; 4], dtype: Option<Id>) -> Built<Tensor> {
        let Object::Persistent(name) = self.object(*from) else {
            return Err("its storage is not in the file".into());
        };
        let name = storage_name(self.p, *name)?;
        let missing = || Failed::from(format!("storage {:?} is not in the file", name.key));
        let mut data = self.storages.get(&name.key).ok_or_else(missing)?.clone();
        if let Some((at, len)) = name.part {
            let size = name.dtype.size();
            let range = at.checked_mul(size).zip(at.checked_add(len).and_then(|end| end.checked_mul(size)));
            let part = range.and_then(|(start, end)| data.slice(start..end));
            data = part.ok_or_else(|| format!("a part outside of storage {:?}", name.key))?;
        }
        let dtype = match dtype.map(|id| self.object(id)) {
            None => name.dtype,
            Some(Object::Global(_, n)) => {
                storage::dtype(n).ok_or_else(|| format!("torch's dtype {n} has no counterpart"))?
            }
            Some(_) => return Err("its type is no type".into()),
        };
        let offset = self.sizes(&[*offset])?[0];
        let list = |id: &Id| match self.object(*id) {
            Object::Tuple(all) | Object::List(all) => self.sizes(all),
            Object::Made { args, .. } => match self.object(*args) {
                // torch.Size of a tuple
                Object::Tuple(all) => match all.first().map(|id| self.object(*id)) {
                    Some(Object::Tuple(inner)) => self.sizes(inner),
                    _ => self.sizes(all),
                },
                _ => Err("a shape that is not of sizes".into()),
            },
            _ => Err("a shape that is not of sizes".into()),
        };
        let look = Strided { storage: data, dtype, offset, shape: list(shape)?, strides: list(strides)? };
        let named = |e: String| Failed::Text(format!("a tensor of storage {:?}: {e}", name.key));
        look.tensor().map_err(named)?.map_err(Failed::Tensor)
    }
    fn sizes(&self, all: &[Id]) -> Built<Vec<usize>> {
        let size = |id: &Id| match self.object(*id) {
            Object::Int(v) => usize::try_from(*v).map_err(|_| format!("a negative size {v}").into()),
            _ => Err("a size that is no integer".into()),
        };
        all.iter().map(size).collect()
    }
}
