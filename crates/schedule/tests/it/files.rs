//! File tests: a graph as text in, what a pass makes of it as text out. A line `// pass: NAME` picks a row of the list;
//! without it all of them run, and kernels come out. `BLESS=1` writes down what comes out now.

use frit_abi::Target;
use frit_schedule::{Schedule, run_pass, schedule};
use frit_uop::text;

const DIVIDER: &str = "----\n";

/// The kernels of a schedule, each with its arguments.
fn kernels(s: &Schedule) -> String {
    s.kernels.iter().map(|k| format!("{:?}\n{}", k.args, text::print(&k.ast))).collect()
}

fn run(input: &str, file: &str) -> String {
    let listing: String = input.lines().filter(|l| l.starts_with('%')).map(|l| format!("{l}\n")).collect();
    let sink = text::parse(&listing).unwrap_or_else(|e| panic!("{file}: {e}"));
    let Some(pass) = input.lines().find_map(|l| l.strip_prefix("// pass: ")) else {
        return kernels(&schedule(&sink, &Target::interp()).unwrap_or_else(|e| panic!("{file}: {e}")));
    };
    let done = run_pass(pass.trim(), &sink, &Target::interp());
    let (graph, made) = done.unwrap_or_else(|| panic!("{file}: no pass {pass}")).unwrap();
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
