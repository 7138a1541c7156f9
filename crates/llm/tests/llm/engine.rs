//! Steps against whole texts, and the engine: batches, prefixes, preemption, speculation.

use crate::data;
use crate::families::largest_difference;
use frit_llm::cache::CacheType;
use frit_llm::engine::{Engine, Event, Id, Reason, Request, Settings};
use frit_llm::sample::{Sampling, most_likely};
use frit_llm::step::{Chunk, Row, Sizes, Stepper};
use frit_llm::{Decoder, Options, open};
use std::collections::BTreeMap;
use std::sync::Arc;

fn model(name: &str) -> Arc<Decoder> {
    Arc::new(open(data(name), &Options::default()).unwrap())
}

fn settings() -> Settings {
    Settings { cache: CacheType::F32, positions: 1024, budget: 64, ..Settings::default() }
}

fn prompt(seed: usize, length: usize) -> Vec<u32> {
    (0..length).map(|i| ((i * 7 + seed * 13 + i * i * seed) % 40) as u32).collect()
}

/// The most likely tokens, each from the logits of the whole text before it.
fn greedy(model: &Decoder, tokens: &[u32], count: usize) -> Vec<u32> {
    let mut all = tokens.to_vec();
    for _ in 0..count {
        let logits = model.whole(&all).unwrap().to_vec::<f32>().unwrap();
        all.push(most_likely(&logits[logits.len() - 40..]).unwrap());
    }
    all[tokens.len()..].to_vec()
}

/// Runs until nothing is left to do: the tokens and the end of each request.
fn run(engine: &mut Engine) -> Answers {
    let mut all = Answers::new();
    while !engine.is_idle() {
        step(engine, &mut all);
    }
    all
}

type Answers = BTreeMap<u64, (Vec<u32>, Option<Reason>)>;

fn step(engine: &mut Engine, all: &mut Answers) {
    for event in engine.step().unwrap() {
        match event {
            Event::Token { id, token, .. } => all.entry(id).or_default().0.push(token),
            Event::Done { id, reason } => all.entry(id).or_default().1 = Some(reason),
        }
    }
}

#[test]
fn steps_give_the_logits_of_whole_texts() {
    for name in ["llama", "gemma2", "gpt2", "mixtral", "mistral"] {
        let m = model(name);
        let texts = [prompt(1, 40), prompt(2, 38)];
        let want: Vec<Vec<f32>> = texts.iter().map(|t| m.whole(t).unwrap().to_vec().unwrap()).collect();
        let sizes = Sizes { rows: vec![1, 2, 4], chunks: vec![16] };
        let mut steps = Stepper::new(m.clone(), 8, CacheType::F32, sizes).unwrap();
        // blocks out of order, chunks that end inside one
        let blocks = [[5, 2], [1, 7]];
        for (text, blocks) in texts.iter().zip(&blocks) {
            for (begin, end) in [(0, 16), (16, 25), (25, 34)] {
                let chunk = Chunk { tokens: &text[begin..end], begin, blocks, all: true };
                steps.run(&[], Some(chunk)).unwrap();
            }
        }
        for at in 34..38 {
            let rows: Vec<Row> = texts
                .iter()
                .zip(&blocks)
                .map(|(t, blocks)| Row { token: t[at], position: at, blocks })
                .collect();
            let logits = steps.run(&rows, None).unwrap();
            for (i, w) in want.iter().enumerate() {
                let off = largest_difference(&logits[i * 40..(i + 1) * 40], &w[at * 40..(at + 1) * 40]);
                assert!(off < 2e-4, "{name}, text {i} at {at}: off by {off}");
            }
        }
        // a row beside a chunk
        let row = Row { token: texts[0][38], position: 38, blocks: &blocks[0] };
        let chunk = Chunk { tokens: &texts[1][36..38], begin: 36, blocks: &blocks[1], all: false };
        let logits = steps.run(&[row], Some(chunk)).unwrap();
        assert!(largest_difference(&logits[..40], &want[0][38 * 40..39 * 40]) < 2e-4, "{name}");
        assert!(largest_difference(&logits[40..], &want[1][37 * 40..]) < 2e-4, "{name}");
    }
}

#[test]
fn keys_and_values_in_few_bits_are_nearly_the_same() {
    let m = model("llama");
    let text = prompt(3, 16);
    let want = m.whole(&text).unwrap().to_vec::<f32>().unwrap();
    for (kind, most) in [(CacheType::F16, 0.02), (CacheType::BF16, 0.15), (CacheType::Int8, 0.3)] {
        let mut steps = Stepper::new(m.clone(), 2, kind, Sizes::up_to(1, 16)).unwrap();
        let chunk = Chunk { tokens: &text, begin: 0, blocks: &[1], all: true };
        let off = largest_difference(&steps.run(&[], Some(chunk)).unwrap(), &want);
        assert!(off > 0.0 && off < most, "{kind:?}: off by {off}");
    }
}

#[test]
fn requests_that_come_and_go_each_get_their_own_answer() {
    let m = model("llama");
    let mut engine = Engine::new(m.clone(), Settings { sequences: 4, ..settings() }).unwrap();
    let lengths = [3, 50, 70, 33, 5, 90];
    let ids: Vec<u64> =
        (0..3).map(|i| engine.submit(Request::new(prompt(i, lengths[i]), 12)).unwrap()).collect();
    let mut found = Answers::new();
    for _ in 0..3 {
        step(&mut engine, &mut found);
    }
    // others join in the middle
    let later: Vec<u64> =
        (3..6).map(|i| engine.submit(Request::new(prompt(i, lengths[i]), 12)).unwrap()).collect();
    while !engine.is_idle() {
        step(&mut engine, &mut found);
    }
    for (i, id) in ids.iter().chain(&later).enumerate() {
        let want = greedy(&m, &prompt(i, lengths[i]), 12);
        assert_eq!(found[id], (want, Some(Reason::Length)), "request {i}");
    }
    let (free, all) = engine.memory();
    assert_eq!(free, all, "every block came back");
}

#[test]
fn a_prefix_that_was_seen_is_not_computed_again() {
    let m = model("llama");
    let mut engine = Engine::new(m.clone(), settings()).unwrap();
    let first = prompt(4, 100);
    engine.submit(Request::new(first.clone(), 1)).unwrap();
    run(&mut engine);
    let before = engine.counts();
    let mut second = first[..96].to_vec();
    second.extend([1, 2, 3]);
    engine.submit(Request::new(second.clone(), 5)).unwrap();
    let answer = run(&mut engine).into_values().next().unwrap().0;
    assert_eq!(engine.counts().shared - before.shared, 96);
    assert_eq!(engine.counts().prompt - before.prompt, 3);
    assert_eq!(answer, greedy(&m, &second, 5));
}

#[test]
fn requests_that_begin_together_compute_what_they_share_once() {
    let m = model("llama");
    let first = prompt(4, 100);
    let mut other = first[..70].to_vec();
    other.extend([1, 2, 3, 4, 5]);
    let texts = [&first, &first, &other, &first];
    let want: Vec<Vec<u32>> = texts.iter().map(|t| greedy(&m, t, 6)).collect();
    for (budget, deterministic) in [(64, false), (50, false), (64, true)] {
        let s = Settings { budget, deterministic, ..settings() };
        let mut engine = Engine::new(m.clone(), s).unwrap();
        let ids = texts.map(|t| engine.submit(Request::new(t.clone(), 6)).unwrap());
        let (mut found, mut least) = (Answers::new(), usize::MAX);
        while !engine.is_idle() {
            step(&mut engine, &mut found);
            least = least.min(engine.memory().0);
        }
        for (id, want) in ids.iter().zip(&want) {
            assert_eq!(found[id], (want.clone(), Some(Reason::Length)), "a budget of {budget}");
        }
        // three blocks of the first text and two of the other, where chunks begin at every second block one fewer of three
        let shared = if deterministic { 3 * 64 } else { 2 * 96 + 64 };
        let counts = engine.counts();
        assert_eq!((counts.shared, counts.prompt), (shared, 375 - shared), "a budget of {budget}");
        let (free, all) = engine.memory();
        assert_eq!(free, all, "every block came back");
        // one text has four blocks; beside it each has what it does not share
        assert!(deterministic || all - least <= 4 + 1 + 1 + 1, "{} blocks at once", all - least);
    }
}

#[test]
fn a_request_shares_what_another_computed_since_it_began() {
    let m = model("llama");
    let mut engine = Engine::new(m.clone(), settings()).unwrap();
    // its row takes a token of every step, so that chunks of others end inside a block
    let busy = engine.submit(Request::new(prompt(1, 5), 30)).unwrap();
    let mut found = Answers::new();
    step(&mut engine, &mut found);
    let text = prompt(4, 110);
    let ids = [0, 1, 2].map(|_| engine.submit(Request::new(text.clone(), 5)).unwrap());
    while !engine.is_idle() {
        step(&mut engine, &mut found);
    }
    assert_eq!(found[&busy].0, greedy(&m, &prompt(1, 5), 30));
    ids.iter().for_each(|id| assert_eq!(found[id].0, greedy(&m, &text, 5)));
    assert_eq!(engine.counts().shared, 2 * 96);
    assert_eq!(engine.memory().0, engine.memory().1);
}

#[test]
fn a_request_waits_for_no_more_blocks_than_it_does_not_share() {
    let m = model("llama");
    // five blocks, of which a text of 100 tokens has four
    let mut engine = Engine::new(m.clone(), Settings { positions: 160, ..settings() }).unwrap();
    let text = prompt(4, 100);
    let first = engine.submit(Request::new(text.clone(), 8)).unwrap();
    let mut found = Answers::new();
    step(&mut engine, &mut found);
    step(&mut engine, &mut found);
    let second = engine.submit(Request::new(text.clone(), 8)).unwrap();
    // one that shares nothing does not fit beside them
    let other = engine.submit(Request::new(prompt(5, 60), 8)).unwrap();
    step(&mut engine, &mut found);
    assert_eq!((engine.load(), engine.counts().shared), ((2, 1), 96));
    while !engine.is_idle() {
        step(&mut engine, &mut found);
    }
    [first, second].iter().for_each(|id| assert_eq!(found[id].0, greedy(&m, &text, 8)));
    assert_eq!(found[&other].0, greedy(&m, &prompt(5, 60), 8));
    assert_eq!((engine.counts().preempted, engine.memory().0), (0, engine.memory().1));
}

#[test]
fn out_of_blocks_the_newest_waits_and_nothing_is_lost() {
    let m = model("llama");
    // four blocks: two sequences of up to two blocks each, or one of three and one of one
    let small = Settings { positions: 128, sequences: 3, ..settings() };
    let mut engine = Engine::new(m.clone(), small).unwrap();
    let texts = [prompt(1, 30), prompt(2, 28), prompt(3, 31)];
    let ids: Vec<u64> = texts.iter().map(|t| engine.submit(Request::new(t.clone(), 40)).unwrap()).collect();
    let found = run(&mut engine);
    for (text, id) in texts.iter().zip(&ids) {
        assert_eq!(found[id], (greedy(&m, text, 40), Some(Reason::Length)));
    }
    assert!(engine.counts().preempted > 0);
    assert_eq!(engine.memory().0, engine.memory().1);
}

#[test]
fn a_cancelled_request_gives_back_its_blocks_and_leaves_others_alone() {
    let m = model("llama");
    let mut engine = Engine::new(m.clone(), settings()).unwrap();
    let keep = engine.submit(Request::new(prompt(1, 20), 8)).unwrap();
    let gone = engine.submit(Request::new(prompt(2, 20), 500)).unwrap();
    let mut found = Answers::new();
    step(&mut engine, &mut found);
    step(&mut engine, &mut found);
    engine.cancel(gone);
    while !engine.is_idle() {
        step(&mut engine, &mut found);
    }
    assert_eq!(found[&gone].1, Some(Reason::Cancelled));
    let tokens = &found[&keep].0;
    assert_eq!(*tokens, greedy(&m, &prompt(1, 20), 8));
    assert_eq!(engine.memory().0, engine.memory().1);
}

#[test]
fn greedy_speculation_equals_plain_greedy() {
    let (m, draft) = (model("llama"), model("llama_linear"));
    for draft in [draft, m.clone()] {
        let is_same = Arc::ptr_eq(&draft, &m);
        let mut engine = Engine::with_draft(m.clone(), Some(draft), settings()).unwrap();
        let text = prompt(5, 21);
        engine.submit(Request::new(text.clone(), 30)).unwrap();
        let answer = run(&mut engine).into_values().next().unwrap().0;
        assert_eq!(answer, greedy(&m, &text, 30));
        let counts = engine.counts();
        assert!(counts.drafted > 0, "{counts:?}");
        // a draft that is the model itself is always right
        assert!(!is_same || counts.steps < 10, "{counts:?}");
    }
}

#[test]
fn sampled_speculation_keeps_the_distribution() {
    let (m, draft) = (model("llama"), model("llama_linear"));
    let text = prompt(6, 9);
    let sampling = |seed| Sampling { temperature: 3.0, top_k: 6, seed: Some(seed), ..Sampling::default() };
    let count = |draft: Option<Arc<Decoder>>, seeds: std::ops::Range<u64>| {
        let mut engine = Engine::with_draft(m.clone(), draft, settings()).unwrap();
        let mut counts: BTreeMap<u32, f64> = BTreeMap::new();
        for seed in seeds {
            // the second token is the first that a draft proposes
            engine.submit(Request { sampling: sampling(seed), ..Request::new(text.clone(), 3) }).unwrap();
            let tokens = run(&mut engine).into_values().next().unwrap().0;
            *counts.entry(tokens[1]).or_default() += 1.0;
        }
        counts
    };
    let plain = count(None, 0..1500);
    let drafted = count(Some(draft), 5000..6500);
    let (mut chi, mut kinds) = (0.0, 0);
    for token in plain.keys().chain(drafted.keys()).collect::<std::collections::BTreeSet<_>>() {
        let of = |c: &BTreeMap<u32, f64>| c.get(token).copied().unwrap_or(0.0);
        let (a, b) = (of(&plain), of(&drafted));
        if a + b >= 10.0 {
            chi += (a - b).powi(2) / (a + b);
            kinds += 1;
        }
    }
    // two samples of one distribution: chi-square with kinds - 1 degrees of freedom, five deviations above
    let most = kinds as f64 + 5.0 * (2.0 * kinds as f64).sqrt();
    assert!(kinds > 5 && chi < most, "chi-square {chi} of {kinds} kinds");
}

#[test]
fn nothing_compiles_after_warming_up() {
    let (m, draft) = (model("llama"), model("llama_linear"));
    for draft in [None, Some(draft)] {
        let small = Settings { sequences: 3, positions: 512, budget: 32, ..settings() };
        let is_drafted = draft.is_some();
        let mut engine = Engine::with_draft(m.clone(), draft, small).unwrap();
        engine.warm_up().unwrap();
        let made = || {
            let s = frit_engine::stats::stats();
            [s.compiles, s.schedules, s.captures]
        };
        let before = made();
        let ask = |i: usize| {
            let drawn =
                Sampling { temperature: 1.0, top_p: 0.9, seed: Some(i as u64), ..Sampling::default() };
            let sampling = if i.is_multiple_of(2) { Sampling::default() } else { drawn };
            Request {
                sampling,
                logprobs: i.is_multiple_of(3).then_some(2),
                ..Request::new(prompt(i, 5 + 17 * i), 6 + i)
            }
        };
        for i in 0..7 {
            engine.submit(ask(i)).unwrap();
            engine.step().unwrap();
        }
        run(&mut engine);
        // alone, so that a draft proposes, of most likely tokens and of drawn ones, with probabilities and without
        for i in 0..4 {
            engine.submit(ask(i)).unwrap();
            run(&mut engine);
        }
        assert_eq!(made(), before, "kernels compiled, graphs scheduled, programs recorded");
        assert_eq!(engine.counts().drafted > 0, is_drafted);
    }
}

/// Natural logarithms of the probabilities of the next token, by plain sums in float64.
fn log_softmax(model: &Decoder, tokens: &[u32]) -> Vec<f64> {
    let logits = model.whole(tokens).unwrap().to_vec::<f32>().unwrap();
    let last = logits[logits.len() - 40..].iter().map(|l| f64::from(*l)).collect::<Vec<_>>();
    let sum = last.iter().map(|l| l.exp()).sum::<f64>().ln();
    last.iter().map(|l| l - sum).collect()
}

#[test]
fn log_probabilities_are_those_of_the_plain_model() {
    let (m, draft) = (model("llama"), model("llama_linear"));
    let text = prompt(2, 20);
    // they are told before a bias, a temperature and cuts change what is drawn
    let drawn =
        Sampling { temperature: 1.5, top_k: 5, bias: vec![(7, 2.0)], seed: Some(3), ..Sampling::default() };
    for (sampling, draft) in [
        (Sampling::default(), None),
        (drawn.clone(), None),
        (Sampling::default(), Some(draft.clone())),
        (drawn, Some(draft)),
    ] {
        let mut engine = Engine::with_draft(m.clone(), draft, settings()).unwrap();
        let asked =
            Request { sampling: sampling.clone(), logprobs: Some(3), ..Request::new(text.clone(), 12) };
        engine.submit(asked).unwrap();
        let (mut tokens, mut told) = (text.clone(), 0);
        while !engine.is_idle() {
            for event in engine.step().unwrap() {
                let Event::Token { token, logprobs, .. } = event else { continue };
                let (want, found) = (log_softmax(&m, &tokens), logprobs.unwrap());
                let near =
                    |a: f32, b: f64| assert!((f64::from(a) - b).abs() < 2e-4, "{a} and {b}, {sampling:?}");
                near(found.token, want[token as usize]);
                let mut best: Vec<usize> = (0..40).collect();
                best.sort_by(|a, b| want[*b].total_cmp(&want[*a]));
                assert_eq!(found.top.len(), 3);
                for ((t, p), b) in found.top.iter().zip(&best) {
                    assert_eq!(*t as usize, *b);
                    near(*p, want[*b]);
                }
                tokens.push(token);
                told += 1;
            }
        }
        assert_eq!(told, 12);
    }
}

#[test]
fn a_context_that_moved_on_is_that_of_the_shorter_text() {
    // of the second model positions are vectors of their own
    for (name, context, keep, count) in [("llama", 128, 4, 40), ("llama", 128, 40, 60), ("gpt2", 64, 3, 50)] {
        let m = model(name);
        let mut engine = Engine::new(m.clone(), settings()).unwrap();
        let mut text = prompt(1, context - 8);
        let id = engine.submit(Request { shift: Some(keep), ..Request::new(text.clone(), count) }).unwrap();
        let (found, reason) = run(&mut engine).remove(&id).unwrap();
        let mut moves = 0;
        for (i, token) in found.iter().enumerate() {
            assert_eq!(vec![*token], greedy(&m, &text, 1), "{name}: token {i} after {moves} moves");
            text.push(*token);
            if text.len() == context {
                // the older half behind what is kept goes, and all that is left moves to the front
                text.drain(keep..keep + (context - keep) / 2);
                moves += 1;
            }
        }
        assert_eq!((found.len(), reason), (count, Some(Reason::Length)));
        assert!(moves >= if name == "gpt2" { 2 } else { 1 }, "{moves}");
        // what is kept is the same as before
        assert_eq!(engine.counts().shared, (keep / 32 * 32 * moves) as u64);
    }
}

/// Runs a test in a process of its own. What a thread has computed of constants others of the process find in memory, as equal
/// graphs are one, so a kernel may be another beside them, whose sums have another order.
fn in_a_process_of_its_own(name: &str, test: fn()) {
    if std::env::var_os("FRIT_TEST_CHILD").is_some() {
        return test();
    }
    let mut child = std::process::Command::new(std::env::current_exe().unwrap());
    let out = child.args(["--exact", name]).env("FRIT_TEST_CHILD", "1").output().unwrap();
    let said = String::from_utf8_lossy(&out.stdout);
    assert!(
        out.status.success() && said.contains("1 passed"),
        "{said}{}",
        String::from_utf8_lossy(&out.stderr)
    );
}

#[test]
fn a_deterministic_answer_depends_on_no_other_request() {
    in_a_process_of_its_own("engine::a_deterministic_answer_depends_on_no_other_request", no_other_request);
}

fn no_other_request() {
    let m = model("llama");
    let alone = Settings { deterministic: true, ..settings() };
    let ask = |seed| Request {
        sampling: Sampling { temperature: 2.0, seed: Some(seed), ..Sampling::default() },
        logprobs: Some(1),
        ..Request::new(prompt(1, 70), 20)
    };
    let answer = |others: usize| {
        let mut engine = Engine::new(m.clone(), alone.clone()).unwrap();
        for i in 0..others {
            engine.submit(Request::new(prompt(i + 1, 65 + i), 9)).unwrap();
        }
        let id = engine.submit(ask(7)).unwrap();
        let mut found = vec![];
        while !engine.is_idle() {
            found.extend(engine.step().unwrap().into_iter().filter_map(|e| match e {
                Event::Token { id: of, token, logprobs } if of == id => {
                    Some((token, logprobs.unwrap().token.to_bits()))
                }
                _ => None,
            }));
        }
        found
    };
    let first = answer(0);
    assert_eq!(first.len(), 20);
    assert_eq!(first, answer(3));
}

#[test]
fn a_deterministic_answer_is_the_same_after_one_that_its_prompt_holds() {
    in_a_process_of_its_own(
        "engine::a_deterministic_answer_is_the_same_after_one_that_its_prompt_holds",
        after_one_that_its_prompt_holds,
    );
}

fn after_one_that_its_prompt_holds() {
    let m = model("llama");
    let alone = Settings { deterministic: true, ..settings() };
    let asked = |tokens: Vec<u32>, most| Request { logprobs: Some(1), ..Request::new(tokens, most) };
    let answer = |engine: &mut Engine, tokens: &[u32], most| -> (Vec<u32>, Vec<u32>) {
        engine.submit(asked(tokens.to_vec(), most)).unwrap();
        let mut found = vec![];
        while !engine.is_idle() {
            found.extend(engine.step().unwrap());
        }
        let of = |e: Event| match e {
            Event::Token { token, logprobs, .. } => Some((token, logprobs?.token.to_bits())),
            Event::Done { .. } => None,
        };
        found.into_iter().filter_map(of).unzip()
    };
    let mut engine = Engine::new(m.clone(), alone.clone()).unwrap();
    let mut talk = prompt(1, 20);
    let (told, _) = answer(&mut engine, &talk, 60);
    talk.extend(told);
    talk.extend(prompt(2, 5));
    let second = answer(&mut engine, &talk, 20);
    assert_eq!(second, answer(&mut Engine::new(m, alone).unwrap(), &talk, 20));
}

#[test]
fn a_context_may_be_shorter_than_a_steps_budget() {
    let m = model("llama"); // 128 positions
    for deterministic in [false, true] {
        for positions in [32, 64, 512] {
            let s = Settings { budget: 512, positions, deterministic, ..settings() };
            let mut engine = Engine::new(m.clone(), s).unwrap();
            engine.warm_up().unwrap();
            let id = engine.submit(Request::new(prompt(1, 40), 5)).unwrap();
            assert_eq!(run(&mut engine)[&id].0.len(), 5);
        }
    }
}

#[test]
fn a_group_of_many_requests_does_not_hold_up_another() {
    let few = Settings { sequences: 2, ..settings() };
    let mut engine = Engine::new(model("llama"), few).unwrap();
    let ask = |group, i| Request { group, ..Request::new(prompt(i, 10), 6) };
    let many: Vec<Id> = (0..8).map(|i| engine.submit(ask(1, i)).unwrap()).collect();
    let other = engine.submit(ask(2, 9)).unwrap();
    let mut ended = vec![];
    while !engine.is_idle() {
        let done = |e| if let Event::Done { id, .. } = e { Some(id) } else { None };
        ended.extend(engine.step().unwrap().into_iter().filter_map(done));
    }
    let at = |id: Id| ended.iter().position(|e| *e == id).unwrap();
    assert!(at(other) < 4 && at(other) > at(many[0]), "{ended:?}");
    assert_eq!(ended.iter().filter(|e| many.contains(e)).copied().collect::<Vec<_>>(), many);
}

#[test]
fn a_full_context_ends_or_moves_on() {
    let m = model("llama"); // 128 positions
    let mut engine = Engine::new(m, settings()).unwrap();
    let ends = engine.submit(Request::new(prompt(1, 120), 50)).unwrap();
    let moves = engine.submit(Request { shift: Some(4), ..Request::new(prompt(1, 120), 50) }).unwrap();
    let found = run(&mut engine);
    assert_eq!((found[&ends].0.len(), &found[&ends].1), (8, &Some(Reason::Context)));
    assert_eq!((found[&moves].0.len(), &found[&moves].1), (50, &Some(Reason::Length)));
}

#[test]
fn requests_that_make_no_sense_are_refused() {
    let mut engine = Engine::new(model("llama"), settings()).unwrap();
    let mut refused = |r: Request, says: &str| {
        let why = engine.submit(r).unwrap_err().to_string();
        assert!(why.contains(says), "{why}");
    };
    refused(Request::new(vec![], 1), "empty");
    refused(Request::new(vec![40], 1), "token 40 of a model that has 40");
    refused(Request::new(vec![1; 128], 1), "a prompt of 128 tokens for a context of 128");
    let sampling = Sampling { temperature: f32::NAN, ..Sampling::default() };
    refused(Request { sampling, ..Request::new(vec![1], 1) }, "temperature");
    assert!(engine.is_idle());
}
