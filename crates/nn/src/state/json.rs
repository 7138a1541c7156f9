//! JSON, as much as file headers need: text in, a value out, and for what is wrong the byte where it is.

use std::collections::BTreeMap;

/// A JSON value. Numbers stay text until someone says what they should be.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// `null`, `true`, `false` or a number, as written.
    Word(String),
    /// A string, escapes resolved.
    String(String),
    /// A list.
    Array(Vec<Value>),
    /// An object; a key that stands twice is an error.
    Object(BTreeMap<String, Value>),
}

impl Value {
    /// The string.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Value::String(s) => Some(s),
            _ => None,
        }
    }
    /// The number, if it is a plain one that fits.
    pub fn as_usize(&self) -> Option<usize> {
        match self {
            Value::Word(w) => w.parse().ok(),
            _ => None,
        }
    }
    /// The list.
    pub fn as_array(&self) -> Option<&[Value]> {
        match self {
            Value::Array(a) => Some(a),
            _ => None,
        }
    }
    /// The object.
    pub fn as_object(&self) -> Option<&BTreeMap<String, Value>> {
        match self {
            Value::Object(o) => Some(o),
            _ => None,
        }
    }
}

/// Deeper nesting is taken for an attack on the stack.
const MAX_DEPTH: usize = 64;

/// One value, with nothing but white space around it.
pub fn parse(text: &str) -> Result<Value, String> {
    let mut p = Parser { text, at: 0 };
    let value = p.value(0)?;
    p.skip_space();
    if p.at < text.len() {
        return p.fail("something follows the value");
    }
    Ok(value)
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
}

impl Parser<'_> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }
    fn skip_space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }
    fn take(&mut self, c: u8) -> bool {
        self.skip_space();
        let hit = self.peek() == Some(c);
        self.at += hit as usize;
        hit
    }
    fn fail<T>(&self, what: &str) -> Result<T, String> {
        Err(format!("{what} at byte {}", self.at))
    }
    fn value(&mut self, depth: usize) -> Result<Value, String> {
        if depth > MAX_DEPTH {
            return self.fail("nested too deeply");
        }
        self.skip_space();
        match self.peek() {
            Some(b'{') => self.object(depth),
            Some(b'[') => self.array(depth),
            Some(b'"') => self.string().map(Value::String),
            Some(_) => self.word(),
            None => self.fail("the text ends where a value should be"),
        }
    }
    fn object(&mut self, depth: usize) -> Result<Value, String> {
        let mut members = BTreeMap::new();
        self.at += 1;
        if self.take(b'}') {
            return Ok(Value::Object(members));
        }
        loop {
            self.skip_space();
            let key = self.string()?;
            if !self.take(b':') {
                return self.fail("expected ':'");
            }
            let value = self.value(depth + 1)?;
            if members.contains_key(&key) {
                return self.fail(&format!("the key {key:?} stands twice, again"));
            }
            members.insert(key, value);
            if self.take(b'}') {
                return Ok(Value::Object(members));
            }
            if !self.take(b',') {
                return self.fail("expected ',' or '}'");
            }
        }
    }
    fn array(&mut self, depth: usize) -> Result<Value, String> {
        let mut items = Vec::new();
        self.at += 1;
        if self.take(b']') {
            return Ok(Value::Array(items));
        }
        loop {
            items.push(self.value(depth + 1)?);
            if self.take(b']') {
                return Ok(Value::Array(items));
            }
            if !self.take(b',') {
                return self.fail("expected ',' or ']'");
            }
        }
    }
    fn word(&mut self) -> Result<Value, String> {
        let start = self.at;
        while self.peek().is_some_and(|c| c.is_ascii_alphanumeric() || matches!(c, b'-' | b'+' | b'.')) {
            self.at += 1;
        }
        let word = &self.text[start..self.at];
        let number = word.starts_with(|c: char| c == '-' || c.is_ascii_digit())
            && word.parse::<f64>().is_ok_and(f64::is_finite);
        if number || matches!(word, "null" | "true" | "false") {
            return Ok(Value::Word(word.to_string()));
        }
        self.at = start;
        self.fail("expected a value")
    }
    fn string(&mut self) -> Result<String, String> {
        if self.peek() != Some(b'"') {
            return self.fail("expected a string");
        }
        self.at += 1;
        let mut out = String::new();
        loop {
            // A quote or a backslash is never part of another character, so the cuts are at characters.
            let start = self.at;
            while self.peek().is_some_and(|c| c != b'"' && c != b'\\' && c >= 0x20) {
                self.at += 1;
            }
            out.push_str(&self.text[start..self.at]);
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(out);
                }
                Some(b'\\') => {
                    self.at += 1;
                    out.push(self.escape()?);
                }
                Some(_) => return self.fail("a control character in a string"),
                None => return self.fail("a string without an end"),
            }
        }
    }
    fn escape(&mut self) -> Result<char, String> {
        let c = self.peek();
        self.at += 1;
        Ok(match c {
            Some(c @ (b'"' | b'\\' | b'/')) => c as char,
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => {
                let high = self.hex4()?;
                let mut units = vec![high];
                if (0xd800..0xdc00).contains(&high) && self.text[self.at..].starts_with("\\u") {
                    self.at += 2;
                    units.push(self.hex4()?);
                }
                match char::decode_utf16(units).next() {
                    Some(Ok(c)) => c,
                    _ => return self.fail("half of a surrogate pair"),
                }
            }
            _ => return self.fail("an unknown escape"),
        })
    }
    fn hex4(&mut self) -> Result<u16, String> {
        let digits = self.text.get(self.at..self.at + 4).filter(|d| d.bytes().all(|b| b.is_ascii_hexdigit()));
        match digits.and_then(|d| u16::from_str_radix(d, 16).ok()) {
            Some(unit) => {
                self.at += 4;
                Ok(unit)
            }
            None => self.fail("expected four hexadecimal digits"),
        }
    }
}

/// Appends `text` as a JSON string.
pub fn write_string(out: &mut String, text: &str) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            c if c < ' ' => out.push_str(&format!("\\u{:04x}", c as u32)),
            c => out.push(c),
        }
    }
    out.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_survive_writing_and_parsing() {
        for s in ["", "plain", "quote\" back\\slash", "tab\tline\n\u{1}", "grüße 🦀", "a.b.0.weight"] {
            let mut text = String::new();
            write_string(&mut text, s);
            assert_eq!(parse(&text), Ok(Value::String(s.into())));
        }
        assert_eq!(parse(r#""\ud83e\udd80\u00fc\/""#), Ok(Value::String("🦀ü/".into())));
    }

    #[test]
    fn values_of_every_kind() {
        let v = parse(r#" {"a": [1, -2.5e3, null, true], "b": {}, "c": [] } "#).unwrap();
        let o = v.as_object().unwrap();
        assert_eq!(o["a"].as_array().unwrap()[0].as_usize(), Some(1));
        assert_eq!(o["a"].as_array().unwrap()[1].as_usize(), None);
        assert!(o["b"].as_object().unwrap().is_empty() && o["c"].as_array().unwrap().is_empty());
    }

    #[test]
    fn broken_text_is_an_error_with_its_place() {
        let deep = "[".repeat(100_000);
        let cases = [
            ("", "ends"),
            ("{", "expected a string at byte 1"),
            ("{\"a\"}", "expected ':'"),
            ("{\"a\":1 \"b\":2}", "expected ',' or '}'"),
            ("{\"a\":1,\"a\":2}", "stands twice"),
            ("[1,]", "expected a value"),
            ("[1 2]", "expected ',' or ']'"),
            ("nul", "expected a value"),
            ("inf", "expected a value"),
            ("\"abc", "without an end"),
            ("\"\\x\"", "unknown escape"),
            ("\"\\u12", "hexadecimal"),
            ("\"\\ud800\"", "surrogate"),
            ("\"\u{1}\"", "control character"),
            ("1 2", "follows the value"),
            (&deep, "nested too deeply"),
        ];
        for (text, part) in cases {
            let e = parse(text).unwrap_err();
            assert!(e.contains(part), "{text:.20}: {e}");
        }
    }
}
