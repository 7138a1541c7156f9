//! `docs/tour.md` shows what happens: its listings are what the program prints. `BLESS=1` writes them anew.

use crate::tidy::{read, root};
use frit::Tensor;
use std::process::Command;

/// The program that the tour follows. By itself it shows nothing; the other test runs it with `FRIT_DEBUG` set.
#[test]
fn the_program() -> frit::Result<()> {
    let vector = |first: f32| Tensor::new((0..64).map(|i| first + i as f32 / 8.0).collect::<Vec<f32>>());
    let (a, b, c) = (vector(-1.0), vector(0.5), vector(-3.0));
    let y = (&a * &b + &c).relu().sum(..);
    eprintln!("tensor graph:\n{}", frit_uop::text::print(&y.uop()?));
    assert!(y.item::<f32>()? > 0.0);
    Ok(())
}

/// What is printed under a heading: to the next empty line, or to the end of what is indented.
fn listing(printed: &str, heading: &str) -> String {
    let mut lines = printed.lines().skip_while(|l| !l.starts_with(heading)).skip(1).peekable();
    let is_indented = lines.peek().is_some_and(|l| l.starts_with(' '));
    let own = lines.take_while(|l| !l.trim().is_empty() && (l.starts_with(' ') || !is_indented));
    own.map(|l| format!("{}\n", l.trim_end())).collect()
}

/// The text with the contents of its listings replaced: a fence `text` with a heading after it, as in `text kernel graph`.
fn with_listings(tour: &str, printed: &str) -> String {
    let (mut out, mut lines) = (String::new(), tour.lines());
    while let Some(line) = lines.next() {
        out += line;
        out += "\n";
        if let Some(heading) = line.strip_prefix("```text ") {
            let new = listing(printed, heading);
            assert!(!new.is_empty(), "nothing is printed under {heading:?}:\n{printed}");
            out += &new;
            out += "```\n";
            lines.by_ref().find(|l| *l == "```").expect("a fence that ends");
        }
    }
    out
}

/// What the program prints on a machine with AVX2, with more flags; nothing where there is no such machine.
fn printed(flags: &[(&str, &str)]) -> Option<String> {
    if !cfg!(target_arch = "x86_64") || !std::is_x86_feature_detected!("avx2") {
        return None;
    }
    let program = std::env::current_exe().expect("this program has a path");
    let run = Command::new(program)
        .args(["tour::the_program", "--exact", "--nocapture"])
        .env_clear()
        .envs([("FRIT_ISA", "avx2"), ("FRIT_THREADS", "1")])
        .envs(flags.iter().copied())
        .output()
        .expect("the program runs");
    let printed = String::from_utf8_lossy(&run.stderr).into_owned();
    assert!(run.status.success(), "{printed}");
    Some(printed)
}

#[test]
fn passes_of_every_room_are_shown_with_their_times() {
    let Some(printed) = printed(&[("FRIT_DEBUG", "3"), ("FRIT_PASS", "rangeify,expand,regalloc")]) else {
        return;
    };
    let is_row = |l: &&str| l.starts_with(' ') && l.contains(" ms  ");
    let rows: Vec<&str> =
        printed.lines().filter(is_row).filter_map(|l| l.split_whitespace().last()).collect();
    // the first and the last of each room
    let mut ends = rows.iter();
    for row in ["prepare", "memory", "carry", "prefetch", "select", "encode"] {
        assert!(ends.any(|r| *r == row), "{row} is not there, or not in its order: {rows:?}");
    }
    for left in ["the graph after rangeify:", " after expand:", " after regalloc:"] {
        assert!(printed.contains(left), "nothing is said {left}\n{printed}");
    }
}

#[test]
fn the_tour_shows_what_happens() {
    let Some(printed) = printed(&[("FRIT_DEBUG", "6")]) else { return };
    let tour = read("docs/tour.md");
    let now = with_listings(&tour, &printed);
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(root().join("docs/tour.md"), &now).expect("docs/tour.md can be written");
    } else {
        assert!(now == tour, "docs/tour.md shows other listings than these; BLESS=1 writes them:\n{now}");
    }
}
