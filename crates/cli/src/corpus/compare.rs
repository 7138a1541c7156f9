//! Which kernels differ between two corpora, and how.

use super::{Corpus, Entry};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

/// Lines of a kernel that are shown from each side.
const SHOWN: usize = 12;

/// For people: what came, went and changed, then the sums of each target.
pub fn report(before: &Corpus, after: &Corpus) -> String {
    let mut out = String::new();
    let mut targets: BTreeMap<&str, Sums> = BTreeMap::new();
    let keys: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    for key in keys {
        let sums = targets.entry(key.split('/').next().unwrap_or("")).or_default();
        let sides = (before.get(key), after.get(key));
        sums.add(sides);
        match sides {
            (Some(a), Some(b)) if a.hash != b.hash => changed(&mut out, key, a, b),
            (Some(a), None) => _ = writeln!(out, "gone    {key} {} (cost {})", a.name, a.cost),
            (None, Some(b)) => _ = writeln!(out, "new     {key} {} (cost {})", b.name, b.cost),
            _ => {}
        }
    }
    for (target, s) in targets {
        let by = 100.0 * (s.cost[1] as f64 / (s.cost[0] as f64).max(1.0) - 1.0);
        let [changed, gone, new] = [s.changed, s.gone, s.new];
        _ = writeln!(
            out,
            "{target}: {} kernels, {changed} changed, {new} new, {gone} gone; cost {by:+.2}%",
            s.kernels
        );
    }
    out
}

#[derive(Default)]
struct Sums {
    kernels: usize,
    changed: usize,
    gone: usize,
    new: usize,
    /// Of all kernels, before and after.
    cost: [u64; 2],
}

impl Sums {
    fn add(&mut self, sides: (Option<&Entry>, Option<&Entry>)) {
        let (a, b) = sides;
        self.kernels += b.is_some() as usize;
        self.gone += b.is_none() as usize;
        self.new += a.is_none() as usize;
        self.changed += a.zip(b).is_some_and(|(a, b)| a.hash != b.hash) as usize;
        for (sum, side) in self.cost.iter_mut().zip([a, b]) {
            *sum = sum.saturating_add(side.map_or(0, |e| e.cost));
        }
    }
}

fn changed(out: &mut String, key: &str, a: &Entry, b: &Entry) {
    let name = if a.name == b.name { a.name.clone() } else { format!("{} -> {}", a.name, b.name) };
    let cost = if a.cost == b.cost { format!("{}", a.cost) } else { format!("{} -> {}", a.cost, b.cost) };
    _ = writeln!(out, "changed {key} {name} (cost {cost})");
    let (Some(a), Some(b)) = (&a.text, &b.text) else { return };
    let (a, b): (Vec<&str>, Vec<&str>) = (a.lines().collect(), b.lines().collect());
    // what both begin and end with is the same
    let first = a.iter().zip(&b).take_while(|(x, y)| x == y).count();
    let rest = (a.len() - first).min(b.len() - first);
    let last = (0..rest).take_while(|i| a[a.len() - 1 - i] == b[b.len() - 1 - i]).count();
    for (sign, side) in [('-', &a[first..a.len() - last]), ('+', &b[first..b.len() - last])] {
        for line in side.iter().take(SHOWN) {
            _ = writeln!(out, "    {sign} {line}");
        }
        if side.len() > SHOWN {
            _ = writeln!(out, "    {sign} … {} lines more", side.len() - SHOWN);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(hash: &str, cost: u64, text: &str) -> Entry {
        Entry { name: "k".into(), hash: hash.into(), cost, text: Some(text.into()) }
    }

    #[test]
    fn what_changed_is_shown_with_its_lines_and_cost() {
        let before = Corpus::from([
            ("AVX2/sum/1".into(), entry("a", 10, "opts x\nadd\nret")),
            ("AVX2/sum/2".into(), entry("b", 5, "")),
        ]);
        let mut after = before.clone();
        after.insert("AVX2/sum/1".into(), entry("c", 8, "opts x\nsub\nret"));
        after.remove("AVX2/sum/2");
        let text = report(&before, &after);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines,
            [
                "changed AVX2/sum/1 k (cost 10 -> 8)",
                "    - add",
                "    + sub",
                "gone    AVX2/sum/2 k (cost 5)",
                "AVX2: 1 kernels, 1 changed, 0 new, 1 gone; cost -46.67%",
            ]
        );
        assert_eq!(report(&after, &after), "AVX2: 1 kernels, 0 changed, 0 new, 0 gone; cost +0.00%\n");
    }
}
