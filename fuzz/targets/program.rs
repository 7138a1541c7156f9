//! Recordings from any bytes, with a checksum that fits: loaded, not called, since a made-up loop may take forever.
#![no_main]
use frit_tensor::{Jit, Tensor};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Some((body, _)) = bytes.split_last_chunk::<8>() else { return };
    let fnv = |s: u64, b: &u8| (s ^ u64::from(*b)).wrapping_mul(0x0100_0000_01b3);
    let sum = body.iter().fold(0xcbf2_9ce4_8422_2325, fnv);
    let signed = [body, &sum.to_le_bytes()].concat();
    let _ = Jit::<Vec<Tensor>, Vec<Tensor>>::of_bytes(&signed);
});
