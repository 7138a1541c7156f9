//! What flows along the edges of a model: tensors, texts, sequences, optionals, maps.

use crate::element::Element;
use frit_tensor::{DType, Dim, Error, Result, Tensor};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Texts in a shape, on the host.
#[derive(Clone, Debug, PartialEq)]
pub struct Strings {
    /// Dims.
    pub dims: Vec<usize>,
    /// Row-major.
    pub texts: Arc<[String]>,
}

/// The key of a map.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Key {
    /// An integer.
    Int(i64),
    /// A text.
    Text(String),
}

/// A value of a model.
#[derive(Clone, Debug)]
pub enum Value {
    /// Numbers: the tensor's own type is the element's, or a wider one where a tensor has no such type.
    Tensor(Tensor, Element),
    /// Texts.
    Strings(Strings),
    /// Values in order.
    Sequence(Vec<Value>),
    /// A value or none.
    Optional(Option<Box<Value>>),
    /// Values by key.
    Map(BTreeMap<Key, Value>),
}

impl From<Tensor> for Value {
    fn from(t: Tensor) -> Value {
        let element = Element::of(t.dtype());
        Value::Tensor(t, element)
    }
}
impl From<Strings> for Value {
    fn from(s: Strings) -> Value {
        Value::Strings(s)
    }
}

impl Value {
    /// What it is, in a word.
    pub fn kind(&self) -> &'static str {
        match self {
            Value::Tensor(..) => "a tensor",
            Value::Strings(_) => "a tensor of strings",
            Value::Sequence(_) => "a sequence",
            Value::Optional(_) => "an optional",
            Value::Map(_) => "a map",
        }
    }
    /// The tensor of numbers that it is.
    pub fn tensor(&self) -> Result<Tensor> {
        match self {
            Value::Tensor(t, _) => Ok(t.clone()),
            other => Err(Error::elsewhere("onnx", format!("{} where a tensor is wanted", other.kind()))),
        }
    }
    /// The type of its elements.
    pub fn element(&self) -> Result<Element> {
        match self {
            Value::Tensor(_, e) => Ok(*e),
            Value::Strings(_) => Ok(Element::String),
            other => Err(Error::elsewhere("onnx", format!("{} has no element type", other.kind()))),
        }
    }
    /// Dims of a tensor, of numbers or texts.
    pub fn dims(&self) -> Result<Vec<usize>> {
        match self {
            Value::Strings(s) => Ok(s.dims.clone()),
            other => other.tensor()?.dims(),
        }
    }
    /// The error in it, if it failed.
    pub fn check(&self) -> Result<()> {
        match self {
            Value::Tensor(t, _) => t.check(),
            Value::Sequence(all) => all.iter().try_for_each(Value::check),
            Value::Optional(Some(v)) => v.check(),
            Value::Map(all) => all.values().try_for_each(Value::check),
            _ => Ok(()),
        }
    }
    /// The tensors in it.
    pub fn tensors<'a>(&'a self, found: &mut Vec<&'a Tensor>) {
        match self {
            Value::Tensor(t, _) => found.push(t),
            Value::Sequence(all) => all.iter().for_each(|v| v.tensors(found)),
            Value::Optional(Some(v)) => v.tensors(found),
            Value::Map(all) => all.values().for_each(|v| v.tensors(found)),
            _ => {}
        }
    }
    /// Whether it is, or holds, what only the host has: texts and maps.
    pub(crate) fn is_of_host(&self) -> bool {
        match self {
            Value::Tensor(..) | Value::Optional(None) => false,
            Value::Strings(_) | Value::Map(_) => true,
            Value::Sequence(all) => all.iter().any(Value::is_of_host),
            Value::Optional(Some(v)) => v.is_of_host(),
        }
    }
    /// Whether it holds as many values as a run happened to make.
    pub(crate) fn is_sequence(&self) -> bool {
        match self {
            Value::Optional(Some(v)) => v.is_sequence(),
            other => matches!(other, Value::Sequence(_)),
        }
    }
    /// Sizes on the host: integers, with variables where they follow from sizes that have some.
    pub fn sizes(&self) -> Result<Vec<Dim>> {
        match self.tensor()?.as_sizes() {
            Some(sizes) => Ok(sizes),
            None => Ok(self.ints()?.iter().map(Dim::from).collect()),
        }
    }
    /// How many dims it has.
    pub fn rank(&self) -> Result<usize> {
        match self {
            Value::Strings(s) => Ok(s.dims.len()),
            other => Ok(other.tensor()?.rank()),
        }
    }
    /// One of its dims.
    pub fn dim(&self, axis: usize) -> Result<Dim> {
        match self {
            Value::Strings(s) => Ok(s.dims.get(axis).map_or(Dim::from(1), Dim::from)),
            other => Ok(other.tensor()?.shape()[axis].clone()),
        }
    }
    /// Numbers on the host, whatever their type.
    pub fn numbers(&self) -> Result<Vec<f64>> {
        let t = self.tensor()?;
        t.as_numbers().map_or_else(|| t.double().to_vec::<f64>(), Ok)
    }
    /// Integers on the host, whatever their type: without computing where they follow from sizes alone.
    pub fn ints(&self) -> Result<Vec<i64>> {
        let t = self.tensor()?;
        let known = t.as_sizes().and_then(|all| all.iter().map(|d| d.as_int()).collect());
        match t.dtype() {
            d if !d.is_float() && known.is_some() => Ok(known.unwrap_or_default()),
            d if d.is_int() || d == DType::Bool => t.cast(DType::I64).to_vec::<i64>(),
            d => Err(Error::elsewhere("onnx", format!("{d} values where integers are wanted"))),
        }
    }
}

impl Strings {
    /// A text for each place.
    pub fn new(dims: Vec<usize>, texts: Vec<String>) -> Strings {
        Strings { dims, texts: texts.into() }
    }
    /// The texts moved as `f` moves numbers of their places.
    pub fn moved(&self, f: impl FnOnce(&Tensor) -> Result<Tensor>) -> Result<Strings> {
        let places = f(&Tensor::arange(self.texts.len()).long().reshape(&self.dims))?;
        let text = |i: &i64| self.texts.get(*i as usize).cloned().unwrap_or_default();
        Ok(Strings { dims: places.dims()?, texts: places.to_vec::<i64>()?.iter().map(text).collect() })
    }
    /// A number for each text, equal where texts are.
    pub fn numbered(&self, known: &mut Vec<String>) -> Tensor {
        let number = |t: &String| {
            let found = known.iter().position(|k| k == t);
            found.unwrap_or_else(|| {
                known.push(t.clone());
                known.len() - 1
            }) as i64
        };
        Tensor::from_vec(self.texts.iter().map(number).collect::<Vec<_>>(), &self.dims)
    }
}

impl Strings {
    /// These and others, moved as `f` moves numbers of their places.
    pub fn moved_with(
        &self,
        o: &Strings,
        f: impl FnOnce(&Tensor, &Tensor) -> Result<Tensor>,
    ) -> Result<Strings> {
        let all: Vec<String> = self.texts.iter().chain(o.texts.iter()).cloned().collect();
        let places =
            |s: &Strings, from: usize| (Tensor::arange(s.texts.len()).long() + from as i64).reshape(&s.dims);
        let moved = f(&places(self, 0), &places(o, self.texts.len()))?;
        let everything = Strings::new(vec![all.len()], all);
        everything.moved(|x| Ok(x.take(&moved)))
    }
    /// These and others, one after the other along an axis.
    pub fn joined(&self, o: &Strings, axis: isize) -> Result<Strings> {
        self.moved_with(o, |a, b| Ok(Tensor::cat(&[a.clone(), b.clone()], axis)))
    }
}
