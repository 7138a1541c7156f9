//! Caches and saved programs when things go wrong: other machines, killed processes, no room, two at once.

use crate::support::{child, is_child};
use frit::engine::{measure, search};
use frit::{Device, Jit, Tensor};
use frit_abi::Target;
use frit_abi::target::Isa;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// A directory of its own for a test, removed at the end.
struct Dir(PathBuf);

impl Dir {
    fn new(name: &str) -> Dir {
        let dir = std::env::temp_dir().join(format!("frit-suite-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        Dir(dir)
    }
    fn path(&self, name: &str) -> String {
        self.0.join(name).to_str().unwrap().into()
    }
}
impl Drop for Dir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Uses both caches: a kernel through the C compiler, and a result of a search.
fn use_caches() {
    let x = Device::scope("CPU:C", || Tensor::new([1.0f32, 2.0]).exp2().to_vec::<f32>()).unwrap().unwrap();
    assert_eq!(x, [2.0, 4.0]);
    let (ast, target) = kernel();
    search::remember(&ast, &target, &[]);
}

/// Some kernel, and this machine.
fn kernel() -> (frit_uop::UOp, Target) {
    let sum = Tensor::ones([64, 64]).contiguous().sum(1);
    let schedule = measure::schedule(&[sum.uop().unwrap()]).unwrap();
    let ast = schedule.kernels.last().unwrap().ast.clone();
    (ast, Target::native(Isa::Avx2, 2, [32 << 10, 1 << 20, 8 << 20]))
}

#[test]
fn child_caches() {
    if is_child() {
        use_caches();
    }
}

#[test]
fn a_cache_directory_that_cannot_be_used_costs_one_warning() {
    let dir = Dir::new("unusable");
    let file = dir.path("file");
    std::fs::write(&file, "not a directory").unwrap();
    for place in [file.clone(), file + "/below", "/proc/frit".into()] {
        let said = child("faults::child_caches", &[("FRIT_CACHE", &place)]);
        assert_eq!(said.matches("frit: warning").count(), 1, "{place}: {said}");
    }
    let said = child("faults::child_caches", &[("FRIT_CACHE", "off")]);
    assert_eq!(said.matches("frit: warning").count(), 0, "{said}");
}

#[test]
fn two_processes_share_a_cache() {
    let dir = Dir::new("shared");
    let cache = dir.path("cache");
    std::thread::scope(|s| {
        (0..3).for_each(|_| _ = s.spawn(|| child("faults::child_caches", &[("FRIT_CACHE", &cache)])));
    });
    let files: Vec<PathBuf> =
        files(Path::new(&cache)).chain(files(&Path::new(&cache).join("tuned"))).collect();
    assert_eq!(files.len(), 2, "one kernel and one result, and nothing half-written: {files:?}");
}

fn files(dir: &Path) -> impl Iterator<Item = PathBuf> {
    std::fs::read_dir(dir).unwrap().map(|e| e.unwrap().path()).filter(|p| p.is_file())
}

#[test]
fn what_was_found_on_another_machine_is_not_used() {
    let dir = Dir::new("tuned");
    child("faults::child_other_machine", &[("FRIT_CACHE", &dir.path("cache"))]);
}

#[test]
fn child_other_machine() {
    if is_child() {
        use_caches();
        let (ast, here) = kernel();
        assert!(search::remembered(&ast, &here).is_some());
        let fewer = Target::native(Isa::Sse2, 2, here.caches);
        let more = Target { threads: 3, ..here.clone() };
        for other in [fewer, more, Target { caches: [1, 2, 3], ..here }] {
            assert!(search::remembered(&ast, &other).is_none(), "{other:?}");
        }
    }
}

/// A recording with some weight to it: saving takes a while.
fn recorded() -> Jit<Tensor, Tensor> {
    let w = Tensor::full([1 << 20], 3.0f32).contiguous();
    let jit = Jit::new(move |x: Tensor| Ok(x * w.sum(..)));
    for _ in 0..2 {
        jit.call(Tensor::ones([2])).unwrap();
    }
    jit
}
fn is_whole(path: &str) -> bool {
    let loaded = Jit::<Tensor, Tensor>::load(path).unwrap();
    let y = loaded.call(Tensor::new([1.0f32, 2.0])).unwrap().to_vec::<f32>().unwrap();
    y == [3.0 * 1048576.0, 6.0 * 1048576.0]
}

#[test]
fn a_process_killed_while_it_saves_leaves_the_file_as_it_was_or_whole() {
    let dir = Dir::new("saving");
    let path = dir.path("step.jit");
    recorded().save(&path).unwrap();
    for round in 0..6 {
        let mut saving = Command::new(std::env::current_exe().unwrap());
        saving.args(["faults::child_saves", "--exact"]).env("SUITE_CHILD", "1").env("SUITE_PATH", &path);
        let mut saving = saving.stdout(Stdio::null()).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(150 + 37 * round));
        saving.kill().unwrap();
        saving.wait().unwrap();
        assert!(is_whole(&path));
    }
}

#[test]
fn child_saves() {
    if is_child() {
        let (jit, path) = (recorded(), std::env::var("SUITE_PATH").unwrap());
        loop {
            jit.save(&path).unwrap();
        }
    }
}

#[test]
fn saving_where_there_is_no_room_is_an_error_and_keeps_the_old_file() {
    let dir = Dir::new("no-room");
    let path = dir.path("step.jit");
    recorded().save(&path).unwrap();
    // files of this shell and what it starts cannot grow beyond a few blocks
    let script = "trap '' XFSZ; ulimit -f 8; exec \"$@\"";
    let mut shell = Command::new("sh");
    shell.args(["-c", script, "sh"]).arg(std::env::current_exe().unwrap());
    shell.args(["faults::child_has_no_room", "--exact", "--nocapture"]);
    let out = shell.env("SUITE_CHILD", "1").env("SUITE_PATH", &path).output().unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    assert!(is_whole(&path));
    assert_eq!(files(&dir.0).count(), 1, "no half file is left");
}

#[test]
fn child_has_no_room() {
    if is_child() {
        let path = std::env::var("SUITE_PATH").unwrap();
        let why = recorded().save(&path).unwrap_err().to_string();
        assert!(why.contains(&path), "{why}");
    }
}
