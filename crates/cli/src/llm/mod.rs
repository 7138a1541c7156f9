//! `frit chat` and `frit llm`: language models at a terminal.

mod bench;
mod chat;
mod finetune;
pub mod options;
mod perplexity;

use crate::progress::Progress as Loading;
pub use chat::chat;
pub use finetune::{HELP as FINETUNE_HELP, finetune};

pub const HELP: &str = "\
frit chat, frit llm: language models, in GGUF files or folders of Hugging Face

usage:
  frit chat MODEL [OPTIONS]        a conversation; /help says what else can be typed, Ctrl-C ends an answer
  frit chat MODEL --prompt TEXT    one answer, and nothing else, to standard output
  frit llm bench MODEL [--pp N] [--tg N] [--streams N] [--repeat N]
                                   tokens a second: reading a prompt of N tokens (512), writing N tokens (128) of each of
                                   N answers at once (1)
  frit llm perplexity MODEL FILE [--context N]
                                   how well a text is predicted: windows of N tokens (512), the second half of each counts;
                                   they begin with the token that the model's tokeniser puts before texts, if it does
  frit llm tokens MODEL FILE       the numbers of a text's tokens

options:
  --system TEXT                    what the conversation begins with
  --max-tokens N                   the most tokens of an answer
  --temperature T                  0 takes the most likely token (0.7)
  --top-k K, --top-p P, --min-p P, --typical-p P
                                   which tokens may be drawn (40, 0.95, 0.05, 1)
  --repetition-penalty R           what was said becomes less likely (1)
  --seed N                         the beginning of the random stream: the same one gives the same conversation
  --stop TEXT                      ends an answer; may be given several times
  --context N                      positions at most (4096, or what the model has)
  --shift yes|no                   where the context is full, the oldest is left out, or the answer ends (yes)
  --cache f32|f16|bf16|int8        how keys and values are kept (f16)
  --adapter FOLDER                 what frit finetune or PEFT made of it; --merge yes takes it into the weights
  --products rounded|bytes|float   few tokens are rounded to bytes for quantised weights, many to bfloat16 on a GPU, and with AMX
                                   for quantised weights (without AMX to two bytes, if it has VNNI); or many to one byte
                                   too (faster without AMX); or all is float32 (rounded; with a draft float)
  --draft MODEL                    a smaller model of the same tokens, which proposes several tokens at once
";

type Done = std::result::Result<(), String>;

/// Runs one of the commands of `frit llm`.
pub fn run(words: &[&str]) -> Done {
    match words {
        ["bench", model, words @ ..] => bench::run(model, words),
        ["perplexity", model, file, words @ ..] => perplexity::run(model, file, words),
        ["tokens", model, file] => tokens(model, file),
        _ => Err("see frit llm --help".into()),
    }
}

/// Prints the numbers of a text's tokens.
fn tokens(model: &str, file: &str) -> Done {
    let text = std::fs::read_to_string(file).map_err(|e| format!("{file}: {e}"))?;
    let about = frit_llm::chat::text_of(model).map_err(|e| e.to_string())?;
    let ids: Vec<String> = about.tokenizer.encode(&text).iter().map(u32::to_string).collect();
    println!("{}", ids.join(" "));
    Ok(())
}
