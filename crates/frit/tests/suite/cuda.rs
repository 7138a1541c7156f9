//! What only a device with a driver does: replays as graphs, copies between devices, a driver that fails.

use crate::memory::stays_flat;
use crate::support::{child, gpu, is_child, is_long, on};
use frit::nn::{Linear, Optimizer, Sgd};
use frit::{Device, Jit, Tensor};

fn vector(values: &[f32]) -> Tensor {
    Tensor::new(values)
}

/// A small computation, from nothing.
fn works(device: &str) -> frit::Result<Vec<f32>> {
    Device::scope(device, || (vector(&[1.0, 2.0, 3.0]) * 2.0 + 1.0).to_vec::<f32>())?
}

#[test]
fn a_replay_takes_the_inputs_of_each_call() {
    on(gpu(), || {
        let state = Tensor::zeros([3]).contiguous().realize().unwrap();
        let count = state.clone();
        let step = Jit::new(move |(x, y): (Tensor, Tensor)| {
            count.assign(&count + &x);
            Ok((&x * &y).sum(..) + count.sum(..))
        });
        let mut sum = 0.0;
        for i in 0..6 {
            let (x, y) = (vector(&[i as f32, 1.0, 2.0]), vector(&[1.0, i as f32, 3.0]));
            Tensor::realize_all(&[&x, &y]).unwrap();
            let result: Tensor = step.call((x, y)).unwrap();
            sum += i as f32 + 3.0;
            assert_eq!(result.item::<f32>().unwrap(), 2.0 * i as f32 + 6.0 + sum, "call {i}");
        }
        assert_eq!(state.to_vec::<f32>().unwrap(), [15.0, 6.0, 12.0]);
    });
}

#[test]
fn what_one_lane_overwrites_all_have_read() {
    on(gpu(), || {
        // sums of a warp, of several, and of loops in which each lane looks at the state
        for n in [128, 4096] {
            let state = vector(&[2.0, 3.0]).realize().unwrap();
            let x = (Tensor::ones([2, n]) * (1.0 / n as f64)).contiguous().realize().unwrap();
            for i in 1..=3 {
                let s = state.unsqueeze(1);
                let (a, b) = ((&x * &s).sum(1), (&x * (&s + 1.0)).sum(1));
                state.assign(&state + (a + b - 1.0));
                let want = 3f32.powi(i);
                assert_eq!(state.to_vec::<f32>().unwrap(), [2.0 * want, 3.0 * want], "{n} {i}");
            }
        }
    });
}

#[test]
fn each_kernel_is_shown_with_its_time() {
    let said = child("cuda::child_shown", &[("FRIT_DEBUG", "2")]);
    let times = |line: &str| line.split(" us ").next()?.split_whitespace().last()?.parse::<f64>().ok();
    let lines: Vec<f64> =
        said.lines().filter(|l| l.contains("GB/s") && l.contains("in use")).filter_map(times).collect();
    // three calls that launch and three replays
    assert!(lines.len() >= 6 && lines.iter().all(|us| *us > 0.0), "{said}");
}
#[test]
fn child_shown() {
    if is_child() && gpu() == "CUDA" {
        on("CUDA", || {
            let step = Jit::new(|x: Tensor| Ok(x * 2.0 + 1.0));
            let x = vector(&[1.0, 2.0]).realize().unwrap();
            for _ in 0..6 {
                let y: Tensor = step.call(x.clone()).unwrap();
                assert_eq!(y.to_vec::<f32>().unwrap(), [3.0, 5.0]);
            }
        });
    }
}

/// What a key is in a line of a trace.
fn value(line: &str, key: &str) -> f64 {
    let rest = line.split_once(&format!("\"{key}\":")).unwrap_or_else(|| panic!("{key}: {line}")).1;
    rest.split([',', '}']).next().and_then(|v| v.parse().ok()).unwrap_or_else(|| panic!("{key}: {line}"))
}

#[test]
fn a_profile_has_kernels_at_the_devices_times_on_the_hosts_axis() {
    if gpu() != "CUDA" {
        return;
    }
    let path = std::env::temp_dir().join(format!("frit-suite-{}.json", std::process::id()));
    child("cuda::child_shown", &[("FRIT_PROFILE", &path.to_string_lossy())]);
    let trace = std::fs::read_to_string(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    let of = |category: &str| {
        let with = format!("\"cat\":\"{category}\"");
        trace.lines().filter(|l| l.contains("\"ph\":\"X\"") && l.contains(&with)).collect::<Vec<_>>()
    };
    let times = |l: &&str| (value(l, "ts"), value(l, "ts") + value(l, "dur"));
    let (launches, kernels) = (of("launch"), of("kernel"));
    // of each call one kernel, whether it was launched or replayed, and the file says which were replayed
    assert!(launches.len() >= 6 && launches.len() == kernels.len(), "{trace}");
    assert!(of("replay").iter().all(|l| l.contains("1 kernels, one by one")) && of("replay").len() >= 3);
    let ran: Vec<(f64, f64)> = kernels.iter().map(times).collect();
    assert!(ran.iter().all(|(from, to)| to > from), "{ran:?}");
    // each result is read before the next call: by the host's clock its kernel ran between both; the clocks are compared
    // through threads that may be late
    let slack = 2e3;
    let in_order = |w: &[(f64, f64)]| w[0].1 <= w[1].0 + slack;
    assert!(ran.windows(2).all(in_order), "one queue runs one after the other: {ran:?}");
    let copies: Vec<f64> = of("copy").iter().map(|l| times(l).1).collect();
    let last = copies.iter().fold(0.0, |a: f64, b| a.max(*b));
    for ((from, to), launch) in ran.iter().zip(&launches) {
        let launched = times(launch).0;
        let read = copies.iter().copied().filter(|c| *c > launched).fold(last, f64::min);
        assert!(*from >= launched && *to <= read + slack, "{launched} {from} {to} {read}");
    }
}

#[test]
fn an_index_that_misses_is_an_error_and_the_device_goes_on() {
    on(gpu(), || {
        let x = vector(&[1.0, 2.0]).realize().unwrap();
        for _ in 0..2 {
            let missing = x.index_select(0, &Tensor::new([0, 7]));
            let error = missing.to_vec::<f32>().unwrap_err().to_string();
            assert!(error.contains("out of range"), "{error}");
            assert_eq!((&x + 1.0).to_vec::<f32>().unwrap(), [2.0, 3.0]);
        }
    });
}

#[test]
fn a_miss_that_nobody_waited_for_is_lost_with_what_came_after_it_and_nothing_else() {
    on(gpu(), || {
        let error = |t: &Tensor| t.to_vec::<f32>().unwrap_err().to_string();
        let x = vector(&[1.0, 2.0]).realize().unwrap();
        let old = (&x * 3.0).realize().unwrap();
        let state = Tensor::zeros([2]).contiguous().realize().unwrap();
        let missing = x.index_select(0, &Tensor::new([0, 7])).realize();
        if gpu() != "CUDA" {
            return assert!(missing.is_err());
        }
        let missing = missing.unwrap();
        let after = (&missing + 1.0).realize().unwrap();
        state.assign(&state + &after);
        state.realize().unwrap();
        // who reads first is told only of what is its own
        assert_eq!(old.to_vec::<f32>().unwrap(), [3.0, 6.0]);
        for t in [&missing, &after, &state] {
            assert!(error(t).contains("out of range"), "{}", error(t));
        }
        assert!((&state + 1.0).realize().is_err());
        assert_eq!((&old + 1.0).to_vec::<f32>().unwrap(), [4.0, 7.0]);
        let missing = x.index_select(0, &Tensor::new([9])).realize().unwrap();
        assert!(Device::synchronize("CUDA").unwrap_err().to_string().contains("out of range"));
        assert!(error(&missing).contains("out of range"));
    });
}

#[test]
fn a_miss_is_found_by_whoever_waits_first() {
    on(gpu(), || {
        let x = vector(&[1.0, 2.0]).realize().unwrap();
        for _ in 0..20 {
            let Ok(missing) = x.index_select(0, &Tensor::new([0, 7])).realize() else { return };
            // others read meanwhile, and what is made of it then is lost all the same
            let after = std::thread::scope(|s| {
                let readers: Vec<_> =
                    (0..2).map(|_| s.spawn(|| on(gpu(), || x.to_vec::<f32>().unwrap()))).collect();
                let after = (&missing + 1.0).realize();
                readers.into_iter().for_each(|r| assert_eq!(r.join().unwrap(), [1.0, 2.0]));
                after
            });
            assert!(after.and_then(|t| t.to_vec::<f32>()).is_err() && missing.to_vec::<f32>().is_err());
        }
    });
}

#[test]
fn a_replay_that_misses_is_told_to_who_reads_it() {
    on(gpu(), || {
        let seen = Tensor::zeros([1]).contiguous().realize().unwrap();
        let count = seen.clone();
        let table = vector(&[1.0, 2.0, 3.0]).realize().unwrap();
        let look = Jit::new(move |i: Tensor| {
            count.assign(&count + 1.0);
            Ok(table.index_select(0, &i) + &count)
        });
        let at = |i: i32| Tensor::new([i]).realize().unwrap();
        for i in 0..4 {
            let y: Tensor = look.call(at(i % 3)).unwrap();
            assert_eq!(y.to_vec::<f32>().unwrap(), [(i % 3 + 1 + i + 1) as f32]);
        }
        let bad: frit::Result<Tensor> = look.call(at(5));
        let read = bad.and_then(|y| y.to_vec::<f32>());
        assert!(read.unwrap_err().to_string().contains("out of range"));
        assert!(seen.to_vec::<f32>().is_err());
    });
}

#[test]
fn copies_between_devices_do_without_the_host() {
    child("cuda::child_copies", &[("FRIT_MOCK_DEVICES", "2")]);
}
#[test]
fn child_copies() {
    if is_child() && gpu() == "CUDA" {
        let x = on("CUDA", || vector(&[1.0, 2.0, 3.0]) * 2.0);
        let there = x.to("CUDA:1");
        assert_eq!(on("CUDA:1", || (&there + 1.0).to_vec::<f32>().unwrap()), [3.0, 5.0, 7.0]);
        assert_eq!(there.to("CUDA").to("CPU").to_vec::<f32>().unwrap(), [2.0, 4.0, 6.0]);
        let error = works("CUDA:2").unwrap_err().to_string();
        assert!(error.contains("CUDA:2"), "{error}");
    }
}

#[test]
fn a_lost_device_says_so_and_others_live() {
    child("cuda::child_lost", &[]);
}
#[test]
fn child_lost() {
    if is_child() && gpu() == "CUDA" {
        assert_eq!(works("CUDA").unwrap(), [3.0, 5.0, 7.0]);
        frit_mock::lose(0, 700);
        for _ in 0..2 {
            let error = works("CUDA").unwrap_err().to_string();
            assert!(error.contains("CUDA is lost") && error.contains("ILLEGAL_ADDRESS"), "{error}");
        }
        assert_eq!(works("CPU").unwrap(), [3.0, 5.0, 7.0]);
    }
}

#[test]
fn too_little_memory_is_an_error_that_says_how_much_there_is() {
    child("cuda::child_memory", &[("FRIT_MOCK_MEMORY", "4000000")]);
}
#[test]
fn child_memory() {
    if is_child() && gpu() == "CUDA" {
        let error = on("CUDA", || Tensor::ones([2_000_000]).contiguous().realize().unwrap_err().to_string());
        assert!(error.contains("out of memory") && error.contains("free"), "{error}");
        assert_eq!(works("CUDA").unwrap(), [3.0, 5.0, 7.0]);
    }
}

/// Let each call of the driver fail in turn that `run` makes: it gives an error or what it should, the device goes on, and
/// nothing is left behind.
fn survives_failures(run: impl Fn() -> frit::Result<Vec<f32>>) -> u64 {
    let left = || {
        frit_runtime::device("CUDA").unwrap().trim();
        frit_mock::live()
    };
    let expected = run().unwrap();
    let before = left();
    for n in 1.. {
        let calls = frit_mock::calls();
        frit_mock::fail_at(n, 1); // CUDA_ERROR_INVALID_VALUE
        let result = run();
        let is_over = frit_mock::calls() - calls < n;
        frit_mock::fail_never();
        match result {
            Ok(values) => assert_eq!(values, expected, "call {n}"),
            Err(e) => assert!(e.to_string().contains("INVALID_VALUE"), "call {n}: {e}"),
        }
        assert_eq!(left(), before, "after call {n}");
        if is_over {
            assert_eq!(run().unwrap(), expected);
            return n;
        }
    }
    0
}

#[test]
fn every_call_of_the_driver_may_fail() {
    println!("{}", child("cuda::child_failures", &[("FRIT_CACHE", "off")]));
}
#[test]
fn child_failures() {
    if is_child() && gpu() == "CUDA" {
        let loading = survives_failures(|| {
            let result = works("CUDA");
            frit::engine::clear_caches();
            result
        });
        // kernels are there: what is left is memory, copies, launches, recordings and graphs
        let training = survives_failures(|| Device::scope("CUDA", trains)?);
        println!("{loading} calls to load, {training} to train");
    }
}

/// Steps of a small model: plain, recorded, replayed as launches and as a graph; copies and values on the way.
fn trains() -> frit::Result<Vec<f32>> {
    frit::manual_seed(3);
    let model = Linear::new(4, 3);
    let mut opt = Sgd::new(&model, 0.1)?.momentum(0.9);
    let x = vector(&[1.0, -2.0, 0.5, 3.0, 0.0, 1.0, -1.0, 2.0]).reshape([2, 4]);
    let y = Tensor::new([2, 0]);
    Tensor::realize_all(&[&x, &y])?;
    let step = Jit::new(move |(x, y): (Tensor, Tensor)| {
        let loss = model.forward(&x).cross_entropy(&y);
        loss.backward()?;
        opt.step_with(&[&loss])?;
        Ok(loss)
    });
    let mut losses = vec![];
    for _ in 0..5 {
        let loss = step.call((x.clone(), y.clone()))?;
        losses.extend(loss.to("CPU").to_vec::<f32>()?);
    }
    losses.extend((&x.to("CPU").to("CUDA") * 2.0).to_vec::<f32>()?);
    Ok(losses)
}

#[test]
fn replays_leave_device_and_host_memory_flat() {
    println!("{}", child("cuda::child_flat", &[]));
}
#[test]
fn child_flat() {
    if is_child() && gpu() == "CUDA" {
        on("CUDA", || {
            let step = Jit::new(|x: Tensor| Ok((x * 2.0 + 1.0).sum(..)));
            let x = vector(&[1.0, 2.0, 3.0]).realize().unwrap();
            let mut device = None;
            let total = if is_long() { 100_000 } else { 10_000 };
            stays_flat("replays on a GPU", total, |i| {
                let sum: Tensor = step.call(x.clone()).unwrap();
                if i % 100 == 0 {
                    assert_eq!(sum.item::<f32>().unwrap(), 15.0);
                    let stats = frit_runtime::device("CUDA").unwrap().memory_stats();
                    let now = (stats.in_use, frit_mock::live());
                    // recordings and graphs are made in the first few
                    let first = device.get_or_insert_with(|| now.clone());
                    if i == 100 {
                        *first = now.clone();
                    }
                    assert!(i < 100 || *first == now, "{first:?} became {now:?}");
                }
            });
        });
    }
}

/// A search in the process that `child_search_worker` makes.
fn searches() {
    frit::engine::search::in_children(|| {
        let mut worker = std::process::Command::new(std::env::current_exe()?);
        worker.args(["cuda::child_search_worker", "--exact", "--nocapture", "--test-threads=1"]);
        if let Some(trouble) = std::env::var_os("SUITE_TROUBLE") {
            worker.env("FRIT_MOCK_KERNEL", trouble);
        }
        Ok(worker)
    });
}
#[test]
fn child_search_worker() {
    if is_child() && gpu() == "CUDA" {
        searches();
    }
}

/// What a search says with candidates that are trouble.
fn searched(trouble: &str) -> String {
    let cache = std::env::temp_dir().join(format!("frit-suite-{}-{}", std::process::id(), trouble.len()));
    let env = [
        ("FRIT_CACHE", cache.to_str().expect("a path")),
        ("FRIT_BEAM", "1"),
        ("FRIT_BEAM_SECONDS", "2"),
        ("FRIT_DEBUG", "1"),
        // emptied before every run
        ("FRIT_MOCK_L2", "1048576"),
        ("SUITE_TROUBLE", trouble),
    ];
    let said = child("cuda::child_search", &env);
    _ = std::fs::remove_dir_all(cache);
    said
}
#[test]
fn a_search_runs_in_a_process_of_its_own() {
    let said = searched("");
    assert!(said.contains("search 1 of 1") && said.contains("ways tried"), "{said}");
}
#[test]
fn a_candidate_that_hangs_or_faults_ends_only_the_process_that_tries_it() {
    for trouble in ["hang:256", "fault:256"] {
        let said = searched(trouble);
        assert!(said.contains("search 1 of 1") && said.contains("ways tried"), "{trouble}: {said}");
    }
}
#[test]
fn child_search() {
    if is_child() && gpu() == "CUDA" {
        searches();
        let sums = on("CUDA", || {
            let x = Tensor::new((0..96 * 128).map(|i| (i % 7) as f32).collect::<Vec<_>>()).reshape([96, 128]);
            x.realize().unwrap();
            let launches = frit_mock::Totals::get().launches;
            let sums = (x * 2.0 + 1.0).sum(1).to_vec::<f32>().unwrap();
            assert!(frit_mock::Totals::get().launches <= launches + 1, "candidates ran here");
            sums
        });
        let row = |r: usize| (0..128).map(|c| ((r * 128 + c) % 7) as f32 * 2.0 + 1.0).sum::<f32>();
        assert_eq!(sums, (0..96).map(row).collect::<Vec<_>>());
        assert!(frit_mock::fault(0).is_none());
    }
}

#[test]
fn rows_of_a_scatter_come_in_order_though_lanes_write_side_by_side() {
    let rows = |device: &'static str| {
        let (mut at, mut values, mut state) = (vec![], vec![], 1u32);
        for _ in 0..300 {
            state = state.wrapping_mul(747796405).wrapping_add(2891336453);
            at.push((state >> 16) as i32 % 20 - 5);
            values.extend([1.0, 1e4, 1e-4].map(|scale| (state >> 8) as f32 * scale));
        }
        on(device, || {
            let at = Tensor::new(&at[..]);
            let values = Tensor::new(&values[..]).reshape([300, 3]);
            let zeros = Tensor::zeros([15, 3]);
            let sums = zeros.index_add(0, &at, &values).to_vec::<f32>().unwrap();
            let last = zeros.index_copy(0, &at, &values).to_vec::<f32>().unwrap();
            // so few that each looks at all later ones
            let (at_few, few) = (at.narrow(0, 0, 40), values.narrow(0, 0, 40));
            let last_few = zeros.index_copy(0, &at_few, &few).to_vec::<f32>().unwrap();
            let flat = Tensor::zeros([15]).scatter_add(0, &at, 0.1).to_vec::<f32>().unwrap();
            let outside = zeros.index_add(0, &(at + 1), &values).to_vec::<f32>().unwrap_err().to_string();
            (sums, [last, last_few], flat, outside.contains("index_add"))
        })
    };
    let found = rows(gpu());
    // sums of numbers so far apart differ where their order does
    assert_eq!(found, rows("CPU"));
    assert!(found.3);
}
