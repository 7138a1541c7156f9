//! Recordings that someone changed: whatever the bytes, loading one and calling it is a result or an error. They run on
//! the interpreter, which finds out where a kernel leaves its memory.

use frit_tensor::{DType, Device, Jit, Tensor, Variable};

type Recorded = Jit<Vec<Tensor>, Vec<Tensor>>;

/// FNV-1a, as the format has it.
fn checksum(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |s, b| (s ^ u64::from(*b)).wrapping_mul(0x0100_0000_01b3))
}
/// The same bytes with a checksum that fits.
fn signed(mut bytes: Vec<u8>) -> Vec<u8> {
    let end = bytes.len().saturating_sub(8);
    let sum = checksum(&bytes[..end]);
    bytes[end..].copy_from_slice(&sum.to_le_bytes());
    bytes
}
fn find(bytes: &[u8], what: &[u8], from: usize) -> Option<usize> {
    bytes[from..].windows(what.len()).position(|w| w == what).map(|i| from + i)
}
/// Where the listings are.
fn listings(bytes: &[u8]) -> Vec<std::ops::Range<usize>> {
    let (mut all, mut from) = (vec![], 8);
    while let Some(at) = find(bytes, b"%0 = ", from) {
        let len = u64::from_le_bytes(bytes[at - 8..at].try_into().unwrap()) as usize;
        all.push(at..at + len);
        from = at + len;
    }
    all
}
/// The bytes with a listing in which something is replaced once, and its length.
fn relisted(bytes: &[u8], old: &str, new: &str) -> Vec<Vec<u8>> {
    let change = |r: std::ops::Range<usize>| {
        let text = std::str::from_utf8(&bytes[r.clone()]).unwrap();
        let changed = Some(text.replacen(old, new, 1)).filter(|t| t != text)?;
        let mut out = bytes[..r.start - 8].to_vec();
        out.extend((changed.len() as u64).to_le_bytes());
        out.extend(changed.as_bytes());
        out.extend(&bytes[r.end..]);
        Some(signed(out))
    };
    listings(bytes).into_iter().filter_map(change).collect()
}

fn recorded(jit: Recorded, inputs: &dyn Fn(i64) -> Vec<Tensor>) -> Vec<u8> {
    (1..=4).for_each(|i| _ = jit.call(inputs(i)).unwrap());
    jit.to_bytes().unwrap()
}

/// A function of its number of call, which gives its inputs.
type Inputs = Box<dyn Fn(i64) -> Vec<Tensor>>;

/// Programs with everything in them that a file can have: gates, data that are indices, sizes that vary, intermediates,
/// state, random numbers.
fn programs() -> Vec<(&'static str, Vec<u8>, Inputs)> {
    let x = |i: i64| Tensor::arange(12).reshape([3, 4]).float().contiguous() + i as f64;
    let mut all: Vec<(&'static str, Recorded, Inputs)> = vec![];
    let plain =
        |v: Vec<Tensor>| Ok(vec![v[0].pad(&[(1, 0), (0, 2)], 0.0).cumsum(0), v[0].at(1..).matmul(&v[0].t())]);
    all.push(("plain", Jit::new(plain), Box::new(move |i| vec![x(i)])));
    let taken = |v: Vec<Tensor>| Ok(vec![v[0].index_select(0, &v[1]) * 2.0, v[0].flip(0) + 1.0]);
    all.push((
        "taken",
        Jit::new(taken),
        Box::new(move |i| vec![x(i), Tensor::new([2i64, 0, 1]).contiguous()]),
    ));
    let n = Variable::new("n", 1, 4).unwrap();
    let varying = |v: Vec<Tensor>| Ok(vec![v[0].sum(0), v[0].clone() * 2.0]);
    let data = Tensor::arange(16).reshape([4, 4]).contiguous();
    all.push(("varying", Jit::new(varying), Box::new(move |i| vec![data.at(..n.bind(i % 4 + 1).unwrap())])));
    let total = Tensor::zeros([4]).contiguous();
    let steps = move |v: Vec<Tensor>| {
        let y = v[0].softmax(1).contiguous();
        let z = (&y - y.mean(0)).contiguous();
        total.assign(&total + z.sum(0) + Tensor::rand([4]));
        Ok(vec![&total * 2.0, z.exp()])
    };
    all.push(("steps", Jit::new(steps), Box::new(move |i| vec![x(i)])));
    all.into_iter().map(|(name, jit, inputs)| (name, recorded(jit, &*inputs), inputs)).collect()
}

/// On the interpreter, with room on the stack for deep walks in builds that are not optimised.
fn on_interpreter(f: impl FnOnce() + Send + 'static) {
    let run = || Device::scope("INTERP", f).unwrap();
    std::thread::Builder::new().stack_size(16 << 20).spawn(run).unwrap().join().unwrap();
}

/// Load and call: an error, or results; never a kernel that leaves its memory.
fn outcome(bytes: &[u8], inputs: &Inputs) -> Result<(), String> {
    let jit = Recorded::of_bytes(bytes).map_err(|e| e.to_string())?;
    let called = (1..=3).try_for_each(|i| {
        let results = jit.call(inputs(i))?;
        results.iter().try_for_each(|r| r.cast(DType::F32).to_vec::<f32>().map(|_| ()))
    });
    let called = called.map_err(|e| e.to_string());
    if let Err(e) = &called {
        // iterations that write to one element give one value or another, inside all the same
        let is_wrong =
            e.contains("is wrong: instruction") && !e.contains("by another lane or thread iteration");
        assert!(!is_wrong, "a kernel left its memory: {e}");
    }
    called
}

#[test]
fn saved_recordings_load_as_they_are() {
    on_interpreter(|| {
        for (name, bytes, inputs) in programs() {
            assert_eq!(outcome(&bytes, &inputs), Ok(()), "{name}");
            assert_eq!(signed(bytes.clone()), bytes);
        }
    });
}

#[test]
fn a_changed_constant_in_a_listing_is_refused() {
    on_interpreter(|| {
        let mut refused = 0;
        for (name, bytes, inputs) in programs() {
            // longer loops, shorter buffers, larger steps, gates that let everything through
            for (old, new) in [
                ("Range:index 4 ", "Range:index 5 "),
                ("Range:index 3 ", "Range:index 4000000 "),
                ("Range:index 4 ", "Range:index -4 "),
                (" 12}", " 11}"),
                (" 12}", " 9223372036854775807}"),
                ("Mul:index %2 4", "Mul:index %2 5"),
                ("Mul:index %3 4", "Mul:index %3 4611686018427387904"),
                ("Lt:bool", "Ne:bool"),
                (" 3:int64", " 4:int64"),
                ("{n 1 4}", "{n 1 5}"),
                ("{n 1 4}", "{n -9 4}"),
                ("{Global 0}", "{Warp 0}"),
                ("{Global 0}", "{Reduce 0}"),
            ] {
                for changed in relisted(&bytes, old, new) {
                    match outcome(&changed, &inputs) {
                        Err(_) => refused += 1,
                        // a buffer that the file has to itself may be shorter than it was
                        Ok(()) => {
                            assert!(old != "Range:index 4 " && !old.contains("{n"), "{name}: {old} -> {new}")
                        }
                    }
                }
            }
        }
        assert!(refused > 20, "{refused}");
    });
}

#[test]
fn the_error_names_the_kernel_and_the_index() {
    on_interpreter(|| {
        let inputs: Inputs = Box::new(|i| vec![Tensor::full([8], i as f64).contiguous()]);
        let jit = Jit::new(|v: Vec<Tensor>| Ok(vec![&v[0] * 2.0]));
        let bytes = recorded(jit, &inputs);
        for changed in relisted(&bytes, "Range:index 8 ", "Range:index 9 ") {
            let why = outcome(&changed, &inputs).unwrap_err();
            assert!(why.contains("is not proven to be inside its 8 elements: it lies in 0..=8"), "{why}");
            assert!(why.contains("kernel ") && why.contains("Range:index 9 {Global 0}"), "{why}");
        }
    });
}

#[test]
fn a_variable_outside_its_range_is_an_error_at_the_call() {
    on_interpreter(|| {
        let (n, wide) = (Variable::new("n", 1, 4).unwrap(), Variable::new("n", 1, 8).unwrap());
        let data = Tensor::arange(8).contiguous();
        let jit = Jit::new(|v: Vec<Tensor>| Ok(vec![&v[0] * 2]));
        let of = data.clone();
        let bytes = recorded(jit, &move |i| vec![of.at(..n.bind(i).unwrap())]);
        let jit = Recorded::of_bytes(&bytes).unwrap();
        assert!(jit.call(vec![data.at(..wide.bind(7).unwrap())]).is_err());
        // a file whose input may be longer than its kernels are for
        for changed in relisted(&bytes, "{n 1 4}", "{n 1 8}") {
            let inputs: Inputs = {
                let (data, wide) = (data.clone(), Variable::new("n", 1, 8).unwrap());
                Box::new(move |i| vec![data.at(..wide.bind(i + 4).unwrap())])
            };
            assert!(outcome(&changed, &inputs).is_err());
        }
    });
}

/// A small random number generator (xorshift).
struct Random(u64);
impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % n.max(1) as u64) as usize
    }
}

const OPS: [&str; 14] =
    ["Add", "Sub", "Mul", "Idiv", "Mod", "Max", "Min", "Lt", "Eq", "Ne", "And", "Or", "Load", "Where"];

/// One change, which moves nothing: the listings stay at these places. Numbers in them keep their length, so that no loop
/// takes forever.
fn mutate(bytes: &mut [u8], texts: &[std::ops::Range<usize>], r: &mut Random) {
    let text = texts[r.below(texts.len())].clone();
    match r.below(8) {
        // a digit of a listing
        0..=3 => {
            let digits: Vec<usize> = text.filter(|i| bytes[*i].is_ascii_digit()).collect();
            let at = digits[r.below(digits.len())];
            bytes[at] = b'0' + r.below(10) as u8;
        }
        // an operation of a listing
        4 => {
            let (old, new) = (OPS[r.below(OPS.len())], OPS[r.below(OPS.len())]);
            let found = find(bytes, old.as_bytes(), text.start).filter(|at| *at + old.len() < text.end);
            if let Some(at) = found.filter(|_| old.len() == new.len()) {
                bytes[at..at + old.len()].copy_from_slice(new.as_bytes());
            }
        }
        // a number outside the listings
        5 | 6 => {
            let outside = |at: &usize| texts.iter().all(|t| *at + 8 <= t.start || *at >= t.end);
            let at = 16 + r.below(bytes.len() - 32);
            if outside(&at) {
                let old = u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
                let values = [
                    0,
                    1,
                    old + (old < u64::MAX) as u64,
                    old.saturating_sub(1),
                    64,
                    u64::MAX,
                    1 << 63,
                    old / 2,
                ];
                bytes[at..at + 8].copy_from_slice(&values[r.below(values.len())].to_le_bytes());
            }
        }
        _ => {
            let at = 8 + r.below(bytes.len() - 16);
            bytes[at] ^= 1 << r.below(8);
        }
    }
}

#[test]
fn thousands_of_changed_recordings_give_results_or_errors() {
    on_interpreter(|| {
        let mut r = Random(0x9E37_79B9_7F4A_7C15);
        let (mut loaded, programs) = (0, programs());
        for i in 0..4000 {
            let (_, bytes, inputs) = &programs[i % programs.len()];
            let mut changed = bytes.clone();
            let texts = listings(bytes);
            (0..1 + r.below(3)).for_each(|_| mutate(&mut changed, &texts, &mut r));
            loaded += outcome(&signed(changed), inputs).is_ok() as usize;
        }
        // a factor or another constant of the arithmetic may be anything
        assert!((100..3900).contains(&loaded), "{loaded}");
    });
}

#[test]
fn places_in_memory_are_checked() {
    on_interpreter(|| {
        let programs = programs();
        let (_, bytes, inputs) = &programs[3];
        // kind 3: an intermediate at an offset, so many bytes; fewer would be a list of three
        let (mut changed, mut refused) = (0, 0);
        for at in (8..bytes.len() - 32)
            .filter(|at| listings(bytes).iter().all(|l| at + 24 <= l.start || *at >= l.end))
        {
            let number = |i: usize| u64::from_le_bytes(bytes[at + 8 * i..at + 8 * i + 8].try_into().unwrap());
            if number(0) != 3 || number(1) % 64 != 0 || !(16..=4096).contains(&number(2)) || number(1) > 4096
            {
                continue;
            }
            for (which, value) in
                [(1, 1 << 20), (1, u64::MAX - 8), (1, 4), (2, 0), (2, u64::MAX), (0, 2), (0, 9)]
            {
                let mut new = bytes.clone();
                new[at + 8 * which..at + 8 * which + 8].copy_from_slice(&u64::to_le_bytes(value));
                changed += 1;
                refused += outcome(&signed(new), inputs).is_err() as usize;
            }
        }
        assert!(changed >= 14 && refused == changed, "{refused} of {changed}");
    });
}

#[test]
fn memory_that_takes_the_place_of_kept_memory_is_checked() {
    on_interpreter(|| {
        // two that are as large, of which one is truth values, and one that is larger; their old values are held
        let truth = Tensor::new([true, false, true]).contiguous();
        let bytes = Tensor::from_slice(&[7u8, 8, 9]);
        let wide = Tensor::from_slice(&[1u8, 2, 3, 4]);
        let all = [truth, bytes, wide].map(|t| t.realize().unwrap());
        let jit = Jit::new(move |v: Vec<Tensor>| {
            let old = all.each_ref().map(|t| t.cast(DType::I32) + 1);
            all[0].assign(all[0].logical_not());
            all[1].assign(&all[1] + v[0].cast(DType::U8));
            all[2].assign(&all[2] + v[0].cast(DType::U8).sum(..));
            Tensor::realize_all(&[&all[0], &all[1], &all[2]])?;
            Ok(old.to_vec())
        });
        let inputs: Inputs = Box::new(|i| vec![Tensor::full([3], i as f64).contiguous()]);
        let bytes = recorded(jit, &inputs);
        assert_eq!(outcome(&bytes, &inputs), Ok(()));
        let number = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
        // a list of three pairs: kept memory, and a result behind those that are given back
        let is_list = |at: &usize| {
            let results: Vec<u64> = (0..3).map(|i| number(at + 16 + 16 * i)).collect();
            number(*at) == 3 && (0..3).all(|i| number(at + 8 + 16 * i) < 16) && results == [3, 4, 5]
        };
        let found: Vec<usize> = (8..bytes.len() - 64).filter(is_list).collect();
        let [at] = found[..] else { panic!("{found:?}") };
        for (a, b) in [(0, 1), (1, 2), (0, 2)] {
            let (mut new, [a, b]) = (bytes.clone(), [a, b].map(|i| at + 16 + 16 * i));
            (0..8).for_each(|i| new.swap(a + i, b + i));
            let why = outcome(&signed(new), &inputs).unwrap_err();
            assert!(why.contains("cannot replace kept memory"), "{why}");
        }
        // twice, and what is not there
        for (which, value) in [(2, number(at + 8)), (0, 99), (1, 99)] {
            let mut new = bytes.clone();
            new[at + 8 + 8 * which..][..8].copy_from_slice(&u64::to_le_bytes(value));
            assert!(outcome(&signed(new), &inputs).is_err(), "{which}");
        }
    });
}

#[test]
fn a_deep_or_long_listing_is_no_stack_overflow() {
    on_interpreter(|| {
        let inputs: Inputs = Box::new(|i| vec![Tensor::full([8], i as f64).contiguous()]);
        let jit = Jit::new(|v: Vec<Tensor>| Ok(vec![&v[0] * 2.0]));
        let bytes = recorded(jit, &inputs);
        let text = std::str::from_utf8(&bytes[listings(&bytes)[0].clone()]).unwrap();
        let line = text.lines().find(|l| l.contains("Index:")).unwrap().to_string();
        let (head, range) = line.rsplit_once(' ').unwrap();
        let first: usize = head.split(' ').next().unwrap()[1..].parse().unwrap();
        // a sum of a hundred thousand zeros in the index, and all numbers after it moved
        let deep = 100_000;
        let mut lines = vec![];
        for l in text.lines() {
            if l == line {
                let zeros = (0..deep).map(|k| match k {
                    0 => format!("%{first} = Add:index {range} 0"),
                    k => format!("%{} = Add:index %{} 0", first + k, first + k - 1),
                });
                lines.extend(zeros);
                let moved = head.replacen(&format!("%{first} ="), &format!("%{} =", first + deep), 1);
                lines.push(format!("{moved} %{}", first + deep - 1));
                continue;
            }
            let words =
                l.split(' ').map(|w| match w.strip_prefix('%').and_then(|n| n.parse::<usize>().ok()) {
                    Some(n) if n >= first => format!("%{}", n + deep),
                    _ => w.to_string(),
                });
            lines.push(words.collect::<Vec<_>>().join(" "));
        }
        let new = lines.join("\n") + "\n";
        let why = outcome(&relisted(&bytes, text, &new)[0], &inputs).unwrap_err();
        assert!(why.contains("operations deep"), "{why}");
    });
}
