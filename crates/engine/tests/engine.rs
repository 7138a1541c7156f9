//! Graphs built by hand, through every room, on every device.

use frit_engine::search::Effort;
use frit_engine::stats::stats;
use frit_engine::{from_bytes, read, realize};
use frit_uop::{Alu, DType, UOp};
use std::time::Duration;

const DEVICES: [&str; 3] = ["INTERP", "INTERP:GPU", "CPU"];

fn floats(device: &str, v: &[f32]) -> UOp {
    let bytes: Vec<u8> = v.iter().flat_map(|x| x.to_le_bytes()).collect();
    from_bytes(device, DType::F32, v.len(), &bytes).unwrap()
}
fn values(u: &UOp) -> Vec<f32> {
    read(u).unwrap().chunks(4).map(|c| f32::from_le_bytes(c.try_into().unwrap())).collect()
}
fn dims(d: &[i64]) -> Vec<UOp> {
    d.iter().map(|&x| UOp::index(x)).collect()
}
fn ramp(n: usize) -> Vec<f32> {
    (0..n).map(|i| i as f32 * 0.5 - 3.0).collect()
}

#[test]
fn a_plus_b_goes_through_every_room() {
    for device in DEVICES {
        let (a, b) = (floats(device, &ramp(10)), floats(device, &ramp(10)));
        let want: Vec<f32> = ramp(10).iter().map(|x| x + x).collect();
        assert_eq!(values(&(&a + &b)), want, "{device}");
    }
}

#[test]
fn matmul_is_movement_and_a_reduce() {
    for device in DEVICES {
        let (m, k, n) = (5, 7, 6);
        let a = floats(device, &ramp(m * k)).reshape(&dims(&[5, 1, 7])).expand(&dims(&[5, 6, 7]));
        let b = floats(device, &ramp(k * n)).reshape(&dims(&[7, 6])).permute(&[1, 0]);
        let b = b.reshape(&dims(&[1, 6, 7])).expand(&dims(&[5, 6, 7]));
        let c = (&a * &b).reduce_axes(Alu::Add, &[2]).reshape(&dims(&[5, 6]));
        let (x, y) = (ramp(m * k), ramp(k * n));
        let want: Vec<f32> =
            (0..m * n).map(|i| (0..k).map(|j| x[i / n * k + j] * y[j * n + i % n]).sum()).collect();
        assert_eq!(values(&c), want, "{device}");
    }
}

#[test]
fn the_second_run_of_a_structure_compiles_nothing() {
    let run = |seed: f32| {
        let x = floats("INTERP", &[seed, 2.0, 3.0]);
        let y = (&x * &x).reduce_axes(Alu::Add, &[0]);
        values(&y)
    };
    assert_eq!(run(1.0), [14.0]);
    let before = stats();
    assert_eq!(run(4.0), [29.0]);
    let did = stats() - before;
    assert_eq!((did.schedules, did.compiles, did.launches), (0, 0, 1));
}

#[test]
fn stores_are_in_place_unless_someone_sees_the_old_version() {
    for device in DEVICES {
        let x = floats(device, &[1.0, 2.0, 3.0]);
        let old = &x * &x;
        let one = UOp::float(1.0, DType::F32);
        let next = x.after([x.store(&(&x + &one))]);
        drop(x);
        let seen = next.clone();
        // `old` still sees the first version, so the store must go elsewhere
        assert_eq!(values(&next), [2.0, 3.0, 4.0], "{device}");
        assert_eq!(values(&old), [1.0, 4.0, 9.0], "{device}");
        // a version is stored once, however often it is asked for
        assert_eq!(values(&(&seen + &one)), [3.0, 4.0, 5.0], "{device}");
    }
}

#[test]
fn a_version_that_a_copy_made_unnecessary_is_stored_when_it_is_asked_for() {
    for device in DEVICES {
        let x = floats(device, &[1.0, 2.0, 3.0]);
        let (one, two) = (UOp::float(1.0, DType::F32), UOp::float(2.0, DType::F32));
        let first = x.after([x.store(&(&x + &one))]);
        drop(x);
        let seen = &first * &two;
        // all of it is written again, on a copy because `seen` sees the first version
        let fives = floats(device, &[5.0, 5.0, 5.0]);
        let second = first.after([first.store(&fives)]);
        drop(first);
        assert_eq!(values(&second), [5.0, 5.0, 5.0], "{device}");
        assert_eq!(values(&seen), [4.0, 6.0, 8.0], "{device}");
    }
}

#[test]
fn a_view_whose_value_is_elsewhere_is_still_a_place_to_store_to() {
    for device in DEVICES {
        let x = floats(device, &[1.0, 2.0, 3.0]);
        let one = UOp::float(1.0, DType::F32);
        let first = x.after([x.store(&(&x + &one))]);
        drop(x);
        let view = first.flip(&[0]);
        assert_eq!(values(&view), [4.0, 3.0, 2.0], "{device}");
        let second = first.after([view.store(&floats(device, &[7.0, 8.0, 9.0]))]);
        drop(first);
        assert_eq!(values(&second), [9.0, 8.0, 7.0], "{device}");
        assert_eq!(values(&view), [4.0, 3.0, 2.0], "{device}");
    }
}

#[test]
fn a_symbolic_length_has_one_plan() {
    for device in DEVICES {
        let t = UOp::variable("T", 1, 8);
        let x = floats(device, &ramp(8));
        for n in [3, 5, 8] {
            let cut = x.shrink(&[UOp::index(0)], &[t.bind(n)]);
            let total = cut.reduce_axes(Alu::Add, &[0]);
            assert_eq!(values(&total), [ramp(8)[..n as usize].iter().sum::<f32>()], "{device} {n}");
            let twice = &cut + &cut;
            let realised = realize(std::slice::from_ref(&twice)).unwrap();
            assert_eq!(values(&realised[0]).len(), n as usize);
        }
    }
}

#[test]
fn constants_belong_to_no_device() {
    let eight = UOp::float(8.0, DType::F32).reshape(&dims(&[1])).expand(&dims(&[4])).contiguous();
    for device in DEVICES {
        let here = || values(&eight);
        assert_eq!(frit_engine::scope(device, here).unwrap(), [8.0; 4]);
        assert_eq!(values(&(floats(device, &[1.0; 4]) + &eight)), [9.0; 4], "{device}");
    }
}

#[test]
fn errors_name_what_is_wrong() {
    assert!(from_bytes("TOASTER", DType::F32, 1, &[0; 4]).unwrap_err().to_string().contains("TOASTER"));
    assert!(from_bytes("INTERP", DType::F32, 2, &[0; 4]).is_err());
    let mixed = &floats("INTERP", &[1.0]) + &floats("CPU", &[1.0]);
    let message = realize(&[mixed]).unwrap_err().to_string();
    assert!(message.contains("INTERP") && message.contains("CPU"), "{message}");
    let table = floats("INTERP", &ramp(4));
    let idx = from_bytes("INTERP", DType::I32, 1, &9i32.to_le_bytes()).unwrap();
    let site = frit_uop::site::register("gather", std::panic::Location::caller());
    let message = realize(&[table.gather(&idx, site)]).unwrap_err().to_string();
    assert!(message.starts_with("gather at") && message.contains("engine.rs"), "{message}");
}

#[test]
fn a_search_finds_legal_opts_that_compute_the_same() {
    // the interpreter has no compiler to wait for
    let (n, device) = (16, std::sync::Arc::<str>::from("INTERP"));
    let a = floats(&device, &ramp(n * n)).reshape(&dims(&[16, 1, 16])).expand(&dims(&[16, 16, 16]));
    let b = floats(&device, &ramp(n * n)).reshape(&dims(&[1, 16, 16])).expand(&dims(&[16, 16, 16]));
    let c = (&a * &b).reduce_axes(Alu::Add, &[2]).reshape(&dims(&[16, 16]));
    let schedule = frit_engine::measure::schedule(std::slice::from_ref(&c)).unwrap();
    let ast = &schedule.kernels[0].ast;
    let effort = Effort { width: 1, time: Duration::from_secs(5) };
    let tuned = frit_engine::search::search(ast, &device, &effort).unwrap();
    assert!(tuned.tried > 8 && tuned.after <= tuned.before, "{tuned}");
    let target = frit_runtime::device("INTERP").unwrap().target().clone();
    assert!(frit_codegen::plan(ast, &target, &tuned.opts).is_ok());
    // without time nothing is tried, and the heuristic's way stays
    let none = Effort { width: 4, time: Duration::ZERO };
    let tuned = frit_engine::search::search(ast, &device, &none).unwrap();
    let heuristic = frit_codegen::lower(ast, &target, frit_codegen::Opts::Heuristic).unwrap();
    assert_eq!((tuned.opts, tuned.tried), (heuristic.opts, 1));
}

#[test]
fn a_long_sum_of_products_is_one_kernel_of_two_programs() {
    let (k, device) = (1 << 17, std::sync::Arc::<str>::from("CPU"));
    let rows: Vec<f32> = (0..16 * k).map(|i| (i / k) as f32).collect();
    let shape = |d: [i64; 3]| dims(&d);
    let full = shape([16, 16, k as i64]);
    let a = floats(&device, &rows).reshape(&shape([16, 1, k as i64])).expand(&full);
    let b = floats(&device, &rows).reshape(&shape([1, 16, k as i64])).expand(&full);
    let c = (&a * &b).reduce_axes(Alu::Add, &[2]).reshape(&dims(&[16, 16])) + UOp::float(1.0, DType::F32);
    let schedule = frit_engine::measure::schedule(std::slice::from_ref(&c)).unwrap();
    assert_eq!(schedule.kernels.len(), 1);
    let dev = frit_runtime::device(&device).unwrap();
    let lowered =
        frit_codegen::lower(&schedule.kernels[0].ast, dev.target(), frit_codegen::Opts::Heuristic).unwrap();
    assert_eq!((lowered.programs.len(), lowered.workspaces.len()), (2, 1));
    let want: Vec<f32> = (0..256).map(|n| ((n / 16) * (n % 16) * k + 1) as f32).collect();
    assert_eq!(values(&c), want);
    // without time nothing is tried, and the heuristic's way stays, cut as it is
    let none = Effort { width: 4, time: Duration::ZERO };
    let tuned = frit_engine::search::search(&schedule.kernels[0].ast, &device, &none).unwrap();
    assert_eq!(tuned.opts, lowered.opts);
}
