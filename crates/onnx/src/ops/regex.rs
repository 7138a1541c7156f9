//! Regular expressions, matched against whole texts in time linear in their length.
//!
//! ```text
//! pattern  ->  program of Take, Split, Jump, Assert  ->  all threads of it side by side, a character at a time
//! ```

type Read<T> = Result<T, String>;

/// Characters, or all others.
#[derive(Clone, Debug)]
struct Class {
    ranges: Vec<(char, char)>,
    negated: bool,
}

impl Class {
    fn has(&self, c: char) -> bool {
        self.ranges.iter().any(|(a, b)| (*a..=*b).contains(&c)) != self.negated
    }
    fn one(c: char) -> Class {
        Class { ranges: vec![(c, c)], negated: false }
    }
}

#[derive(Clone, Copy, Debug)]
enum Assert {
    Start,
    End,
    Border,
    NoBorder,
}

#[derive(Clone, Debug)]
enum Step {
    Take(Class),
    Split(usize, usize),
    Jump(usize),
    Assert(Assert),
    Match,
}

/// A compiled pattern.
pub(super) struct Regex(Vec<Step>);

/// Longer programs are refused: counted repeats multiply.
const MAX_STEPS: usize = 1 << 16;
const MAX_DEPTH: usize = 100;

struct Parser<'a> {
    rest: std::iter::Peekable<std::str::Chars<'a>>,
    steps: Vec<Step>,
    depth: usize,
}

fn shorthand(c: char) -> Option<Class> {
    let ranges: &[(char, char)] = match c.to_ascii_lowercase() {
        'd' => &[('0', '9')],
        'w' => &[('0', '9'), ('A', 'Z'), ('_', '_'), ('a', 'z')],
        's' => &[('\t', '\r'), (' ', ' ')],
        _ => return None,
    };
    Some(Class { ranges: ranges.to_vec(), negated: c.is_ascii_uppercase() })
}
fn literal(c: char) -> Read<char> {
    match c {
        'n' => Ok('\n'),
        't' => Ok('\t'),
        'r' => Ok('\r'),
        c if c.is_ascii_alphanumeric() => Err(format!("no escape \\{c}")),
        c => Ok(c),
    }
}

impl Parser<'_> {
    fn push(&mut self, step: Step) -> Read<()> {
        if self.steps.len() >= MAX_STEPS {
            return Err(format!("more than {MAX_STEPS} steps"));
        }
        self.steps.push(step);
        Ok(())
    }
    /// Alternatives: `a|b`.
    fn choice(&mut self) -> Read<()> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(format!("nested more than {MAX_DEPTH} deep"));
        }
        let start = self.steps.len();
        self.sequence()?;
        let mut ends = vec![];
        while self.rest.next_if_eq(&'|').is_some() {
            // what is there becomes the first way of a split
            self.insert(start)?;
            ends.push(self.steps.len());
            self.push(Step::Jump(0))?;
            let other = self.steps.len();
            self.steps[start] = Step::Split(start + 1, other);
            ends.iter_mut().rev().skip(1).for_each(|e| *e += 1);
            self.sequence()?;
        }
        let end = self.steps.len();
        ends.iter().for_each(|e| self.steps[*e] = Step::Jump(end));
        self.depth -= 1;
        Ok(())
    }
    /// Makes room for a step at `at`; what jumps beyond it jumps further.
    fn insert(&mut self, at: usize) -> Read<()> {
        self.push(Step::Match)?;
        let moved: Vec<Step> = self.steps[at..self.steps.len() - 1].iter().map(|s| s.moved(1, at)).collect();
        self.steps.truncate(at + 1);
        self.steps.extend(moved);
        Ok(())
    }
    fn sequence(&mut self) -> Read<()> {
        while let Some(c) = self.rest.peek().copied()
            && c != '|'
            && c != ')'
        {
            let start = self.steps.len();
            self.atom()?;
            self.repeats(start)?;
        }
        Ok(())
    }
    fn atom(&mut self) -> Read<()> {
        match self.rest.next() {
            Some('(') => {
                if self.rest.next_if_eq(&'?').is_some() && self.rest.next() != Some(':') {
                    return Err("only plain groups and (?: are known".into());
                }
                self.choice()?;
                match self.rest.next() {
                    Some(')') => Ok(()),
                    _ => Err("a group is not closed".into()),
                }
            }
            Some('[') => {
                let class = self.class()?;
                self.push(Step::Take(class))
            }
            Some('.') => self.push(Step::Take(Class { ranges: vec![('\n', '\n')], negated: true })),
            Some('^') => self.push(Step::Assert(Assert::Start)),
            Some('$') => self.push(Step::Assert(Assert::End)),
            Some('\\') => match self.rest.next() {
                Some('b') => self.push(Step::Assert(Assert::Border)),
                Some('B') => self.push(Step::Assert(Assert::NoBorder)),
                Some(c) => {
                    let class = shorthand(c).map_or_else(|| literal(c).map(Class::one), Ok)?;
                    self.push(Step::Take(class))
                }
                None => Err("nothing after the last \\".into()),
            },
            Some(c @ ('*' | '+' | '?')) => Err(format!("{c} repeats nothing")),
            Some(c) => self.push(Step::Take(Class::one(c))),
            None => Ok(()),
        }
    }
    fn class(&mut self) -> Read<Class> {
        let negated = self.rest.next_if_eq(&'^').is_some();
        let mut ranges = vec![];
        let mut is_first = true;
        loop {
            let c = match self.rest.next() {
                None => return Err("a class is not closed".into()),
                Some(']') if !is_first => return Ok(Class { ranges, negated }),
                Some('\\') => match self.rest.next() {
                    Some(c) if shorthand(c).is_some_and(|s| !s.negated) => {
                        ranges.extend(shorthand(c).map(|s| s.ranges).unwrap_or_default());
                        is_first = false;
                        continue;
                    }
                    Some(c) => literal(c)?,
                    None => return Err("nothing after the last \\".into()),
                },
                Some(c) => c,
            };
            is_first = false;
            let mut ahead = self.rest.clone();
            if ahead.next() == Some('-') && ahead.next().is_some_and(|c| c != ']') {
                self.rest.next();
                let end = self.rest.next().map_or(Ok(c), |e| match e {
                    '\\' => self.rest.next().map_or(Ok(e), literal),
                    e => Ok(e),
                })?;
                ranges.push((c, end));
            } else {
                ranges.push((c, c));
            }
        }
    }
    /// `*`, `+`, `?` and `{m,n}` after the steps from `start` on.
    fn repeats(&mut self, start: usize) -> Read<()> {
        let (least, most) = match self.rest.peek() {
            Some('*') => (0, None),
            Some('+') => (1, None),
            Some('?') => (0, Some(1)),
            Some('{') => match self.counts()? {
                Some(counts) => counts,
                None => return Ok(()),
            },
            _ => return Ok(()),
        };
        self.rest.next();
        // which of several matches is found makes no difference here
        self.rest.next_if_eq(&'?');
        let body: Vec<Step> = self.steps.split_off(start);
        let put = |p: &mut Self| {
            let by = p.steps.len() as isize - start as isize;
            body.iter().try_for_each(|s| p.push(s.moved(by, 0)))
        };
        (0..least).try_for_each(|_| put(self))?;
        match most {
            None => {
                let split = self.steps.len();
                self.push(Step::Match)?;
                put(self)?;
                self.push(Step::Jump(split))?;
                self.steps[split] = Step::Split(split + 1, self.steps.len());
            }
            Some(most) => {
                for _ in least..most {
                    let split = self.steps.len();
                    self.push(Step::Match)?;
                    put(self)?;
                    self.steps[split] = Step::Split(split + 1, self.steps.len());
                }
            }
        }
        Ok(())
    }
    /// The numbers in braces, whose closing one comes next; none where they are plain text.
    fn counts(&mut self) -> Read<Option<(usize, Option<usize>)>> {
        let mut ahead = self.rest.clone();
        ahead.next();
        let inside: String = ahead.by_ref().take_while(|c| *c != '}').collect();
        let number = |t: &str| t.parse::<usize>().map_err(|_| format!("{{{inside}}} is no count"));
        let counts = match inside.split_once(',') {
            None => (number(&inside)?, Some(number(&inside)?)),
            Some((a, "")) => (number(a)?, None),
            Some((a, b)) => (number(a)?, Some(number(b)?)),
        };
        // up to the closing one
        for _ in 0..=inside.chars().count() {
            self.rest.next();
        }
        Ok(Some(counts))
    }
}

impl Step {
    /// The step with its targets moved, those before `from` left where they are.
    fn moved(&self, by: isize, from: usize) -> Step {
        let to = |t: usize| if t >= from { t.saturating_add_signed(by) } else { t };
        match self {
            Step::Split(a, b) => Step::Split(to(*a), to(*b)),
            Step::Jump(a) => Step::Jump(to(*a)),
            other => other.clone(),
        }
    }
}

impl Regex {
    pub fn new(pattern: &str) -> Read<Regex> {
        let mut p = Parser { rest: pattern.chars().peekable(), steps: vec![], depth: 0 };
        p.choice()?;
        match p.rest.next() {
            None => {
                p.push(Step::Match)?;
                Ok(Regex(p.steps))
            }
            Some(c) => Err(format!("{c:?} closes nothing")),
        }
    }
    /// Whether it matches the whole of a text.
    pub fn matches(&self, text: &str) -> bool {
        let chars: Vec<char> = text.chars().collect();
        let is_word = |i: Option<usize>| {
            i.and_then(|i| chars.get(i)).is_some_and(|c| c.is_ascii_alphanumeric() || *c == '_')
        };
        let mut now = vec![0];
        for at in 0..=chars.len() {
            let border = is_word(at.checked_sub(1)) != is_word(Some(at));
            let holds = |a: Assert| match a {
                Assert::Start => at == 0,
                Assert::End => at == chars.len(),
                Assert::Border => border,
                Assert::NoBorder => !border,
            };
            let (mut seen, mut next) = (vec![false; self.0.len()], vec![]);
            while let Some(pc) = now.pop() {
                if std::mem::replace(&mut seen[pc], true) {
                    continue;
                }
                match &self.0[pc] {
                    Step::Split(a, b) => now.extend([*a, *b]),
                    Step::Jump(a) => now.push(*a),
                    Step::Assert(a) if holds(*a) => now.push(pc + 1),
                    Step::Take(class) if chars.get(at).is_some_and(|c| class.has(*c)) => next.push(pc + 1),
                    Step::Match if at == chars.len() => return true,
                    _ => {}
                }
            }
            now = next;
        }
        false
    }
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
        for bad in ["(", ")", "[a", "*", r"\", "a{x}", "(?=a)"] {
            assert!(Regex::new(bad).is_err(), "{bad}");
        }
        assert!(Regex::new("((a{999}){999}){999}").is_err());
    }
}
