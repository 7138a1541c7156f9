//! What only a device with a driver does: replays as graphs, copies between devices, a driver that fails.

use crate::support::{child, gpu, is_child, on};
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

#[test]
fn every_call_of_the_driver_may_fail() {
    child("cuda::child_failures", &[("FRIT_CACHE", "off")]);
}
#[test]
fn child_failures() {
    if is_child() && gpu() == "CUDA" {
        let before = frit_mock::calls();
        works("CUDA").unwrap();
        let calls = frit_mock::calls() - before;
        for n in 1..=calls {
            frit_mock::fail_at(n, 1); // CUDA_ERROR_INVALID_VALUE
            match works("CUDA") {
                Ok(values) => assert_eq!(values, [3.0, 5.0, 7.0], "call {n}"),
                Err(e) => assert!(e.to_string().contains("INVALID_VALUE"), "call {n}: {e}"),
            }
            frit_mock::fail_never();
            assert_eq!(works("CUDA").unwrap(), [3.0, 5.0, 7.0], "after call {n}");
        }
    }
}
