//! Sizes with names: numbers while they stay the same, variables once they change.

use crate::build::{Attr, Model, stored};
use frit_engine::stats::stats;
use frit_onnx::Element::{Float, Int64};
use frit_onnx::{Session, Value};
use frit_tensor::{DType, Result, Tensor};

/// (n, 4), by way of its own shape as (n, 2, 2), and a softmax.
fn session() -> Result<Session> {
    let ints = |v: &[i64]| v.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<u8>>();
    Model::new(13)
        .input("x", Float, &["n", "4"])
        .initializer(stored("zero", Int64, &[1], &ints(&[0])))
        .initializer(stored("one", Int64, &[1], &ints(&[1])))
        .initializer(stored("halves", Int64, &[2], &ints(&[2, 2])))
        .node("s = Shape(x)")
        .node("n = Slice(s, zero, one)")
        .node_with("d = Concat(n, halves)", vec![("axis", Attr::Int(0))])
        .node("r = Reshape(x, d)")
        .node("y = Softmax(r)")
        .output("y")
        .load()
}
fn rows(n: usize) -> Tensor {
    Tensor::arange(4 * n).float().reshape([n, 4]).sin()
}

#[test]
fn other_lengths_compile_nothing_after_the_second_run() -> Result<()> {
    let session = session()?;
    let mut compiled = vec![];
    for n in [3usize, 5, 4, 9, 2, 31, 5, 17] {
        let x = rows(n).realize()?;
        let before = stats();
        let outs = session.run([("x", Value::from(x.clone()))])?;
        compiled.push((stats() - before).compiles);
        let want = x.reshape([n, 2, 2]).softmax(-1);
        assert_eq!(outs[0].dims()?, [n, 2, 2]);
        assert!(outs[0].tensor()?.reshape([n, 2, 2]).allclose(&want, 1e-6, 1e-7)?, "{n}");
    }
    assert_eq!(compiled[2..], [0; 6], "{compiled:?}");
    Ok(())
}

#[test]
fn a_length_beyond_what_a_variable_reaches_is_another_variable() -> Result<()> {
    let session = session()?;
    for n in [1usize, 2, 100, 3, 1000, 2] {
        let outs = session.run([("x", Value::from(rows(n)))])?;
        assert_eq!(outs[0].dims()?, [n, 2, 2]);
        assert!((outs[0].tensor()?.sum(..).item::<f32>()? - 2.0 * n as f32).abs() < 1e-2);
    }
    Ok(())
}

#[test]
fn a_branch_by_an_integer_input_is_decided_by_its_value() -> Result<()> {
    use crate::build::node;
    use frit_onnx::wire::Writer;
    let branch =
        |line: &str| Writer::new().message(1, node(line, vec![])).message(12, Writer::new().bytes(1, "z"));
    let both = vec![
        ("then_branch", Attr::Graph(branch("z = Add(x, x)"))),
        ("else_branch", Attr::Graph(branch("z = Neg(x)"))),
    ];
    let rate = stored("rate", Int64, &[], &8000i64.to_le_bytes());
    let m = Model::new(16).input("sr", Int64, &[]).input("x", Float, &["2"]).initializer(rate);
    let session = m.node("on = Equal(sr, rate)").node_with("y = If(on)", both).output("y").load()?;
    for (i, sr) in [8000i64, 8000, 8000, 8000, 16000, 16000, 16000, 8000].into_iter().enumerate() {
        let x = Tensor::new([1.0, i as f64]);
        let sr_value = Tensor::full_dtype((), sr, DType::I64);
        let outs = session.run([("sr", Value::from(sr_value)), ("x", Value::from(x.clone()))])?;
        let want = if sr == 8000 { [2.0, 2.0 * i as f32] } else { [-1.0, -(i as f32)] };
        assert_eq!(outs[0].tensor()?.to_vec::<f32>()?, want, "{i}");
    }
    Ok(())
}

#[test]
fn a_run_that_fails_leaves_the_next_ones_recorded() -> Result<()> {
    let m = Model::new(13).input("x", Float, &["3"]).input("at", Int64, &["1"]);
    let session = m.node("y = Gather(x, at)").output("y").load()?;
    let run = |at: i64| {
        let feeds = [
            ("x", Value::from(Tensor::new([1.0, 2.0, 3.0]))),
            ("at", Value::from(Tensor::from_slice(&[at]))),
        ];
        session.run(feeds)?[0].tensor()?.to_vec::<f32>()
    };
    for at in [0i64, 1, 2, 7, 0, -1, 1] {
        match at {
            7 => assert!(run(at).is_err()),
            -1 => assert_eq!(run(at)?, [3.0]),
            _ => assert_eq!(run(at)?, [1.0 + at as f32]),
        }
    }
    Ok(())
}

/// Inputs by name, and the output that they give.
type Case<'a> = (Vec<(&'a str, Tensor)>, Vec<f32>);

/// As many kernels as each run of a model compiles.
fn compiled(session: &Session, runs: &[Case]) -> Result<Vec<u64>> {
    let mut all = vec![];
    for (feeds, want) in runs {
        let feeds = feeds
            .iter()
            .map(|(n, t)| Ok((*n, Value::from(t.realize()?.clone()))))
            .collect::<Result<Vec<_>>>()?;
        let before = stats();
        let outs = session.run(feeds)?;
        all.push((stats() - before).compiles);
        assert_eq!(outs[0].tensor()?.float().to_vec::<f32>()?, *want);
    }
    Ok(all)
}

#[test]
fn what_has_a_size_of_data_compiles_nothing_later() -> Result<()> {
    // the elements that are not zero, twice
    let session = Model::new(13)
        .input("x", Float, &["6"])
        .node("at = NonZero(x)")
        .node_with("t = Transpose(at)", vec![])
        .node("found = GatherND(x, t)")
        .node("y = Add(found, found)")
        .output("y")
        .load()?;
    let mut runs = vec![];
    for k in [3usize, 4, 2, 5, 6, 2, 3, 4, 5, 6] {
        let x: Vec<f32> = (0..6).map(|i| if i < k { i as f32 + 1.0 } else { 0.0 }).collect();
        runs.push((vec![("x", Tensor::from_slice(&x))], x[..k].iter().map(|v| 2.0 * v).collect()));
    }
    let compiled = compiled(&session, &runs)?;
    assert!(compiled[0] > 0 && compiled[1] > 0, "{compiled:?}");
    assert_eq!(compiled[2..], [0; 8], "{compiled:?}");
    Ok(())
}

#[test]
fn as_many_distinct_elements_as_there_are_compile_nothing_later() -> Result<()> {
    for sorted in [1, 0] {
        let session = Model::new(13)
            .input("x", Float, &["6"])
            .node_with("u, first, inverse, counts = Unique(x)", vec![("sorted", Attr::Int(sorted))])
            .node("y = Add(u, u)")
            .output("y")
            .output("first")
            .output("inverse")
            .output("counts")
            .load()?;
        let mut runs = vec![];
        // one is a number of its own: what has it broadcasts
        for k in [3usize, 4, 2, 5, 6, 2, 3, 4] {
            let x: Vec<f32> = (0..6).map(|i| (i % k) as f32).collect();
            runs.push((vec![("x", Tensor::from_slice(&x))], (0..k).map(|i| 2.0 * i as f32).collect()));
        }
        let compiled = compiled(&session, &runs)?;
        assert_eq!(compiled[2..], [0; 6], "sorted {sorted}: {compiled:?}");
        let outs = session.run([("x", Value::from(Tensor::new([5.0, 2.0, 5.0, 9.0, 2.0, 5.0])))])?;
        let wanted: [&[i64]; 3] = match sorted {
            1 => [&[1, 0, 3], &[1, 0, 1, 2, 0, 1], &[2, 3, 1]],
            _ => [&[0, 1, 3], &[0, 1, 0, 2, 1, 0], &[3, 2, 1]],
        };
        for (got, want) in outs[1..].iter().zip(wanted) {
            assert_eq!(got.ints()?, want);
        }
    }
    Ok(())
}

#[test]
fn as_many_distinct_rows_as_there_are_compile_nothing_later() -> Result<()> {
    for sorted in [1, 0] {
        let how = vec![("sorted", Attr::Int(sorted)), ("axis", Attr::Int(0))];
        let session = Model::new(13)
            .input("x", Float, &["n", "3"])
            .node_with("u, first, inverse, counts = Unique(x)", how)
            .node("y = Add(u, u)")
            .output("y")
            .output("first")
            .output("inverse")
            .output("counts")
            .load()?;
        let mut runs = vec![];
        // so many rows, so many of them distinct
        for (n, k) in [(6usize, 3usize), (7, 4), (6, 2), (9, 5), (6, 6), (5, 2), (8, 3), (6, 4)] {
            let x: Vec<f32> = (0..n).flat_map(|i| [1.0, (i % k) as f32, -2.0]).collect();
            let want = (0..k).flat_map(|i| [2.0, 2.0 * i as f32, -4.0]).collect();
            runs.push((vec![("x", Tensor::from_slice(&x).reshape([n, 3]))], want));
        }
        let compiled = compiled(&session, &runs)?;
        assert_eq!(compiled[2..], [0; 6], "sorted {sorted}: {compiled:?}");
        let rows = [[5.0, 1.0, 0.0], [2.0, 9.0, 0.0], [5.0, 1.0, 0.0], [2.0, 8.0, 3.0]];
        let outs = session.run([("x", Value::from(Tensor::new(rows)))])?;
        let (order, wanted): (_, [&[i64]; 3]) = match sorted {
            1 => ([3, 1, 0], [&[3, 1, 0], &[2, 1, 2, 0], &[1, 1, 2]]),
            _ => ([0, 1, 3], [&[0, 1, 3], &[0, 1, 0, 2], &[2, 1, 1]]),
        };
        let want: Vec<f64> = order.into_iter().flat_map(|i: usize| rows[i]).map(|v| 2.0 * v).collect();
        assert_eq!(outs[0].numbers()?, want);
        for (got, want) in outs[1..].iter().zip(wanted) {
            assert_eq!(got.ints()?, want);
        }
    }
    Ok(())
}

#[test]
fn rows_of_a_length_that_varies_are_compared_whole() -> Result<()> {
    let session = Model::new(13)
        .input("x", Int64, &["n", "m"])
        .node_with("u, first, inverse, counts = Unique(x)", vec![("axis", Attr::Int(0))])
        .node("y = Add(counts, first)")
        .output("y")
        .load()?;
    let mut runs = vec![];
    for (n, m) in [(4usize, 3usize), (5, 5), (3, 2), (6, 7), (4, 4)] {
        // only the last column tells the two kinds apart
        let x: Vec<i64> = (0..n * m).map(|i| if i % m == m - 1 { (i / m) as i64 % 2 } else { 7 }).collect();
        let want = vec![n.div_ceil(2) as f32, (n / 2) as f32 + 1.0];
        runs.push((vec![("x", Tensor::from_slice(&x).reshape([n, m]))], want));
    }
    let compiled = compiled(&session, &runs)?;
    assert_eq!(compiled[2..], [0; 3], "{compiled:?}");
    Ok(())
}

#[test]
fn as_many_distinct_texts_as_there_are_compile_nothing_later() -> Result<()> {
    let session = Model::new(13)
        .input("x", frit_onnx::Element::String, &["n"])
        .node("u, first, inverse, counts = Unique(x)")
        .node("shape = Shape(u)")
        .node("sum = Add(counts, first)")
        .node("wide = Expand(sum, shape)")
        .node("y = Add(wide, shape)")
        .output("y")
        .output("u")
        .output("inverse")
        .load()?;
    let mut compiled = vec![];
    for (n, k) in [(6usize, 3usize), (7, 4), (6, 2), (9, 5), (6, 6), (5, 2), (40, 7)] {
        let text = |i: usize| ["e", "d", "c", "b", "a", "ab", "f"][i % k].to_string();
        let x = frit_onnx::Strings::new(vec![n], (0..n).map(text).collect());
        let mut known: Vec<String> = (0..k).map(text).collect();
        known.sort();
        let places = |t: &String| (0..n).filter(|i| text(*i) == *t).map(|i| i as i64).collect::<Vec<_>>();
        let want: Vec<i64> = known.iter().map(places).map(|at| at.len() as i64 + at[0] + k as i64).collect();
        let before = stats();
        let outs = session.run([("x", Value::from(x))])?;
        compiled.push((stats() - before).compiles);
        assert_eq!(outs[0].ints()?, want);
        let place = |i: usize| known.iter().position(|t| *t == text(i)).unwrap_or(k) as i64;
        assert_eq!(outs[2].ints()?, (0..n).map(place).collect::<Vec<_>>());
        let Value::Strings(u) = &outs[1] else { panic!("{outs:?}") };
        assert_eq!(u.texts[..], known[..]);
    }
    assert!(compiled[0] > 0 && compiled[2..] == [0; 5], "{compiled:?}");
    Ok(())
}

#[test]
fn slices_of_texts_are_distinct_by_all_of_them() -> Result<()> {
    let text = |rows: &[[&str; 2]]| {
        frit_onnx::Strings::new(vec![rows.len(), 2], rows.concat().iter().map(|t| t.to_string()).collect())
    };
    for (axis, sorted, want) in [
        (0, 1, vec![["a", "b"], ["a", "c"], ["b", "a"]]),
        (0, 0, vec![["b", "a"], ["a", "c"], ["a", "b"]]),
        (1, 1, vec![["a", "b"], ["c", "a"], ["b", "a"], ["a", "b"]]),
    ] {
        let how = vec![("axis", Attr::Int(axis)), ("sorted", Attr::Int(sorted))];
        let m = Model::new(13).any_input("x").node_with("y = Unique(x)", how).output("y");
        let x = text(&[["b", "a"], ["a", "c"], ["a", "b"], ["b", "a"]]);
        let outs = m.load()?.run([("x", Value::from(x))])?;
        let Value::Strings(y) = &outs[0] else { panic!("{outs:?}") };
        assert_eq!(*y, text(&want), "axis {axis}, sorted {sorted}");
    }
    Ok(())
}

#[test]
fn sequences_of_any_length_compile_nothing_later() -> Result<()> {
    // the rows of x but the last, twice, and how many they were
    let session = Model::new(13)
        .input("x", Float, &["n", "m"])
        .node_with("rows = SplitToSequence(x)", vec![("axis", Attr::Int(0)), ("keepdims", Attr::Int(0))])
        .node("fewer = SequenceErase(rows)")
        .node("count = SequenceLength(fewer)")
        .node_with("z = ConcatFromSequence(fewer)", vec![("axis", Attr::Int(0)), ("new_axis", Attr::Int(1))])
        .node("twice = Add(z, z)")
        .node_with("number = Cast(count)", vec![("to", Attr::Int(1))])
        .node("y = Mul(twice, number)")
        .output("y")
        .load()?;
    let mut runs = vec![];
    for (n, m) in [(4usize, 4usize), (5, 3), (3, 6), (9, 2), (5, 5), (30, 3), (4, 4)] {
        let x: Vec<f32> = (0..n * m).map(|i| i as f32).collect();
        let want = x[..(n - 1) * m].iter().map(|v| v * 2.0 * (n - 1) as f32).collect();
        runs.push((vec![("x", Tensor::from_slice(&x).reshape([n, m]))], want));
    }
    let compiled = compiled(&session, &runs)?;
    assert_eq!(compiled[2..], [0; 5], "{compiled:?}");
    Ok(())
}

#[test]
fn a_graph_for_each_element_keeps_what_it_made_of_others() -> Result<()> {
    use crate::build::node;
    use frit_onnx::wire::Writer;
    // the shapes and sums of elements, joined
    let nodes = [node("s = Shape(v)", vec![]), node("t = Add(v, v)", vec![])];
    let body = nodes.into_iter().fold(Writer::new(), |w, n| w.message(1, n));
    let body = body.message(11, Writer::new().bytes(1, "v"));
    let body = ["s", "t"].iter().fold(body, |w, name| w.message(12, Writer::new().bytes(1, *name)));
    let session = Model::new(17)
        .any_input("all")
        .node_with("shapes, sums = SequenceMap(all)", vec![("body", Attr::Graph(body))])
        .node_with("sizes = ConcatFromSequence(shapes)", vec![("axis", Attr::Int(0))])
        .node_with("y = ConcatFromSequence(sums)", vec![("axis", Attr::Int(0))])
        .output("y")
        .output("sizes")
        .load()?;
    let mut compiled = vec![];
    for sizes in [vec![2usize, 3], vec![4, 2, 5], vec![3, 3], vec![5, 4, 3, 2], vec![6, 2]] {
        let values = sizes.iter().map(|n| Ok(Value::from(Tensor::ones([*n]).realize()?.clone())));
        let all = values.collect::<Result<Vec<_>>>()?;
        let before = stats();
        let outs = session.run([("all", Value::Sequence(all))])?;
        compiled.push((stats() - before).compiles);
        assert_eq!(outs[0].numbers()?, vec![2.0; sizes.iter().sum()]);
        assert_eq!(outs[1].ints()?, sizes.iter().map(|n| *n as i64).collect::<Vec<_>>());
    }
    assert!(compiled[0] > 0 && compiled[2..] == [0; 3], "{compiled:?}");
    Ok(())
}

#[test]
fn elements_of_a_sequence_have_sizes_that_vary() -> Result<()> {
    let session = Model::new(13)
        .any_input("all")
        .initializer(stored("last", Int64, &[], &(-1i64).to_le_bytes()))
        .initializer(stored("first", Int64, &[], &0i64.to_le_bytes()))
        .node_with("z = ConcatFromSequence(all)", vec![("axis", Attr::Int(0))])
        .node("a = SequenceAt(all, first)")
        .node("b = SequenceAt(all, last)")
        .node_with("y = Concat(a, b, z)", vec![("axis", Attr::Int(0))])
        .node("w = Neg(y)")
        .output("w")
        .load()?;
    let mut compiled = vec![];
    for sizes in [vec![2usize, 3], vec![4, 2, 5], vec![3, 3], vec![5, 4, 3, 2], vec![6, 2], vec![2, 9, 4]] {
        let values: Vec<Vec<f32>> = sizes.iter().map(|n| (0..*n).map(|i| (i + n) as f32).collect()).collect();
        let element = |v: &Vec<f32>| Ok(Value::from(Tensor::from_slice(v).realize()?.clone()));
        let all = values.iter().map(element).collect::<Result<Vec<_>>>()?;
        let before = stats();
        let outs = session.run([("all", Value::Sequence(all))])?;
        compiled.push((stats() - before).compiles);
        let ends = [&values[0], &values[values.len() - 1]].into_iter().chain(&values);
        let want: Vec<f32> = ends.flatten().map(|v| -v).collect();
        assert_eq!(outs[0].tensor()?.to_vec::<f32>()?, want);
    }
    assert!(compiled[0] > 0 && compiled[2..] == [0; 4], "{compiled:?}");
    Ok(())
}

#[test]
fn a_range_to_what_is_computed_compiles_nothing_later() -> Result<()> {
    // as long as the greatest number, which only the data tell
    let number = |name: &str, v: i64| stored(name, Int64, &[], &v.to_le_bytes());
    let session = Model::new(13)
        .input("x", Int64, &["3"])
        .initializer(number("zero", 0))
        .initializer(number("one", 1))
        .node_with("most = ReduceMax(x)", vec![("keepdims", Attr::Int(0))])
        .node("places = Range(zero, most, one)")
        .node("y = Mul(places, most)")
        .output("y")
        .load()?;
    let run = |n: i64| {
        let x = Tensor::from_slice(&[1, n, 0]);
        (vec![("x", x)], (0..n).map(|i| (i * n) as f32).collect())
    };
    let compiled = compiled(&session, &[5, 9, 3, 30, 2, 100].map(run))?;
    assert_eq!(compiled[2..], [0; 4], "{compiled:?}");
    Ok(())
}

#[test]
fn a_loop_with_a_condition_compiles_its_body_once() -> Result<()> {
    use crate::build::{node, port};
    use frit_onnx::wire::Writer;
    // doubles x until its first element is 100 or more
    let nodes = ["z = Add(v, v)", "s = ReduceMax(z)", "go = Less(s, limit)"];
    let body = nodes.iter().fold(Writer::new(), |w, line| {
        let flat = if line.contains("Reduce") { vec![("keepdims", Attr::Int(0))] } else { vec![] };
        w.message(1, node(line, flat))
    });
    let body = [("i", Int64), ("on", frit_onnx::Element::Bool), ("v", Float)]
        .iter()
        .fold(body, |w, (name, e)| w.message(11, port(name, *e, &[])));
    let body = ["go", "z"].iter().fold(body, |w, name| w.message(12, Writer::new().bytes(1, *name)));
    let session = Model::new(13)
        .input("x", Float, &["2"])
        .initializer(stored("limit", Float, &[], &100f32.to_le_bytes()))
        .initializer(stored("yes", frit_onnx::Element::Bool, &[], &[1]))
        .node_with("y = Loop(_, yes, x)", vec![("body", Attr::Graph(body))])
        .output("y")
        .load()?;
    let run = |x: f32| {
        let (mut a, mut b) = (x, x / 2.0);
        while a < 100.0 {
            (a, b) = (2.0 * a, 2.0 * b);
        }
        (vec![("x", Tensor::from_slice(&[x, x / 2.0]))], vec![a, b])
    };
    let compiled = compiled(&session, &[run(60.0), run(3.0), run(0.5), run(7.0), run(1.0)])?;
    assert!(compiled[0] > 0, "{compiled:?}");
    assert_eq!(compiled[1..], [0; 4], "{compiled:?}");
    Ok(())
}

#[test]
fn the_steps_of_a_decoder_compile_nothing_after_the_second() -> Result<()> {
    // what was seen and what comes, weighted by a mask that is as long as both
    let session = Model::new(13)
        .input("past", Float, &["1", "past", "4"])
        .input("x", Float, &["1", "length", "4"])
        .input("mask", Float, &["1", "past + length"])
        .node_with("seen = Concat(past, x)", vec![("axis", Attr::Int(1))])
        .node_with("turned = Transpose(seen)", vec![("perm", Attr::Ints(&[0, 2, 1]))])
        .node("scores = MatMul(x, turned)")
        .node("masked = Mul(scores, mask)")
        .node("y = MatMul(masked, seen)")
        .output("y")
        .output("seen")
        .load()?;
    let mut past = Tensor::zeros([1, 3, 4]);
    let mut compiled = vec![];
    for step in 3..67usize {
        let x = (Tensor::arange(4) + step as i64).float().reshape([1, 1, 4]) * 0.125;
        let mask = Tensor::arange(step + 1).float().reshape([1, step + 1]);
        let all = Tensor::cat(&[past.clone(), x.clone()], 1).realize()?.clone();
        let want = (x.matmul(&all.transpose(1, 2)) * &mask).matmul(&all).to_vec::<f32>()?;
        let feeds = [("past", past), ("x", x), ("mask", mask)];
        let feeds = feeds.iter().map(|(n, t)| Ok((*n, Value::from(t.realize()?.clone()))));
        let feeds = feeds.collect::<Result<Vec<_>>>()?;
        let before = stats();
        let outs = session.run(feeds)?;
        compiled.push((stats() - before).compiles);
        let got = outs[0].tensor()?.to_vec::<f32>()?;
        assert!(
            got.iter().zip(&want).all(|(a, b)| (a - b).abs() <= 1e-5 * b.abs().max(1.0)),
            "{got:?} {want:?}"
        );
        past = all;
    }
    assert_eq!(compiled[2..], [0; 62], "{compiled:?}");
    Ok(())
}
