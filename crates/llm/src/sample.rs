//! From logits to a token: a list of plain functions over a slice, in a fixed order.
//!
//! ```text
//! logits -> bias -> penalties -> temperature -> top-k -> typical -> top-p -> min-p -> draw
//! ```
//! Each sequence has a random stream of its own, so what it draws depends on its seed and on nothing beside it.

use frit_tensor::{Error, Result};

/// How tokens are chosen. The default is the most likely token each time.
#[derive(Clone, Debug, PartialEq)]
pub struct Sampling {
    /// Logits are divided by this; 0 takes the most likely token.
    pub temperature: f32,
    /// So many of the most likely are kept; 0 keeps all.
    pub top_k: usize,
    /// The most likely are kept until they have this probability together.
    pub top_p: f32,
    /// Those are kept that have at least this part of the probability of the most likely.
    pub min_p: f32,
    /// Those nearest to the expected surprise are kept until they have this probability together.
    pub typical_p: f32,
    /// Logits of tokens that were seen are divided by this where positive, else multiplied.
    pub repetition_penalty: f32,
    /// How many tokens back the repetition penalty looks, in the prompt as well.
    pub penalty_window: usize,
    /// Taken off for each time that a token came behind the prompt.
    pub frequency_penalty: f32,
    /// Taken off once if a token came behind the prompt.
    pub presence_penalty: f32,
    /// So many tokens are the prompt, which frequency and presence do not count.
    pub prompt: usize,
    /// Added to the logits of tokens.
    pub bias: Vec<(u32, f32)>,
    /// The beginning of the random stream; another one each time if not given.
    pub seed: Option<u64>,
}

impl Default for Sampling {
    fn default() -> Sampling {
        Sampling {
            temperature: 0.0,
            top_k: 0,
            top_p: 1.0,
            min_p: 0.0,
            typical_p: 1.0,
            repetition_penalty: 1.0,
            penalty_window: 64,
            frequency_penalty: 0.0,
            presence_penalty: 0.0,
            prompt: 0,
            bias: vec![],
            seed: None,
        }
    }
}

impl Sampling {
    /// That every number makes sense, for a model of so many tokens.
    pub fn check(&self, tokens: usize) -> Result<()> {
        let within = |name: &str, v: f32, low: f32, high: f32| match v >= low && v <= high {
            true => Ok(()),
            false => Err(Error::new("generate", format!("{name} is {v}, not between {low} and {high}"))),
        };
        within("temperature", self.temperature, 0.0, 100.0)?;
        within("top_p", self.top_p, 0.0, 1.0)?;
        within("min_p", self.min_p, 0.0, 1.0)?;
        within("typical_p", self.typical_p, 0.0, 1.0)?;
        within("repetition_penalty", self.repetition_penalty, 1e-3, 1e3)?;
        within("frequency_penalty", self.frequency_penalty, -100.0, 100.0)?;
        within("presence_penalty", self.presence_penalty, -100.0, 100.0)?;
        match self.bias.iter().find(|(token, by)| *token as usize >= tokens || by.is_nan()) {
            Some((token, by)) => Err(Error::new("generate", format!("a bias of {by} for token {token}"))),
            None => Ok(()),
        }
    }
    /// Whether there are penalties.
    fn punishes(&self) -> bool {
        self.repetition_penalty != 1.0 || self.frequency_penalty != 0.0 || self.presence_penalty != 0.0
    }
    /// Whether [`adjust`](Sampling::adjust) does anything.
    pub fn changes_logits(&self) -> bool {
        !self.bias.is_empty() || self.punishes()
    }
    /// Bias and penalties, which change logits before anything is chosen.
    pub fn adjust(&self, logits: &mut [f32], seen: &[u32]) {
        for (token, by) in &self.bias {
            logits[*token as usize] += by;
        }
        if !self.punishes() {
            return;
        }
        let recent = &seen[seen.len().saturating_sub(self.penalty_window)..];
        if self.repetition_penalty != 1.0 {
            each(recent, logits, |l, _| {
                if l > 0.0 { l / self.repetition_penalty } else { l * self.repetition_penalty }
            });
        }
        let (f, p) = (self.frequency_penalty, self.presence_penalty);
        if f != 0.0 || p != 0.0 {
            // where a full context was shortened, what is left is all that is known of the answer
            let answer = seen.get(self.prompt..).unwrap_or(seen);
            each(answer, logits, |l, count| l - f * count as f32 - p);
        }
    }
    /// What may be drawn, most likely first, with probabilities that sum to 1. Of logits that are not numbers none.
    pub fn candidates(&self, logits: &[f32]) -> Vec<(u32, f32)> {
        if self.temperature == 0.0 {
            return most_likely(logits).map(|t| vec![(t, 1.0)]).unwrap_or_default();
        }
        let mut all: Vec<(u32, f32)> = (0..).zip(logits.iter().map(|l| l / self.temperature)).collect();
        all.retain(|(_, l)| *l > f32::NEG_INFINITY);
        let by_logit = |a: &(u32, f32), b: &(u32, f32)| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0));
        let k = if self.top_k == 0 { all.len() } else { self.top_k.min(all.len()) };
        if k < all.len() {
            all.select_nth_unstable_by(k, by_logit);
            all.truncate(k);
        }
        // no cut needs the order of tokens that are this unlikely
        if self.top_k == 0 && self.min_p > 0.0 && self.typical_p >= 1.0 && self.top_p >= 1.0 {
            let most = all.iter().map(|a| a.1).fold(f32::NEG_INFINITY, f32::max);
            all.retain(|(_, l)| *l >= most + self.min_p.ln());
        }
        all.sort_unstable_by(by_logit);
        to_probabilities(&mut all);
        if self.typical_p < 1.0 {
            let surprise: f32 = all.iter().map(|(_, p)| if *p > 0.0 { -p * p.ln() } else { 0.0 }).sum();
            let distance = |p: f32| (-p.ln() - surprise).abs();
            all.sort_by(|a, b| distance(a.1).total_cmp(&distance(b.1)));
            keep_until(&mut all, self.typical_p);
            all.sort_unstable_by(by_logit);
        }
        if self.top_p < 1.0 {
            keep_until(&mut all, self.top_p);
        }
        if self.min_p > 0.0 {
            let least = all.first().map_or(0.0, |(_, p)| p * self.min_p);
            all.retain(|(_, p)| *p >= least);
            normalise(&mut all);
        }
        all
    }
}

/// Changes the logit of each token that is there, given how often it is.
fn each(tokens: &[u32], logits: &mut [f32], change: impl Fn(f32, usize) -> f32) {
    let mut tokens = tokens.to_vec();
    tokens.sort_unstable();
    for same in tokens.chunk_by(|a, b| a == b) {
        if let Some(l) = logits.get_mut(same[0] as usize) {
            *l = change(*l, same.len());
        }
    }
}

/// The token with the largest logit, the first of several.
pub fn most_likely(logits: &[f32]) -> Option<u32> {
    let mut best: Option<(u32, f32)> = None;
    for (token, &l) in (0..).zip(logits) {
        if !l.is_nan() && best.is_none_or(|(_, b)| l > b) {
            best = Some((token, l));
        }
    }
    best.map(|(token, _)| token)
}

/// Natural logarithms of the probabilities of logits.
pub fn log_probabilities(logits: &[f32]) -> Vec<f32> {
    let most = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let sum: f64 = logits.iter().map(|l| f64::from(l - most).exp()).sum();
    let by = most + sum.ln() as f32;
    logits.iter().map(|l| l - by).collect()
}

fn to_probabilities(all: &mut [(u32, f32)]) {
    let most = all.first().map_or(0.0, |a| a.1);
    all.iter_mut().for_each(|(_, l)| *l = (*l - most).exp());
    normalise(all);
}

fn normalise(all: &mut [(u32, f32)]) {
    let sum: f32 = all.iter().map(|a| a.1).sum();
    all.iter_mut().for_each(|(_, p)| *p /= sum);
}

/// The first that have a probability together, at least one.
fn keep_until(all: &mut Vec<(u32, f32)>, enough: f32) {
    let mut sum = 0.0;
    let count = all.iter().take_while(|(_, p)| {
        let wanted = sum < enough;
        sum += p;
        wanted
    });
    let count = count.count().max(1);
    all.truncate(count);
    normalise(all);
}

/// A stream of random numbers: SplitMix64.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The stream of a seed.
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }
    /// The next number, from 0 to below 1.
    pub fn uniform(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }
    /// One of some candidates, by their probabilities.
    pub fn draw(&mut self, candidates: &[(u32, f32)]) -> Option<u32> {
        let mut left = self.uniform() * candidates.iter().map(|c| f64::from(c.1)).sum::<f64>();
        for (token, p) in candidates {
            left -= f64::from(*p);
            if left < 0.0 {
                return Some(*token);
            }
        }
        candidates.last().map(|c| c.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(s: &Sampling, logits: &[f32]) -> Vec<u32> {
        s.candidates(logits).into_iter().map(|c| c.0).collect()
    }

    #[test]
    fn each_setting_keeps_what_it_says() {
        // probabilities 0.5, 0.25, 0.125, 0.125
        let logits = [4f32, 2.0, 8.0, 2.0].map(f32::ln);
        let all = Sampling { temperature: 1.0, ..Sampling::default() };
        assert_eq!(tokens(&all, &logits), [2, 0, 1, 3]);
        assert_eq!(tokens(&Sampling { top_k: 2, ..all.clone() }, &logits), [2, 0]);
        assert_eq!(tokens(&Sampling { top_p: 0.7, ..all.clone() }, &logits), [2, 0]);
        assert_eq!(tokens(&Sampling { top_p: 0.0, ..all.clone() }, &logits), [2]);
        assert_eq!(tokens(&Sampling { min_p: 0.3, ..all.clone() }, &logits), [2, 0]);
        // the expected surprise is 1.75 bits: 0.25 is nearest, then 0.5
        assert_eq!(tokens(&Sampling { typical_p: 0.3, ..all.clone() }, &logits), [2, 0]);
        assert_eq!(tokens(&Sampling { typical_p: 0.2, ..all.clone() }, &logits), [0]);
        assert_eq!(tokens(&Sampling::default(), &logits), [2]);
        let sum: f32 = Sampling { top_p: 0.7, ..all }.candidates(&logits).iter().map(|c| c.1).sum();
        assert!((sum - 1.0).abs() < 1e-6);
    }

    #[test]
    fn penalties_and_bias_change_logits() {
        let s = Sampling {
            repetition_penalty: 2.0,
            frequency_penalty: 0.5,
            presence_penalty: 0.25,
            bias: vec![(3, 1.0)],
            penalty_window: 3,
            ..Sampling::default()
        };
        let mut logits = [1.0, -1.0, 1.0, 0.0];
        s.adjust(&mut logits, &[2, 0, 1, 0]); // for repetition 2 is too long ago
        assert_eq!(logits, [0.5 - 1.0 - 0.25, -2.0 - 0.5 - 0.25, 1.0 - 0.5 - 0.25, 1.0]);
    }

    #[test]
    fn frequency_and_presence_count_the_whole_answer_and_not_the_prompt() {
        let s = Sampling { frequency_penalty: 0.5, presence_penalty: 0.25, prompt: 2, ..Sampling::default() };
        let mut seen = vec![0, 1, 2];
        seen.extend([3; 100]);
        let mut logits = [0.0; 4];
        s.adjust(&mut logits, &seen);
        assert_eq!(logits, [0.0, 0.0, -0.75, -50.25]);
    }

    #[test]
    fn draws_follow_probabilities_and_the_seed() {
        let candidates = [(0, 0.5), (1, 0.3), (2, 0.2)];
        let draw = |seed: u64| {
            let mut r = Random::new(seed);
            (0..10_000).map(|_| r.draw(&candidates).unwrap()).collect::<Vec<_>>()
        };
        let drawn = draw(1);
        for (token, p) in candidates {
            let part = drawn.iter().filter(|t| **t == token).count() as f32 / 1e4;
            assert!((part - p).abs() < 0.02, "{token}: {part}");
        }
        assert_eq!(drawn, draw(1));
        assert_ne!(drawn, draw(2));
    }

    #[test]
    fn logits_that_are_no_numbers_give_no_candidates_or_others() {
        assert_eq!(most_likely(&[f32::NAN, 1.0]), Some(1));
        assert!(Sampling::default().candidates(&[f32::NAN]).is_empty());
        assert!(Sampling { top_p: 2.0, ..Sampling::default() }.check(4).is_err());
        assert!(Sampling { bias: vec![(4, 0.0)], ..Sampling::default() }.check(4).is_err());
    }
}
