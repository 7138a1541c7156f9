//! File tests: a kernel as text in, passes up to one of them, what that left as text out. `BLESS=1` writes down what comes
//! out now.
//!
//! ```text
//! // what the file shows
//! target: interp            or gpu, avx512, h200, any machine of `abi::machines`
//! opts: heuristic           or none, or a list: split 1 4 Vector inner, pad 0 8
//! pass: gates               what is left after this pass is compared
//! %0 = Param:float32 {0 6}
//! …
//! ----
//! what comes out
//! ```
//! A file that begins with a linear program (`kernel NAME`) goes through its pass alone.

use frit_abi::machines::machine;
use frit_codegen::{Opt, Opts, PASSES, Program, Run, lower_and_watch};
use frit_uop::{Linear, text};

const DIVIDER: &str = "----\n";

fn field<'a>(input: &'a str, name: &str, file: &str) -> &'a str {
    let line = input.lines().find_map(|l| l.strip_prefix(name)?.strip_prefix(':'));
    line.unwrap_or_else(|| panic!("{file} has no '{name}:' line")).trim()
}

/// What is left after the pass that a file asks for.
fn run(input: &str, file: &str) -> String {
    let fail = |e: &dyn std::fmt::Display| -> ! { panic!("{file}: {e}") };
    let name = field(input, "target", file);
    let target = machine(&name.to_uppercase()).unwrap_or_else(|| fail(&format!("there is no target {name}")));
    let wanted = field(input, "pass", file);
    let row = PASSES.iter().find(|p| p.name == wanted);
    let row = row.unwrap_or_else(|| fail(&format!("there is no pass {wanted}")));
    let begins = |l: &&str| l.starts_with('%') || l.starts_with("kernel ");
    let at = input.lines().position(|l| begins(&l)).unwrap_or(0);
    let listing: String = input.lines().skip(at).map(|l| format!("{l}\n")).collect();
    if listing.starts_with("kernel ") {
        let mut linear = Linear::parse(&listing).unwrap_or_else(|e| fail(&e));
        match row.run {
            Run::Steps(f) => linear.steps = f(linear.steps, &target),
            Run::List(f) => linear = f(linear, &target),
            _ => fail(&"only passes over steps begin with a linear program"),
        }
        return linear.to_string();
    }
    let list: Vec<Opt>;
    let opts = match field(input, "opts", file) {
        "heuristic" => Opts::Heuristic,
        "none" => Opts::List(&[]),
        text => {
            let parsed: Result<Vec<Opt>, String> = text.split(',').map(str::parse).collect();
            list = parsed.unwrap_or_else(|e| fail(&e));
            Opts::List(&list)
        }
    };
    let kernel = text::parse(&listing).unwrap_or_else(|e| fail(&e));
    let mut out = String::new();
    let mut watch = |pass: &'static str, program: &Program, _| {
        if pass == wanted {
            out += &program.to_string();
        }
    };
    lower_and_watch(&kernel, &target, opts, true, &mut watch).unwrap_or_else(|e| fail(&e));
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
