//! File tests: a tensor graph as text in, its kernels as text out. `BLESS=1` writes down what comes out now.

use frit_abi::Target;
use frit_uop::text;

const DIVIDER: &str = "----\n";

/// The kernels of a graph, each with its arguments.
fn run(input: &str, file: &str) -> String {
    let listing: String = input.lines().filter(|l| l.starts_with('%')).map(|l| format!("{l}\n")).collect();
    let sink = text::parse(&listing).unwrap_or_else(|e| panic!("{file}: {e}"));
    let schedule =
        frit_schedule::schedule(&sink, &Target::interp()).unwrap_or_else(|e| panic!("{file}: {e}"));
    schedule.kernels.iter().map(|k| format!("{:?}\n{}", k.args, text::print(&k.ast))).collect()
}

#[test]
fn graphs_become_the_kernels_the_files_say() {
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
            assert_eq!(out, expected, "{name}: if the new kernels are right, run again with BLESS=1");
        }
    }
}
