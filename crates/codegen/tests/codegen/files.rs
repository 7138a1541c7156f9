//! File tests: a kernel graph as text in, one pass, the graph as text out. `BLESS=1` writes down what comes out now.
//!
//! ```text
//! // what the file shows
//! target: interp            or interp-gpu
//! opts: heuristic           or none
//! pass: gates               the graph after this pass is compared
//! %0 = Param:float32 {0 6}
//! …
//! ----
//! what comes out
//! ```

use frit_abi::Target;
use frit_codegen::{Opts, PASSES, Program, lower_and_watch};
use frit_uop::text;

const DIVIDER: &str = "----\n";

fn field<'a>(input: &'a str, name: &str, file: &str) -> &'a str {
    let line = input.lines().find_map(|l| l.strip_prefix(name)?.strip_prefix(':'));
    line.unwrap_or_else(|| panic!("{file} has no '{name}:' line")).trim()
}

/// The graph after the pass a file asks for.
fn run(input: &str, file: &str) -> String {
    let target = match field(input, "target", file) {
        "interp" => Target::interp(),
        "interp-gpu" => Target::interp_gpu(),
        other => panic!("{file}: there is no target {other}"),
    };
    let opts = match field(input, "opts", file) {
        "heuristic" => Opts::Heuristic,
        "none" => Opts::List(&[]),
        other => panic!("{file}: opts are heuristic or none, not {other}"),
    };
    let wanted = field(input, "pass", file);
    assert!(PASSES.iter().any(|p| p.name == wanted), "{file}: there is no pass {wanted}");
    let listing: String = input.lines().filter(|l| l.starts_with('%')).map(|l| format!("{l}\n")).collect();
    let kernel = text::parse(&listing).unwrap_or_else(|e| panic!("{file}: {e}"));
    let mut out = String::new();
    let mut watch = |pass: &'static str, program: &Program, _| {
        if let (true, Program::Graph(graph)) = (pass == wanted, program) {
            out = text::print(graph);
        }
    };
    lower_and_watch(&kernel, &target, opts, true, &mut watch).unwrap_or_else(|e| panic!("{file}: {e}"));
    out
}

#[test]
fn passes_do_what_the_files_say() {
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
