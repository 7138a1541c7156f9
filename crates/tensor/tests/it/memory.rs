//! Borrowed memory and files; the same bits as other types.
use super::tiny::on;
use frit_tensor::*;

fn bytes(n: usize) -> Vec<u8> {
    (0..n).map(|i| (i * 37 + 11) as u8).collect()
}

#[test]
fn borrowed_memory_is_read_in_place_and_written_on_a_copy() {
    on(|| {
        let blob =
            Blob::new([1.0f32, 2.0, 3.0, 4.0].iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<u8>>());
        let x = Tensor::from_blob(DType::F32, &blob, [2, 2]);
        let before = &x + 0.0;
        x.set((0, 1), 9.0);
        x.assign(&x * 2.0);
        assert_eq!(x.to_vec::<f32>()?, [2.0, 18.0, 6.0, 8.0]);
        x.realize()?;
        x.assign(&x + 1.0);
        x.realize()?;
        assert_eq!(x.to_vec::<f32>()?, [3.0, 19.0, 7.0, 9.0]);
        assert_eq!(before.to_vec::<f32>()?, [1.0, 2.0, 3.0, 4.0]);
        assert_eq!(blob[4..8], 2.0f32.to_le_bytes());
        // the whole replaced, and no one else holds it: still not in the owner's memory
        let y = Tensor::from_blob(DType::F32, &blob, [4]);
        y.assign(0.0);
        assert_eq!(y.to_vec::<f32>()?, [0.0; 4]);
        assert_eq!(blob[..4], 1.0f32.to_le_bytes());
        Ok(())
    });
}

#[test]
fn unaligned_and_empty_memory() {
    on(|| {
        let blob = Blob::new(bytes(64));
        for at in 0..9 {
            let part = blob.slice(at..at + 24).unwrap();
            let x = Tensor::from_blob(DType::U64, &part, [3]);
            let expected: Vec<u64> =
                part.chunks_exact(8).map(|c| u64::from_le_bytes(c.try_into().unwrap())).collect();
            assert_eq!(x.to_vec::<u64>()?, expected);
            assert_eq!((x ^ 1u64).to_vec::<u64>()?, expected.iter().map(|v| v ^ 1).collect::<Vec<_>>());
        }
        let none = Tensor::from_blob(DType::F32, &blob.slice(3..3).unwrap(), [0, 5]);
        assert_eq!((none + 1.0).to_vec::<f32>()?, [0f32; 0]);
        Ok(())
    });
}

#[test]
fn the_owner_lives_as_long_as_a_tensor_over_it() {
    struct Owner(Vec<u8>, #[allow(dead_code)] std::sync::Arc<()>);
    impl AsRef<[u8]> for Owner {
        fn as_ref(&self) -> &[u8] {
            &self.0
        }
    }
    let alive = std::sync::Arc::new(());
    on(|| {
        let x = {
            let blob = Blob::new(Owner(bytes(8), alive.clone()));
            Tensor::from_blob(DType::U8, &blob.slice(2..6).unwrap(), [4]) + 1
        };
        assert_eq!(std::sync::Arc::strong_count(&alive), 2);
        assert_eq!(x.to_vec::<u8>()?, bytes(8)[2..6].iter().map(|b| b + 1).collect::<Vec<_>>());
        Ok(())
    });
    assert_eq!(std::sync::Arc::strong_count(&alive), 1);
}

#[test]
fn borrowed_memory_on_a_device_that_cannot_reach_it_is_copied() {
    let blob = Blob::new(bytes(16));
    Device::scope("NULL", || {
        let x = Tensor::from_blob(DType::F32, &blob, [4]);
        assert_eq!(&*x.device().unwrap(), "NULL");
        assert_eq!((x + 1.0).to_vec::<f32>().unwrap().len(), 4);
    })
    .unwrap();
}

#[test]
fn bits_as_every_other_type() {
    on(|| {
        let types =
            [DType::U8, DType::I8, DType::U16, DType::I16, DType::U32, DType::I32, DType::U64, DType::I64];
        let floats = [DType::F16, DType::BF16, DType::F32, DType::F64, DType::F8E4M3];
        let raw: Vec<u8> = bytes(48).iter().map(|b| b & 0x3f).collect(); // no NaN
        for from in types.into_iter().chain(floats) {
            let x = Tensor::from_bytes(from, &raw, [3, 16 / from.size()]);
            for to in types.into_iter().chain(floats) {
                let y = x.bitcast(to);
                assert_eq!((y.dtype(), y.dims()?), (to, vec![3, 16 / to.size()]));
                assert_eq!(y.to_bytes()?, raw, "{from} as {to}");
            }
        }
        Ok(())
    });
}

#[test]
fn bits_that_do_not_make_whole_elements_are_errors() {
    let x = Tensor::from_vec(bytes(6), [2, 3]);
    let e = x.bitcast(DType::U16).check().unwrap_err().to_string();
    assert!(e.contains("a last dim of 3 uint8 is not made of whole uint16 (2 in each)"), "{e}");
    assert!(Tensor::new(1.0).bitcast(DType::U8).check().is_err());
    assert!(Tensor::new(1).cast(DType::U8).bitcast(DType::F32).check().is_err());
    assert!(x.bitcast(DType::Index).check().is_err());
    assert_eq!(Tensor::from_vec([0u8; 0], [2, 0]).bitcast(DType::F32).dims().unwrap(), [2, 0]);
}

#[test]
fn files_that_are_not_there_and_shapes_that_do_not_fit_are_errors() {
    let e = Tensor::from_file("/no/such/file").check().unwrap_err().to_string();
    assert!(e.starts_with("from_file: /no/such/file: ") && e.contains("memory.rs"), "{e}");
    let blob = Blob::new(bytes(6));
    let error = |dims: &[usize]| Tensor::from_blob(DType::F32, &blob, dims).check().unwrap_err().to_string();
    for dims in [&[1][..], &[2, 1], &[]] {
        let e = error(dims);
        assert!(e.contains("6 bytes are not the float32 elements of shape"), "{e}");
    }
    let e = error(&[usize::MAX >> 1, 4]);
    assert!(e.contains("shape [9223372036854775807, 4] has more elements than can be counted"), "{e}");
}

#[test]
fn values_are_copied_between_numbered_devices_and_mixing_them_is_an_error() {
    let x = Tensor::from_slice(&[1.0f32, 2.0]).to("CPU:1") + 1.0;
    assert_eq!(&*x.device().unwrap(), "CPU:1");
    let y = x.to("CPU:2") * 2.0;
    assert_eq!(y.to("CPU").to_vec::<f32>().unwrap(), [4.0, 6.0]);
    assert!((&x + &y).to_vec::<f32>().is_err());
}
