//! Texts that end an answer, in a text that comes piece by piece.

/// Passes text on but for what may be the beginning of a stop.
///
/// ```
/// # use frit_llm::stops::Stops;
/// let mut s = Stops::new(vec!["\n\nQ:".into()]);
/// assert_eq!(s.push("an answer\n"), ("an answer".to_string(), false));
/// assert_eq!(s.push("and\n\n"), ("\nand".to_string(), false));
/// assert_eq!(s.push("Q: more"), (String::new(), true));
/// ```
#[derive(Clone, Debug, Default)]
pub struct Stops {
    stops: Vec<String>,
    held: String,
}

impl Stops {
    /// For some texts; empty ones stop nothing.
    pub fn new(stops: Vec<String>) -> Stops {
        Stops { stops: stops.into_iter().filter(|s| !s.is_empty()).collect(), held: String::new() }
    }
    /// What is safe to show after one more piece, and whether a stop was in it: then that is all.
    pub fn push(&mut self, text: &str) -> (String, bool) {
        self.held.push_str(text);
        if let Some(at) = self.stops.iter().filter_map(|s| self.held.find(s)).min() {
            self.held.truncate(at);
            return (std::mem::take(&mut self.held), true);
        }
        let begins_stop = |at: usize| self.stops.iter().any(|s| s.starts_with(&self.held[at..]));
        let places = self.held.char_indices().map(|(at, _)| at);
        let keep = places.into_iter().find(|at| begins_stop(*at)).unwrap_or(self.held.len());
        let rest = self.held.split_off(keep);
        (std::mem::replace(&mut self.held, rest), false)
    }
    /// What was held back, at the end of the text.
    pub fn finish(self) -> String {
        self.held
    }
}
