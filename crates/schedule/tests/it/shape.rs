//! The list of passes is the room: a row is a file, and no pass knows another.

use frit_schedule::PASSES;
use std::path::{Path, PathBuf};

/// Files that hold facts and no pass.
const FACTS: [&str; 8] = ["cost", "error", "index", "kernels", "lib", "plan", "products", "record"];

fn sources() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src")
}
fn stem(path: &Path) -> String {
    path.file_stem().unwrap().to_string_lossy().into_owned()
}
fn files_in(dir: &Path) -> Vec<PathBuf> {
    std::fs::read_dir(dir).unwrap().map(|f| f.unwrap().path()).collect()
}
/// Those of its folders, too.
fn files_below(dir: &Path) -> Vec<PathBuf> {
    files_in(dir).into_iter().flat_map(|p| if p.is_dir() { files_below(&p) } else { vec![p] }).collect()
}

#[test]
fn every_row_is_a_file_and_every_file_a_row() {
    let mut files: Vec<String> = files_in(&sources()).iter().map(|p| stem(p)).collect();
    files.retain(|f| !FACTS.contains(&f.as_str()));
    let mut rows: Vec<&str> = PASSES.iter().map(|p| p.name).collect();
    files.sort();
    rows.sort();
    assert_eq!(rows, files);
}
#[test]
fn no_pass_knows_another() {
    for top in files_in(&sources()).into_iter().filter(|p| stem(p) != "lib") {
        let parts = if top.is_dir() { files_below(&top) } else { vec![top.clone()] };
        let text: String = parts.iter().map(|p| std::fs::read_to_string(p).unwrap()).collect();
        for row in PASSES.iter().map(|p| p.name).filter(|r| *r != stem(&top)) {
            assert!(!text.contains(&format!("crate::{row}")), "{} knows {row}", stem(&top));
        }
    }
}
