//! What the CPU device costs: compiling, loading, sharing out, launching, allocating. Prints JSON lines.
//!
//! ```text
//! cargo run --release -p frit-runtime --example device
//! ```

use frit_abi::target::Isa;
use frit_abi::{Code, DType, Kernel, LaunchDims, Param};
use frit_runtime::cpu::pool::Pool;
use frit_runtime::cpu::{Config, Cpu};
use frit_runtime::env::CacheSetting;
use frit_runtime::{Device, Error};
use std::time::{Duration, Instant};

/// A kernel of about fifty lines: a 16-column block of a matrix product, unrolled over eight rows.
fn matmul(name: &str, n: usize) -> Kernel {
    let mut c = String::from("typedef float v16 __attribute__((vector_size(64), aligned(4)));\n");
    c += "typedef long i64;\n";
    c += &format!(
        "void {name}(void **b, const i64 *vars, void *scratch, unsigned *status, i64 begin, i64 end) {{\n"
    );
    c += "float *o = b[0]; const float *x = b[1], *y = b[2];\n";
    c += &format!("for (i64 i = begin; i < end; i++) for (i64 j = 0; j < {n}; j += 16) {{\n");
    (0..8).for_each(|r| c += &format!("v16 a{r} = {{0}};\n"));
    c += &format!("for (i64 k = 0; k < {n}; k++) {{\nv16 w = *(const v16 *)(y + k * {n} + j);\n");
    (0..8).for_each(|r| c += &format!("float x{r} = x[(i * 8 + {r}) * {n} + k];\n"));
    (0..8).for_each(|r| c += &format!("a{r} += x{r} * w;\n"));
    c += "}\n";
    (0..8).for_each(|r| c += &format!("*(v16 *)(o + (i * 8 + {r}) * {n} + j) = a{r};\n"));
    c += "}\n}\n";
    let buffer = |written| Param::Buffer { dtype: DType::F32, len: n * n, written, align: 4 };
    Kernel {
        name: name.into(),
        code: Code::C(c),
        params: vec![buffer(true), buffer(false), buffer(false)],
        scratch: 0,
    }
}

/// The median of `n` runs.
fn median(n: usize, mut f: impl FnMut()) -> Duration {
    let run = |_| {
        let start = Instant::now();
        f();
        start.elapsed()
    };
    let mut times: Vec<Duration> = (0..n).map(run).collect();
    times.sort();
    times[n / 2]
}

fn report(name: &str, time: Duration) {
    println!("{{\"name\": \"{name}\", \"us\": {:.3}}}", time.as_nanos() as f64 / 1e3);
}

fn main() -> Result<(), Error> {
    let dims = |thread_extent| LaunchDims { global: [1; 3], local: [1; 3], thread_extent };
    let dir = std::env::temp_dir().join(format!("frit-measure-{}", std::process::id()));
    let cpu = Cpu::new(Config {
        threads: 2,
        plan_threads: 2,
        isa: Isa::Portable,
        units: frit_runtime::env::Units::Off,
        cc: None,
        cache: CacheSetting::Off,
    });
    eprintln!("{}", cpu.describe());

    let one = matmul("matmul", 256);
    report("compile_50_lines", median(9, || _ = cpu.load(&one)));
    let many: Vec<Kernel> = (1..=32).map(|i| matmul(&format!("m{i}"), 16 * i)).collect();
    report("compile_32_kernels", median(3, || _ = cpu.load_all(&many)));
    let cached = || {
        Cpu::new(Config {
            threads: 2,
            plan_threads: 2,
            isa: Isa::Portable,
            units: frit_runtime::env::Units::Off,
            cc: None,
            cache: CacheSetting::At(dir.clone()),
        })
    };
    let warm = cached();
    warm.load(&one)?;
    report("load_from_cache", median(99, || _ = warm.load(&one)));

    for threads in [1, 2] {
        let pool = Pool::new(threads);
        pool.parallel_for(2, 1, &|_, _| ());
        report(
            &format!("parallel_for_{threads}_threads"),
            median(9999, || pool.parallel_for(2, 1, &|_, _| ())),
        );
    }
    let pool = Pool::new(2);
    let asleep = || {
        std::thread::sleep(Duration::from_millis(1));
        let start = Instant::now();
        pool.parallel_for(2, 1, &|_, _| ());
        start.elapsed()
    };
    let mut times: Vec<Duration> = (0..200).map(|_| asleep()).collect();
    times.sort();
    report("parallel_for_2_threads_asleep", times[100]);
    // Each of two slices spins for 20 us: what is above 20 is the cost of sharing.
    let busy = |_, _| {
        let start = Instant::now();
        while start.elapsed() < Duration::from_micros(20) {}
    };
    report("parallel_for_2x20us", median(999, || pool.parallel_for(2, 1, &busy)));

    let loaded = cpu.load(&one)?;
    let buffers = [cpu.alloc(1 << 18)?, cpu.alloc(1 << 18)?, cpu.alloc(1 << 18)?];
    let args = [&buffers[0], &buffers[1], &buffers[2]];
    report("launch_empty", median(9999, || _ = loaded.launch(&args, &[], dims(0))));
    report("launch_matmul_256", median(999, || _ = loaded.launch(&args, &[], dims(32))));
    report("alloc_1k_reused", median(9999, || _ = cpu.alloc(1 << 10)));
    report("alloc_64m_reused", median(999, || _ = cpu.alloc(64 << 20)));
    let _ = std::fs::remove_dir_all(dir);
    Ok(())
}
