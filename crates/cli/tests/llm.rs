//! `frit chat`, `frit llm`, `frit finetune` and `frit serve` as people call them, on the tiny model of the guide.
#![cfg(unix)]

use std::ffi::OsStr;
use std::fs::File;
use std::io::{Read, Write};
#[cfg(feature = "serve")]
use std::net::TcpStream;
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A folder that goes away with it.
struct Folder(PathBuf);
impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("frit-cli-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }
    fn write(&self, name: &str, text: &str) -> String {
        std::fs::write(self.0.join(name), text).unwrap();
        self.path(name)
    }
    fn path(&self, name: &str) -> String {
        self.0.join(name).to_str().unwrap().to_string()
    }
    fn frit(&self, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_frit"));
        command.args(words).env("FRIT_CACHE", self.0.join("cache")).env_remove("FRIT_API_KEY");
        command
    }
    /// What a command that succeeds prints.
    fn done(&self, words: &[&str]) -> String {
        let out = self.frit(words).output().unwrap();
        assert!(out.status.success(), "{words:?}: {}", String::from_utf8_lossy(&out.stderr));
        String::from_utf8(out.stdout).unwrap()
    }
    /// What a command that fails says.
    fn fails(&self, words: &[&str]) -> String {
        let out = self.frit(words).output().unwrap();
        assert_eq!(out.status.code(), Some(1), "{words:?}: {out:?}");
        String::from_utf8(out.stderr).unwrap()
    }
    /// What a chat prints, and what it says beside it, to the lines it is given.
    fn chat(&self, words: &[&str], lines: &[u8]) -> (String, String) {
        let words = [&["chat", MODEL], words].concat();
        let mut command = self.frit(&words);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(lines).unwrap();
        let out = child.wait_with_output().unwrap();
        assert!(out.status.success(), "{out:?}");
        (String::from_utf8(out.stdout).unwrap(), String::from_utf8(out.stderr).unwrap())
    }
}
impl Drop for Folder {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).ok();
    }
}

const MODEL: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests-data/tiny/llama");

#[test]
fn chats_answer_scripts_and_lines() {
    let at = Folder::new("chat");
    let words = ["chat", MODEL, "--prompt", "hi", "--max-tokens", "6", "--temperature", "0"];
    let answer = at.done(&words);
    assert!(!answer.trim().is_empty());
    assert_eq!(at.done(&words), answer);
    let seeded =
        |seed| at.done(&["chat", MODEL, "--prompt=hi", "--max-tokens=9", "--temperature=2", "--seed", seed]);
    assert!(seeded("1") == seeded("1") && seeded("1") != seeded("2"));
    assert!(at.fails(&["chat", MODEL, "--temprature", "0"]).contains("--temprature"));
    assert!(at.fails(&["chat", "nowhere.gguf"]).contains("nowhere.gguf"));
    // a bad line or a bad command is told of, and the conversation goes on
    let saved = at.path("talk.json");
    let mut lines = b"hello\n\xff\xfe\n/nonsense\n/save /nowhere/x\nagain\n/stats\n".to_vec();
    lines.extend(format!("/save {saved}\n").bytes());
    let (out, err) = at.chat(&["--max-tokens", "3", "--system", "Be brief."], &lines);
    assert!(out.contains("the last answer: 3 tokens"), "{out}");
    for wanted in ["not UTF-8", "there is no /nonsense", "/nowhere/x"] {
        assert!(err.contains(wanted), "{wanted}: {err}");
    }
    let saved = std::fs::read_to_string(saved).unwrap();
    assert_eq!(saved.matches("\"user\"").count(), 2, "{saved}");
    assert!(saved.contains("Be brief.") && saved.contains("again"), "{saved}");
}

#[test]
fn a_long_conversation_goes_on_without_its_beginning() {
    let at = Folder::new("shift");
    let lines = "a b c d e f g\n".repeat(8);
    let words = ["--context", "96", "--max-tokens", "8", "--temperature", "0", "--system", "Be brief."];
    let (_, err) = at.chat(&words, lines.as_bytes());
    assert!(err.contains("old messages are left out"), "{err}");
    assert!(!err.contains("for a context of"), "{err}");
    let (_, err) = at.chat(&[&words[..], &["--shift", "no"]].concat(), lines.as_bytes());
    assert!(err.contains("for a context of 96") || err.contains("/reset begins again"), "{err}");
    assert!(!err.contains("left out"), "{err}");
}

#[test]
fn models_are_measured_and_taught() {
    let at = Folder::new("tune");
    let words = ["llm", "bench", MODEL, "--pp", "32", "--tg", "4", "--repeat", "1"];
    let out = at.frit(&words).env("FRIT_THREADS", "3").output().unwrap();
    let table = String::from_utf8(out.stdout).unwrap();
    assert!(table.contains("| pp32 |") && table.contains("| tg4 |"), "{table}");
    assert!(table.starts_with("| model | size | params | backend | threads | test | t/s |\n"), "{table}");
    let rows: Vec<&str> = table.lines().skip(2).collect();
    assert!(
        rows.iter().all(|r| r.starts_with("| LlamaForCausalLM float32 | 0.05 MiB | 0.01 M | CPU | 3 | ")),
        "{table}"
    );
    let gguf = concat!(env!("CARGO_MANIFEST_DIR"), "/../llm/tests/data/qwen3.gguf");
    assert!(at.done(&["llm", "bench", gguf, "--pp", "0", "--tg", "1", "--repeat", "1"]).contains("| qwen3 "));
    let begun = Instant::now();
    assert!(at.fails(&["llm", "bench", MODEL, "--pp", "99999999999"]).contains("context"));
    assert!(begun.elapsed() < Duration::from_secs(5));
    let text = at.write("a.txt", &"Once upon a time there was a fox. ".repeat(20));
    let said = at.done(&["llm", "perplexity", MODEL, &text, "--context", "32"]);
    let all: Vec<f64> = said.lines().map(|l| l.split(' ').nth(2).unwrap().parse::<f64>().unwrap()).collect();
    assert!(all.len() > 3 && all.iter().all(|p| *p > 1.0 && *p < 1e6), "{said}");
    assert!(at.fails(&["llm", "perplexity", MODEL, &text, "--context", "99999"]).contains("tokens"));
    assert!(at.done(&["llm", "tokens", MODEL, &text]).split_whitespace().count() > 100);

    let talk = "{\"messages\": [{\"role\": \"user\", \"content\": \"hi\"}, {\"role\": \"assistant\", \"content\": \"ho ho\"}]}\n";
    let (data, out) = (at.write("talk.jsonl", &talk.repeat(4)), at.path("adapter"));
    let tune = |data| {
        let words = ["finetune", MODEL, "--data", data, "--out", &out, "--steps", "2", "--batch", "1"];
        [words.as_slice(), &["--length", "32", "--rank", "2", "--log-every", "1"]].concat()
    };
    let said = at.done(&tune(&data));
    assert!(said.contains("step 2 loss") && said.contains("the adapter is in"), "{said}");
    at.done(&["chat", MODEL, "--prompt", "hi", "--max-tokens", "2", "--adapter", &out]);
    assert!(at.fails(&tune(&at.write("talk.json", talk))).contains(".jsonl"));
}

/// The perplexity of windows, each computed at once.
fn plain_perplexity(folder: &str, text: &str, context: usize, bos: Option<u32>) -> f64 {
    let model = frit_llm::open(folder, &frit_llm::Options::default()).unwrap();
    let tokens = frit_llm::chat::text_of(folder).unwrap().tokenizer.encode(text);
    let mut surprise = vec![];
    for window in tokens.chunks_exact(context) {
        let mut window = window.to_vec();
        window[0] = bos.unwrap_or(window[0]);
        let logits = model.whole(&window).unwrap().to_vec::<f32>().unwrap();
        for (i, logits) in logits.chunks_exact(model.tokens()).enumerate().skip(context / 2) {
            if let Some(next) = window.get(i + 1) {
                let sum: f64 = logits.iter().map(|l| f64::from(*l).exp()).sum();
                surprise.push(sum.ln() - f64::from(logits[*next as usize]));
            }
        }
    }
    (surprise.iter().sum::<f64>() / surprise.len() as f64).exp()
}

#[test]
fn windows_of_perplexity_begin_as_texts_do() {
    let at = Folder::new("perplexity");
    let text: String = (0..40).map(|i| format!("Fox {i} met {} hens. ", i * i)).collect();
    let file = at.write("a.txt", &text);
    let model = at.path("model");
    std::fs::create_dir_all(&model).unwrap();
    for name in ["config.json", "model.safetensors", "tokenizer.json"] {
        std::fs::copy(format!("{MODEL}/{name}"), format!("{model}/{name}")).unwrap();
    }
    // the model has a token for it, and does not put it before texts
    at.write("model/tokenizer_config.json", r#"{"bos_token": "<|end|>"}"#);
    let said = |model: &str| {
        let words = ["llm", "perplexity", model, &file, "--context", "70", "--cache", "f32"];
        let said = at.done(&[&words[..], &["--products", "float"]].concat());
        said.lines().last().unwrap().split(' ').nth(2).unwrap().parse::<f64>().unwrap()
    };
    let near = |a: f64, b: f64| (a - b).abs() < 1e-4 * b;
    let (plain, marked) =
        (plain_perplexity(&model, &text, 70, None), plain_perplexity(&model, &text, 70, Some(0)));
    assert!(!near(plain, marked), "{plain} {marked}");
    assert!(near(said(&model), plain), "{} {plain} {marked}", said(&model));
    // now it does
    let tokenizer = std::fs::read_to_string(format!("{MODEL}/tokenizer.json")).unwrap();
    let (before, after) = tokenizer.split_once("\"post_processor\"").unwrap();
    let after = &after[after.find("\"decoder\"").unwrap()..];
    let puts = r#""post_processor": {"type": "TemplateProcessing", "pair": [],
        "single": [{"SpecialToken": {"id": "<|end|>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
        "special_tokens": {"<|end|>": {"id": "<|end|>", "ids": [0], "tokens": ["<|end|>"]}}}, "#;
    at.write("model/tokenizer.json", &format!("{before}{puts}{after}"));
    let marked = plain_perplexity(&model, &text, 70, Some(0));
    assert!(near(said(&model), marked), "{} {marked}", said(&model));
}

#[test]
fn words_that_are_no_text_are_an_error() {
    let at = Folder::new("words");
    let out = at.frit(&["show"]).arg(OsStr::from_bytes(b"a\xff.safetensors")).output().unwrap();
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.code() == Some(1) && said.contains("is not UTF-8"), "{said}");
}

/// Waits for the end of a process, which comes soon.
fn end(child: &mut Child, within: Duration) -> Option<i32> {
    let begun = Instant::now();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status.code();
        }
        if begun.elapsed() > within {
            child.kill().ok();
            panic!("it does not end");
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}
#[cfg(feature = "serve")]
fn interrupt(child: &Child) {
    // SAFETY: it sends a signal to a child that was not waited for
    unsafe { libc::kill(child.id() as i32, libc::SIGINT) };
}

/// A server of the tiny model, its address, and what it prints.
#[cfg(feature = "serve")]
fn serve(at: &Folder, words: &[&str]) -> (Child, String, impl Read + use<>) {
    use std::io::{BufRead, BufReader};
    let words = [&["serve", MODEL, "--port=0", "--name", "tiny"], words].concat();
    let mut child = at.frit(&words).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut line = String::new();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    out.read_line(&mut line).unwrap();
    let address = line.split("http://").nth(1).unwrap().split(' ').next().unwrap().to_string();
    assert!(address.starts_with("127.0.0.1:"), "{line}");
    (child, address, out)
}
#[cfg(feature = "serve")]
fn post(address: &str, path: &str, body: &str) -> TcpStream {
    let mut socket = TcpStream::connect(address).unwrap();
    let head = format!("POST {path} HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n", body.len());
    socket.write_all((head + body).as_bytes()).unwrap();
    socket
}

#[cfg(feature = "serve")]
#[test]
fn servers_end_when_they_are_told_to() {
    let at = Folder::new("serve");
    let start = || serve(&at, &["--shift", "--max-tokens=100000000", "--parallel", "2"]);
    // half a header holds nothing up
    let (mut child, address, _out) = start();
    let mut half = TcpStream::connect(&address).unwrap();
    half.write_all(b"GET /health HTTP/1.1\r\nhost: x\r\n").unwrap();
    // the template of this model would pass tools over
    let body = r#"{"model": "tiny", "messages": [{"role": "user", "content": "x"}],
        "tools": [{"type": "function", "function": {"name": "f"}}]}"#;
    let mut said = [0; 1000];
    let n = post(&address, "/v1/chat/completions", body).read(&mut said).unwrap();
    let said = String::from_utf8_lossy(&said[..n]);
    assert!(said.starts_with("HTTP/1.1 400"), "{said}");
    interrupt(&child);
    assert_eq!(end(&mut child, Duration::from_secs(10)), Some(0));
    // an answer does, until it is asked for again
    let (mut child, address, _out) = start();
    let body = r#"{"model": "tiny", "prompt": "a", "stream": true, "logit_bias": {"40": 100}}"#;
    let mut asks = post(&address, "/v1/completions", body);
    asks.read_exact(&mut [0; 1000]).unwrap();
    // its reader goes on, or it would be dropped
    std::thread::spawn(move || std::io::copy(&mut asks, &mut std::io::sink()));
    interrupt(&child);
    std::thread::sleep(Duration::from_millis(500));
    assert!(child.try_wait().unwrap().is_none());
    interrupt(&child);
    assert_eq!(end(&mut child, Duration::from_secs(10)), Some(130));
}

#[cfg(feature = "serve")]
#[test]
fn adapters_are_served_and_training_goes_on_as_if_nothing_had_happened() {
    let at = Folder::new("adapter");
    let talk = |i: usize| format!("{{\"prompt\": \"question {i}\", \"completion\": \"answer {}\"}}\n", i * 7);
    let data = at.write("talk.jsonl", &(0..12).map(talk).collect::<String>());
    let tune = |out: &str, more: &[&str]| {
        let words =
            ["finetune", MODEL, "--data", &data, "--out", out, "--steps=6", "--batch=2", "--length=32"];
        at.done(&[&words[..], &["--rank=2", "--lr=0.3", "--dropout=0.1", "--save-every=3"], more].concat())
    };
    let (once, again) = (at.path("once"), at.path("again"));
    tune(&once, &[]);
    let said = tune(&again, &["--resume", &at.path("once/checkpoint-3")]);
    assert!(said.contains("step 6 loss") && !said.contains("step 3 loss"), "{said}");
    let [a, b] = [&once, &again].map(|f| std::fs::read(format!("{f}/adapter_model.safetensors")).unwrap());
    assert!(a == b && a != std::fs::read(at.path("once/checkpoint-3/adapter_model.safetensors")).unwrap());
    assert!(
        at.fails(&["finetune", MODEL, "--data", &data, "--out", &again, "--resume", "/nowhere"])
            .contains("/nowhere")
    );

    // the server says what the chat does, with it, without it, and merged
    let chat = |more: &[&str]| {
        let words = ["chat", MODEL, "--prompt", "question 3", "--max-tokens", "8", "--temperature", "0"];
        at.done(&[&words[..], more].concat()).trim_end_matches('\n').to_string()
    };
    let served = |more: &[&str]| {
        let (mut child, address, _out) = serve(&at, more);
        let body = r#"{"model": "tiny", "temperature": 0, "max_tokens": 8, "messages": [{"role": "user", "content": "question 3"}]}"#;
        let mut asks = post(&address, "/v1/chat/completions", body);
        let (mut said, mut some) = (String::new(), [0; 4096]);
        while !said.contains("\"usage\"") {
            let n = asks.read(&mut some).unwrap();
            assert!(n > 0, "{said}");
            said += &String::from_utf8_lossy(&some[..n]);
        }
        interrupt(&child);
        assert_eq!(end(&mut child, Duration::from_secs(10)), Some(0));
        let (_, body) = said.split_once("\r\n\r\n").unwrap();
        let v: serde_json::Value = serde_json::from_str(body).unwrap();
        v["choices"][0]["message"]["content"].as_str().unwrap().trim_end_matches('\n').to_string()
    };
    let (plain, taught) = (chat(&[]), chat(&["--adapter", &once]));
    assert_ne!(plain, taught);
    assert_eq!(served(&[]), plain);
    assert_eq!(served(&["--adapter", &once]), taught);
    assert_eq!(served(&[&format!("--adapter={once}"), "--merge"]), taught);
}

/// A process at a terminal of its own, and what it wrote.
struct Terminal {
    child: Child,
    master: File,
    seen: String,
}
impl Terminal {
    fn start(mut command: Command) -> Terminal {
        let (mut master, mut slave) = (0, 0);
        let null = std::ptr::null_mut();
        // SAFETY: both descriptors are written to, and owned by the files that are made of them
        let (master, slave) = unsafe {
            assert_eq!(libc::openpty(&mut master, &mut slave, null, null.cast(), null.cast()), 0);
            (File::from_raw_fd(master), File::from_raw_fd(slave))
        };
        // SAFETY: a read waits for nothing longer than a while
        unsafe { libc::fcntl(master.as_raw_fd(), libc::F_SETFL, libc::O_NONBLOCK) };
        let end = || Stdio::from(slave.try_clone().unwrap());
        command.stdin(end()).stdout(end()).stderr(end()).env("TERM", "xterm");
        // SAFETY: between fork and exec only calls that may be made there
        unsafe {
            command.pre_exec(|| {
                libc::setsid();
                libc::ioctl(0, libc::TIOCSCTTY, 0);
                Ok(())
            })
        };
        Terminal { child: command.spawn().unwrap(), master, seen: String::new() }
    }
    fn until(&mut self, what: &str, is_seen: impl Fn(&str) -> bool) {
        let begun = Instant::now();
        while !is_seen(&self.seen) {
            let mut some = [0; 4096];
            match self.master.read(&mut some) {
                Ok(n) if n > 0 => self.seen.push_str(&String::from_utf8_lossy(&some[..n])),
                _ => std::thread::sleep(Duration::from_millis(5)),
            }
            if begun.elapsed() > Duration::from_secs(60) {
                self.child.kill().ok();
                panic!("no {what}: {}", self.seen);
            }
        }
    }
    fn type_in(&mut self, text: &[u8]) {
        self.seen.clear();
        self.master.write_all(text).unwrap();
    }
}

#[test]
fn an_interrupt_ends_the_answer_and_not_the_chat() {
    let at = Folder::new("terminal");
    let mut t = Terminal::start(at.frit(&["chat", MODEL, "--temperature", "0"]));
    t.until("prompt", |s| s.contains("> "));
    // at the prompt it does nothing
    t.type_in(b"\x03");
    t.until("prompt", |s| s.contains("> "));
    t.type_in(b"tell me a story\r");
    t.until("answer", |s| s.len() > 400);
    t.type_in(b"\x03");
    t.until("end of the answer", |s| s.contains("(stopped)"));
    t.until("prompt", |s| s.contains("> "));
    t.type_in(b"/stats\r");
    t.until("figures", |s| s.contains("the last answer:"));
    t.type_in(b"/quit\r");
    assert_eq!(end(&mut t.child, Duration::from_secs(20)), Some(0));
}

#[test]
fn a_conversation_begins_again_when_it_is_asked_to() {
    let at = Folder::new("again");
    let words = ["chat", MODEL, "--temperature", "0", "--max-tokens", "3", "--system", "Be brief."];
    let mut t = Terminal::start(at.frit(&words));
    t.until("prompt", |s| s.contains("> "));
    let mut saved = |typed: &str| {
        let file = at.path("talk.json");
        for line in typed.lines().map(str::to_string).chain([format!("/save {file}")]) {
            t.type_in(format!("{line}\r").as_bytes());
            // the line as it is typed, then its answer if it has one, then the next prompt
            t.until("prompt", |s| {
                s.rfind("> ").is_some_and(|at| s.contains(&line) && at > s.find(&line).unwrap_or(0))
            });
        }
        std::fs::read_to_string(&file).unwrap()
    };
    let said = saved("hello\nand more");
    assert!(said.contains("Be brief.") && said.contains("hello") && said.contains("and more"), "{said}");
    // the system message stays, what was said goes
    let said = saved("/reset\nanew");
    assert!(said.contains("Be brief.") && said.contains("anew") && !said.contains("hello"), "{said}");
    let said = saved("/system Speak at length.\nonce more");
    assert!(said.contains("Speak at length.") && !said.contains("Be brief."), "{said}");
    assert!(said.contains("once more") && !said.contains("anew"), "{said}");
    // without a text there is none
    let said = saved("/system");
    assert!(!said.contains("system") && !said.contains("once more"), "{said}");
    t.type_in(b"/quit\r");
    assert_eq!(end(&mut t.child, Duration::from_secs(20)), Some(0));
}
