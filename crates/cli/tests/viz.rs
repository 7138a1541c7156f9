//! Recordings as a person makes them: of a command, by the binary.

use std::path::PathBuf;
use std::process::{Command, Output};

fn frit(words: &[&str], env: &[(&str, &str)]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_frit"));
    command.args(words).envs(env.iter().copied()).env("FRIT_DEVICE", "CPU");
    command.output().expect("the binary starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A file of this test's own.
fn file(name: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("viz");
    std::fs::create_dir_all(&folder).expect("a folder for files");
    folder.join(name)
}

/// A small program, recorded, and what it printed with `FRIT_DEBUG`.
fn recorded(name: &str, debug: &str) -> (String, String) {
    let path = file(name).to_string_lossy().into_owned();
    let bench = ["bench", "--milliseconds=1", "launch_add", "gemm_f32_256"];
    let run = frit(&bench, &[("FRIT_VIZ", &path), ("FRIT_DEBUG", debug)]);
    assert!(run.status.success(), "{}", text(&run.stderr));
    (path, text(&run.stderr))
}

fn dump(path: &str) -> String {
    let out = frit(&["viz", "dump", path], &[]);
    assert!(out.status.success(), "{}", text(&out.stderr));
    text(&out.stdout)
}

fn count(dump: &str, kind: &str) -> usize {
    dump.lines().filter(|l| l.starts_with('[') && l.split(' ').nth(1) == Some(kind)).count()
}

#[test]
fn what_is_recorded_is_what_debug_output_says() {
    let (path, said) = recorded("counts.viz", "3");
    let dump = dump(&path);
    let lines = |what: &str| said.lines().filter(|l| l.contains(what)).count();
    assert_eq!(count(&dump, "launch"), lines(" GFLOP/s "));
    assert_eq!(count(&dump, "schedule"), lines("schedule: "));
    assert_eq!(count(&dump, "compile"), lines("passes over "));
    assert_eq!(count(&dump, "call"), lines("kernel graph, arguments "));
    assert_eq!(count(&dump, "pass") + count(&dump, "listing"), {
        let rows = said.lines().filter(|l| l.contains(" ms  ")).count();
        rows + 9 * count(&dump, "schedule")
    });
    assert!(count(&dump, "plan_hit") > 0 && count(&dump, "rule") > 0 && count(&dump, "code") > 0);
    let line = dump.lines().find(|l| l.contains(" realize ")).expect("a call that computes");
    assert!(line.contains("bench/compile.rs"), "{line}");
}

#[test]
fn a_file_that_ends_early_is_read_up_to_there() {
    let (path, _) = recorded("cut.viz", "0");
    let bytes = std::fs::read(&path).expect("a recording");
    let whole = frit_viz::read(&bytes, |_| ()).expect("it is whole");
    assert_eq!(whole.lost, 0);
    let mut last = 0;
    for part in 1..=20 {
        let cut = bytes.len() * part / 20 - usize::from(part < 20);
        let read = frit_viz::read(&bytes[..cut], |_| ()).expect("what there is can be read");
        assert!(read.records >= last && read.lost < 100_000, "{read:?}");
        last = read.records;
    }
    assert_eq!(last, whole.records);
    // a byte that is another one ends it there, and no later
    let mut spoiled = bytes.clone();
    let middle = spoiled.len() / 2;
    spoiled[middle] ^= 0x55;
    assert!(frit_viz::read(&spoiled, |_| ()).is_ok_and(|e| e.records < whole.records));
}

#[test]
fn a_command_is_recorded_and_its_children_do_not_disturb_it() {
    let path = file("command.viz").to_string_lossy().into_owned();
    let own = env!("CARGO_BIN_EXE_frit");
    // the inner one inherits FRIT_VIZ while the outer one has the file
    let script = format!("{own} bench --milliseconds=1 launch_add >&2");
    let run = frit(&["viz", "-o", &path, "--", "sh", "-c", &script], &[]);
    assert!(run.status.success(), "{}", text(&run.stderr));
    assert!(text(&run.stderr).contains("frit viz "), "{}", text(&run.stderr));
    assert!(count(&dump(&path), "launch") > 0);
    let nothing = frit(&["viz", "-o", &file("none.viz").to_string_lossy(), "--", "true"], &[]);
    assert!(text(&nothing.stderr).contains("recorded nothing"), "{}", text(&nothing.stderr));
    let missing = frit(&["viz", "dump", "/nowhere.viz"], &[]);
    assert!(!missing.status.success());
    let other = file("other");
    std::fs::write(&other, "something else").expect("a file");
    let said = text(&frit(&["viz", "dump", &other.to_string_lossy()], &[]).stderr);
    assert!(said.contains("not a recording"), "{said}");
}
