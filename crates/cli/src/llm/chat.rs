//! `frit chat`: a conversation at a terminal, or one answer for a script.

use super::Done;
use super::options::Given;
use crate::progress::Progress;
use frit_llm::blocks::BLOCK;
use frit_llm::engine::{Reason, Settings};
use frit_llm::{Answer, Ask, Llm, Message};
use rustyline::error::ReadlineError;
use std::io::Write;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

/// Positions where nothing else is said: most models have more, at the price of memory.
const CONTEXT: usize = 4096;

/// This part of the context is kept free for an answer.
const ROOM: usize = 4;

const COMMANDS: &str = "\
/system TEXT   begin again with this as what the conversation begins with
/reset         begin again
/save FILE     write the conversation down, as JSON
/stats         how many tokens, how fast
/quit          or Ctrl-D
";

/// Ctrl-C was pressed during an answer.
static STOP: AtomicBool = AtomicBool::new(false);

extern "C" fn stop(_: libc::c_int) {
    STOP.store(true, Ordering::Relaxed);
}

/// Talks with a model.
pub fn chat(model: &str, words: &[&str]) -> Done {
    let mut given = Given::of(words)?;
    let (prompt, system) = (given.text("prompt"), given.text("system"));
    let options = given.opening()?;
    let draft = given.text("draft").map(Path::new);
    let settings = Settings {
        sequences: 1,
        cache: given.cache()?,
        positions: options.context.unwrap_or(CONTEXT),
        ..Settings::default()
    };
    let mut ask = Ask { sampling: given.sampling()?, ..Ask::default() };
    ask.max_tokens = given.number("max-tokens")?.unwrap_or(usize::MAX);
    ask.stops = given.all("stop").into_iter().map(String::from).collect();
    let shifts = given.choice("shift", &[("yes", true), ("no", false)])?;
    given.finish()?;
    let loading = Progress::show(&format!("loading {model}"));
    let llm = Llm::with_draft(model, draft, &options, settings).map_err(|e| e.to_string())?;
    drop(loading);
    let mut talk = Conversation { llm, ask, messages: vec![], left_out: 0, shifts, last: None };
    talk.begin(system);
    match prompt {
        Some(prompt) => talk.answer(prompt).map(|_| ()),
        None => talk.at_terminal(model),
    }
}

struct Conversation {
    llm: Llm,
    ask: Ask,
    messages: Vec<Message>,
    /// So many behind the system message are not shown to the model any more.
    left_out: usize,
    /// Whether the oldest is left out where the context is full.
    shifts: bool,
    last: Option<Answer>,
}

impl Conversation {
    fn begin(&mut self, system: Option<&str>) {
        let message = |text: &str| Message { role: "system".into(), content: text.into() };
        self.messages = system.map(message).into_iter().collect();
        self.left_out = 0;
    }
    /// The tokens of the conversation, without the oldest turns where these leave too little room for an answer; and how many
    /// begin it for good.
    fn tokens(&mut self) -> frit::Result<(Vec<u32>, usize)> {
        let engine = self.llm.engine();
        let context = engine.model().config().context.min(engine.memory().1 * BLOCK);
        let first = usize::from(self.messages.first().is_some_and(|m| m.role == "system"));
        let before = self.left_out;
        loop {
            let shown = [&self.messages[..first], &self.messages[first + self.left_out..]].concat();
            let tokens = self.llm.conversation(&shown)?;
            // a question and its answer go together
            let has_more = self.messages.len() > first + self.left_out + 2;
            if !self.shifts || !has_more || tokens.len() <= context - context / ROOM {
                if self.left_out > before {
                    eprintln!("(the context is full; {} old messages are left out)", self.left_out);
                }
                let prompt =
                    self.llm.prompt(&shown).map_err(|e| frit::Error::new("generate", e.to_string()))?;
                let keep = Llm::beginning(self.llm.text(), &prompt, &tokens);
                return Ok((tokens, keep));
            }
            self.left_out += 2;
        }
    }
    /// Writes an answer as it comes.
    fn answer(&mut self, text: &str) -> Done {
        self.messages.push(Message { role: "user".into(), content: text.into() });
        STOP.store(false, Ordering::Relaxed);
        // SAFETY: the handler only stores to an atomic, and stays for the life of the process or until it is replaced
        #[cfg(unix)]
        let before =
            unsafe { libc::signal(libc::SIGINT, stop as extern "C" fn(libc::c_int) as libc::sighandler_t) };
        let mut told = |piece: &str| {
            print!("{piece}");
            // a reader that is gone ends the answer
            std::io::stdout().flush().is_ok() && !STOP.load(Ordering::Relaxed)
        };
        let answer = self.tokens().and_then(|(tokens, keep)| {
            self.ask.shift = self.shifts.then_some(keep);
            self.llm.generate(tokens, &self.ask, &mut told)
        });
        // SAFETY: it is the handler that was there before
        #[cfg(unix)]
        unsafe {
            libc::signal(libc::SIGINT, before)
        };
        println!();
        match answer {
            Ok(answer) => {
                self.messages.push(Message { role: "assistant".into(), content: answer.text.clone() });
                match answer.reason {
                    Reason::Cancelled => eprintln!("(stopped)"),
                    Reason::Context => eprintln!("(the context is full; /reset begins again)"),
                    _ => {}
                }
                self.last = Some(answer);
                Ok(())
            }
            Err(e) => {
                self.messages.pop();
                Err(e.to_string())
            }
        }
    }
    fn at_terminal(&mut self, model: &str) -> Done {
        let mut editor = rustyline::DefaultEditor::new().map_err(|e| e.to_string())?;
        println!("{model}; /help says what can be typed");
        loop {
            let line = match editor.readline("> ") {
                Ok(line) => line,
                Err(ReadlineError::Interrupted) => continue,
                Err(ReadlineError::Eof) => return Ok(()),
                // a line that is no text is one bad line
                Err(ReadlineError::Io(e)) if e.kind() == std::io::ErrorKind::InvalidData => {
                    eprintln!("the line is not UTF-8");
                    continue;
                }
                Err(e) => return Err(e.to_string()),
            };
            editor.add_history_entry(&line).ok();
            let (command, rest) = line.trim().split_once(' ').unwrap_or((line.trim(), ""));
            let done = match command {
                "" => Ok(()),
                "/quit" | "/exit" => return Ok(()),
                "/help" => {
                    print!("{COMMANDS}");
                    Ok(())
                }
                "/reset" => {
                    let system = self.messages.first().filter(|m| m.role == "system").cloned();
                    self.begin(system.as_ref().map(|m| m.content.as_str()));
                    Ok(())
                }
                "/system" => {
                    self.begin(Some(rest.trim()).filter(|r| !r.is_empty()));
                    Ok(())
                }
                "/save" => self.save(rest.trim()),
                "/stats" => {
                    self.stats();
                    Ok(())
                }
                other if other.starts_with('/') => Err(format!("there is no {other}\n{COMMANDS}")),
                _ => self.answer(&line),
            };
            if let Err(e) = done {
                eprintln!("{e}");
            }
        }
    }
    fn save(&self, file: &str) -> Done {
        if file.is_empty() {
            return Err("/save FILE".into());
        }
        std::fs::write(file, self.llm.to_json(&self.messages)).map_err(|e| format!("{file}: {e}"))
    }
    fn stats(&mut self) {
        if let Some(a) = &self.last {
            let first = a.first.as_secs_f64();
            println!(
                "the last answer: {} tokens after {} of the prompt; the first after {first:.2} s, then {:.1} a second",
                a.tokens.len(),
                a.prompt,
                a.rate()
            );
        }
        let engine = self.llm.engine();
        let (c, (free, all)) = (engine.counts(), engine.memory());
        println!(
            "in all: {} tokens read, {} found again, {} written, in {} steps; {} of {all} blocks in use",
            c.prompt,
            c.shared,
            c.generated,
            c.steps,
            all - free
        );
        if c.drafted > 0 {
            println!("{} of {} drafted tokens were taken", c.accepted, c.drafted);
        }
    }
}
