//! JSON with its keys in order, read as values of templates and written as Python's `json.dumps` writes it.

use super::error::{Error, Result};
use minijinja::Value;
use minijinja::value::{Enumerator, Object, ValueKind};
use std::sync::Arc;

/// A value from JSON; keys keep their order.
pub fn parse(text: &str) -> Result<Value> {
    serde_json::from_str(text).map_err(|e| Error(format!("JSON: {e}")))
}
/// An object of these, in this order.
pub fn object(pairs: impl IntoIterator<Item = (String, Value)>) -> Value {
    Value::from_object(Ordered(pairs.into_iter().collect()))
}

#[derive(Debug)]
struct Ordered(Vec<(String, Value)>);

impl Object for Ordered {
    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        let key = key.as_str()?;
        self.0.iter().find(|(name, _)| name == key).map(|(_, value)| value.clone())
    }
    fn enumerate(self: &Arc<Self>) -> Enumerator {
        Enumerator::Values(self.0.iter().map(|(name, _)| Value::from(name.as_str())).collect())
    }
}

/// JSON of a value on one line, with blanks after commas and colons.
pub fn to_json(value: &Value) -> Result<String> {
    Style::default().write(value).map_err(Error)
}

/// How JSON is laid out.
pub(crate) struct Style {
    /// A line for each value, so far to the right.
    pub indent: Option<String>,
    pub comma: String,
    pub colon: String,
    pub sort_keys: bool,
    pub ascii: bool,
}

impl Default for Style {
    fn default() -> Style {
        Style { indent: None, comma: ", ".into(), colon: ": ".into(), sort_keys: false, ascii: false }
    }
}

/// Deeper values are taken for an attack on the stack.
const MAX_DEPTH: usize = 128;

impl Style {
    pub fn write(&self, value: &Value) -> std::result::Result<String, String> {
        let mut out = String::new();
        self.value(value, 0, &mut out)?;
        Ok(out)
    }
    fn value(&self, value: &Value, depth: usize, out: &mut String) -> std::result::Result<(), String> {
        if depth > MAX_DEPTH {
            return Err(format!("a value that is nested {MAX_DEPTH} times"));
        }
        match value.kind() {
            ValueKind::None => out.push_str("null"),
            ValueKind::Bool => out.push_str(if value.is_true() { "true" } else { "false" }),
            ValueKind::Number if value.is_integer() => out.push_str(&value.to_string()),
            ValueKind::Number => {
                out.push_str(&float(f64::try_from(value.clone()).map_err(|e| e.to_string())?))
            }
            ValueKind::String => self.text(value.as_str().unwrap_or_default(), out),
            ValueKind::Seq => {
                let items: Vec<Value> = value.try_iter().map_err(|e| e.to_string())?.collect();
                self.list(('[', ']'), &items, depth, out, |item, out| self.value(item, depth + 1, out))?;
            }
            ValueKind::Map => {
                let keys = value.try_iter().map_err(|e| e.to_string())?;
                let pair =
                    |key: Value| Ok((key_text(&key)?, value.get_item(&key).map_err(|e| e.to_string())?));
                let mut pairs =
                    keys.map(pair).collect::<std::result::Result<Vec<(String, Value)>, String>>()?;
                if self.sort_keys {
                    pairs.sort_by(|a, b| a.0.cmp(&b.0));
                }
                self.list(('{', '}'), &pairs, depth, out, |(key, value), out| {
                    self.text(key, out);
                    out.push_str(&self.colon);
                    self.value(value, depth + 1, out)
                })?;
            }
            other => return Err(format!("{other} is not JSON serializable")),
        }
        Ok(())
    }
    fn list<T>(
        &self,
        (open, close): (char, char),
        items: &[T],
        depth: usize,
        out: &mut String,
        write: impl Fn(&T, &mut String) -> std::result::Result<(), String>,
    ) -> std::result::Result<(), String> {
        let line = |depth: usize, out: &mut String| {
            if let Some(indent) = &self.indent {
                out.push('\n');
                out.push_str(&indent.repeat(depth));
            }
        };
        out.push(open);
        for (i, item) in items.iter().enumerate() {
            if i > 0 {
                out.push_str(&self.comma);
            }
            line(depth + 1, out);
            write(item, out)?;
        }
        if !items.is_empty() {
            line(depth, out);
        }
        out.push(close);
        Ok(())
    }
    fn text(&self, text: &str, out: &mut String) {
        out.push('"');
        for c in text.chars() {
            match c {
                '"' => out.push_str("\\\""),
                '\\' => out.push_str("\\\\"),
                '\n' => out.push_str("\\n"),
                '\r' => out.push_str("\\r"),
                '\t' => out.push_str("\\t"),
                '\u{8}' => out.push_str("\\b"),
                '\u{c}' => out.push_str("\\f"),
                c if c < ' ' || (self.ascii && !c.is_ascii()) || (self.ascii && c == '\u{7f}') => {
                    let mut units = [0; 2];
                    c.encode_utf16(&mut units).iter().for_each(|u| out.push_str(&format!("\\u{u:04x}")));
                }
                c => out.push(c),
            }
        }
        out.push('"');
    }
}

/// Keys that are no text are written as Python's are.
fn key_text(key: &Value) -> std::result::Result<String, String> {
    Ok(match key.kind() {
        ValueKind::String => key.as_str().unwrap_or_default().to_string(),
        ValueKind::None => "null".into(),
        ValueKind::Bool => key.is_true().to_string(),
        ValueKind::Number => key.to_string(),
        other => return Err(format!("keys must be texts, not {other}")),
    })
}

/// As Python's `repr` writes it: `3.0`, `2e+20`, `1e-05`.
pub(crate) fn float(x: f64) -> String {
    if x.is_nan() {
        return "NaN".into();
    }
    if x.is_infinite() {
        return if x > 0.0 { "Infinity" } else { "-Infinity" }.into();
    }
    let text = format!("{x:?}");
    let Some((digits, exponent)) = text.split_once('e') else { return text };
    let digits = digits.strip_suffix(".0").unwrap_or(digits);
    let (sign, exponent) = exponent.strip_prefix('-').map_or(('+', exponent), |e| ('-', e));
    format!("{digits}e{sign}{exponent:0>2}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_are_those_of_python() {
        let cases = [
            (1.5, "1.5"),
            (3.0, "3.0"),
            (2e20, "2e+20"),
            (1e-5, "1e-05"),
            (1.25e-7, "1.25e-07"),
            (1e16, "1e+16"),
        ];
        for (x, wanted) in cases {
            assert_eq!(float(x), wanted);
        }
        assert_eq!((float(0.0001), float(-0.0)), ("0.0001".to_string(), "-0.0".to_string()));
    }
    #[test]
    fn json_keeps_its_order_and_is_laid_out_as_python_does() {
        let v = parse(r#"{"b": [1, 2.0, null], "a": {"x": "ü\n\u0001"}, "c": [], "d": {}}"#).unwrap();
        assert_eq!(
            to_json(&v).unwrap(),
            r#"{"b": [1, 2.0, null], "a": {"x": "ü\n\u0001"}, "c": [], "d": {}}"#
        );
        let style = Style {
            indent: Some("  ".into()),
            comma: ",".into(),
            sort_keys: true,
            ascii: true,
            ..Style::default()
        };
        let wanted = "{\n  \"a\": {\n    \"x\": \"\\u00fc\\n\\u0001\"\n  },\n  \"b\": [\n    1,\n    2.0,\n    null\n  ],\n  \"c\": [],\n  \"d\": {}\n}";
        assert_eq!(style.write(&v).unwrap(), wanted);
        assert!(parse("{").is_err());
    }
}
