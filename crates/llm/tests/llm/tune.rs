//! Fine-tuning on tiny models: what is learnt, what is saved, what goes on.

use crate::families::{expected, largest_difference};
use crate::{Folder, data};
use frit_llm::adapter::Lora;
use frit_llm::chat::{Template, Text};
use frit_llm::tune::{self, Example, Loss, Trainer, Tuning};
use frit_llm::{Options, open, open_to_tune};
use frit_nn::safetensors;
use frit_tensor::{Tensor, manual_seed};
use frit_tokenize::Tokenizer;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;

/// Texts with something to learn: each token follows from the one before.
fn examples() -> Vec<Example> {
    let text = |seed: usize| {
        let tokens: Vec<u32> = (0..17 + seed % 3).map(|i| ((i * 3 + seed * 5) % 40) as u32).collect();
        let is_learnt = (0..tokens.len()).map(|i| i > 2).collect();
        Example { tokens, is_learnt }
    };
    (0..7).map(text).collect()
}

fn trainer(model: &str, tuning: Tuning) -> Trainer {
    let lora = Lora { rank: 4, alpha: 8.0, dropout: 0.1, targets: vec![] };
    manual_seed(5);
    let (model, adapter) = open_to_tune(data(model), &Options::default(), &lora).unwrap();
    Trainer::new(model, adapter, examples(), tuning).unwrap()
}

fn tuning(steps: usize) -> Tuning {
    Tuning { steps, batch: 3, lr: 1e-2, warmup: 2, ..Tuning::default() }
}

#[test]
fn the_loss_falls_and_a_model_opened_with_the_adapter_has_learnt_the_same() {
    for name in ["llama.gguf", "llama", "phi3", "gpt2"] {
        let mut run = trainer(name, tuning(30));
        let losses: Vec<f32> = (0..30).map(|_| run.step().unwrap()).collect();
        let mean = |l: &[f32]| l.iter().sum::<f32>() / l.len() as f32;
        assert!(mean(&losses[25..]) < 0.8 * mean(&losses[..5]), "{name}: {losses:?}");
        let folder = Folder::new(&format!("adapter-{name}"));
        run.adapter().save(&folder.0, name).unwrap();
        let tokens = &examples()[1].tokens;
        let logits = |model: &frit_llm::Decoder| model.whole(tokens).unwrap().to_vec::<f32>().unwrap();
        let learnt = logits(run.model());
        let plain = logits(&open(data(name), &Options::default()).unwrap());
        assert!(largest_difference(&learnt, &plain) > 0.1);
        let with = |is_merged: bool| {
            let adapter = Some(folder.0.clone());
            logits(&open(data(name), &Options { adapter, is_merged, ..Options::default() }).unwrap())
        };
        assert_eq!(with(false), learnt, "{name}");
        assert!(largest_difference(&with(true), &learnt) < 1e-4);
    }
}

#[test]
fn a_run_that_stops_goes_on_as_if_it_had_not() {
    // the stream of random numbers is the process's, and other tests draw from it: this one has a process of its own
    const ALONE: &str = "FRIT_TEST_ALONE";
    if std::env::var_os(ALONE).is_none() {
        let name = "tune::a_run_that_stops_goes_on_as_if_it_had_not";
        let mut child = std::process::Command::new(std::env::current_exe().unwrap());
        assert!(child.args(["--exact", name]).env(ALONE, "1").status().unwrap().success());
        return;
    }
    let folder = Folder::new("resume");
    let mut whole = trainer("llama.gguf", tuning(8));
    let losses: Vec<u32> = (0..8).map(|_| whole.step().unwrap().to_bits()).collect();
    let mut first = trainer("llama.gguf", tuning(8));
    for _ in 0..3 {
        first.step().unwrap();
    }
    first.save(&folder.0, "llama").unwrap();
    drop(first);
    // other random numbers were drawn meanwhile
    manual_seed(99);
    let mut second = trainer("llama.gguf", tuning(8));
    second.resume(&folder.0).unwrap();
    assert_eq!(second.steps(), 3);
    let rest: Vec<u32> = (3..8).map(|_| second.step().unwrap().to_bits()).collect();
    assert_eq!(rest, losses[3..]);
    let why = trainer("llama.gguf", tuning(9)).resume(&folder.0).unwrap_err().to_string();
    assert!(why.contains("steps: 8") && why.contains("steps: 9"), "{why}");
}

/// Models that have an adapter which PEFT made (`make_adapters.py`), and what it is made of.
const ADAPTERS: [(&str, &str, usize); 4] = [
    ("llama", "q_proj,k_proj,o_proj,gate_proj,down_proj", 3),
    ("qwen3", "q_proj,v_proj", 2),
    ("phi3", "qkv_proj,gate_up_proj", 2),
    ("gpt2", "c_attn,c_fc", 2),
];

#[test]
fn adapters_of_peft_give_its_logits() {
    for (name, ..) in ADAPTERS {
        let folder = format!("adapter_{name}");
        let (ids, values) = expected(&folder);
        for path in [data(name), data(&format!("{name}.gguf"))] {
            for is_merged in [false, true] {
                let adapter = Some(data(&folder));
                let options = Options { adapter, is_merged, ..Options::default() };
                let model = open(&path, &options).unwrap_or_else(|e| panic!("{e}"));
                let off = largest_difference(&model.whole(&ids).unwrap().to_vec().unwrap(), &values);
                assert!(off < 2e-4, "{} merged {is_merged}: off by {off}", path.display());
            }
        }
    }
}

#[test]
fn adapters_are_written_as_peft_writes_them() {
    for (name, targets, rank) in ADAPTERS.into_iter().filter(|a| a.0 != "qwen3") {
        let targets = targets.split(',').map(String::from).collect();
        let lora = Lora { rank, alpha: 2.0 * rank as f64, dropout: 0.0, targets };
        let folder = Folder::new(&format!("written-{name}"));
        let (_, adapter) = open_to_tune(data(&format!("{name}.gguf")), &Options::default(), &lora).unwrap();
        let theirs = data(&format!("adapter_{name}"));
        adapter.load(&theirs).unwrap();
        adapter.save(&folder.0, name).unwrap();
        let tensors = |folder: &Path| {
            let all = safetensors::load(folder.join("adapter_model.safetensors")).unwrap();
            let one = |(n, t): (&String, &Tensor)| {
                (n.clone(), t.dtype(), t.dims().unwrap(), t.to_vec::<f32>().unwrap())
            };
            all.iter().map(one).collect::<Vec<_>>()
        };
        assert_eq!(tensors(&folder.0), tensors(&theirs), "{name}");
        assert_eq!(about(&folder.0), about(&theirs), "{name}");
        // what a loader looks for, beside which there is nothing
        let mut files: Vec<_> = std::fs::read_dir(&folder.0)
            .unwrap()
            .map(|f| f.unwrap().file_name().into_string().unwrap())
            .collect();
        files.sort();
        assert_eq!(files, ["adapter_config.json", "adapter_model.safetensors"]);
        let (ours, theirs) = (config(&folder.0), config(&theirs));
        // each key is one of PEFT's, with its value and type
        for (key, value) in &ours {
            assert_eq!(Some(value), theirs.get(key), "{name}: {key}");
        }
        let named = ["peft_type", "task_type", "r", "lora_alpha", "target_modules", "fan_in_fan_out", "bias"];
        assert!(named.iter().all(|key| ours.contains_key(*key)), "{ours:?}");
        // and those that are left out are what PEFT takes for them
        let is_nothing = |v: &Value| {
            v.is_null() || v == &Value::Bool(false) || v.as_object().is_some_and(|o| o.is_empty())
        };
        let left: Vec<_> = theirs.iter().filter(|(k, v)| !ours.contains_key(*k) && !is_nothing(v)).collect();
        let left: Vec<_> = left.into_iter().map(|(key, _)| key.as_str()).collect();
        assert_eq!(left, ["megatron_core", "peft_version", "qalora_group_size"], "{name}");
    }
}

/// The settings in a folder of an adapter; the order of modules says nothing.
fn config(folder: &Path) -> BTreeMap<String, Value> {
    let text = std::fs::read_to_string(folder.join("adapter_config.json")).unwrap();
    let mut config: BTreeMap<String, Value> = serde_json::from_str(&text).unwrap();
    if let Some(Value::Array(modules)) = config.get_mut("target_modules") {
        modules.sort_by_key(Value::to_string);
    }
    config
}
/// What the file of tensors says of itself.
fn about(folder: &Path) -> Value {
    let bytes = std::fs::read(folder.join("adapter_model.safetensors")).unwrap();
    let (length, rest) = bytes.split_first_chunk::<8>().unwrap();
    let header: Value = serde_json::from_slice(&rest[..u64::from_le_bytes(*length) as usize]).unwrap();
    header["__metadata__"].clone()
}

#[test]
fn adapters_that_do_not_fit_say_why() {
    let refused = |adapter: &Path, says: &str| {
        let adapter = Some(adapter.to_path_buf());
        let why = open(data("llama"), &Options { adapter, ..Options::default() }).err().unwrap().to_string();
        assert!(why.contains(says), "{why}");
    };
    refused(&data("nowhere"), "adapter_config.json");
    refused(&data("adapter_gpt2"), "no place for the tensor base_model.model.transformer.h.0");
    let folder = Folder::new("refused");
    std::fs::create_dir_all(&folder.0).unwrap();
    let theirs = data("adapter_llama");
    std::fs::copy(theirs.join("adapter_model.safetensors"), folder.0.join("adapter_model.safetensors"))
        .unwrap();
    let config = std::fs::read_to_string(theirs.join("adapter_config.json")).unwrap();
    let changed = |from: &str, to: &str| {
        assert!(config.contains(from));
        std::fs::write(folder.0.join("adapter_config.json"), config.replace(from, to)).unwrap();
    };
    changed(r#""use_dora": false"#, r#""use_dora": true"#);
    refused(&folder.0, "use_dora is true");
    changed(r#""LORA""#, r#""IA3""#);
    refused(&folder.0, "IA3");
    changed(r#""r": 3"#, r#""r": "three""#);
    refused(&folder.0, "r is not a number");
    let none = Lora { targets: vec!["nonesuch".into()], ..Lora::default() };
    let why = open_to_tune(data("llama"), &Options::default(), &none).err().unwrap().to_string();
    assert!(why.contains("nonesuch"), "{why}");
}

fn shared(name: &str) -> String {
    format!("{}/../../tests-data/{name}", env!("CARGO_MANIFEST_DIR"))
}

fn text() -> Text {
    text_with("bytes", MARKED_TURNS)
}

/// A conversation with tokens of its own between its turns.
const MARKED_TURNS: &str = "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}{% endfor %}\
                    {% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";

fn text_with(tokenizer: &str, template: &str) -> Text {
    let tokenizer = Tokenizer::load(shared(&format!("tokenize/{tokenizer}.json"))).unwrap();
    Text {
        tokenizer,
        template: Some(Template::new(template, "", "").unwrap()),
        bos: None,
        ends: Default::default(),
    }
}

#[test]
fn of_a_conversation_the_answers_are_learnt() {
    let folder = Folder::new("data");
    std::fs::create_dir_all(&folder.0).unwrap();
    let file = folder.0.join("talk.jsonl");
    let turn = |role: &str, content: &str| format!(r#"{{"role": "{role}", "content": "{content}"}}"#);
    let messages = [
        turn("user", "Say a"),
        turn("assistant", "It is a"),
        turn("user", "And b"),
        turn("assistant", "It is b"),
    ];
    std::fs::write(&file, format!("{{\"messages\": [{}]}}\n\n", messages.join(", "))).unwrap();
    let text = text();
    let read = |loss| tune::read(&file, &text, 1000, loss);
    let [example] = &read(Loss::Answers).unwrap()[..] else { panic!("one example") };
    let pick = |learnt: bool| {
        let of = example.tokens.iter().zip(&example.is_learnt).filter(|(_, l)| **l == learnt);
        text.tokenizer.decode_all(&of.map(|(t, _)| *t).collect::<Vec<_>>())
    };
    let (said, asked) = (pick(true), pick(false));
    assert!(said.contains("It is a") && said.contains("It is b") && !said.contains("Say"), "{said}");
    assert!(asked.contains("Say a") && asked.contains("And b") && !asked.contains("It is"), "{asked}");
    let [all] = &read(Loss::All).unwrap()[..] else { panic!("one example") };
    assert!(all.is_learnt.iter().all(|l| *l));
    assert_eq!(text.tokenizer.decode_all(&all.tokens), text.tokenizer.decode_all(&example.tokens));
    // what is wrong is said with its line
    for (line, says) in [
        (r#"{"messages": [{"role": "user", "content": "alone"}]}"#, "line 1: no message is the assistant's"),
        (r#"{"message": 3}"#, "line 1: neither messages"),
        (r#"{"text": 3}"#, "line 1: text is not a text"),
        ("{", "JSON: EOF"),
        ("", "nothing to learn"),
    ] {
        std::fs::write(&file, line).unwrap();
        let why = read(Loss::Answers).unwrap_err().to_string();
        assert!(why.contains(says), "{why}");
    }
}

/// What a file with one line, or a whole text, is read as.
fn read_one(name: &str, content: &str, text: &Text, loss: Loss) -> Example {
    let folder = Folder::new(&format!("line-{}", name.replace('.', "-")));
    std::fs::create_dir_all(&folder.0).unwrap();
    std::fs::write(folder.0.join(name), content).unwrap();
    let [example] =
        <[Example; 1]>::try_from(tune::read(folder.0.join(name), text, 1000, loss).unwrap()).unwrap();
    example
}

#[test]
fn parts_of_a_conversation_are_the_tokens_of_the_whole() {
    let plain = "{% for m in messages %}{{ '[INST] ' + m.content + ' [/INST]' if m.role == 'user' else ' ' + m.content \
                 + ' </s>' }}{% endfor %}";
    for (tokenizer, template) in
        [("marked", plain), ("unigram", plain), ("bytes", plain), ("newer", plain), ("marked", MARKED_TURNS)]
    {
        let text = text_with(tokenizer, template);
        let turn = |role: &str, content: &str| format!(r#"{{"role": "{role}", "content": "{content}"}}"#);
        let messages = [
            turn("user", "The grain"),
            turn("assistant", "and the fuse"),
            turn("user", "Which fuse"),
            turn("assistant", "the other"),
        ];
        let line = format!("{{\"messages\": [{}]}}", messages.join(", "));
        let whole = match template == plain {
            true => {
                "[INST] The grain [/INST] and the fuse </s>[INST] Which fuse [/INST] the other </s>".into()
            }
            false => messages_marked(&["The grain", "and the fuse", "Which fuse", "the other"]),
        };
        let example = read_one("talk.jsonl", &line, &text, Loss::Answers);
        assert_eq!(example.tokens, text.tokenizer.encode_plain(&whole), "{tokenizer}");
        let learnt = |e: &Example| {
            let of = e.tokens.iter().zip(&e.is_learnt).filter(|(_, l)| **l);
            of.filter_map(|(t, _)| text.tokenizer.bytes(*t)).collect::<Vec<_>>().concat()
        };
        let said: String = String::from_utf8(learnt(&example)).unwrap().split_whitespace().collect();
        // some tokenisers take a blank away before a token that stands for itself
        let end = if template == plain { "</s>" } else { "<|im_end|>" };
        assert_eq!(said, format!("andthefuse{end}theother{end}"), "{tokenizer}");
    }
}

fn messages_marked(contents: &[&str]) -> String {
    let turn = |(i, c): (usize, &&str)| {
        let role = if i % 2 == 0 { "user" } else { "assistant" };
        format!("<|im_start|>{role}\n{c}<|im_end|>\n")
    };
    contents.iter().enumerate().map(turn).collect()
}

#[test]
fn texts_are_learnt_whole_and_completions_behind_their_prompt() {
    for tokenizer in ["marked", "unigram", "bytes"] {
        let mut text = text_with(tokenizer, "");
        let t = &text.tokenizer;
        let end = t.id("</s>").or(t.id("<|end|>")).unwrap();
        text.ends = [end].into();
        let t = &text.tokenizer;
        let whole = |s: &str| {
            let mut ids = t.encode(s);
            if ids.last() != Some(&end) {
                ids.push(end);
            }
            ids
        };
        let said = "The grains, and the fuses.";
        let all = read_one("text.jsonl", &format!(r#"{{"text": "{said}"}}"#), &text, Loss::Answers);
        assert_eq!((&all.tokens, all.is_learnt.contains(&false)), (&whole(said), false), "{tokenizer}");
        let plain = read_one("text.txt", said, &text, Loss::Answers);
        assert_eq!(
            (&plain.tokens, plain.is_learnt.contains(&false)),
            (&t.encode(said), false),
            "{tokenizer}"
        );
        // the border is before a blank, behind one, and inside a word
        for at in [11, 12, 7] {
            let (prompt, rest) = said.split_at(at);
            let line = format!(r#"{{"prompt": "{prompt}", "completion": "{rest}"}}"#);
            let of = |loss| read_one("pair.jsonl", &line, &text, loss);
            let example = of(Loss::Answers);
            let begin = t.encode(prompt);
            let asked = example.is_learnt.iter().position(|l| *l).unwrap();
            assert_eq!(example.tokens[..asked], begin, "{tokenizer}: {prompt:?}");
            assert!(example.is_learnt[asked..].iter().all(|l| *l));
            let written = t.decode(&example.tokens).replace("</s>", "");
            assert_eq!(written.trim(), said, "{tokenizer}: {prompt:?}");
            assert_eq!(example.tokens.last(), Some(&end));
            if whole(said).starts_with(&begin) {
                assert_eq!(example.tokens, whole(said), "{tokenizer}: {prompt:?}");
            }
            let both = of(Loss::All);
            assert_eq!((both.tokens, both.is_learnt.contains(&false)), (example.tokens, false));
        }
    }
}
