//! Hashes against the values of other implementations, for the pattern of bytes that BLAKE3's own vectors have.

use frit_tensor::{Keccak, Tensor};

/// 0, 1, … 250, 0, 1, …
fn pattern(n: usize) -> Vec<u8> {
    (0..n).map(|i| (i % 251) as u8).collect()
}

fn hex(t: &Tensor) -> String {
    t.to_vec::<u8>().expect("a digest").iter().map(|b| format!("{b:02x}")).collect()
}

#[test]
fn keccak_agrees_with_the_standard() {
    for (hash, n, want) in KECCAK {
        assert_eq!(hex(&Tensor::from_slice(&pattern(*n)).keccak(*hash)), *want, "{hash:?} of {n} bytes");
    }
}

#[test]
fn the_original_keccak_differs_in_its_mark() {
    let empty = Tensor::from_slice::<u8>(&[]).keccak(Keccak::KECCAK_256);
    assert_eq!(hex(&empty), "c5d2460186f7233c927e7db2dcc703c0e500b653ca82273b7bfad8045d85a470");
}

#[test]
fn blake3_agrees_with_its_vectors() {
    for (n, want) in BLAKE3 {
        assert_eq!(hex(&Tensor::from_slice(&pattern(*n)).blake3()), *want, "of {n} bytes");
    }
    for (n, want) in BLAKE3_LONG {
        assert_eq!(hex(&Tensor::from_slice(&pattern(*n)).blake3_of(131)), *want, "131 of {n} bytes");
    }
}

#[test]
fn messages_are_hashed_side_by_side() {
    let rows = Tensor::from_vec(pattern(2 * 3 * 150), [2, 3, 150]);
    for digests in [rows.keccak(Keccak::SHA3_256), rows.blake3()] {
        assert_eq!(digests.shape(), [2, 3, 32]);
    }
    let one = Tensor::from_slice(&pattern(900)[300..450]);
    assert_eq!(hex(&rows.keccak(Keccak::SHA3_256).at((0, 2))), hex(&one.keccak(Keccak::SHA3_256)));
    assert_eq!(hex(&rows.blake3().at((0, 2))), hex(&one.blake3()));
}

#[test]
fn only_bytes_are_hashed() {
    assert!(Tensor::ones([4]).blake3().check().is_err());
    assert!(Tensor::from_slice(&[1u8]).reshape(()).keccak(Keccak::SHA3_256).check().is_err());
}

#[rustfmt::skip]
const KECCAK: &[(Keccak, usize, &str)] = &[
    (Keccak::SHA3_224, 300, "4a233ea250626438f2a59fd5e08e3f957d43626104d572284c6ec112"),
    (Keccak::SHA3_256, 0, "a7ffc6f8bf1ed76651c14756a061d662f580ff4de43b49fa82d80a4b80f8434a"),
    (Keccak::SHA3_256, 135, "fded8fd9d6551c601eeb3b7c6bc5e5cfd8aad1d015b7e9aaa9c9b9475231d5e2"),
    (Keccak::SHA3_256, 136, "cf3ccff92480a29160c2d38317c430e14749bfee1788106957dfe73f8c4930e5"),
    (Keccak::SHA3_256, 300, "4be64d77dff18f218eeb40368f86ed78e6d4f2381c71675ab5ada46aa4fee621"),
    (Keccak::SHA3_384, 300, "9d0aee7bff1abfc6b258850d34c136059689d55dd303354b9ad1e779e8b41a72c2018bcb40474da1a74b1e0320febf2f"),
    (Keccak::SHA3_512, 300, "f41046d91092e2fc5dc1d9cc47a02d71f2809a4fa5a4bbacf35e10459ac853cc366c6579ca3705a59ac76ccbf0d835f2e56518c441c9d677c6801e19527b3327"),
    (Keccak::SHAKE128.digest(40), 200, "0c4234ca1e31801ae606f8b8d8e0665c66f42a21d601c2681858a92c79ad5d69e143c3b1393dd894"),
    (Keccak::SHAKE256.digest(200), 200, "4ee1ca03272b05d3bfb1e1c79a967f823b9fc5e4bb3987b1ba9e9cb5afb07a5ee3a07fbd457a94364964a841e7f466e5a022e21ab7f673c18ba98cdb1d5aecfae62268b068f1e4bf9ee9853bcce08dcd491c629aa218b60d3d453e83a554eb176cfef9729e99ff3a8127c49e3c3cf19ad26018ed796fedce98c5f867ec2bacbdb8012cc52b76e6d24a80fa3692d02a03634b34b2fb336232e4c027dca0cc4bd03a01f1cec8c35ad0e51687fad4e18ebc23a75851d466979d59db7391b61702a7fc85a1162bdbaaea"),
];

#[rustfmt::skip]
const BLAKE3: &[(usize, &str)] = &[
    (0, "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262"),
    (64, "4eed7141ea4a5cd4b788606bd23f46e212af9cacebacdc7d1f4c6dc7f2511b98"),
    (65, "de1e5fa0be70df6d2be8fffd0e99ceaa8eb6e8c93a63f2d8d1c30ecb6b263dee"),
    (1024, "42214739f095a406f3fc83deb889744ac00df831c10daa55189b5d121c855af7"),
    (1025, "d00278ae47eb27b34faecf67b4fe263f82d5412916c1ffd97c8cb7fb814b8444"),
    (3073, "7124b49501012f81cc7f11ca069ec9226cecb8a2c850cfe644e327d22d3e1cd3"),
    (5121, "628bd2cb2004694adaab7bbd778a25df25c47b9d4155a55f8fbd79f2fe154cff"),
];

#[rustfmt::skip]
const BLAKE3_LONG: &[(usize, &str)] = &[
    (2049, "5f4d72f40d7a5f82b15ca2b2e44b1de3c2ef86c426c95c1af0b687952256303096de31d71d74103403822a2e0bc1eb193e7aecc9643a76b7bbc0c9f9c52e8783aae98764ca468962b5c2ec92f0c74eb5448d519713e09413719431c802f948dd5d90425a4ecdadece9eb178d80f26efccae630734dff63340285adec2aed3b51073ad3"),
];
