//! `frit finetune`: a model learns from a file of texts; what it learnt is an adapter.

use super::Done;
use super::options::Given;
use frit::{Progress, manual_seed};
use frit_llm::adapter::Lora;
use frit_llm::chat::text_of;
use frit_llm::tune::{Loss, Rate, Trainer, Tuning, read};
use frit_llm::{Options, open_to_tune};
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::time::Instant;

pub const HELP: &str = "\
frit finetune: teach a language model texts; what it learns is an adapter, which frit chat, frit serve and PEFT read

usage:
  frit finetune MODEL --data FILE --out FOLDER [OPTIONS]

FILE is a text, or a .jsonl file with an object a line: {\"messages\": [{\"role\": …, \"content\": …}, …]},
{\"prompt\": …, \"completion\": …} or {\"text\": …}. MODEL is a GGUF file, or a folder of Hugging Face.

options:
  --loss answers|all               what is learnt of conversations and completions (answers)
  --length N                       tokens of an example; what is longer is cut into several (512)
  --batch N                        examples of a step (4)
  --steps N, --epochs E            how long (1 epoch)
  --rank R, --alpha A, --dropout P the adapter (16, 2 R, 0)
  --targets NAME,...               modules that get one, by the end of their names (all products of layers)
  --lr RATE                        the highest learning rate (2e-4)
  --warmup N                       steps in which it rises (a tenth, at most 100)
  --schedule cosine|linear|constant
                                   how it goes on (cosine)
  --weight-decay D, --clip LENGTH  of the adapter (0), of gradients (1; 0 for none)
  --seed N                         everything random follows from it (0)
  --order shuffled|file            of the examples (shuffled)
  --save-every N                   steps between checkpoints in FOLDER/checkpoint-N (100)
  --log-every N                    steps between lines (10)
  --resume CHECKPOINT              go on from it, exactly as if nothing had happened
  --from ADAPTER                   begin with an adapter that is there
  --weights float|packed           weights are made float32 once, or in every product, which takes less memory (float)
";

/// Trains an adapter of a model.
pub fn finetune(model: &str, words: &[&str]) -> Done {
    let mut given = Given::of(words)?;
    let data = given.text("data").ok_or("--data FILE is what it learns from")?;
    let out = PathBuf::from(given.text("out").ok_or("--out FOLDER is where the adapter goes")?);
    let rank = given.number("rank")?.unwrap_or(16);
    let lora = Lora {
        rank,
        alpha: given.number("alpha")?.unwrap_or(2.0 * rank as f64),
        dropout: given.number("dropout")?.unwrap_or(0.0),
        targets: given.text("targets").map_or(vec![], |t| t.split(',').map(String::from).collect()),
    };
    let loss = given.choice("loss", &[("answers", Loss::Answers), ("all", Loss::All)])?;
    let rates = [("cosine", Rate::Cosine), ("linear", Rate::Linear), ("constant", Rate::Constant)];
    let rate = given.choice("schedule", &rates)?;
    let is_shuffled = given.choice("order", &[("shuffled", true), ("file", false)])?;
    let is_unpacked = given.choice("weights", &[("float", true), ("packed", false)])?;
    let length = given.number("length")?.unwrap_or(512);
    let batch = given.number("batch")?.unwrap_or(4);
    let (steps, epochs): (Option<usize>, Option<f64>) = (given.number("steps")?, given.number("epochs")?);
    let warmup: Option<usize> = given.number("warmup")?;
    let mut tuning = Tuning {
        batch,
        lr: given.number("lr")?.unwrap_or(2e-4),
        rate,
        weight_decay: given.number("weight-decay")?.unwrap_or(0.0),
        clip: Some(given.number("clip")?.unwrap_or(1.0)).filter(|c| *c > 0.0),
        seed: given.number("seed")?.unwrap_or(0),
        is_shuffled,
        ..Tuning::default()
    };
    let [every, log_every] = ["save-every", "log-every"].map(|name| given.number::<usize>(name));
    let (every, log_every) = (every?.unwrap_or(100).max(1), log_every?.unwrap_or(10).max(1));
    let (resume, from) = (given.text("resume"), given.text("from"));
    given.finish()?;
    // as one text it would be learnt with its brackets
    if Path::new(data).extension().is_some_and(|e| e.eq_ignore_ascii_case("json")) {
        return Err(format!(
            "{data}: examples are read from a .jsonl file, one object a line; a text has another name"
        ));
    }

    let text = text_of(model).map_err(|e| e.to_string())?;
    let examples = read(data, &text, length, loss).map_err(|e| e.to_string())?;
    let of_epochs = (epochs.unwrap_or(1.0) * examples.len() as f64 / batch.max(1) as f64).ceil();
    tuning.steps = steps.unwrap_or(of_epochs as usize);
    tuning.warmup = warmup.unwrap_or((tuning.steps / 10).min(100));
    manual_seed(tuning.seed);
    let options = Options { is_unpacked, ..Options::default() };
    let loading = super::Loading::show(&format!("loading {model}"));
    let opened = open_to_tune(model, &options, &lora);
    drop(loading);
    let (decoder, adapter) = opened.map_err(|e| e.to_string())?;
    let count = examples.len();
    let mut run = Trainer::new(decoder, adapter, examples, tuning.clone()).map_err(|e| e.to_string())?;
    match (resume, from) {
        (Some(folder), _) => run.resume(folder),
        (None, Some(folder)) => run.adapter().load(folder),
        (None, None) => Ok(()),
    }
    .map_err(|e| e.to_string())?;
    println!(
        "{count} examples, {} steps of {} tokens ({:.1} epochs); {} numbers to learn",
        tuning.steps,
        run.tokens(),
        run.epochs(),
        run.adapter().size()
    );
    train(&mut run, &tuning, &out, model, every, log_every)?;
    run.adapter().save(&out, model).map_err(|e| e.to_string())?;
    println!("the adapter is in {}", out.display());
    Ok(())
}

fn train(
    run: &mut Trainer,
    tuning: &Tuning,
    out: &Path,
    model: &str,
    every: usize,
    log_every: usize,
) -> Done {
    let progress = Progress::new("training", tuning.steps);
    (0..run.steps()).for_each(|_| progress.step());
    let (mut sum, mut since, mut begin) = (0.0, 0usize, Instant::now());
    while run.steps() < tuning.steps {
        let lr = tuning.lr_of(run.steps());
        let loss = run.step().map_err(|e| e.to_string())?;
        progress.value("loss", loss.into());
        progress.step();
        (sum, since) = (sum + f64::from(loss), since + 1);
        let step = run.steps();
        if step.is_multiple_of(log_every) || step == tuning.steps {
            // the bar is drawn again by the next step
            let clear = if std::io::stderr().is_terminal() { "\r\x1b[K" } else { "" };
            let rate = (since * run.tokens()) as f64 / begin.elapsed().as_secs_f64();
            println!("{clear}step {step} loss {:.6} lr {lr:.3e} {rate:.0} tokens/s", sum / since as f64);
            (sum, since, begin) = (0.0, 0, Instant::now());
        }
        if step.is_multiple_of(every) && step < tuning.steps {
            run.save(out.join(format!("checkpoint-{step}")), model).map_err(|e| e.to_string())?;
        }
    }
    drop(progress);
    match tuning.steps {
        0 => Ok(()),
        n => run.save(out.join(format!("checkpoint-{n}")), model).map_err(|e| e.to_string()),
    }
}
