//! Recordings as a person makes them: of a command, by the binary.

use frit::{Device, Jit, Recording, Tensor};
use frit_viz::model::Kernel;
use frit_viz::{Model, explain::explain};
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

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
    assert_eq!(count(&dump, "compile") + count(&dump, "schedule"), lines("passes over "));
    assert_eq!(count(&dump, "call"), lines("kernel graph, arguments "));
    assert_eq!(count(&dump, "pass") + count(&dump, "listing"), {
        // the four of the x86 writer leave code, which is recorded as such
        let rows = said.lines().filter(|l| l.contains(" ms  ")).count();
        rows - 4 * count(&dump, "compile")
    });
    // every line of a source is for a step, or for none, and x86 code says where each begins
    assert_eq!(count(&dump, "offsets"), count(&dump, "source"));
    assert!(count(&dump, "plan_hit") > 0 && count(&dump, "rule") > 0 && count(&dump, "code") > 0);
    // rules are told whole and where they are, what passes replace in code by the line that does it
    let rules = || dump.lines().filter(|l| l.split(' ').nth(1) == Some("rule"));
    let of_tables = || rules().filter(|l| l.contains(" set="));
    assert!(of_tables().all(|l| l.contains(" => ")) && of_tables().any(|l| l.contains(" if ")));
    assert!(rules().all(|l| l.contains(".rs\"") && l.contains(" line=")), "{:?}", rules().next());
    for pass in ["rangeify/build.rs", "build_kernels.rs", "dims.rs", "widths.rs"] {
        assert!(rules().any(|l| l.contains(pass)), "no replacement of {pass}");
    }
    let line = dump.lines().find(|l| l.contains(" realize ")).expect("a call that computes");
    assert!(line.contains("cli/src/bench/"), "{line}");
}

#[test]
fn a_file_that_ends_early_is_read_up_to_there() {
    let (path, _) = recorded("cut.viz", "0");
    let bytes = std::fs::read(&path).expect("a recording");
    let whole = frit_recording::read(&bytes, |_| ()).expect("it is whole");
    assert_eq!(whole.lost, 0);
    let mut last = 0;
    for part in 1..=20 {
        let cut = bytes.len() * part / 20 - usize::from(part < 20);
        let read = frit_recording::read(&bytes[..cut], |_| ()).expect("what there is can be read");
        // a chunk is full at 64 KiB, and ends with the record that fills it
        assert!(read.records >= last && read.lost < 128 << 10, "{read:?}");
        last = read.records;
    }
    assert_eq!(last, whole.records);
    // a byte that is another one ends it there, and no later
    let mut spoiled = bytes.clone();
    let middle = spoiled.len() / 2;
    spoiled[middle] ^= 0x55;
    assert!(frit_recording::read(&spoiled, |_| ()).is_ok_and(|e| e.records < whole.records));
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

#[test]
fn a_profile_is_a_trace_with_flows_from_launches_to_kernels() {
    let (json, proto) = (file("trace.json"), file("trace.pftrace"));
    let bench = ["bench", "--milliseconds=1", "gemm_f32_256"];
    for path in [&json, &proto] {
        let run = frit(&bench, &[("FRIT_PROFILE", &path.to_string_lossy())]);
        assert!(run.status.success(), "{}", text(&run.stderr));
    }
    let trace = std::fs::read_to_string(&json).expect("a trace");
    assert!(trace.starts_with("[\n{\"ph\":\"M\""), "{}", &trace[..100]);
    let of = |phase: &str| trace.lines().filter(|l| l.contains(&format!("\"ph\":\"{phase}\""))).count();
    let kernels = trace.lines().filter(|l| l.contains("\"cat\":\"kernel\"")).count();
    assert!(kernels > 0 && of("s") == kernels && of("f") == kernels && of("C") > 0, "{kernels} {}", of("s"));
    assert!(trace.contains("\"name\":\"CPU memory\"") && trace.contains("\"name\":\"lower\""));
    // each line but the first is an object and a comma, but for the last, which ends the array
    let events = trace.lines().count() - 2;
    assert!(trace.lines().skip(1).take(events).all(|l| l.starts_with('{') && l.ends_with("},")));
    assert!(trace.ends_with("{}]\n"), "the array has an end");
    let packets = std::fs::read(&proto).expect("a trace");
    let mut rest = &packets[..];
    let mut count = 0;
    while !rest.is_empty() {
        assert_eq!(rest[0], 0x0a, "a packet is field 1 of the trace");
        rest = &rest[1..];
        let n = frit_recording::format::take(&mut rest).expect("a length") as usize;
        rest = &rest[n..];
        count += 1;
    }
    assert!(count > 2 * kernels / 2, "{count}");
    let wrong = frit(&bench, &[("FRIT_PROFILE", "trace.txt")]);
    assert!(text(&wrong.stderr).contains("a profile is a .json"), "{}", text(&wrong.stderr));
}

#[test]
fn a_profile_has_every_launch() {
    let path = file("launches.viz").to_string_lossy().into_owned();
    let bench = ["bench", "--milliseconds=1", "launch_add", "gemm_f32_256"];
    let run = frit(&bench, &[("FRIT_PROFILE", &path), ("FRIT_DEBUG", "2")]);
    assert!(run.status.success(), "{}", text(&run.stderr));
    let (dump, said) = (dump(&path), text(&run.stderr));
    assert_eq!(count(&dump, "launch"), said.lines().filter(|l| l.contains(" GFLOP/s ")).count());
    assert_eq!(count(&dump, "realize"), count(&dump, "realized"));
    assert_eq!((count(&dump, "lost"), count(&dump, "compile")), (0, 0));
}

#[test]
fn a_profile_says_where_the_time_went() {
    let own = env!("CARGO_BIN_EXE_frit");
    let run = frit(&["profile", "--", own, "bench", "--milliseconds=1", "gemm_f32_256"], &[]);
    let said = text(&run.stdout);
    assert!(run.status.success(), "{}", text(&run.stderr));
    for part in ["  run\n", "  compile\n", "by kernel", "by line that computes", "bench/", "GFLOP/s"] {
        assert!(said.contains(part), "{part} is missing:\n{said}");
    }
}

#[test]
fn a_command_that_fails_is_told_and_fails() {
    let own = env!("CARGO_BIN_EXE_frit");
    let script = format!("{own} bench --milliseconds=1 launch_add >&2; exit 3");
    let run = frit(&["profile", "--", "sh", "-c", &script], &[]);
    assert_eq!(run.status.code(), Some(3), "{}", text(&run.stderr));
    assert!(text(&run.stdout).contains("by kernel"), "{}", text(&run.stdout));
    let path = file("failed.viz").to_string_lossy().into_owned();
    let run = frit(&["viz", "-o", &path, "--", "sh", "-c", &script], &[]);
    assert_eq!(run.status.code(), Some(3));
    assert!(text(&run.stderr).contains("sh ended with exit status: 3"), "{}", text(&run.stderr));
    assert!(count(&dump(&path), "launch") > 0);
}

#[test]
fn a_line_is_explained() {
    let (path, _) = recorded("explain.viz", "0");
    let dump = dump(&path);
    let line = dump.lines().find(|l| l.contains(" line ") && l.contains("op=\"add\"")).expect("an add");
    let number = line.rsplit("line=").next().expect("its line");
    let said = frit(&["explain", &path, &format!("compile.rs:{number}")], &[]);
    let text_of = text(&said.stdout);
    assert!(text_of.contains("kernel e_16 computes add: Add"), "{text_of}{}", text(&said.stderr));
    // why it is not in memory, as the scheduler decided it
    assert!(
        text_of.contains("Add is computed where read: each of its elements is computed once"),
        "{text_of}"
    );
    let other = frit(&["explain", &path, "compile.rs:1"], &[]);
    assert!(text(&other.stderr).contains("there are some for lines"), "{}", text(&other.stderr));
    assert!(
        text(&frit(&["explain", &path, "nowhere.py:1"], &[]).stderr).contains("no operation of this file")
    );
}

/// What this process did meanwhile, read back. There is one recording at a time.
fn recorded_here(name: &str, run: impl FnOnce()) -> Model {
    static ONE: Mutex<()> = Mutex::new(());
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    let path = file(name);
    let recording = Recording::begin(&path).expect("a recording");
    run();
    recording.end().expect("it is whole");
    Model::of(&std::fs::read(&path).expect("a file")).expect("a recording")
}

fn memory(value: f32) -> Tensor {
    Device::scope("CPU", || Tensor::full([5, 7], value).contiguous().realize())
        .expect("CPU")
        .expect("a tensor")
}

#[test]
fn equal_graphs_of_several_lines_are_told_apart() {
    let (a, b) = (memory(1.0), memory(2.0));
    let first = line!() + 2;
    let m = recorded_here("lines.viz", || {
        (a.exp() + 1.0).sum(..).item::<f32>().expect("a number");
        (b.exp() + 1.0).sum(..).item::<f32>().expect("a number");
        // the same graph of the same memory, so that even its names are found again
        (a.exp() + 1.0).sum(..).item::<f32>().expect("a number");
        {
            let _span = frit::span("epoch");
            (b.sqrt() + 1.0).sum(..).item::<f32>().expect("a number");
        }
        // described later, and never run
        (b.sqrt() + 1.0).sum(..);
    });
    for line in [first, first + 1, first + 3] {
        let said = explain(&m, &format!("viz.rs:{line}")).unwrap_or_else(|e| panic!("{e}"));
        assert!(said.contains(": add, exp, sum\n") && said.contains("and nothing of other lines"), "{said}");
    }
    let said = explain(&m, &format!("viz.rs:{}", first + 6)).unwrap_or_else(|e| panic!("{e}"));
    assert!(said.contains(": add in epoch, sqrt in epoch, sum in epoch\n"), "{said}");
    assert!(explain(&m, &format!("viz.rs:{}", first + 9)).is_err(), "it was not run");
    // kernels are named by what was called, with the span besides
    let origin = m.launches.last().map(|l| m.text(l.origin)).unwrap_or_default();
    assert!(origin.contains("epoch: sqrt at ") || origin.contains("epoch: sum at "), "{origin}");
}

#[test]
fn kernels_of_a_jit_that_was_there_before_are_compiled_once_for_the_recording() {
    let x = memory(3.0);
    let f = Jit::new(|x: Tensor| Ok((x.sin() * 7.25).sum(..)));
    for _ in 0..3 {
        f.call(x.clone()).and_then(|y| y.item::<f32>()).expect("a number");
    }
    let m = recorded_here("jit.viz", || {
        for _ in 0..3 {
            f.call(x.clone()).and_then(|y| y.item::<f32>()).expect("a number");
        }
    });
    assert_eq!(m.replays, 3);
    assert!(!m.launches.is_empty());
    for l in &m.launches {
        let compiled: Vec<_> = m.kernels.iter().filter(|k| k.ast == l.kernel).collect();
        assert_eq!(compiled.len(), 1, "{}", m.text(l.name));
        assert!(!compiled[0].passes.is_empty() && !compiled[0].programs.is_empty());
    }
}

#[test]
fn peaks_are_put_into_a_file_of_another_version() {
    use frit_recording::format::put;
    // a table in another order, with a field that came later
    let table = "other at:0\ndevice name:1 about:1 flops:0 bytes:0 later:1\nstring number:0 text:2\n";
    let mut bytes = b"FRITVIZ1".to_vec();
    put(&mut bytes, table.len() as u64);
    bytes.extend(table.as_bytes());
    let with = frit_recording::writer::with_peaks(bytes, "CPU", "a machine", 12, 34).expect("a recording");
    let m = Model::of(&with).expect("a recording");
    let [d] = m.devices[..] else { panic!("{:?}", m.devices) };
    assert_eq!((m.text(d.name), m.text(d.about), d.flops, d.bytes), ("CPU", "a machine", 12, 34));
}

#[test]
fn a_search_is_a_tree() {
    let path = file("search.viz").to_string_lossy().into_owned();
    let seconds = ("FRIT_BEAM_SECONDS", "1");
    let env = [("FRIT_VIZ", &*path), ("FRIT_BEAM", "1"), seconds, ("FRIT_CACHE", "off")];
    let run = frit(&["bench", "--milliseconds=1", "gemm_f32_256"], &env);
    assert!(run.status.success(), "{}", text(&run.stderr));
    let m = Model::of(&std::fs::read(&path).expect("a file")).expect("a recording");
    let searched = m.searches.iter().max_by_key(|s| s.candidates.len()).expect("a search");
    let rounds = searched.candidates.iter().map(|c| c.0).max();
    assert!(rounds >= Some(1), "{rounds:?}");
    for (i, (round, _, _, parent)) in searched.candidates.iter().enumerate().filter(|(_, c)| c.0 > 0) {
        let before =
            searched.candidates.get((*parent as usize).wrapping_sub(1)).expect("what it was made of");
        assert!(before.0 < *round && (*parent as usize) <= i, "{i} of round {round} is made of {parent}");
    }
    assert!(m.kernels.iter().all(|k| k.candidate.is_none()), "passes of candidates nobody asked for");
}

/// Each candidate that was timed with its passes and rules, and the kernel that is launched apart from them.
#[test]
fn candidates_have_their_passes_where_that_is_asked_for() {
    let path = file("candidates.viz").to_string_lossy().into_owned();
    let own = env!("CARGO_BIN_EXE_frit");
    let bench = [own, "bench", "--milliseconds=1", "gemm_f32_256"];
    let words = [&["viz", "--candidates", "-o", &path, "--"][..], &bench].concat();
    let run = frit(&words, &[("FRIT_BEAM", "1"), ("FRIT_BEAM_SECONDS", "1"), ("FRIT_CACHE", "off")]);
    assert!(run.status.success(), "{}", text(&run.stderr));
    let m = Model::of(&std::fs::read(&path).expect("a file")).expect("a recording");
    let (candidates, launched): (Vec<&Kernel>, Vec<&Kernel>) =
        m.kernels.iter().partition(|k| k.candidate.is_some());
    assert_eq!(candidates.len(), m.searches.iter().map(|s| s.candidates.len()).sum::<usize>());
    assert!(launched.iter().all(|k| k.programs.iter().all(|p| !p.code.is_empty())));
    for k in candidates {
        let (search, number) = k.candidate.expect("a number");
        let (_, opts, ..) = m.searches[search].candidates[number as usize - 1];
        assert!(k.ast == m.searches[search].kernel && m.text(k.opts).contains(m.text(opts)));
        assert!(k.passes.iter().any(|p| !p.rules.is_empty()));
    }
}

/// What `frit viz` measures once is in every recording from then on.
#[test]
fn peaks_that_were_measured_are_in_later_recordings() {
    let (first, later) = (file("first.viz"), file("later.viz"));
    let cache = std::env::temp_dir().join(format!("frit-peaks-{}", std::process::id()));
    let cached = cache.to_string_lossy().into_owned();
    let own = env!("CARGO_BIN_EXE_frit");
    let peaks = |path: &std::path::Path| {
        let m = Model::of(&std::fs::read(path).expect("a file")).expect("a recording");
        let cpu = m.devices.iter().find(|d| m.text(d.name) == "CPU").expect("the CPU");
        (cpu.flops, cpu.bytes)
    };
    let bench = ["bench", "--milliseconds=1", "launch_add"];
    let later_path = later.to_string_lossy().into_owned();
    let env = [("FRIT_VIZ", &*later_path), ("FRIT_CACHE", &*cached)];
    assert!(frit(&bench, &env).status.success());
    assert_eq!(peaks(&later), (0, 0), "nobody measured yet");
    let path = first.to_string_lossy().into_owned();
    let words = [&["viz", "-o", &path, "--", own][..], &bench].concat();
    assert!(frit(&words, &[("FRIT_CACHE", &cached)]).status.success());
    let measured = peaks(&first);
    assert!(measured.0 > 100_000_000 && measured.1 > 100_000_000, "{measured:?}");
    std::fs::remove_file(&later).expect("it is there");
    assert!(frit(&bench, &env).status.success());
    assert_eq!(peaks(&later), measured);
    std::fs::remove_dir_all(&cache).ok();
}

/// Compile a training step of ResNet-50: milliseconds, and megabytes of memory at most.
fn compile_resnet(env: &[(&str, &str)]) -> (f64, f64) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_frit"));
    command.args(["bench", "--milliseconds=1", "compile_resnet50_train"]).envs(env.iter().copied());
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("the binary starts");
    let status = format!("/proc/{}/status", child.id());
    let mut most = 0.0f64;
    while child.try_wait().expect("a child").is_none() {
        let text = std::fs::read_to_string(&status).unwrap_or_default();
        let peak =
            text.lines().find_map(|l| l.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB")?.parse().ok());
        most = most.max(peak.unwrap_or(0.0) / 1024.0);
        std::thread::sleep(Duration::from_millis(5));
    }
    let out = child.wait_with_output().expect("its output");
    assert!(out.status.success());
    let text = text(&out.stdout);
    let value = text.split("\"wall_ms\": ").nth(1).and_then(|rest| rest.split(',').next()?.parse().ok());
    (value.unwrap_or_else(|| panic!("no time in {text}")), most)
}

/// The bounds of decision 022: recorded, compiling takes at most three times as long and 64 MB more, and the page of the
/// step has at most 50 MB. Clocks and other programs disturb each other, so the best of several turns counts, and no more turns
/// are taken than are needed.
#[test]
fn a_recording_of_a_resnet50_step_costs_no_more_than_it_may() {
    const TURNS: usize = 6;
    let path = file("resnet.viz");
    let (mut off, mut on) = ((f64::INFINITY, f64::INFINITY), (f64::INFINITY, f64::INFINITY));
    let least = |a: (f64, f64), b: (f64, f64)| (a.0.min(b.0), a.1.min(b.1));
    let is_bounded = |off: (f64, f64), on: (f64, f64)| on.0 <= 3.0 * off.0 && on.1 <= off.1 + 64.0;
    for turn in 0..TURNS {
        off = least(off, compile_resnet(&[]));
        on = least(on, compile_resnet(&[("FRIT_VIZ", &path.to_string_lossy())]));
        if turn > 0 && is_bounded(off, on) {
            break;
        }
    }
    println!("{:.0} ms and {:.0} MB, recorded {:.0} ms and {:.0} MB", off.0, off.1, on.0, on.1);
    assert!(is_bounded(off, on), "{off:?} became {on:?}");
    let html = file("resnet.html");
    let exported = frit(&["viz", "export", &path.to_string_lossy(), &html.to_string_lossy()], &[]);
    assert!(exported.status.success(), "{}", text(&exported.stderr));
    let size = std::fs::metadata(&html).expect("a page").len();
    assert!(size < 50_000_000, "{size} bytes");
    let m = Model::of(&std::fs::read(&path).expect("a file")).expect("a recording");
    println!("{size} bytes of page, {} kernels, {} applications", m.kernels.len(), m.rule_count());
    assert!(m.rule_count() > 100_000 && m.kernels.len() > 180, "{} {}", m.rule_count(), m.kernels.len());
    std::fs::remove_file(&path).ok();
    std::fs::remove_file(&html).ok();
}
