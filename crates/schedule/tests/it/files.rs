//! File tests: a graph as text in, what a pass makes of it as text out. `BLESS=1` writes down what comes out now.
//!
//! ```text
//! // pass: fold                      a row of the list, or several that follow each other; without it all of them run
//! // target: grid                    without it a CPU of four threads
//! // what the file shows
//! %0 = Param:float32 {0 6}
//! …
//! ----
//! what comes out: the graph, or the kernels with their arguments and temporaries
//! ```

use crate::build::cpu;
use frit_abi::Target;
use frit_schedule::{PASSES, Schedule, run_passes};
use frit_uop::text;

const DIVIDER: &str = "----\n";

/// The kernels of a schedule, each with its arguments, and where temporaries are.
fn kernels(s: &Schedule) -> String {
    let kernels = s.kernels.iter().map(|k| format!("{:?}\n{}", k.args, text::print(&k.ast)));
    let temps = s.temps.iter().enumerate();
    let offset = |i: usize| s.offsets.get(i).copied().unwrap_or(0);
    let temps = temps.map(|(i, t)| format!("Temp({i}): {} {} at {}\n", t.len, t.dtype, offset(i)));
    kernels.chain(temps).collect()
}

fn run(input: &str, file: &str) -> String {
    let listing: String = input.lines().filter(|l| l.starts_with('%')).map(|l| format!("{l}\n")).collect();
    let sink = text::parse(&listing).unwrap_or_else(|e| panic!("{file}: {e}"));
    let field = |name: &str| input.lines().find_map(|l| l.strip_prefix(name));
    let target = match field("// target: ") {
        None => cpu(),
        Some("grid") => Target::interp_gpu(),
        Some(other) => panic!("{file}: no target {other}"),
    };
    let rows: Vec<&str> = match field("// pass: ") {
        Some(names) => names.split(", ").collect(),
        None => PASSES.iter().map(|p| p.name).collect(),
    };
    let (graph, made) = run_passes(&rows, &sink, &target).unwrap_or_else(|e| panic!("{file}: {e}"));
    if made.kernels.is_empty() { text::print(&graph) } else { kernels(&made) }
}

#[test]
fn graphs_become_what_the_files_say() {
    let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/files");
    let mut files: Vec<_> = std::fs::read_dir(dir).unwrap().map(|f| f.unwrap().path()).collect();
    files.sort();
    assert!(!files.is_empty());
    for path in files {
        let name = path.display().to_string();
        let all = std::fs::read_to_string(&path).unwrap();
        let (input, expected) = all.split_once(DIVIDER).unwrap_or((&all, ""));
        let out = run(input, &name);
        if std::env::var("BLESS").is_ok_and(|v| v == "1") {
            std::fs::write(&path, format!("{input}{DIVIDER}{out}")).unwrap();
        } else {
            assert_eq!(out, expected, "{name}: if the new graph is right, run again with BLESS=1");
        }
    }
}

#[test]
fn every_row_has_its_files() {
    let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/files");
    let files = std::fs::read_dir(dir).unwrap().map(|f| std::fs::read_to_string(f.unwrap().path()).unwrap());
    let headers: Vec<String> = files.filter_map(|f| f.lines().next().map(str::to_string)).collect();
    for row in PASSES {
        let names =
            |h: &&String| h.strip_prefix("// pass: ").is_some_and(|n| n.split(", ").any(|n| n == row.name));
        assert!(headers.iter().filter(names).count() >= 3, "{} has fewer than three files", row.name);
    }
}
