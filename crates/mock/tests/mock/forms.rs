//! Every instruction form: known where the writer of PTX may write it, and doing what the hardware does.

use crate::driver::Gpu;
use frit_mock::ptx::decode::is_known;
use frit_mock::truth::{Driver, Sample, Snippet, all, parse, samples};
use std::collections::HashMap;

/// The writer's table of instructions.
const WRITER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../render/src/ptx/forms.rs");

/// The names in it.
fn written() -> Vec<String> {
    let table = std::fs::read_to_string(WRITER).expect(WRITER);
    let rows = table.lines().filter_map(|l| l.trim().strip_prefix("(\"")?.split_once('"'));
    rows.flat_map(|(names, _)| names.split(' ').map(String::from).collect::<Vec<_>>()).collect()
}

#[test]
fn all_that_may_be_written_is_known_and_has_a_snippet() {
    let names = written();
    assert!(names.len() > 150, "the table of {} forms was not found", names.len());
    let snippets: Vec<String> =
        all().iter().map(|s| s.name.split(':').next().unwrap_or("").to_string()).collect();
    for name in names {
        assert!(is_known(&name), "{name} is not known");
        assert!(snippets.contains(&name), "{name} has no snippet");
    }
}

#[test]
fn all_that_the_runtime_calls_is_there() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../runtime/src/cuda/driver.rs");
    let table = std::fs::read_to_string(path).expect(path);
    let names: Vec<&str> = table.split("= \"cu").skip(1).filter_map(|rest| rest.split('"').next()).collect();
    assert!(names.len() > 40, "the table of {} functions was not found", names.len());
    for name in names {
        assert!(frit_mock::find(&format!("cu{name}")).is_some(), "there is no cu{name}");
    }
}

#[test]
fn every_snippet_runs() {
    let _gpu = Gpu::new();
    let find = |name: &str| frit_mock::find(name);
    let driver = Driver::new(&find).expect("a driver");
    for snippet in all() {
        driver
            .run(&snippet, &samples(&snippet))
            .unwrap_or_else(|e| panic!("{}: {e}\n{}", snippet.name, snippet.text));
    }
}

/// Samples that an H200 gave; the file is made by the example `ptx_truth`.
const TRUTH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests-data/ptx_truth.txt");

#[test]
fn answers_are_the_hardwares() {
    let _gpu = Gpu::new();
    let find = |name: &str| frit_mock::find(name);
    let driver = Driver::new(&find).expect("a driver");
    let text = std::fs::read_to_string(TRUTH).expect("tests-data/ptx_truth.txt");
    let snippets: HashMap<String, Snippet> = all().into_iter().map(|s| (s.name.clone(), s)).collect();
    let mut wrong = vec![];
    for line in text.lines().filter(|l| !l.starts_with('#')) {
        let (name, truth) = parse(line).unwrap_or_else(|| panic!("{line:.80} is no row of samples"));
        let snippet = snippets.get(name).unwrap_or_else(|| panic!("there is no snippet {name}"));
        let given: Vec<_> = truth.iter().map(|s| s.given).collect();
        let ours = driver.run(snippet, &given).unwrap_or_else(|e| panic!("{name}: {e}"));
        // approximations are within two units in the last place
        let units = if name.contains(".approx") { 2 } else { 0 };
        let is_near = |a: u64, b: u64| a.abs_diff(b) <= units;
        let differ =
            |(a, b): &(&Sample, &Sample)| !a.answer.iter().zip(b.answer).all(|(a, b)| is_near(*a, b));
        if let Some((ours, truth)) = ours.iter().zip(&truth).find(differ) {
            let count = given.len();
            wrong.push(format!(
                "{name}: {:x?} of {:x?}, not {:x?} (of {count})",
                truth.answer, truth.given, ours.answer
            ));
        }
    }
    assert!(wrong.is_empty(), "the hardware gives\n{}", wrong.join("\n"));
}
