//! PTX as words and punctuation, each with its line.

/// A piece of the text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Token<'a> {
    /// A name, number or single character.
    pub text: &'a str,
    /// Where it is, from 1.
    pub line: u32,
}

/// What is wrong, and where.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Error {
    /// From 1; 0 where it is the whole text.
    pub line: u32,
    /// In words.
    pub message: String,
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ptx input, line {}; error: {}", self.line, self.message)
    }
}

/// The tokens of a text, read one after the other.
pub struct Tokens<'a> {
    all: Vec<Token<'a>>,
    at: usize,
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '$' | '%' | '.')
}

impl<'a> Tokens<'a> {
    /// Of a text, without its comments.
    pub fn new(text: &'a str) -> Tokens<'a> {
        let mut all = vec![];
        for (number, line) in text.lines().enumerate() {
            let mut rest = line.split("//").next().unwrap_or("").trim_start();
            while let Some(first) = rest.chars().next() {
                let end = match is_word(first) {
                    true => rest.find(|c| !is_word(c)).unwrap_or(rest.len()),
                    false => first.len_utf8(),
                };
                all.push(Token { text: &rest[..end], line: number as u32 + 1 });
                rest = rest[end..].trim_start();
            }
        }
        Tokens { all, at: 0 }
    }
    /// The next one, if there is one.
    pub fn peek(&self) -> Option<&'a str> {
        self.all.get(self.at).map(|t| t.text)
    }
    /// One that comes so much later.
    pub fn peek_at(&self, ahead: usize) -> Option<&'a str> {
        self.all.get(self.at + ahead).map(|t| t.text)
    }
    /// The line of the next one, or of the last.
    pub fn line(&self) -> u32 {
        self.all.get(self.at).or(self.all.last()).map_or(0, |t| t.line)
    }
    /// An error here.
    pub fn error(&self, message: impl Into<String>) -> Error {
        Error { line: self.line(), message: message.into() }
    }
    /// Take the next one.
    pub fn word(&mut self) -> Result<&'a str, Error> {
        let text = self.peek().ok_or_else(|| self.error("the text ends too early"))?;
        self.at += 1;
        Ok(text)
    }
    /// Take the next one if it is this.
    pub fn take(&mut self, text: &str) -> bool {
        let is_it = self.peek() == Some(text);
        self.at += usize::from(is_it);
        is_it
    }
    /// The next one is this.
    pub fn expect(&mut self, text: &str) -> Result<(), Error> {
        match self.take(text) {
            true => Ok(()),
            false => {
                Err(self.error(format!("'{text}' is wanted, not '{}'", self.peek().unwrap_or("the end"))))
            }
        }
    }
    /// A whole number, maybe negative.
    pub fn number(&mut self) -> Result<i128, Error> {
        let is_negative = self.take("-");
        let word = self.word()?;
        let value = match word.strip_prefix("0x").or(word.strip_prefix("0X")) {
            Some(hex) => i128::from_str_radix(hex, 16),
            None => word.parse(),
        };
        let value = value.map_err(|_| self.error(format!("'{word}' is no number")))?;
        Ok(if is_negative { -value } else { value })
    }
    /// A count that fits a machine.
    pub fn count(&mut self) -> Result<u32, Error> {
        let n = self.number()?;
        u32::try_from(n).map_err(|_| self.error(format!("{n} is out of range")))
    }
}
