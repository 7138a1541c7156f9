//! Sizes and strides of foreign memory from any bytes: what is accepted stays inside what it says.
#![no_main]
#[path = "../../crates/python/src/tensor/foreign.rs"]
mod foreign;

use foreign::layout;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let [dims, with_strides, size, rest @ ..] = bytes else { return };
    let mut numbers = rest.chunks(8).map(|c| {
        let mut word = [0; 8];
        word[..c.len()].copy_from_slice(c);
        i64::from_le_bytes(word)
    });
    let n = *dims as usize;
    let shape: Vec<i64> = (0..n).map(|_| numbers.next().unwrap_or(1)).collect();
    let strides: Vec<i64> = (0..n).map(|_| numbers.next().unwrap_or(0)).collect();
    let address = numbers.next().unwrap_or(64) as u64;
    let size = 1usize << (size % 4);
    let Ok(l) = layout(&shape, (with_strides % 2 == 1).then_some(&strides), size, address) else { return };
    assert_eq!(l.dims.len(), n);
    let count = if l.dims.contains(&0) { 0 } else { l.dims.iter().fold(1i128, |m, d| m * *d as i128) };
    assert_eq!(l.bytes as i128, count * size as i128);
    if count == 0 {
        return;
    }
    assert!(address != 0 && address >= l.before as u64 && address.checked_add(l.behind as u64).is_some());
    // the outermost elements are inside
    let steps = l.strides.clone().unwrap_or_else(|| {
        let mut step = 1isize;
        let mut all = vec![];
        for d in l.dims.iter().rev() {
            all.push(step);
            step *= *d as isize;
        }
        all.reverse();
        all
    });
    let far = |wanted: fn(isize) -> bool| -> i128 {
        let at = |(d, s): (&usize, &isize)| if wanted(*s) { (*d as i128 - 1) * *s as i128 } else { 0 };
        l.dims.iter().zip(&steps).map(at).sum::<i128>() * size as i128
    };
    assert!(-far(|s| s < 0) <= l.before as i128 && far(|s| s > 0) + size as i128 <= l.behind as i128);
});
