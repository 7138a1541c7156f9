//! Speech to text: Whisper (tiny, 8 bits) on up to 30 seconds of sound.
//!
//! ```text
//! cargo run --release --example transcribe                 # a sentence that comes along
//! cargo run --release --example transcribe -- SPEECH.wav   # 16 kHz
//! ```

mod models;

use frit::onnx::{Session, Value};
use frit::prelude::*;
use frit::{PadMode, Stft};
use frit_tokenize::Tokenizer;
use models::*;
use std::io::Write;
use std::path::Path;

const RATE: usize = 16000;
const SECONDS: usize = 30;
const BANDS: usize = 80;
const PIECE: usize = 400;

/// The first half minute of a sound, silence after its end.
fn samples(path: &Path) -> Outcome<Vec<f32>> {
    let mut file = hound::WavReader::open(path)?;
    let spec = file.spec();
    if spec.sample_rate as usize != RATE {
        return Err(format!("{}: {} Hz, not {RATE}", path.display(), spec.sample_rate).into());
    }
    let all: Vec<f32> = match spec.sample_format {
        hound::SampleFormat::Float => file.samples::<f32>().collect::<Result<_, _>>()?,
        hound::SampleFormat::Int => {
            let full = (1i64 << (spec.bits_per_sample - 1)) as f32;
            file.samples::<i32>().map(|s| s.map(|v| v as f32 / full)).collect::<Result<_, _>>()?
        }
    };
    let channels = usize::from(spec.channels).max(1);
    let mut mono: Vec<f32> = all.chunks(channels).map(|c| c.iter().sum::<f32>() / channels as f32).collect();
    mono.resize(RATE * SECONDS, 0.0);
    Ok(mono)
}

/// How much of each frequency is in each band: triangles that are evenly wide in mel, all of one area.
fn bands() -> Tensor {
    // linear below 1 kHz, 27 steps for each factor 6.4 above
    let step = 6.4f64.ln() / 27.0;
    let hertz = |mel: f64| if mel < 15.0 { mel * 200.0 / 3.0 } else { 1000.0 * ((mel - 15.0) * step).exp() };
    let most = 15.0 + (RATE as f64 / 2.0 / 1000.0).ln() / step;
    let edges: Vec<f64> = (0..BANDS + 2).map(|i| hertz(most * i as f64 / (BANDS + 1) as f64)).collect();
    let bins = PIECE / 2 + 1;
    let weight = |band: usize, bin: usize| {
        let f = (bin * RATE) as f64 / PIECE as f64;
        let [a, b, c] = [edges[band], edges[band + 1], edges[band + 2]];
        ((f - a) / (b - a)).min((c - f) / (c - b)).max(0.0) * 2.0 / (c - a)
    };
    let all = (0..BANDS).flat_map(|band| (0..bins).map(move |bin| (band, bin)));
    Tensor::from_vec(all.map(|(band, bin)| weight(band, bin) as f32).collect::<Vec<_>>(), [BANDS, bins])
}

/// What the net hears: logarithms of the energy in each band, a hundred times a second.
fn features(sound: Vec<f32>) -> Tensor {
    let n = sound.len();
    let turn = std::f64::consts::TAU / PIECE as f64;
    let window: Vec<f32> = (0..PIECE).map(|i| (0.5 - 0.5 * (turn * i as f64).cos()) as f32).collect();
    let window = Some(Tensor::from_slice(&window));
    let o = Stft { hop_length: Some(160), window, pad_mode: PadMode::Reflect, ..Stft::new(PIECE) };
    let spectrum = Tensor::from_vec(sound, [n]).stft(&o).square().sum(-1);
    let frames = n / 160;
    let energy = bands().matmul(&spectrum.narrow(1, 0, frames)).clamp_min(1e-10).log10();
    let energy = energy.maximum(energy.max(..) - 8.0);
    ((energy + 4.0) / 4.0).unsqueeze(0)
}

fn main() -> Outcome<()> {
    let names = ["whisper_encoder.onnx", "whisper_decoder.onnx", "whisper.json", "speech.wav"];
    let [encoder, decoder, tokenizer, speech] = files(names);
    let heard = features(samples(&argument_or(speech))?);
    let states = first(&Session::load(encoder)?, heard)?;
    let (decoder, tokenizer) = (Session::load(decoder)?, Tokenizer::load(tokenizer)?);
    let id = |name: &str| tokenizer.id(name).map(i64::from).ok_or(format!("the vocabulary has no {name}"));
    let end = id("<|endoftext|>")?;
    let mut next =
        vec![id("<|startoftranscript|>")?, id("<|en|>")?, id("<|transcribe|>")?, id("<|notimestamps|>")?];
    // keys and values of what is past; the first run makes those of the sound
    let mut past: Vec<(String, Tensor)> = vec![];
    for port in decoder.inputs().iter().filter(|p| p.name.starts_with("past")) {
        past.push((port.name.clone(), Tensor::zeros([1, 6, 0, 64])));
    }
    let mut text = tokenizer.stream();
    for step in 0..200 {
        let n = next.len();
        let mut feeds = vec![
            ("input_ids".to_string(), Value::from(Tensor::from_vec(next, [1, n]))),
            ("encoder_hidden_states".to_string(), states.clone().into()),
            ("use_cache_branch".to_string(), Tensor::from_vec(vec![step > 0], [1]).into()),
        ];
        feeds.extend(past.iter().map(|(name, t)| (name.clone(), Value::from(t.clone()))));
        let outputs = decoder.run(feeds)?;
        let token = outputs[0].tensor()?.at((0, -1)).argmax(0).item::<i32>()?;
        if i64::from(token) == end {
            break;
        }
        print!("{}", text.push(token as u32));
        std::io::stdout().flush()?;
        for (port, made) in decoder.outputs().iter().zip(&outputs).skip(1) {
            let of_sound = port.name.contains("encoder");
            let name = port.name.replace("present", "past_key_values");
            if let Some(kept) = past.iter_mut().find(|(n, _)| *n == name).filter(|_| step == 0 || !of_sound) {
                kept.1 = made.tensor()?;
            }
        }
        next = vec![i64::from(token)];
    }
    println!();
    Ok(())
}
