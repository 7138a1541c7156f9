//! Which of several ways is faster, judged by times taken in turns.

/// A way must be faster than the one it replaces by this part, …
pub const MARGIN: f64 = 0.03;
/// … and faster in this part of the turns.
const MOST: f64 = 0.66;

/// The middle one of some times.
pub fn median(times: impl IntoIterator<Item = f64>) -> f64 {
    let mut times: Vec<f64> = times.into_iter().collect();
    times.sort_by(f64::total_cmp);
    times.get(times.len() / 2).copied().unwrap_or(f64::INFINITY)
}

/// The number of the way that wins, given how long each took in each turn. Way 0 wins unless another is faster beyond
/// doubt: by a margin, and in most of the turns, in which both had the same luck.
pub fn winner(turns: &[Vec<f64>]) -> usize {
    let ways = turns.first().map_or(0, Vec::len);
    let middle = |way: usize| median(turns.iter().map(|t| t[way]));
    let wins = |way: usize| turns.iter().filter(|t| t[way] < t[0]).count() as f64;
    let is_better =
        |way: &usize| middle(*way) < middle(0) * (1.0 - MARGIN) && wins(*way) >= MOST * turns.len() as f64;
    (1..ways).filter(is_better).min_by(|a, b| middle(*a).total_cmp(&middle(*b))).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_way_to_beat_stays_unless_another_is_faster_beyond_doubt() {
        let turns = |ways: &[f64]| vec![ways.to_vec(); 9];
        assert_eq!(winner(&turns(&[10.0, 9.0, 8.0, 8.5])), 2);
        assert_eq!(winner(&turns(&[10.0, 9.8])), 0, "two parts in a hundred are noise");
        assert_eq!(winner(&turns(&[10.0])), 0);
        assert_eq!(winner(&[]), 0);
    }
    #[test]
    fn one_lucky_turn_decides_nothing() {
        let mut turns = vec![vec![10.0, 10.0]; 9];
        turns[3][1] = 1.0;
        assert_eq!(winner(&turns), 0);
        // a slow moment for the way to beat, and only then
        turns[3] = vec![100.0, 10.0];
        assert_eq!(winner(&turns), 0);
    }
    #[test]
    fn it_must_win_in_most_turns_whatever_the_medians_say() {
        // faster in five of nine turns, slower in four: the median alone would take it
        let turns: Vec<Vec<f64>> = (0..9).map(|i| vec![10.0, if i < 5 { 9.0 } else { 11.0 }]).collect();
        assert_eq!(winner(&turns), 0);
        // a machine that becomes slower while it is measured: each turn is compared with itself
        let turns: Vec<Vec<f64>> = (0..9).map(|i| vec![10.0 + i as f64, 9.0 + i as f64]).collect();
        assert_eq!(winner(&turns), 1);
    }
}
