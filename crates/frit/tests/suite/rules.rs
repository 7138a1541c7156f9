//! Every table of rules in the workspace is tested: tables about values, tensors and loops by instances that are generated of
//! each pattern, the others by the tests that are named here.

use crate::tidy::{crates, read, root, rust_files};
use std::collections::{BTreeMap, BTreeSet};

/// Tables of whose patterns instances are generated and evaluated before and after: room, tables, the test. That of `uop`
/// lists the few rules that it cannot make.
const GENERATED: &[(&str, &[&str], &str)] = &[
    (
        "schedule",
        &["MOVEMENT", "REDUCTIONS", "MERGES", "EMPTY", "CONSTANTS"],
        "schedule/src/prepare/tests.rs every_rule_is_sound_and_fires",
    ),
    ("schedule", &["FOLD"], "schedule/src/fold/tests.rs every_rule_is_sound_and_fires"),
    (
        "codegen",
        &[
            "SMALL_FLOAT",
            "EXP",
            "LOG",
            "TRIG",
            "INVERSE",
            "HYPERBOLIC",
            "ERF",
            "POW",
            "DIVIDE",
            "SHIFT",
            "CONVERT",
            "THREEFRY",
            "BASIC",
        ],
        "codegen/src/decompose/tests.rs every_rule_is_sound_and_fires",
    ),
];

/// Tables that are not generated: room, tables, why, and what tests them.
const ELSEWHERE: &[(&str, &[&str], &str, &[&str])] = &[
    (
        "codegen",
        &["GATES"],
        "about accesses to memory",
        &[
            "codegen/src/expand/gates.rs a_checked_access_that_cannot_miss_is_not_checked",
            "codegen/tests/codegen/files.rs passes_do_what_the_files_say",
        ],
    ),
    (
        "tensor",
        &["ARITHMETIC", "FUNCTIONS", "TENSORS"],
        "they give gradients, which differences and torch's values check",
        &["frit/tests/suite/derivatives.rs second_derivatives_agree_with_finite_differences"],
    ),
];

/// The tables of a source file, by name.
fn tables(source: &str) -> Vec<String> {
    let code: Vec<&str> = source.lines().map(|l| l.trim().trim_start_matches("pub ")).collect();
    let mut found = vec![];
    for (i, line) in code.iter().enumerate().filter(|(_, l)| l.starts_with("rules! {")) {
        let own = line.trim_start_matches("rules! {").trim().trim_start_matches("pub ");
        let head = if own.is_empty() {
            code[i + 1..].iter().find(|l| !l.starts_with("///")).unwrap_or(&"")
        } else {
            &own
        };
        found.push(head.chars().take_while(|c| c.is_ascii_uppercase() || *c == '_').collect());
    }
    found
}

#[test]
fn every_table_of_rules_is_tested() {
    let mut written: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for room in crates() {
        for file in rust_files(&root().join("crates").join(&room).join("src")) {
            written.entry(room.clone()).or_default().extend(tables(&read(&file)));
        }
    }
    let generated: BTreeSet<String> = frit_uop::symbolic::TABLES.iter().map(|t| t.head.name.into()).collect();
    let mut tested = BTreeMap::from([("uop".to_string(), generated)]);
    let made = GENERATED.iter().map(|(room, names, by)| (room, names, std::slice::from_ref(by)));
    for (room, names, by) in made.chain(ELSEWHERE.iter().map(|(room, names, _, by)| (room, names, *by))) {
        tested.entry(room.to_string()).or_default().extend(names.iter().map(|n| n.to_string()));
        for test in by {
            let (file, name) = test.split_once(' ').expect("a file and a test");
            assert!(read(format!("crates/{file}")).contains(&format!("fn {name}(")), "{test} is not there");
        }
    }
    written.retain(|_, names| !names.is_empty());
    assert_eq!(
        written, tested,
        "tables that are written (left) and tested (right): see GENERATED and ELSEWHERE"
    );
}
