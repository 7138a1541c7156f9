//! Regular expressions as ONNX writes them: those of RE2, whose classes `\d`, `\s`, `\w` and borders of words are of ASCII.

/// A compiled pattern, matched against whole texts.
pub(super) struct Regex(regex::Regex);

impl Regex {
    pub fn new(pattern: &str) -> Result<Regex, String> {
        let mut ascii = String::new();
        let mut chars = pattern.chars();
        while let Some(c) = chars.next() {
            ascii.push(c);
            if c == '\\' {
                let escaped = chars.next().ok_or("nothing after the last \\")?;
                match meaning(escaped) {
                    Some(class) => {
                        ascii.pop();
                        ascii.push_str(class);
                    }
                    None => ascii.push(escaped),
                }
            }
        }
        // by itself first: what closes more than it opens would close the group around it
        let whole = regex::Regex::new(&ascii).and_then(|_| regex::Regex::new(&format!(r"\A(?:{ascii})\z")));
        whole.map(Regex).map_err(|e| e.to_string())
    }
    /// Whether it matches the whole of a text.
    pub fn matches(&self, text: &str) -> bool {
        self.0.is_match(text)
    }
}

/// What an escaped letter stands for in ASCII, inside a class too.
fn meaning(letter: char) -> Option<&'static str> {
    Some(match letter {
        'd' => "[0-9]",
        'D' => "[^0-9]",
        's' => r"[\t\n\f\r ]",
        'S' => r"[^\t\n\f\r ]",
        'w' => "[0-9A-Za-z_]",
        'W' => "[^0-9A-Za-z_]",
        'b' => r"(?-u:\b)",
        'B' => r"(?-u:\B)",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::Regex;

    #[test]
    fn whole_texts_are_matched() {
        let cases: &[(&str, &[&str], &[&str])] = &[
            ("", &[""], &["a"]),
            ("a|bc|", &["a", "bc", ""], &["abc", "b"]),
            ("(a|b)*c", &["c", "abbac"], &["ab", "abcd"]),
            ("x{2,3}y{2}z{1,}", &["xxyyz", "xxxyyzz"], &["xyyz", "xxxxyyz", "xxyy"]),
            (r"[\w.-]+@\d+", &["a.b-c@12"], &["@1", "a@x"]),
            ("[^a-c]+", &["xyz"], &["xbz", ""]),
            (r"www\.[\w.-]+\.\bcom\b", &["www.x.com"], &["www.x.co"]),
            ("(?:ab)+?", &["abab"], &["aba"]),
            (r"\w\W\s\S[\d\D]", &["aä b1"], &["ää b1", "aa b1", "aä\u{a0}b1"]),
            (r"a\Bb\b.", &["ab."], &["abc", "ab\n"]),
            ("(a*)*b", &["b", "aaab"], &["aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaac"]),
        ];
        for (pattern, yes, no) in cases {
            let r = Regex::new(pattern).unwrap();
            yes.iter().for_each(|t| assert!(r.matches(t), "{pattern} {t}"));
            no.iter().for_each(|t| assert!(!r.matches(t), "{pattern} {t}"));
        }
    }

    #[test]
    fn bad_patterns_are_refused() {
        for bad in ["(", ")", "[a", "*", r"\", "a{x}", "(?=a)", "a)(?:b"] {
            assert!(Regex::new(bad).is_err(), "{bad}");
        }
        assert!(Regex::new("((a{999}){999}){999}").is_err());
    }
}
