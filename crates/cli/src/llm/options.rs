//! Words after a command: `--name value`.

use frit_llm::cache::CacheType;
use frit_llm::sample::Sampling;
use frit_llm::{Options, Products};
use std::path::PathBuf;
use std::str::FromStr;

/// Options that were given, each taken by its name.
pub struct Given<'a> {
    words: Vec<(&'a str, &'a str)>,
}

impl<'a> Given<'a> {
    /// Pairs of a name and a value.
    pub fn of(words: &[&'a str]) -> Result<Given<'a>, String> {
        let mut pairs = vec![];
        let mut rest = words.iter();
        while let Some(name) = rest.next() {
            let Some(plain) = name.strip_prefix("--") else { return Err(format!("{name} is no option")) };
            match plain.split_once('=') {
                Some((name, value)) => pairs.push((name, value)),
                None => pairs.push((plain, *rest.next().ok_or(format!("{name} needs a value"))?)),
            }
        }
        Ok(Given { words: pairs })
    }
    /// Every value of a name.
    pub fn all(&mut self, name: &str) -> Vec<&'a str> {
        let found = self.words.iter().filter(|w| w.0 == name).map(|w| w.1).collect();
        self.words.retain(|w| w.0 != name);
        found
    }
    /// The value of a name, the last if there are several.
    pub fn text(&mut self, name: &str) -> Option<&'a str> {
        self.all(name).pop()
    }
    /// The same as a number.
    pub fn number<T: FromStr>(&mut self, name: &str) -> Result<Option<T>, String> {
        let parse = |v: &str| v.parse().map_err(|_| format!("--{name} {v} is not a number that fits"));
        self.text(name).map(parse).transpose()
    }
    /// One of some values by its name, the first if it was not given.
    pub fn choice<T: Copy>(&mut self, name: &str, values: &[(&str, T)]) -> Result<T, String> {
        let Some(word) = self.text(name) else {
            return values.first().map(|v| v.1).ok_or(format!("--{name} has no values"));
        };
        let all = || values.iter().map(|v| v.0).collect::<Vec<_>>().join(" or ");
        let found = values.iter().find(|v| v.0 == word);
        found.map(|v| v.1).ok_or_else(|| format!("--{name} {word}: {}", all()))
    }
    /// How a model is opened.
    pub fn opening(&mut self) -> Result<Options, String> {
        Ok(Options {
            context: self.number("context")?,
            adapter: self.text("adapter").map(PathBuf::from),
            is_merged: self.choice("merge", &[("no", false), ("yes", true)])?,
            products: self.choice(
                "products",
                &[("rounded", Products::Rounded), ("bytes", Products::Bytes), ("float", Products::Float)],
            )?,
            ..Options::default()
        })
    }
    /// That nothing is left.
    pub fn finish(self) -> Result<(), String> {
        match self.words.first() {
            Some((name, _)) => Err(format!("there is no option --{name}; see frit llm --help")),
            None => Ok(()),
        }
    }
    /// How tokens are chosen, as in a chat.
    pub fn sampling(&mut self) -> Result<Sampling, String> {
        Ok(Sampling {
            temperature: self.number("temperature")?.unwrap_or(0.7),
            top_k: self.number("top-k")?.unwrap_or(40),
            top_p: self.number("top-p")?.unwrap_or(0.95),
            min_p: self.number("min-p")?.unwrap_or(0.05),
            typical_p: self.number("typical-p")?.unwrap_or(1.0),
            repetition_penalty: self.number("repetition-penalty")?.unwrap_or(1.0),
            seed: self.number("seed")?,
            ..Sampling::default()
        })
    }
    /// How keys and values are kept.
    pub fn cache(&mut self) -> Result<CacheType, String> {
        self.text("cache").map_or(Ok(CacheType::F16), cache)
    }
}

/// How keys and values are kept, by name.
pub fn cache(name: &str) -> Result<CacheType, String> {
    match name {
        "f16" => Ok(CacheType::F16),
        "f32" => Ok(CacheType::F32),
        "bf16" => Ok(CacheType::BF16),
        "int8" => Ok(CacheType::Int8),
        other => Err(format!("--cache {other}: f32, f16, bf16 or int8")),
    }
}
