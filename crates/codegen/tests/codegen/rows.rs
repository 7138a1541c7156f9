//! The list of passes: names, files, targets, what is shown.

use crate::kernels::matmul;
use frit_abi::Target;
use frit_codegen::{Holds, Opts, PASSES, Program, lower_and_watch};
use std::path::{Path, PathBuf};

fn src() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src")
}

/// Files of the folders that hold rows, with the name of a row in each.
fn files() -> Vec<(String, PathBuf)> {
    let mut found = vec![];
    for folder in std::fs::read_dir(src()).unwrap().map(|f| f.unwrap().path()).filter(|p| p.is_dir()) {
        // a folder inside holds parts of the file of its name
        for file in std::fs::read_dir(&folder).unwrap().map(|f| f.unwrap().path()).filter(|p| p.is_file()) {
            let of = if file.ends_with("mod.rs") { &folder } else { &file };
            found.push((of.file_stem().unwrap().to_string_lossy().into_owned(), file));
        }
    }
    found
}

/// Whether a file has the function of a row.
fn is_row(name: &str, file: &Path) -> bool {
    let text = std::fs::read_to_string(file).unwrap();
    let at = text.find(&format!("\npub fn {name}("));
    at.is_some_and(|at| {
        text[..at].lines().rev().take_while(|l| l.starts_with("///")).any(|l| l.contains("The pass"))
    })
}

#[test]
fn a_row_is_named_as_its_file_and_its_function_and_every_such_file_is_a_row() {
    let mut in_files: Vec<String> =
        files().into_iter().filter(|(name, file)| is_row(name, file)).map(|f| f.0).collect();
    let mut in_list: Vec<&str> = PASSES.iter().map(|p| p.name).collect();
    in_files.sort();
    in_list.sort();
    assert_eq!(in_list, in_files, "names in PASSES (left) against files with a pass (right)");
}

#[test]
fn every_row_that_applies_to_a_target_is_shown() {
    for target in crate::run::targets() {
        let mut seen = vec![];
        let mut watch = |name, program: &Program, _| {
            let row = PASSES.iter().find(|p| p.name == name).unwrap();
            assert_eq!(matches!(program, Program::List(_)), row.holds == Holds::Linear, "{name}");
            seen.push(name);
        };
        lower_and_watch(&matmul(4, 4, 6), &target, Opts::Heuristic, true, &mut watch).unwrap();
        let rows = PASSES.iter().filter(|p| (p.applies)(&target)).map(|p| p.name);
        assert_eq!(seen, rows.collect::<Vec<_>>(), "{}", target.name);
    }
    let skipped = |t: &Target| PASSES.iter().filter(|p| !(p.applies)(t)).count();
    assert!(skipped(&Target::interp()) > 0 && skipped(&Target::interp_gpu()) > 0);
}
