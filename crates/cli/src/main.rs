//! The `frit` binary: what devices there are, what is in a file, how fast things run, how exact they are.

mod accuracy;
mod bench;
mod corpus;
mod llm;
mod onnx;
mod progress;
#[cfg(feature = "serve")]
mod serve;
mod show;
mod viz;

use std::process::ExitCode;

const HELP: &str = "\
frit: a deep-learning compiler

usage:
  frit devices                 devices this machine has, and what is known of them
  frit bench [NAME...]         run the benchmarks whose names contain one of NAME (all without); a JSON line each
  frit bench --search[=WIDTH] NAME...
                               search for the best way to run the kernels of each, and measure both ways in turns
  frit bench --plot=SVG [--peers=FILE] NAME...
                               draw bars beside those of peers: FILE has JSON lines with name, ms and peer
  frit bench --check NAME...   compute each on the default device and on the CPU; fails where they differ
  frit bench --list            list the names; --milliseconds=N measures each for so long (3000)
  frit accuracy [--help]       how exact every function and reduction is; fails where a bound is broken
  frit corpus write DIR        what the compiler makes of a fixed list of programs, for several machines: a file a kernel
  frit corpus summary          the same, a line a kernel
  frit corpus diff A B         what differs between two of them, folders or summaries
  frit corpus assemble         its kernels for NVIDIA's GPUs through their assembler, where ptxas is found
  frit tune FILE [WIDTH]       search for the best way to run each kernel of a saved Jit, WIDTH states at a time (4);
                               what is found is kept in FRIT_CACHE/tuned and used from then on
  frit onnx [--help]           models in ONNX files: what is in one, what it computes, whether that is right, how fast
                               it can be
  frit viz -- COMMAND...       run a command and record what the compiler and the devices do
  frit viz FILE                show a recording in a page on localhost; --no-open prints its address only
  frit viz export FILE [HTML]  the page with the recording in it, as one file
  frit viz dump FILE           a recording as text
  frit viz trace FILE OUT      a recording as a trace that Perfetto opens: OUT is a .json or a .pftrace file
  frit explain FILE PLACE      why the operations of a line, such as train.py:12, became the kernels of a recording
  frit profile -- COMMAND...   run a command and print where its time went: by phase, by kernel, by line
  frit chat MODEL [--help]     talk with a language model: a GGUF file, or a folder of Hugging Face
  frit llm [--help]            how fast a language model reads and writes, how well it predicts a text
  frit finetune MODEL [--help] teach a language model texts: an adapter of it
  frit serve MODEL [--help]    a language model for OpenAI's clients, and a chat page
  frit show FILE [TENSOR]      the tensors of a state file, or the values of one
  frit --version

environment:
";

/// Every flag of every room, for the help text.
fn flags() -> String {
    let engine = frit::engine::config::FLAGS.iter().map(|(n, a, d)| (*n, *a, *d));
    let runtime = frit::engine::devices::flags().into_iter();
    engine.chain(runtime).map(|(name, accepts, about)| format!("  {name:17} {about} ({accepts})\n")).collect()
}

fn main() -> ExitCode {
    let args: Vec<String> = match std::env::args_os().skip(1).map(std::ffi::OsString::into_string).collect() {
        Ok(args) => args,
        Err(word) => {
            eprintln!("frit: {} is not UTF-8", word.display());
            return ExitCode::FAILURE;
        }
    };
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    // a client that goes away must not end a server
    #[cfg(unix)]
    if words.first() != Some(&"serve") {
        // SAFETY: no other thread runs yet; a reader that goes away (`frit bench | head`) ends this quietly, as it does others
        unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
    }
    frit::engine::search::in_children(|| Ok(std::process::Command::new(std::env::current_exe()?)));
    let result = match words[..] {
        ["accuracy", "--help" | "-h", ..] => {
            print!("{}", accuracy::HELP);
            Ok(())
        }
        ["accuracy", ref options @ ..] => accuracy::run(options),
        ["onnx"] | ["onnx", "--help" | "-h", ..] | ["onnx", _, "--help" | "-h", ..] => {
            print!("{}", onnx::HELP);
            Ok(())
        }
        ["onnx", ref words @ ..] => onnx::run(words),
        ["chat" | "llm"] | ["chat" | "llm", "--help" | "-h", ..] | ["llm", _, "--help" | "-h", ..] => {
            print!("{}", llm::HELP);
            Ok(())
        }
        ["chat", model, ref words @ ..] => llm::chat(model, words),
        ["llm", ref words @ ..] => llm::run(words),
        ["finetune"] | ["finetune", "--help" | "-h", ..] => {
            print!("{}", llm::FINETUNE_HELP);
            Ok(())
        }
        ["finetune", model, ref words @ ..] => llm::finetune(model, words),
        #[cfg(feature = "serve")]
        ["serve"] | ["serve", "--help" | "-h", ..] => {
            print!("{}", serve::HELP);
            Ok(())
        }
        #[cfg(feature = "serve")]
        ["serve", model, ref options @ ..] => serve::run(model, options),
        [] | ["help" | "--help" | "-h", ..] | [_, "--help" | "-h", ..] => {
            print!("{HELP}{}", flags());
            Ok(())
        }
        ["--version" | "-V"] => {
            println!("frit {}", env!("CARGO_PKG_VERSION"));
            Ok(())
        }
        ["devices"] => {
            devices();
            Ok(())
        }
        ["bench", ref names @ ..] => bench::run(names),
        ["corpus", ref words @ ..] => corpus::run(words),
        ["tune", file] => tune(file, "4"),
        ["tune", file, width] => tune(file, width),
        ["viz", ref words @ ..] => viz::run(words),
        ["explain", file, place] => viz::explained(file, place),
        ["profile", "--", ref command @ ..] => viz::profile::run(command),
        ["show", file] => show::run(file, None),
        ["show", file, tensor] => show::run(file, Some(tensor)),
        [other, ..] => Err(format!("there is no command '{other}'; see frit --help")),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("frit: {e}");
            ExitCode::FAILURE
        }
    }
}

fn tune(file: &str, width: &str) -> Result<(), String> {
    use frit::engine::{jit::tune::tune, search::Effort};
    let width = width.parse().map_err(|_| format!("{width} is not a number of states"))?;
    let told = |i, n, name: &str, tuned: &_| println!("{i:4}/{n} {name:40} {tuned}");
    let all = Effort::of_width(width).and_then(|effort| tune(file.as_ref(), &effort, told));
    let all = all.map_err(|e| e.to_string())?;
    let ([before, after], n) = ([all.before, all.after].map(|d| d.as_secs_f64() * 1e3), all.kernels);
    println!("{after:.3} ms, was {before:.3} ms; {} of {n} kernels run another way", all.changed);
    Ok(())
}

fn devices() {
    let default = frit::engine::default_device();
    for (name, about, found) in frit::engine::devices::list() {
        let mark = if default.as_ref().is_ok_and(|d| **d == *name) { "*" } else { " " };
        match found {
            Ok(text) => println!("{mark} {name:12} {about}\n{:15}{text}", ""),
            Err(e) => println!("  {name:12} {about}\n{:15}not usable: {e}", ""),
        }
    }
    match default {
        Ok(_) => println!("\n* is the default; FRIT_DEVICE chooses another"),
        Err(e) => println!("\nthe default device is not usable: {e}"),
    }
}
