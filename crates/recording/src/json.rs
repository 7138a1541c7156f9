//! Just enough JSON to be written.

use std::fmt::Write;

/// Values one after the other; commas come by themselves.
#[derive(Default)]
pub struct Json {
    out: String,
    needs_comma: bool,
}

impl Json {
    /// Nothing yet.
    pub fn new() -> Json {
        Json::default()
    }
    /// The text.
    pub fn finish(self) -> String {
        self.out
    }
    fn begin(&mut self) -> &mut String {
        if std::mem::replace(&mut self.needs_comma, true) {
            self.out.push(',');
        }
        &mut self.out
    }
    /// The name of the next value.
    pub fn key(&mut self, name: &str) -> &mut Json {
        self.text(name);
        self.out.push(':');
        self.needs_comma = false;
        self
    }
    /// A whole number.
    pub fn int(&mut self, n: u64) -> &mut Json {
        _ = write!(self.begin(), "{n}");
        self
    }
    /// A number.
    pub fn number(&mut self, n: f64) -> &mut Json {
        let n = if n.is_finite() { n } else { 0.0 };
        _ = write!(self.begin(), "{n}");
        self
    }
    /// A text.
    pub fn text(&mut self, text: &str) -> &mut Json {
        let out = self.begin();
        out.push('"');
        for c in text.chars() {
            match c {
                '"' => out.push_str("\\\""),
                '\\' => out.push_str("\\\\"),
                '\n' => out.push_str("\\n"),
                c if c < ' ' || c == '<' || c == '\u{2028}' || c == '\u{2029}' => {
                    _ = write!(out, "\\u{:04x}", c as u32);
                }
                c => out.push(c),
            }
        }
        out.push('"');
        self
    }
    /// Values in brackets.
    pub fn list(&mut self, inside: impl FnOnce(&mut Json)) -> &mut Json {
        self.around('[', ']', inside)
    }
    /// Names and values in braces.
    pub fn object(&mut self, inside: impl FnOnce(&mut Json)) -> &mut Json {
        self.around('{', '}', inside)
    }
    fn around(&mut self, open: char, close: char, inside: impl FnOnce(&mut Json)) -> &mut Json {
        self.begin().push(open);
        self.needs_comma = false;
        inside(self);
        self.out.push(close);
        self.needs_comma = true;
        self
    }
    /// Whole numbers in brackets.
    pub fn ints(&mut self, all: impl IntoIterator<Item = u64>) -> &mut Json {
        self.list(|j| all.into_iter().for_each(|n| _ = j.int(n)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_separated_and_texts_are_safe() {
        let mut j = Json::new();
        j.object(|j| {
            j.key("a").ints([1, 2]).key("b").text("</script>\"\\\n\u{1}");
            j.key("c").list(|j| _ = j.object(|_| {}).number(f64::NAN));
        });
        let text = r#"{"a":[1,2],"b":"\u003c/script>\"\\\n\u0001","c":[{},0]}"#;
        assert_eq!(j.finish(), text);
    }
}
