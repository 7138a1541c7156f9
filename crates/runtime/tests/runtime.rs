//! The room from outside: kernels written by hand in C, compiled, cached, loaded, launched and failed.

#[path = "runtime/faults.rs"]
mod faults;
#[path = "runtime/processes.rs"]
mod processes;

use frit_abi::target::Isa;
use frit_abi::{Code, DType, Kernel, LaunchDims, Param};
use frit_runtime::cache::{DEFAULT_LIMIT, DiskCache, Key};
use frit_runtime::cpu::elf::Object;
use frit_runtime::cpu::pool::Pool;
use frit_runtime::cpu::{Config, Cpu};
use frit_runtime::env::CacheSetting;
use frit_runtime::{Device, Error, Executable, Memory};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

const HEAD: &str = "#ifndef FRIT_HEAD\n#define FRIT_HEAD\n#include <stdint.h>\n#endif\n";
const ARGS: &str =
    "(void **b, const int64_t *vars, void *scratch, uint32_t *status, int64_t begin, int64_t end)";

/// A kernel `name` with `buffers` float buffers of `len`, the first written, and `vars` variables.
fn kernel(name: &str, buffers: usize, len: usize, vars: usize, body: &str) -> Kernel {
    let buffer = |i| Param::Buffer { dtype: DType::F32, len, written: i == 0, align: 4 };
    let var = |i| Param::Var { name: format!("v{i}") };
    let code = Code::C(format!("{HEAD}void {name}{ARGS} {{\n{body}\n}}\n"));
    Kernel {
        name: name.into(),
        code,
        params: (0..buffers).map(buffer).chain((0..vars).map(var)).collect(),
        scratch: 0,
    }
}

fn add(name: &str, n: usize) -> Kernel {
    let body = "float *o = b[0]; const float *x = b[1], *y = b[2];
        for (int64_t i = begin; i < end; i++) o[i] = x[i] + y[i];";
    kernel(name, 3, n, 0, body)
}

fn dims(thread_extent: i64) -> LaunchDims {
    LaunchDims { global: [1; 3], local: [1; 3], thread_extent }
}

fn cpu(threads: usize) -> Cpu {
    Cpu::new(Config {
        threads,
        plan_threads: threads,
        isa: Isa::Portable,
        units: frit_runtime::env::Units::Off,
        cc: None,
        cache: CacheSetting::Off,
    })
}

fn floats(device: &dyn Device, values: &[f32]) -> Memory {
    let memory = device.alloc(values.len() * 4).unwrap();
    memory.copy_in(0, &values.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<u8>>()).unwrap();
    memory
}

fn read(memory: &Memory) -> Vec<f32> {
    let mut bytes = vec![0; memory.len_bytes()];
    memory.copy_out(0, &mut bytes).unwrap();
    bytes.chunks_exact(4).map(|c| f32::from_le_bytes(c.try_into().unwrap())).collect()
}

/// A directory that is empty now and gone afterwards.
struct TempDir(PathBuf);

impl TempDir {
    fn new(name: &str) -> TempDir {
        let path = std::env::temp_dir().join(format!("frit-test-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir(&path).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).unwrap();
        TempDir(path)
    }
    fn files(&self) -> Vec<PathBuf> {
        fs::read_dir(&self.0).unwrap().map(|e| e.unwrap().path()).collect()
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Whether this process is one that `again` started.
fn is_child() -> bool {
    std::env::var_os("FRIT_TEST_CHILD").is_some()
}

/// Run the test `name` again in a process of its own, with these variables.
fn again(name: &str, vars: &[(&str, &Path)]) -> Output {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", name, "--nocapture"]).env("FRIT_TEST_CHILD", "1").envs(vars.iter().copied());
    command.output().unwrap()
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&[&output.stdout[..], &output.stderr].concat()).into_owned()
}

#[test]
#[cfg(target_arch = "x86_64")]
fn a_caller_that_flushes_subnormals_gets_them_all_the_same() {
    let device = cpu(1);
    let half =
        "float *o = b[0]; const float *x = b[1]; for (int64_t i = begin; i < end; i++) o[i] = x[i] * 0.5f;";
    let loaded = device.load(&kernel("halve", 2, 2, 0, half)).unwrap();
    let (out, x) = (floats(&device, &[0.0; 2]), floats(&device, &[f32::MIN_POSITIVE, 1e-40]));
    let (mut own, flush) = (0u32, 0x9fc0u32);
    // SAFETY: the control word is read, then flush-to-zero and subnormals-as-zero are set in it, then it is put back.
    unsafe {
        std::arch::asm!("stmxcsr [{}]", in(reg) &mut own);
        std::arch::asm!("ldmxcsr [{}]", in(reg) &flush);
    }
    let launched = loaded.launch(&[&out, &x], &[], dims(2));
    // SAFETY: as above.
    unsafe { std::arch::asm!("ldmxcsr [{}]", in(reg) &own) };
    launched.unwrap();
    assert_eq!(read(&out), [f32::MIN_POSITIVE * 0.5, 1e-40 * 0.5]);
}

#[test]
fn a_kernel_is_compiled_loaded_and_shared_out() {
    let cpu = cpu(2);
    let n = 100_003;
    let x: Vec<f32> = (0..n).map(|i| i as f32).collect();
    let (a, b, out) = (floats(&cpu, &x), floats(&cpu, &x), cpu.alloc(n * 4).unwrap());
    let add = cpu.load(&add("add", n)).unwrap();
    for _ in 0..20 {
        out.copy_in(0, &vec![0; n * 4]).unwrap();
        add.launch(&[&out, &a, &b], &[], dims(n as i64)).unwrap();
        assert!(read(&out).iter().enumerate().all(|(i, v)| *v == 2.0 * i as f32));
    }
    let time = cpu.time(&mut || add.launch(&[&out, &a, &b], &[], dims(n as i64)));
    assert!(time.unwrap().as_nanos() > 0);
}

#[test]
fn variables_scratch_and_views_reach_the_kernel() {
    let cpu = cpu(2);
    let body = "float *o = b[0]; float *s = scratch;
        if ((uintptr_t)scratch % 64) *status = 1;
        for (int i = 0; i < 1000; i++) s[i] = i;
        for (int64_t i = begin; i < end; i++) o[i] = s[i] * vars[0] + vars[1];";
    let mut k = kernel("scale", 1, 100, 2, body);
    k.scratch = 4000;
    let (arena, scale) = (floats(&cpu, &[-1.0; 300]), cpu.load(&k).unwrap());
    scale.launch(&[&arena.view(400, 400).unwrap()], &[3, -7], dims(100)).unwrap();
    let got = read(&arena);
    assert!(got[..100].iter().chain(&got[200..]).all(|v| *v == -1.0));
    assert!((0..100).all(|i| got[100 + i] == 3.0 * i as f32 - 7.0));
}

#[test]
fn functions_that_compilers_call_by_themselves_are_there() {
    let cpu = cpu(1);
    let n = 10_000;
    let names = ["floor", "ceil", "trunc", "rint", "nearbyint", "roundeven", "round", "sqrt"];
    let declare = |f: &&str| format!("extern float {f}f(float); extern double {f}(double);\n");
    let call = |f: &&str| format!("*o++ = {f}f(x[0]); *o++ = {f}(x[0]);\n");
    let declared = names.iter().map(declare).collect::<String>();
    let called = names.iter().map(call).collect::<String>();
    // A switch becomes a table of addresses, a constant array a section of its own.
    let body = format!(
        "static const float table[] = {{ 1, 2, 3, 4, 5, 6, 7, 8, 9 }};
        static const char *const words[] = {{ \"a\", \"bc\", \"def\" }};
        float *o = b[0]; const float *x = b[1];
        __builtin_memset(o, 0, {n} * 4); o += 8;
        {called}
        *o++ = fmodf(x[0], 1.0f); *o++ = fma(x[0], x[0], 1); *o++ = table[vars[0]];
        switch (vars[0]) {{ case 0: *o++ = floorf(x[0]); break; case 1: *o++ = 11; x++; break; case 2: *o++ = 12; break;
            case 3: *o++ = ceilf(x[0]); break; case 4: *o++ = sqrtf(x[0]); break; case 5: *o++ = 15; o++; break; }}
        *o++ = words[vars[0] - 2][0];
        __builtin_memcpy(o, x, vars[1]); __builtin_memmove(o + 1, o, vars[1]);"
    );
    let mut k = kernel("calls", 2, n, 2, &body);
    let Code::C(source) = &mut k.code else { unreachable!() };
    *source = format!(
        "{declared}extern float fmodf(float, float); extern double fma(double, double, double);\n{source}"
    );
    let (out, x) = (floats(&cpu, &vec![9.0; n]), floats(&cpu, &vec![2.5; n]));
    cpu.load(&k).unwrap().launch(&[&out, &x], &[4, 400], dims(1)).unwrap();
    let got = read(&out);
    let both = |v: f32| [v, v];
    let mut want = vec![0.0; 8];
    want.extend([2.0, 3.0, 2.0, 2.0, 2.0, 2.0, 3.0, 2.5f32.sqrt()].map(both).concat());
    want.extend([0.5, 7.25, 5.0, 2.5f32.sqrt(), b'd' as f32]);
    want.extend([2.5; 101]);
    want.resize(n, 0.0);
    assert_eq!(got, want);
}

#[test]
fn loops_that_become_library_calls_work() {
    let cpu = cpu(1);
    let body = "float *o = b[0]; const float *x = b[1];
        for (int64_t i = 0; i < 500; i++) o[i] = 0;
        for (int64_t i = 500; i < 1000; i++) o[i] = x[i];";
    let (out, x) = (floats(&cpu, &[1.0; 1000]), floats(&cpu, &[2.0; 1000]));
    cpu.load(&kernel("idioms", 2, 1000, 0, body)).unwrap().launch(&[&out, &x], &[], dims(1)).unwrap();
    let got = read(&out);
    assert!(got[..500].iter().all(|v| *v == 0.0) && got[500..].iter().all(|v| *v == 2.0));
}

#[test]
fn vector_extensions_and_the_numeric_contract_hold() {
    let cpu = cpu(1);
    let body = "typedef float v16 __attribute__((vector_size(64), aligned(4)));
        float *o = b[0]; const float *x = b[1];
        *(v16 *)o = *(const v16 *)x * *(const v16 *)(x + 1) - 1.0f;
        int32_t big = vars[0]; o[16] = big + 1 < big;
        o[17] = __builtin_fmaf(x[0], x[0], -1.0f);";
    // (1 + e)^2 - 1 is 2e where the product is rounded first, and more where it is not.
    let e = f32::EPSILON;
    let (out, x) = (floats(&cpu, &[0.0; 18]), floats(&cpu, &[1.0 + e; 18]));
    let k = kernel("contract", 2, 18, 1, body);
    cpu.load(&k).unwrap().launch(&[&out, &x], &[i32::MAX as i64], dims(1)).unwrap();
    let got = read(&out);
    assert!(got[..16].iter().all(|v| *v == 2.0 * e), "{got:?}");
    assert_eq!(got[16], 1.0, "integers wrap");
    assert_eq!(got[17], 2.0 * e + e * e);
}

#[test]
fn many_kernels_load_together_with_equal_names_and_shared_helpers() {
    let cpu = cpu(2);
    let helper = "#ifndef HELP\n#define HELP\nstatic float help(float x) { return x + 1; }\n#endif\n";
    let make = |i: usize| {
        let mut k = kernel("same", 1, 1, 0, &format!("((float *)b[0])[0] = help({i});"));
        let Code::C(source) = &mut k.code else { unreachable!() };
        *source = format!("{helper}{source}");
        k
    };
    let mut kernels: Vec<Kernel> = (0..25).map(make).collect();
    kernels.push(make(3));
    kernels.push(kernel("wrong", 1, 1, 0, "this is not C;"));
    kernels.push(Kernel { code: Code::Bytecode(Default::default()), ..kernels[0].clone() });
    // Without a guard the definitions clash in one text; they still load.
    kernels.extend((0..3).map(|i| {
        let mut k = make(i);
        let Code::C(source) = &mut k.code else { unreachable!() };
        *source = format!("static float twice(float x) {{ return x * {i}; }}\n{source}");
        k
    }));
    let loaded = cpu.load_all(&kernels);
    let out = floats(&cpu, &[0.0]);
    for (i, result) in loaded.iter().enumerate() {
        match (i, result) {
            (26, Err(Error::Compiler { kernel, message })) => {
                assert!(
                    kernel == "wrong" && message.contains("wrong:") && message.contains("not"),
                    "{message}"
                );
            }
            (27, Err(e)) => assert!(e.to_string().contains("takes machine code or C"), "{e}"),
            (_, Ok(k)) => {
                k.launch(&[&out], &[], dims(1)).unwrap();
                let want = if i < 25 { i } else { [3, 0, 0, 0, 1, 2][i - 25] };
                assert_eq!(read(&out)[0], want as f32 + 1.0);
            }
            (_, Err(e)) => panic!("{i}: {e}"),
        }
    }
}

#[test]
fn a_miss_by_data_is_an_error_with_its_site() {
    let cpu = cpu(2);
    let body = "for (int64_t i = begin; i < end; i++) if (i == vars[0]) *status = 41 + 1;";
    let k = cpu.load(&kernel("gather", 0, 0, 1, body)).unwrap();
    assert_eq!(k.launch(&[], &[-1], dims(1000)), Ok(()));
    let miss = k.launch(&[], &[777], dims(1000));
    assert_eq!(miss, Err(Error::Index { kernel: "gather".into(), site: 41 }));
    assert_eq!(k.launch(&[], &[-1], dims(1000)), Ok(()), "the next launch starts afresh");
    assert_eq!(k.launch(&[], &[0], dims(0)), Ok(()), "an empty axis runs nothing");
}

#[test]
fn arguments_that_do_not_fit_are_refused() {
    let cpu = cpu(1);
    let k = cpu.load(&add("add", 16)).unwrap();
    let (m, null) = (cpu.alloc(68).unwrap(), frit_runtime::device("NULL").unwrap().alloc(64).unwrap());
    let (short, odd) = (m.view(0, 60).unwrap(), m.view(2, 64).unwrap());
    for (bufs, vars, d, word) in [
        (vec![&m, &m], vec![], dims(1), "3 buffers"),
        (vec![&m, &m, &m], vec![1], dims(1), "0 variables"),
        (vec![&m, &m, &short], vec![], dims(1), "64 bytes"),
        (vec![&m, &odd, &m], vec![], dims(1), "aligned"),
        (vec![&m, &m, &null], vec![], dims(1), "memory"),
        (vec![&m, &m, &m], vec![], dims(-1), "negative"),
        (vec![&m, &m, &m], vec![], LaunchDims { global: [2, 1, 1], ..dims(1) }, "grid"),
    ] {
        let message = k.launch(&bufs, &vars, d).unwrap_err().to_string();
        assert!(message.contains("add") && message.contains(word), "{message}");
    }
}

#[test]
fn kernels_with_variables_or_unknown_calls_are_refused() {
    let cpu = cpu(1);
    for (body, word) in [
        ("static int count; count++; *status = count;", "variables"),
        ("static int count = 5; count++; *status = count;", "variables"),
        ("extern int system(const char *); system(\"true\");", "system"),
        ("extern int errno_; errno_ = 1;", "errno_"),
    ] {
        let message = cpu.load(&kernel("bad", 0, 0, 0, body)).err().unwrap().to_string();
        assert!(message.contains("bad") && message.contains(word), "{message}");
    }
    let mut odd = kernel("odd", 0, 0, 0, "");
    odd.name = "odd; int x".into();
    assert!(cpu.load(&odd).err().unwrap().to_string().contains("identifier"));
    odd.name = "other".into();
    assert!(cpu.load(&odd).err().unwrap().to_string().contains("no function other"));
}

#[test]
fn executable_memory_is_never_writable() {
    let cpu = cpu(1);
    let loaded: Vec<_> = (0..5).map(|i| cpu.load(&add(&format!("k{i}"), 16)).unwrap()).collect();
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    let modes = || maps.lines().filter_map(|l| l.split_whitespace().nth(1));
    assert!(modes().all(|m| !(m.contains('w') && m.contains('x'))), "{maps}");
    let ours = |l: &&str| l.contains("r-xp") && l.split_whitespace().count() == 5;
    assert!(maps.lines().filter(ours).count() >= 1, "{maps}");
    drop(loaded);
}

#[test]
fn malformed_objects_are_errors() {
    let dir = TempDir::new("object");
    let file = dir.0.join("k.o");
    let source = "extern void *memset(void *, int, unsigned long);
        static const float t[] = {1, 2, 3, 4}; static float f(float x) { return x * 3.5f; }
        void k(float *p, int i) { memset(p, 0, 4000); p[i] = f(t[i & 3]); }";
    fs::write(dir.0.join("k.c"), source).unwrap();
    let flags = ["-O1", "-fPIC", "-fno-inline", "-ffunction-sections", "-g", "-c"];
    let status = Command::new("cc").args(flags).arg(dir.0.join("k.c")).arg("-o").arg(&file).status().unwrap();
    assert!(status.success());
    let good = fs::read(&file).unwrap();
    let image = Object::parse(&good).unwrap().link("k").unwrap();
    image.load().unwrap();
    let try_all = |bytes: &[u8]| {
        if let Ok(image) = Object::parse(bytes).and_then(|o| o.link("k")) {
            let _ = image.load();
        }
    };
    for n in 0..good.len() {
        try_all(&good[..n]);
    }
    let mut bytes = good.clone();
    for i in 0..good.len() {
        for flip in [0x01, 0x80, 0xff] {
            bytes[i] ^= flip;
            try_all(&bytes);
            bytes[i] = good[i];
        }
    }
    // Several bytes at once, by a small generator.
    let mut state = 1u64;
    let mut random = move || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) as usize
    };
    for _ in 0..20_000 {
        let places: Vec<usize> = (0..8).map(|_| random() % good.len()).collect();
        places.iter().for_each(|p| bytes[*p] = random() as u8);
        try_all(&bytes);
        places.iter().for_each(|p| bytes[*p] = good[*p]);
    }
}

#[test]
fn a_missing_compiler_says_what_was_looked_for() {
    let none = |cc: &str| {
        Cpu::new(Config {
            threads: 1,
            plan_threads: 1,
            isa: Isa::Portable,
            units: frit_runtime::env::Units::Off,
            cc: Some(cc.into()),
            cache: CacheSetting::Off,
        })
    };
    let message = none("/nonexistent/cc").load(&add("add", 1)).err().unwrap().to_string();
    assert!(message.contains("FRIT_CC=/nonexistent/cc"), "{message}");
    let message = none("/bin/false").load(&add("add", 1)).err().unwrap().to_string();
    assert!(message.contains("/bin/false"), "{message}");
    assert!(none("/nonexistent/cc").alloc(10).is_ok(), "memory needs no compiler");
}

#[test]
fn no_compiler_in_the_path_names_the_path() {
    if is_child() {
        let error = frit_runtime::device("CPU").unwrap().load(&add("add", 1)).err().unwrap();
        println!("{error}");
        return;
    }
    let empty = TempDir::new("path");
    let out = again(
        "no_compiler_in_the_path_names_the_path",
        &[("PATH", &empty.0), ("FRIT_CACHE", Path::new("0"))],
    );
    let text = text(&out);
    assert!(out.status.success() && text.contains("gcc or cc in") && text.contains("frit-test"), "{text}");
}

#[test]
fn bad_environment_values_are_errors() {
    if is_child() {
        println!("{}", frit_runtime::device("CPU").err().unwrap());
        let down = frit_runtime::available().iter().filter(|d| d.device.is_err()).count();
        assert!(down >= 1);
        return;
    }
    let out = again("bad_environment_values_are_errors", &[("FRIT_THREADS", Path::new("lots"))]);
    assert!(out.status.success() && text(&out).contains("FRIT_THREADS=lots"), "{}", text(&out));
}

#[test]
fn nothing_is_left_in_the_temporary_directory() {
    if is_child() {
        let cpu = cpu(2);
        assert!(cpu.load(&add("add", 16)).is_ok());
        assert!(cpu.load(&kernel("wrong", 0, 0, 0, "nonsense")).is_err());
        return;
    }
    let tmp = TempDir::new("tmp");
    let out = again("nothing_is_left_in_the_temporary_directory", &[("TMPDIR", &tmp.0)]);
    assert!(out.status.success(), "{}", text(&out));
    assert_eq!(tmp.files(), Vec::<PathBuf>::new());
}

#[test]
fn a_cached_kernel_needs_no_second_compilation() {
    let dir = TempDir::new("cached");
    let config = || Config {
        threads: 1,
        plan_threads: 1,
        isa: Isa::Portable,
        units: frit_runtime::env::Units::Off,
        cc: None,
        cache: CacheSetting::At(dir.0.join("deep/cache")),
    };
    let cache = dir.0.join("deep/cache");
    let run = |cpu: &Cpu| {
        let (out, x) = (floats(cpu, &[0.0; 16]), floats(cpu, &[4.0; 16]));
        cpu.load(&add("add", 16)).unwrap().launch(&[&out, &x, &x], &[], dims(16)).unwrap();
        assert_eq!(read(&out), [8.0; 16]);
    };
    run(&Cpu::new(config()));
    assert_eq!(fs::metadata(&cache).unwrap().permissions().mode() & 0o777, 0o700);
    let files = || fs::read_dir(&cache).unwrap().map(|e| e.unwrap().path()).collect::<Vec<_>>();
    let [file] = &files()[..] else { panic!("{:?}", files()) };
    let good = fs::read(file).unwrap();
    let stamp = |p: &Path| fs::metadata(p).unwrap().modified().unwrap();
    let before = stamp(file);
    run(&Cpu::new(config()));
    assert_eq!(stamp(file), before, "not written again");
    // Every damage is noticed, removed and repaired.
    for damage in
        [&good[..good.len() / 2], &[], &[&good[..], b"x"].concat(), &flip(&good, 20), &flip(&good, 60)]
    {
        fs::write(file, damage).unwrap();
        run(&Cpu::new(config()));
        assert_eq!(fs::read(file).unwrap(), good);
    }
    assert_eq!(files().len(), 1);
}

fn flip(bytes: &[u8], at: usize) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    bytes[at] ^= 4;
    bytes
}

#[test]
fn a_cache_that_others_could_write_to_or_that_is_no_directory_is_not_used() {
    let dir = TempDir::new("refused");
    let open = |path: PathBuf| DiskCache::new(CacheSetting::At(path), DEFAULT_LIMIT);
    let refused = |path: PathBuf| {
        let cache = open(path);
        cache.put(Key::of(&[b"k"]), b"payload");
        cache.get(Key::of(&[b"k"])).is_none()
    };
    let shared = dir.0.join("shared");
    fs::create_dir(&shared).unwrap();
    fs::set_permissions(&shared, fs::Permissions::from_mode(0o777)).unwrap();
    assert!(refused(shared.clone()) && fs::read_dir(&shared).unwrap().count() == 0);
    fs::set_permissions(&shared, fs::Permissions::from_mode(0o700)).unwrap();
    assert!(!refused(shared));
    let file = dir.0.join("file");
    fs::write(&file, "x").unwrap();
    assert!(refused(file.clone()) && refused(file.join("below")) && refused("/proc/frit".into()));
    let cpu = Cpu::new(Config {
        threads: 1,
        plan_threads: 1,
        isa: Isa::Portable,
        units: frit_runtime::env::Units::Off,
        cc: None,
        cache: CacheSetting::At(file),
    });
    assert!(cpu.load(&add("add", 16)).is_ok(), "the program goes on without");
}

#[test]
fn a_cache_stays_below_its_limit() {
    let dir = TempDir::new("limit");
    let cache = DiskCache::new(CacheSetting::At(dir.0.clone()), 10_000);
    let key = |i: u32| Key::of(&[&i.to_le_bytes()]);
    for i in 0..50 {
        cache.put(key(i), &[i as u8; 1000]);
        let size: u64 = dir.files().iter().map(|f| fs::metadata(f).unwrap().len()).sum();
        assert!(size <= 10_000);
    }
    assert_eq!(cache.get(key(49)), Some(vec![49; 1000]));
    assert_eq!(cache.get(key(0)), None);
}

#[test]
fn threads_and_processes_may_write_the_same_entry() {
    let writer = |dir: &Path| {
        let cache = DiskCache::new(CacheSetting::At(dir.into()), DEFAULT_LIMIT);
        for i in 0..200u32 {
            let key = Key::of(&[&(i % 4).to_le_bytes()]);
            let payload = vec![(i % 4) as u8; 5000];
            cache.put(key, &payload);
            assert_eq!(cache.get(key), Some(payload));
        }
    };
    if is_child() {
        return writer(Path::new(&std::env::var_os("FRIT_CACHE").unwrap()));
    }
    let dir = TempDir::new("race");
    std::thread::scope(|s| {
        let name = "threads_and_processes_may_write_the_same_entry";
        let child = s.spawn(|| again(name, &[("FRIT_CACHE", &dir.0)]));
        (0..3).for_each(|_| _ = s.spawn(|| writer(&dir.0)));
        let out = child.join().unwrap();
        assert!(out.status.success(), "{}", text(&out));
    });
    assert_eq!(dir.files().len(), 4, "no temporary file is left");
}

#[test]
fn a_forked_process_computes() {
    let cpu = cpu(3);
    let k = cpu.load(&add("add", 10_000)).unwrap();
    let (out, x) = (floats(&cpu, &[0.0; 10_000]), floats(&cpu, &[1.5; 10_000]));
    let pool = Pool::new(3);
    let total = |pool: &Pool| {
        let sum = AtomicI64::new(0);
        pool.parallel_for(1000, 1, &|a, b| _ = sum.fetch_add((a..b).sum(), Ordering::Relaxed));
        sum.into_inner()
    };
    assert_eq!(total(&pool), 499_500);
    k.launch(&[&out, &x, &x], &[], dims(10_000)).unwrap();
    // Threads that allocate and launch while we fork, so that locks may be held at that moment.
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|s| {
        s.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                drop(cpu.alloc(1000));
                total(&pool);
            }
        });
        for _ in 0..20 {
            // SAFETY: the child only uses what is under test, and leaves by `_exit`.
            let pid = unsafe { libc::fork() };
            if pid == 0 {
                let ok = total(&pool) == 499_500
                    && cpu.alloc(1000).is_ok()
                    && k.launch(&[&out, &x, &x], &[], dims(10_000)).is_ok();
                // SAFETY: ends the child without running anything of the parent's.
                unsafe { libc::_exit(if ok { 7 } else { 1 }) };
            }
            let (mut status, mut waited) = (0, 0);
            for _ in 0..2000 {
                // SAFETY: waits for our own child; the pointer is to a local.
                waited = unsafe { libc::waitpid(pid, &mut status, libc::WNOHANG) };
                if waited != 0 {
                    break;
                }
                std::thread::sleep(std::time::Duration::from_millis(5));
            }
            if waited == 0 {
                // SAFETY: our own child, which hangs.
                unsafe { libc::kill(pid, libc::SIGKILL) };
            }
            if waited == 0 || !libc::WIFEXITED(status) || libc::WEXITSTATUS(status) != 7 {
                stop.store(true, Ordering::Relaxed);
                panic!("the forked process failed: {waited} {status}");
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert_eq!(total(&pool), 499_500);
    assert_eq!(read(&out), [3.0; 10_000]);
}

#[test]
fn many_threads_launch_at_once() {
    let cpu = cpu(2);
    let k: Arc<dyn Executable> = cpu.load(&add("add", 5000)).unwrap();
    std::thread::scope(|s| {
        for t in 0..6 {
            let (cpu, k) = (&cpu, k.clone());
            s.spawn(move || {
                let (out, x) = (floats(cpu, &[0.0; 5000]), floats(cpu, &[t as f32; 5000]));
                for _ in 0..200 {
                    k.launch(&[&out, &x, &x], &[], dims(5000)).unwrap();
                }
                assert_eq!(read(&out), [2.0 * t as f32; 5000]);
            });
        }
    });
}

#[test]
fn the_null_device_counts_and_runs_nothing() {
    let null = frit_runtime::device("null").unwrap();
    let before = null.memory_stats().in_use;
    let big = null.alloc(1 << 50).unwrap();
    assert_eq!(null.memory_stats().in_use - before, 1 << 50);
    let k = null.load(&Kernel { code: Code::C("anything".into()), ..add("add", 16) }).unwrap();
    k.launch(&[&big, &big, &big], &[], dims(16)).unwrap();
    assert!(k.launch(&[], &[], dims(16)).is_err());
    assert_eq!(null.target(), frit_runtime::device("CPU").unwrap().target());
    drop(big);
    assert_eq!(null.memory_stats().in_use, before);
}
