//! Real files, where there are any: `FRIT_FILES=folder` with files of these names, anywhere below it. Expected are the
//! number of tensors and the checksum of all their bytes in the order of their names, as torch, safetensors and gguf
//! read them (quantised ones as float32).

use flate2::Crc;
use frit_nn::load;
use frit_tensor::{Blob, DType, Tensor};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// File, tensors, checksum.
const FILES: [(&str, usize, u32); 9] = [
    ("model.safetensors", 104, 0x04dd_3e5f),
    ("silero_vad_16k.safetensors", 15, 0xa1f0_2a0e),
    ("SmolLM2-135M-Instruct.Q4_1.gguf", 272, 0xda52_e752),
    ("all-MiniLM-L6-v2-Q8_0.gguf", 101, 0xc292_52e3),
    ("all-MiniLM-L6-v2.Q3_K_S.gguf", 101, 0x7045_be33),
    ("mobilenet_v2-b0353104.pth", 314, 0xeef4_53b9),
    ("tiny.en.pt", 167, 0xb89c_01e9),
    ("efficientnet-lite0-57934424.pth", 296, 0x998d_6a89),
    // two empty tensors beside the 30 of its state dict
    ("silero_vad.jit", 32, 0x985f_0e19),
];

/// Of stories15M.bin, after its seven integers.
const STORIES: u32 = 0x9489_eb35;

fn find(folder: &Path, name: &str) -> Option<PathBuf> {
    let mut folders = vec![folder.to_path_buf()];
    while let Some(f) = folders.pop() {
        for entry in std::fs::read_dir(f).ok()?.flatten().map(|e| e.path()) {
            if entry.file_name().is_some_and(|n| n == name) {
                return Some(entry);
            }
            if entry.is_dir() {
                folders.push(entry);
            }
        }
    }
    None
}

#[test]
fn real_files_have_the_values_others_read_in_them() {
    let Some(folder) = std::env::var_os("FRIT_FILES").map(PathBuf::from) else {
        println!("skipped: FRIT_FILES names no folder with real files");
        return;
    };
    let mut wrong = vec![];
    for (name, tensors, checksum) in FILES {
        let Some(path) = find(&folder, name) else {
            println!("{name}: not there");
            continue;
        };
        let begun = Instant::now();
        let state = load(&path).unwrap();
        let opened = begun.elapsed();
        let mut crc = Crc::new();
        state.values().for_each(|t| crc.update(&t.to_bytes().unwrap()));
        let line = format!("{name}: {} tensors, {:#010x}", state.len(), crc.sum());
        println!("{line}, opened in {opened:.2?}, all read in {:.2?}", begun.elapsed());
        if (state.len(), crc.sum()) != (tensors, checksum) {
            wrong.push(line);
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// A file without a format: seven integers, then the weights of llama2.c's smallest model.
#[test]
fn weights_without_a_format_are_bytes_seen_as_numbers() {
    let folder = std::env::var_os("FRIT_FILES").map(PathBuf::from);
    let Some(path) = folder.and_then(|f| find(&f, "stories15M.bin")) else {
        println!("skipped: there is no stories15M.bin below FRIT_FILES");
        return;
    };
    let file = Tensor::from_file(&path);
    let config = file.narrow(0, 0, 28).bitcast(DType::I32).to_vec::<i32>().unwrap();
    assert_eq!(config, [288, 768, 6, 6, 6, 32000, 256]);
    // the embedding's first row, through the bytes
    let row = file.narrow(0, 28, 4 * 288).bitcast(DType::F32).to_vec::<f32>().unwrap();
    let blob = Blob::open(&path).unwrap();
    let weights =
        Tensor::from_blob(DType::F32, &blob.slice(28..blob.len()).unwrap(), [(blob.len() - 28) / 4]);
    assert_eq!(weights.narrow(0, 0, 288).to_vec::<f32>().unwrap(), row);
    let mut crc = Crc::new();
    crc.update(&weights.to_bytes().unwrap());
    assert_eq!(crc.sum(), STORIES);
}
