//! One session, runs of it side by side.

use crate::build::{Attr, Model, node, port};
use frit_onnx::Element::{Bool, Float, Int64};
use frit_onnx::wire::Writer;
use frit_onnx::{Session, Value};
use frit_tensor::Tensor;

const THREADS: usize = 4;
const RUNS: usize = 25;

/// Runs a session in threads of their own, each with inputs of its own, and compares what each run gives with what it should.
fn side_by_side(
    session: &Session,
    input: impl Fn(usize) -> Tensor + Sync,
    want: impl Fn(&[f32]) -> Vec<Vec<f32>> + Sync,
) {
    let run = |thread: usize| {
        for k in 0..RUNS {
            let x = input(thread * RUNS + k);
            let numbers: Vec<f32> = x.to_vec().expect("numbers");
            let outs = session.run([("x", Value::from(x))]).expect("a run");
            let got: Vec<Vec<f32>> =
                outs.iter().map(|v| v.tensor().and_then(|t| t.float().to_vec()).expect("numbers")).collect();
            assert_eq!(got, want(&numbers), "run {k} of thread {thread}");
        }
    };
    std::thread::scope(|s| {
        for thread in 0..THREADS {
            s.spawn(move || run(thread));
        }
    });
}

/// Small whole numbers, so that sums are exact in any order; as many as `n` says.
fn numbers(seed: usize, n: usize) -> Tensor {
    Tensor::from_vec((0..n).map(|i| ((seed * 7 + i * 5) % 11) as f32 - 4.0).collect::<Vec<_>>(), [n / 4, 4])
}

#[test]
fn runs_side_by_side_with_sizes_and_data_of_their_own_give_their_own_results() {
    // a size that changes, a part before and after a cut, a size that the data decide
    let m = Model::new(13).input("x", Float, &["rows", "4"]).node("twice = Add(x, x)");
    let m = m.node_with("sum = ReduceSum(twice)", vec![("keepdims", Attr::Int(0))]);
    let m = m.node("zero = Sub(x, x)").node("is = Greater(x, zero)").node("at = NonZero(is)");
    let m = m.node_with("places = Transpose(at)", vec![]).node("some = GatherND(twice, places)");
    let session = m.output("sum").output("some").load().expect("a model");
    side_by_side(
        &session,
        |seed| numbers(seed, 4 * (1 + seed % 5)),
        |x| {
            vec![vec![x.iter().sum::<f32>() * 2.0], x.iter().filter(|v| **v > 0.0).map(|v| v * 2.0).collect()]
        },
    );
}

#[test]
fn loops_side_by_side_count_for_themselves() {
    // doubles x until it reaches a hundred
    let body = |g: Writer| {
        let g = g.message(1, node("y = Add(v, v)", vec![])).message(1, node("go = Less(y, hundred)", vec![]));
        let g = g
            .message(11, port("i", Int64, &[]))
            .message(11, port("c", Bool, &[]))
            .message(11, port("v", Float, &["1"]));
        g.message(12, port("go", Bool, &["1"])).message(12, port("y", Float, &["1"]))
    };
    let hundred = crate::build::stored("hundred", Float, &[1], &100f32.to_le_bytes());
    let m = Model::new(13).input("x", Float, &["1"]).initializer(hundred);
    let m = m.node_with("y = Loop(_, _, x)", vec![("body", Attr::Graph(body(Writer::new())))]);
    let session = m.output("y").load().expect("a model");
    let doubled = |x: &[f32]| {
        let mut v = x[0] * 2.0;
        while v < 100.0 {
            v *= 2.0;
        }
        vec![vec![v]]
    };
    side_by_side(&session, |seed| Tensor::from_vec(vec![1.0 + seed as f32], [1]), doubled);
}
