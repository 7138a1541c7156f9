//! A line on the terminal for work that takes long: compiling many kernels, searching, training.
//!
//! ```text
//! compiling [=========>          ] 96/198  41/s  3 s left
//! searching e_4096_4096, ways tried: 24  2.1/s  11 s
//! epoch 1   [====>               ] 118/468  9.1/s  38 s left  loss 0.2143 ▇▅▄▃▂▂▁
//! ```
//!
//! Nothing is shown where no one looks at a terminal, with `FRIT_PROGRESS=off`, or before the work has taken a moment.

use std::collections::VecDeque;
use std::io::{IsTerminal, Write};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// How long work takes before it is shown, and how often it is then.
const FIRST: Duration = Duration::from_millis(300);
const EVERY: Duration = Duration::from_millis(100);
/// Cells of the bar, and values of a sparkline.
const CELLS: usize = 20;
const VALUES: usize = 24;

/// Whether someone looks: standard error is a terminal, and `FRIT_PROGRESS` is not `off`.
pub fn is_wanted() -> bool {
    is_looked_at(std::io::stderr().is_terminal(), std::env::var("FRIT_PROGRESS").ok().as_deref())
}

fn is_looked_at(is_terminal: bool, setting: Option<&str>) -> bool {
    is_terminal && setting != Some("off")
}

/// Draw a line over the one that was drawn last.
pub fn draw(line: &str) {
    let mut err = std::io::stderr().lock();
    // a terminal that does not take it loses nothing
    _ = err.write_all(drawn(line).as_bytes()).and_then(|()| err.flush());
}

/// The line with what a terminal needs: it does not go on in the next row where it is too long, since a row above is never
/// drawn over again, but ends at the edge.
fn drawn(line: &str) -> String {
    format!("\r\x1b[K\x1b[?7l{line}\x1b[?7h")
}

/// Take the line away.
pub fn clear() {
    draw("");
}

/// Work of so many steps; the line goes away with it. Steps may come from any thread.
pub struct Progress {
    what: String,
    total: usize,
    done: AtomicUsize,
    begun: Instant,
    is_shown: bool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    drawn: Option<Instant>,
    name: String,
    values: VecDeque<f64>,
}

impl Progress {
    /// Of so many steps; 0 where nobody knows.
    pub fn new(what: &str, total: usize) -> Progress {
        let is_shown = is_wanted();
        let (done, begun, state) = (AtomicUsize::new(0), Instant::now(), Mutex::default());
        Progress { what: what.into(), total, done, begun, is_shown, state }
    }
    /// One more step is done.
    pub fn step(&self) {
        let done = self.done.fetch_add(1, Relaxed) + 1;
        // whoever draws now draws for all
        let Ok(mut state) = self.state.try_lock() else { return };
        let wait = if state.drawn.is_none() { FIRST } else { EVERY };
        if self.is_shown && state.drawn.unwrap_or(self.begun).elapsed() >= wait {
            state.drawn = Some(Instant::now());
            let line = line(&self.what, done, self.total, self.begun.elapsed(), &state.name, &state.values);
            draw(&line);
        }
    }
    /// Take the line away until the next step, so that something else can be printed.
    pub fn hide(&self) {
        if self.state.lock().is_ok_and(|s| s.drawn.is_some()) {
            clear();
        }
    }
    /// Print a line, above the one that is drawn.
    pub fn say(&self, text: &str) {
        self.hide();
        println!("{text}");
    }
    /// The last value of something that is watched, such as the loss: shown with those before it.
    pub fn value(&self, name: &str, value: f64) {
        if let Ok(mut state) = self.state.lock() {
            if state.name != name {
                state.name = name.into();
            }
            state.values.push_back(value);
            if state.values.len() > VALUES {
                state.values.pop_front();
            }
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.state.get_mut().is_ok_and(|s| s.drawn.is_some()) {
            clear();
        }
    }
}

fn line(what: &str, done: usize, total: usize, took: Duration, name: &str, values: &VecDeque<f64>) -> String {
    let per_second = done as f64 / took.as_secs_f64().max(1e-9);
    let rate = if per_second >= 10.0 { format!("{per_second:.0}") } else { format!("{per_second:.1}") };
    let Some(full) = (CELLS * done).checked_div(total) else {
        return format!("{what} {done}  {rate}/s  {:.0} s", took.as_secs_f64());
    };
    let full = full.min(CELLS);
    let head = if full < CELLS { ">" } else { "" };
    let bar = format!("{}{head}", "=".repeat(full));
    let left = total.saturating_sub(done) as f64 / per_second.max(1e-9);
    let mut out = format!("{what:9} [{bar:CELLS$}] {done}/{total}  {rate}/s  {left:.0} s left");
    if let Some(last) = values.back() {
        out += &format!("  {name} {last:.4} {}", sparkline(values));
    }
    out
}

/// Values as heights, the least the lowest.
fn sparkline(values: &VecDeque<f64>) -> String {
    const HEIGHTS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let finite = || values.iter().copied().filter(|v| v.is_finite());
    let (least, most) = finite().fold((f64::MAX, f64::MIN), |(a, b), v| (a.min(v), b.max(v)));
    let height = |v: &f64| match v.is_finite() {
        true => HEIGHTS[(7.0 * (v - least) / (most - least).max(1e-30)).round().clamp(0.0, 7.0) as usize],
        false => '!',
    };
    values.iter().map(height).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_shown_where_no_one_looks() {
        assert!(is_looked_at(true, None) && is_looked_at(true, Some("on")));
        assert!(
            !is_looked_at(true, Some("off"))
                && !is_looked_at(false, None)
                && !is_looked_at(false, Some("on"))
        );
    }

    #[test]
    fn a_line_that_is_too_long_ends_at_the_edge() {
        // rows do not wrap while it is drawn, and do afterwards
        let long = "x".repeat(500);
        assert_eq!(drawn(&long), format!("\r\u{1b}[K\u{1b}[?7l{long}\u{1b}[?7h"));
    }

    #[test]
    fn a_line_says_how_far_it_is_and_how_long_it_takes() {
        let values = VecDeque::from([4.0, 2.0, f64::NAN, 1.0]);
        let text = line("training", 30, 120, Duration::from_secs(10), "loss", &values);
        assert_eq!(text, "training  [=====>              ] 30/120  3.0/s  30 s left  loss 1.0000 █▃!▁");
        let all = line("x", 5, 5, Duration::from_millis(100), "", &VecDeque::new());
        assert_eq!(all, "x         [====================] 5/5  50/s  0 s left");
        let unknown = line("searching e_4, ways tried:", 9, 0, Duration::from_secs(6), "", &VecDeque::new());
        assert_eq!(unknown, "searching e_4, ways tried: 9  1.5/s  6 s");
    }
}
