#![no_main]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| frit_nn::state::fuzz::index(bytes));
