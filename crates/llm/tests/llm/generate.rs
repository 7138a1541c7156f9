//! Answers as a chat asks for them.

use crate::data;
use frit_llm::cache::CacheType;
use frit_llm::engine::{Reason, Settings};
use frit_llm::sample::Sampling;
use frit_llm::{Ask, Llm, Message, Options};

fn tiny(settings: Settings) -> Llm {
    let folder = data("../../../../tests-data/tiny/llama");
    Llm::open(folder, &Options::default(), Settings { cache: CacheType::F32, ..settings }).unwrap()
}
/// The same token again and again.
fn only(token: u32, count: usize) -> Ask {
    let sampling = Sampling { bias: vec![(token, 1e4)], ..Sampling::default() };
    Ask { max_tokens: count, sampling, ..Ask::default() }
}

#[test]
fn there_is_a_word_in_after_each_step_of_a_prompt() {
    let mut llm = tiny(Settings { budget: 16, sequences: 1, positions: 256, ..Settings::default() });
    let tokens = llm.encode("ab cd ").repeat(30);
    assert!(tokens.len() > 64);
    let mut steps = 0;
    let mut told = |piece: &str| {
        assert_eq!(piece, "");
        steps += 1;
        steps < 3
    };
    let answer = llm.generate(tokens, &only(5, 4), &mut told).unwrap();
    assert_eq!((answer.reason, answer.tokens.len(), steps), (Reason::Cancelled, 0, 3));
    assert!(llm.engine().counts().steps <= 3 && llm.engine().is_idle() | (llm.engine().load() == (0, 0)));
}

#[test]
fn part_of_a_character_is_shown_at_the_end() {
    let mut llm = tiny(Settings::default());
    let crab = *llm.text().tokenizer.encode_ordinary("🦀").first().unwrap();
    assert_eq!(llm.text().tokenizer.bytes(crab), Some(vec![0xf0]));
    let prompt = llm.encode("a");
    let mut text = String::new();
    let answer = llm.generate(prompt, &only(crab, 1), &mut |piece| {
        text.push_str(piece);
        true
    });
    assert_eq!((answer.unwrap().text.as_str(), text.as_str()), ("\u{fffd}", "\u{fffd}"));
}

#[test]
fn a_conversation_shifts_behind_its_system_message() {
    let mut llm = tiny(Settings { sequences: 1, positions: 64, ..Settings::default() });
    let said = |role: &str, content: &str| Message { role: role.into(), content: content.into() };
    let messages = [said("system", "Be brief."), said("user", "Say it."), said("assistant", "it")];
    let tokens = llm.conversation(&messages[..2]).unwrap();
    let keep = Llm::beginning(llm.text(), &llm.prompt(&messages[..2]).unwrap(), &tokens);
    let kept = llm.text().tokenizer.decode_all(&tokens[..keep]);
    assert!(kept.contains("Be brief.") && !kept.contains("Say"), "{kept}");
    // what begins it is the same with more behind it
    let longer = llm.conversation(&messages).unwrap();
    assert_eq!(Llm::beginning(llm.text(), &llm.prompt(&messages).unwrap(), &longer), keep);
    let mut ask = only(40, 200);
    let ended = llm.generate(tokens.clone(), &ask, &mut |_| true).unwrap();
    assert_eq!(ended.reason, Reason::Context);
    ask.shift = Some(keep);
    let went_on = llm.generate(tokens, &ask, &mut |_| true).unwrap();
    assert_eq!((went_on.reason, went_on.tokens.len()), (Reason::Length, 200));
}

#[test]
fn frequency_counts_all_of_an_answer_and_nothing_of_its_prompt() {
    let mut llm = tiny(Settings { sequences: 1, positions: 512, ..Settings::default() });
    let prompt = vec![40; 64];
    // the second is chosen once the first came about 100 times
    let sampling =
        Sampling { bias: vec![(40, 1e4 + 100.0), (41, 1e4)], frequency_penalty: 1.0, ..Sampling::default() };
    let ask = Ask { max_tokens: 150, sampling, ..Ask::default() };
    let answer = llm.generate(prompt, &ask, &mut |_| true).unwrap();
    let first = answer.tokens.iter().position(|t| *t == 41);
    assert!(first.is_some_and(|at| (80..120).contains(&at)), "{first:?} {:?}", answer.tokens);
}

#[test]
fn probabilities_of_tokens_are_told_where_they_are_asked_for() {
    let mut llm = tiny(Settings { sequences: 1, positions: 128, ..Settings::default() });
    let prompt = llm.encode("ab");
    let ask = Ask { max_tokens: 5, logprobs: Some(3), ..Ask::default() };
    let answer = llm.generate(prompt.clone(), &ask, &mut |_| true).unwrap();
    assert_eq!(answer.logprobs.len(), 5);
    for (token, told) in answer.tokens.iter().zip(&answer.logprobs) {
        // the likeliest was taken
        assert_eq!((told.top.len(), told.top[0]), (3, (*token, told.token)));
        assert!(told.top[0].1 >= told.top[1].1 && told.top[1].1 >= told.top[2].1 && told.token < 0.0);
    }
    let answer = llm.generate(prompt, &Ask { max_tokens: 5, ..Ask::default() }, &mut |_| true).unwrap();
    assert!(answer.logprobs.is_empty());
}
