//! File tests: a linear program as text in, what a pass of a writer makes of it as text out. `BLESS=1` writes down what
//! comes out now.
//!
//! ```text
//! // what the file shows
//! target: avx512            or avx2, sse2, amx, c, h200, any machine of `abi::machines`
//! pass: regalloc            what is left after this pass is compared; other languages than x86 have one pass
//! kernel e_16
//! …
//! ----
//! what comes out
//! ```

use frit_abi::machines::machine;
use frit_abi::target::Isa;
use frit_abi::{Language, Target};
use frit_render::render_and_watch;
use frit_uop::{Arg, Linear, Op, Space, Step, UOp};

pub const DIVIDER: &str = "----\n";
const DIR: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/files");

fn field<'a>(input: &'a str, name: &str, file: &str) -> &'a str {
    let line = input.lines().find_map(|l| l.strip_prefix(name)?.strip_prefix(": "));
    line.unwrap_or_else(|| panic!("{file} has no '{name}:' line")).trim()
}

/// A machine of the table, or a CPU whose kernels are C.
fn target(name: &str) -> Option<Target> {
    match name {
        "c" => machine("AVX2").map(|t| Target {
            language: Language::C,
            isa: Isa::Portable,
            name: "c".into(),
            ..t
        }),
        name => machine(&name.to_uppercase()),
    }
}

pub fn run(input: &str, file: &str) -> String {
    let fail = |e: &dyn std::fmt::Display| -> ! { panic!("{file}: {e}") };
    let name = field(input, "target", file);
    let target = target(name).unwrap_or_else(|| fail(&format!("there is no target {name}")));
    let (wanted, mut out) = (field(input, "pass", file), None);
    let at = input.find("\nkernel ").unwrap_or_else(|| fail(&"no program"));
    let linear = Linear::parse(&input[at + 1..]).unwrap_or_else(|e| fail(&e));
    let mut watch = |pass: &'static str, program: &dyn frit_render::Shown| {
        if pass == wanted {
            out = Some(program.to_string());
        }
    };
    if let Err(e) = render_and_watch(&linear, &target, &mut watch) {
        fail(&e)
    }
    out.unwrap_or_else(|| fail(&format!("there is no pass {wanted}")))
}

pub fn files() -> Vec<(std::path::PathBuf, String)> {
    let mut files: Vec<_> = std::fs::read_dir(DIR).unwrap().map(|f| f.unwrap().path()).collect();
    files.sort();
    files.into_iter().map(|p| (p.clone(), std::fs::read_to_string(p).unwrap())).collect()
}

#[test]
fn programs_become_what_the_files_say() {
    for (path, all) in files() {
        let name = path.display().to_string();
        let (input, expected) = all.split_once(DIVIDER).unwrap_or((&all, ""));
        let out = run(input, &name);
        if std::env::var("BLESS").is_ok_and(|v| v == "1") {
            std::fs::write(&path, format!("{input}{DIVIDER}{out}")).unwrap();
        } else {
            assert_eq!(out, expected, "{name}: if the new program is right, run again with BLESS=1");
        }
    }
}

#[test]
fn every_pass_has_its_files() {
    let files = files();
    let passes = frit_render::passes();
    for pass in passes {
        let count = files
            .iter()
            .filter(|(path, all)| field(all, "pass", &path.display().to_string()) == pass)
            .count();
        assert!(count >= 2, "{pass} has {count} files");
    }
}

/// The memory that a store is to.
fn memory(store: &UOp) -> &UOp {
    let mut at = &store.src[0];
    while matches!(at.op, Op::After | Op::Index) {
        at = &at.src[0];
    }
    at
}

#[test]
fn lines_say_which_steps_they_are_for() {
    for (path, all) in files() {
        let name = path.display().to_string();
        let target = target(field(&all, "target", &name)).unwrap();
        let input = all.split_once(DIVIDER).map_or(&*all, |(input, _)| input);
        let linear = Linear::parse(&input[input.find("\nkernel ").unwrap() + 1..]).unwrap();
        // a store to a variable may be the place where its value is computed
        let is_store =
            |n: &UOp| n.op == Op::Store && !matches!(memory(n).arg, Arg::Define { space: Space::Reg, .. });
        let is_effect = |s: &Step| matches!(s, Step::Do(n) if is_store(n)) || matches!(s, Step::Close(_));
        let mut watch = |pass: &'static str, program: &dyn frit_render::Shown| {
            let (text, steps, offsets) = (program.to_string(), program.steps(), program.offsets());
            let lines: Vec<&str> = text.lines().collect();
            assert_eq!(lines.len(), steps.len(), "{name}: {pass}");
            assert!(steps.iter().all(|s| *s as usize <= linear.steps.len()), "{name}: {pass}");
            // what has an effect is written
            for (i, step) in linear.steps.iter().enumerate().filter(|(_, s)| is_effect(s)) {
                assert!(steps.contains(&(i as u32 + 1)), "{name}: {pass} has no line for {step:?}:\n{text}");
            }
            assert_eq!(!offsets.is_empty(), pass == "encode", "{name}: {pass}");
            if pass == "encode" {
                assert_eq!(lines.len(), offsets.len(), "{name}");
                assert!(offsets.is_sorted() && offsets[0] < *offsets.last().unwrap(), "{name}: {offsets:?}");
            }
        };
        render_and_watch(&linear, &target, &mut watch).unwrap();
    }
}
