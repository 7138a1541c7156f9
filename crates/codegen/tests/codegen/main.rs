//! Kernels through codegen on INTERP, as a CPU and as a GPU, against a slow evaluation.

mod carry;
mod contraction;
mod evaluate;
mod files;
mod kernels;
mod lines;
mod matrix;
mod online_softmax;
mod rows;
mod run;
mod shape;
mod split_reduce;
mod tile_and_fuse;

use frit_codegen::{Opts, random_opts};
use kernels::cases;
use run::{check, targets};

#[test]
fn kernels_are_right_as_they_come() {
    for target in targets() {
        for case in cases() {
            check(&case, &target, &[]);
        }
    }
}

#[test]
fn kernels_are_right_as_the_heuristic_walks_them() {
    for target in targets() {
        for case in cases() {
            if let Err(e) = run::run(&case, &target, Opts::Heuristic) {
                panic!("{} on {}: {e}", case.name, target.name);
            }
        }
    }
}

#[test]
fn kernels_are_right_with_random_legal_opts() {
    for target in targets() {
        for case in cases() {
            for seed in 0..16 {
                let opts = random_opts(&case.sink, &target, seed, 1 + seed as usize % 5).unwrap();
                check(&case, &target, &opts);
            }
        }
    }
}

#[test]
fn kernels_are_right_in_c() {
    let target = run::cpu("CPU:C").expect("a compiler").target().clone();
    for case in cases() {
        if let Err(e) = run::run(&case, &target, Opts::Heuristic) {
            panic!("{} on {}: {e}", case.name, target.name);
        }
        check(&case, &target, &random_opts(&case.sink, &target, 1, 3).unwrap());
    }
}

#[test]
fn kernels_are_right_in_machine_code() {
    for device in ["CPU:SSE2", "CPU:AVX2", "CPU:AVX512", "CPU:AMX"] {
        let Some(target) = run::cpu(device).map(|d| d.target().clone()) else { continue };
        for case in cases() {
            if let Err(e) = run::run(&case, &target, Opts::Heuristic) {
                panic!("{} on {}: {e}", case.name, target.name);
            }
            for seed in 0..16 {
                let opts = random_opts(&case.sink, &target, seed, 1 + seed as usize % 5).unwrap();
                check(&case, &target, &opts);
            }
        }
    }
}
