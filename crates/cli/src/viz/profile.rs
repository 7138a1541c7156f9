//! Where the time of a command went: by phase, by kernel, by part and by line of the program, with advice.

use super::{end_as, peaks, record_to};
use frit_viz::Model;
use frit_viz::model::{Launch, Line};
use std::collections::HashMap;

/// Rows of each table.
const ROWS: usize = 12;
/// A kernel below this part of what its device was measured to do is worth a word, if it takes this part of the time.
const FAR_BELOW: f64 = 0.25;
const WORTH: f64 = 0.05;
/// The part of the whole time below which a kernel is not worth a word.
const LEAST: f64 = 0.01;

/// Run a command and print where its time went.
pub fn run(command: &[&str]) -> Result<(), String> {
    let file = std::env::temp_dir().join(format!("frit-profile-{}.viz", std::process::id()));
    let ran = record_to(command, "FRIT_PROFILE", &file, &[]);
    let bytes = std::fs::read(&file).map_err(|e| format!("{}: {e}", file.display()));
    std::fs::remove_file(&file).ok();
    let status = ran?;
    print!("{}", report(&Model::of(&peaks::measured(bytes?)?)?));
    end_as(command, status);
    Ok(())
}

/// A stretch of time.
type Interval = (u64, u64);

/// How long at least one of the intervals lasts, outside `taken`, which they are then part of.
fn cover(mut all: Vec<Interval>, taken: &mut Vec<Interval>) -> u64 {
    let before = total(taken);
    taken.append(&mut all);
    taken.sort_unstable();
    let mut merged: Vec<Interval> = vec![];
    for (from, to) in taken.drain(..) {
        match merged.last_mut() {
            Some(last) if from <= last.1 => last.1 = last.1.max(to),
            _ => merged.push((from, to)),
        }
    }
    *taken = merged;
    total(taken) - before
}

fn total(intervals: &[Interval]) -> u64 {
    intervals.iter().map(|(a, b)| b - a).sum()
}

fn ms(ns: u64) -> String {
    format!("{:.3} ms", ns as f64 / 1e6)
}

/// What launches came to.
#[derive(Default, Clone, Copy)]
struct Sum {
    count: u64,
    ns: u64,
    flops: u64,
    bytes: u64,
}

impl Sum {
    fn add(&mut self, l: &Launch) {
        self.count += 1;
        self.ns += l.took;
        self.flops += l.flops;
        self.bytes += l.bytes;
    }
    fn rates(&self) -> (f64, f64) {
        let ns = self.ns.max(1) as f64;
        (self.flops as f64 / ns, self.bytes as f64 / ns)
    }
}

/// The whole report.
fn report(m: &Model) -> String {
    let (begin, end) = m.bounds();
    let wall = (end - begin).max(1);
    let share = |ns: u64| format!("{:5.1}%", 100.0 * ns as f64 / wall as f64);
    let named = |names: &'static [&str]| {
        let of = m.spans.iter().filter(move |s| names.contains(&m.text(s.name)));
        of.map(|s| (s.at, s.at + s.ns)).collect::<Vec<_>>()
    };
    let mut taken = vec![];
    let run = cover(m.launches.iter().map(|l| (l.begun, l.begun + l.took)).collect(), &mut taken);
    let copy = cover(m.copies.iter().map(|c| (c.at, c.at + c.ns)).collect(), &mut taken);
    let compile = cover(named(&["search", "graph", "schedule", "lower", "render", "load"]), &mut taken);
    let idle = wall.saturating_sub(total(&taken));
    let mut out = format!("{} from the first thing that was recorded to the last\n\n", ms(wall));
    let phases = [("run", run), ("copy", copy), ("compile", compile), ("idle, or the program itself", idle)];
    phases.iter().for_each(|(name, ns)| out += &format!("{:>14} {}  {name}\n", ms(*ns), share(*ns)));
    if m.replays > 0 && m.launches.iter().any(|l| m.text(l.device).starts_with("CUDA")) {
        out += &format!(
            "\n{} replays were launched kernel by kernel, so that each has a time; as a graph they take less\n",
            m.replays
        );
    }
    if m.left_out > 0 {
        out += &format!("\n{} records came too fast and were left out\n", m.left_out);
    }

    let mut kernels: HashMap<(u32, u32), Sum> = HashMap::new();
    let mut parts: HashMap<u32, Sum> = HashMap::new();
    let mut lines: HashMap<Line, Sum> = HashMap::new();
    for l in &m.launches {
        kernels.entry((l.name, l.device)).or_default().add(l);
        parts.entry(l.origin).or_default().add(l);
        lines.entry(l.line).or_default().add(l);
    }
    let mut kernels: Vec<((u32, u32), Sum)> = kernels.into_iter().collect();
    kernels.sort_by_key(|(name, s)| (std::cmp::Reverse(s.ns), *name));
    out += "\nby kernel\n";
    for ((name, device), s) in kernels.iter().take(ROWS) {
        let (gflops, gbytes) = s.rates();
        out += &format!(
            "{:>14} {}  {:>7} x {:40} {gflops:8.1} GFLOP/s {gbytes:8.1} GB/s on {}\n",
            ms(s.ns),
            share(s.ns),
            s.count,
            m.text(*name),
            m.text(*device)
        );
    }
    if kernels.len() > ROWS {
        let rest: u64 = kernels[ROWS..].iter().map(|k| k.1.ns).sum();
        out += &format!("{:>14} {}  {} others\n", ms(rest), share(rest), kernels.len() - ROWS);
    }
    parts.remove(&0);
    let mut parts: Vec<(u32, Sum)> = parts.into_iter().collect();
    parts.sort_by_key(|(name, s)| (std::cmp::Reverse(s.ns), *name));
    if !parts.is_empty() {
        out += "\nby part of the program\n";
    }
    for (name, s) in parts.iter().take(ROWS) {
        out += &format!("{:>14} {}  {:>7} x {}\n", ms(s.ns), share(s.ns), s.count, m.text(*name));
    }
    let mut lines: Vec<(Line, Sum)> = lines.into_iter().collect();
    lines.sort_by_key(|(l, s)| (std::cmp::Reverse(s.ns), l.line));
    out += "\nby line that computes\n";
    for (l, s) in lines.iter().take(ROWS) {
        let at = match l.line {
            0 => "no line that is known".into(),
            _ => format!("{} at {}:{}", m.text(l.op), m.text(l.file), l.line),
        };
        out += &format!("{:>14} {}  {:>7} x {at}\n", ms(s.ns), share(s.ns), s.count);
    }
    spans(m, &mut out);
    let advice = advice(m, &kernels, [run, copy, compile, wall]);
    if !advice.is_empty() {
        out += "\nadvice\n";
        advice.iter().for_each(|a| out += &format!("  {a}\n"));
    }
    out
}

/// What the program said it does.
fn spans(m: &Model, out: &mut String) {
    let mut all: HashMap<&str, (u64, u64)> = HashMap::new();
    for s in m.spans.iter().filter(|s| s.is_user) {
        let sum = all.entry(m.text(s.name)).or_default();
        (sum.0, sum.1) = (sum.0 + s.ns, sum.1 + 1);
    }
    let mut all: Vec<(&str, (u64, u64))> = all.into_iter().collect();
    all.sort_by_key(|(name, s)| (std::cmp::Reverse(s.0), *name));
    if !all.is_empty() {
        *out += "\nby span of the program\n";
    }
    for (name, (ns, count)) in all.iter().take(ROWS) {
        *out += &format!("{:>14}         {count:>7} x {name}\n", ms(*ns));
    }
}

/// What could be done about it: each with the numbers that say so.
fn advice(m: &Model, kernels: &[((u32, u32), Sum)], [run, copy, compile, wall]: [u64; 4]) -> Vec<String> {
    let mut all = vec![];
    let part = |ns: u64| ns as f64 / wall as f64;
    // a kernel that is most of what ran may still be nothing of the whole
    let is_worth = |s: &Sum| s.ns as f64 > WORTH * run.max(1) as f64 && part(s.ns) > LEAST;
    for ((name, device), s) in kernels.iter().filter(|(_, s)| is_worth(s)) {
        // the bound of a kernel is what its device was measured to compute or to move, whichever it comes closer to
        let measured =
            m.devices.iter().find(|d| m.text(d.name) == m.text(*device) && d.flops > 0 && d.bytes > 0);
        let Some(peak) = measured else { continue };
        let (gflops, gbytes) = s.rates();
        let reached = (gflops * 1e9 / peak.flops as f64).max(gbytes * 1e9 / peak.bytes as f64);
        if reached < FAR_BELOW {
            all.push(format!(
                "{} reaches {:.0}% of what {} was measured to do: FRIT_BEAM=4 searches for a better way to run it",
                m.text(*name),
                100.0 * reached,
                m.text(*device)
            ));
        }
    }
    let launches: u64 = kernels.iter().map(|k| k.1.count).sum();
    let mean = run / launches.max(1);
    if launches > 1000 && mean < 20_000 && m.replays == 0 {
        all.push(format!(
            "{launches} launches of {:.1} us each: a Jit (in Python TinyJit) records them once and replays them",
            mean as f64 / 1e3
        ));
    }
    if part(copy) > 0.2 {
        all.push("copies take a fifth of the time or more: keep data on the device between steps".into());
    }
    if part(compile) > 0.5 && launches > 100 {
        all.push(
            "most of the time is compiling: sizes that change from step to step can be a Variable".into(),
        );
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_are_counted_once() {
        let mut taken = vec![];
        assert_eq!(cover(vec![(0, 10), (5, 15), (20, 30)], &mut taken), 25);
        assert_eq!(cover(vec![(10, 25), (40, 41)], &mut taken), 6);
        assert_eq!(total(&taken), 31);
    }
}
