//! What must fuse, by counting kernels, bytes and work.

use crate::support::on;
use frit::engine::measure;
use frit::engine::stats::{Stats, stats};
use frit::nn::{Adam, BatchNorm, Conv2d, Linear, Optimizer, training};
use frit::{DType, Tensor, Variable, Window, nn};
use frit_codegen::{Opt, Opts};
use frit_uop::{Arg, AxisKind, Op, UOp};

/// What a schedule does.
#[derive(Debug)]
struct Plan {
    kernels: usize,
    /// Elements read from each argument, over all kernels, largest first.
    reads: Vec<u64>,
    /// Elements written.
    writes: u64,
    /// Steps of the longest nest of loops.
    work: u64,
}

fn id(n: &UOp) -> Option<u32> {
    n.range_arg().map(|a| a.id)
}

/// The plan for realising tensors together on a device.
fn plan(device: &str, f: impl Fn() -> Vec<Tensor>) -> Plan {
    let outputs: Vec<UOp> = on(device, || f().iter().map(|t| t.uop().unwrap()).collect());
    let schedule = on(device, || measure::schedule(&outputs)).unwrap();
    let mut plan = Plan { kernels: schedule.kernels.len(), reads: vec![], writes: 0, work: 0 };
    let mut reads = std::collections::HashMap::new();
    for kernel in &schedule.kernels {
        let nodes = kernel.ast.toposort();
        let extent = |r: u32| {
            let range = nodes.iter().find(|n| n.op == Op::Range && id(n) == Some(r)).expect("an open range");
            range.src[0].bounds.1 as u64
        };
        let region = |ranges: &[u32]| ranges.iter().map(|&r| extent(r)).product::<u64>();
        for n in &nodes {
            // inside what a node is computed: its open ranges and those it closes
            let closed = n.src.iter().skip(1).filter_map(id).filter(|_| n.op == Op::Reduce);
            let all: Vec<u32> = n.ranges.iter().copied().chain(closed).collect();
            plan.work = plan.work.max(region(&all));
            match n.op {
                Op::Load => {
                    let Arg::Param { slot, .. } = &n.src[0].src[0].arg else { continue };
                    *reads.entry(format!("{:?}", kernel.args[*slot as usize])).or_insert(0) +=
                        region(&n.ranges);
                }
                Op::Store => plan.writes += region(&n.ranges),
                _ => {}
            }
        }
    }
    plan.reads = reads.into_values().collect();
    plan.reads.sort_unstable_by(|a, b| b.cmp(a));
    plan
}

/// What running on a device counts.
fn ran(device: &str, f: impl FnOnce()) -> Stats {
    on(device, || {
        let before = stats();
        f();
        stats() - before
    })
}

fn input(dims: &[usize]) -> Tensor {
    Tensor::from_vec(vec![0.5f32; dims.iter().product()], dims)
}

const SHAPES: [&str; 2] = ["INTERP", "INTERP:GPU"];

#[test]
fn elementwise_into_a_sum_is_one_kernel() {
    for device in SHAPES {
        let p = plan(device, || {
            let (a, b, c) = (input(&[64, 64]), input(&[64, 64]), input(&[64, 64]));
            vec![(a * b + c).relu().sum(..)]
        });
        assert_eq!((p.kernels, p.writes), (1, 1), "{device}: {p:?}");
        assert_eq!(p.reads, [4096; 3], "{device}");
    }
}

#[test]
fn a_vector_times_weights_in_blocks_is_one_kernel() {
    use nn::gguf::Kind;
    for kind in [Kind::Q4_0, Kind::Q4_1, Kind::Q8_0] {
        let (rows, columns) = (64, 256);
        let bytes = columns / kind.block_len() * kind.block_bytes();
        let p = plan("INTERP", || {
            let raw = Tensor::from_vec(vec![0x11u8; rows * bytes], [rows, bytes]);
            vec![kind.dequantize(&raw).matmul(&input(&[columns]))]
        });
        assert_eq!((p.kernels, p.writes), (1, rows as u64), "{kind}: {p:?}");
    }
}

#[test]
fn softmax_reads_x_three_times_and_writes_once() {
    for device in SHAPES {
        let (rows, columns) = (64, 256);
        let n = (rows * columns) as u64;
        let p = plan(device, || vec![input(&[rows, columns]).softmax(-1)]);
        assert!(p.kernels <= 3, "{device}: {p:?}");
        assert!(p.reads[0] <= 3 * n, "{device}: {p:?}");
        assert!(p.writes < n + n / 16, "{device}: one write of the result and little beside: {p:?}");
    }
}

#[test]
fn layernorm_is_at_most_three_kernels() {
    for device in SHAPES {
        let p = plan(device, || {
            let (w, b) = (input(&[256]), input(&[256]));
            vec![input(&[64, 256]).layernorm(-1, Some(&w), Some(&b), 1e-5)]
        });
        assert!(p.kernels <= 3, "{device}: {p:?}");
    }
}

#[test]
fn arange_one_hot_and_embedding_are_one_kernel_without_square_work() {
    for device in SHAPES {
        let p = plan(device, || vec![Tensor::arange(1000)]);
        assert_eq!((p.kernels, p.writes, p.work), (1, 1000, 1000), "arange on {device}");
        let labels = || Tensor::from_vec(vec![1i32; 50], [50]);
        let p = plan(device, || vec![labels().one_hot(40)]);
        assert_eq!((p.kernels, p.writes, p.work), (1, 2000, 2000), "one-hot on {device}");
        let p = plan(device, || vec![input(&[1000, 16]).embedding(&labels())]);
        assert_eq!((p.kernels, p.writes, p.work), (1, 800, 800), "embedding on {device}");
        let p = plan(device, || vec![input(&[1000, 16]).at(labels())]);
        assert_eq!((p.kernels, p.writes, p.work), (1, 800, 800), "an index tensor on {device}");
        // the same lookup written as a product with a one-hot mask
        let p = plan(device, || {
            let hit = labels().unsqueeze(1).eq(Tensor::arange(1000)).unsqueeze(2);
            vec![hit.where_(input(&[1000, 16]).unsqueeze(0), 0.0).sum(1)]
        });
        assert_eq!((p.kernels, p.writes, p.work), (1, 800, 800), "a masked sum on {device}");
    }
}

#[test]
fn argmax_is_at_most_two_kernels() {
    for device in SHAPES {
        let p = plan(device, || vec![input(&[64, 256]).argmax(1)]);
        assert!(p.kernels <= 2, "{device}: {p:?}");
    }
}

#[test]
fn conv_with_bias_and_relu_is_one_kernel() {
    for device in SHAPES {
        let p = plan(device, || {
            let (x, w, b) = (input(&[2, 3, 12, 12]), input(&[8, 3, 3, 3]), input(&[8]));
            vec![x.conv2d(&w, Some(&b), Window::new().padding(1)).relu()]
        });
        assert_eq!(p.kernels, 1, "{device}: {p:?}");
        assert_eq!(p.writes, 2 * 8 * 12 * 12, "{device}");
    }
}

#[test]
fn batchnorm_inference_is_in_the_convs_kernel() {
    for device in SHAPES {
        let p = plan(device, || {
            let (conv, norm) = (Conv2d::new(3, 8, 3), BatchNorm::new(8));
            nn::Module::realize_state(&conv).unwrap();
            nn::Module::realize_state(&norm).unwrap();
            vec![norm.forward(&conv.forward(&input(&[2, 3, 12, 12]))).relu()]
        });
        assert_eq!(p.kernels, 1, "{device}: {p:?}");
    }
}

#[test]
fn sum_maximum_and_sum_of_squares_together_read_x_once() {
    for device in SHAPES {
        let n = 64 * 256;
        let p = plan(device, || {
            let x = input(&[64, 256]);
            vec![x.sum(1), x.max(1), x.square().sum(1)]
        });
        assert_eq!((p.kernels, p.reads[0]), (1, n), "{device}: {p:?}");
        let p = plan(device, || {
            let x = input(&[64, 256]);
            vec![x.sum(..), x.max(..), x.square().sum(..)]
        });
        // where a long reduction is split in two, x is still read once
        assert!(p.kernels <= 2 && p.reads[0] == n, "{device}: {p:?}");
    }
}

#[test]
fn mean_and_variance_read_x_at_most_twice() {
    for device in SHAPES {
        let p = plan(device, || {
            let (var, mean) = input(&[64, 256]).var_mean(1, 1);
            vec![mean, var]
        });
        assert!(p.reads[0] <= 2 * 64 * 256, "{device}: {p:?}");
        let p = plan(device, || {
            let (var, mean) = input(&[8, 16, 12, 12]).var_mean([0, 2, 3], 0);
            vec![mean, var]
        });
        assert!(p.reads[0] <= 2 * 8 * 16 * 12 * 12, "{device}: {p:?}");
    }
}

#[test]
fn an_adam_update_is_at_most_two_kernels_a_parameter() {
    for device in ["INTERP", "INTERP:GPU", "NULL"] {
        let did = on(device, || {
            let layer = Linear::new(32, 16);
            let mut opt = Adam::new(&layer, 1e-3).unwrap();
            let mut last = Stats::default();
            for _ in 0..3 {
                // gradients in memory, so that the step is the update and nothing else
                layer.weight.set_grad(Some(input(&[16, 32])));
                let bias = layer.bias.as_ref().unwrap();
                bias.set_grad(Some(input(&[16])));
                last = ran(device, || opt.step().unwrap());
            }
            last
        });
        // two parameters, and the count of steps
        assert!(did.launches <= 2 * 2 + 1, "{device}: {did:?}");
    }
}

#[test]
fn a_training_step_has_few_kernels() {
    let did = on("NULL", || {
        let net = nn::Sequential::new()
            .then(Linear::new(784, 128))
            .then_fn(|x| x.relu())
            .then(Linear::new(128, 10));
        let mut opt = Adam::new(&net, 1e-3).unwrap();
        let mut last = Stats::default();
        for _ in 0..3 {
            let (x, y) = (input(&[32, 784]), Tensor::from_vec(vec![3i32; 32], [32]));
            last = ran("NULL", || {
                let loss = training(true, || net.forward(&x)).cross_entropy(&y);
                loss.backward().unwrap();
                opt.step_with(&[&loss]).unwrap();
            });
        }
        last
    });
    // two products forward, one for the hidden gradient, four gradients, the loss, the count, four updates and slack
    assert!(did.launches <= 16, "{did:?}");
}

#[test]
fn a_quantised_weight_is_read_by_its_product() {
    for kind in nn::gguf::Kind::all().filter(|k| k.dtype().is_none()) {
        let (rows, row) = (8, 4 * kind.block_bytes());
        let p = plan("INTERP", || {
            let w = kind.dequantize(&Tensor::from_vec(vec![1u8; rows * row], [rows, row]));
            vec![w.matmul(&Tensor::rand([4 * kind.block_len()]).realize().unwrap())]
        });
        // scales, and places in a grid, may be worked out first; the weight itself never gets memory
        assert!(p.writes * 2 < (rows * 4 * kind.block_len()) as u64, "{kind}: {p:?}");
    }
}

#[test]
fn a_quantised_weight_is_unpacked_in_the_product_of_a_few_rows() {
    for kind in [nn::gguf::Kind::Q4_1, nn::gguf::Kind::Q8_0, nn::gguf::Kind::Q4_K, nn::gguf::Kind::Q6_K] {
        let (rows, row) = (32, 2 * kind.block_bytes());
        // sixteen rows are enough for a machine's matrix units, whose factors are stored
        for (tokens, machine) in
            [2, 8, 16].into_iter().flat_map(|n| ["NULL:AVX2", "NULL:AVX512"].map(|m| (n, m)))
        {
            let p = plan(machine, || {
                let w = kind.dequantize(&Tensor::from_vec(vec![1u8; rows * row], [rows, row]));
                vec![input(&[tokens, 2 * kind.block_len()]).matmul(&w.t())]
            });
            assert_eq!(
                (p.kernels, p.writes),
                (1, (tokens * rows) as u64),
                "{kind}, {tokens} rows, {machine}"
            );
        }
    }
}

/// Attention as a user writes it: products around a softmax.
fn attended(q: &Tensor, k: &Tensor, v: &Tensor) -> Tensor {
    (q.matmul(&k.t()) * 0.125).softmax(-1).matmul(v)
}

#[test]
fn attention_is_one_kernel_without_temporaries() {
    let heads = |n: usize| input(&[2, 3, n, 16]);
    let masks: [fn(usize) -> Option<Tensor>; 3] = [
        |_| None,
        |n| Some(Tensor::ones([n, n]).tril(0).cast(frit::DType::Bool).realize().unwrap()),
        |n| Some(input(&[n, n])),
    ];
    for mask in masks {
        let with = |n: usize| {
            let (q, k, v) = (heads(n), heads(n), heads(n));
            let mask = mask(n);
            plan("CPU", || vec![q.scaled_dot_product_attention(&k, &v, mask.as_ref(), mask.is_none())])
        };
        assert_eq!(with(48).kernels, 1);
        // one store of the result and nothing else, whatever the length
        for n in [64, 256] {
            assert_eq!(with(n).writes, 2 * 3 * n as u64 * 16);
        }
    }
    let (q, k, v) = (heads(40), heads(72), heads(72));
    assert_eq!(plan("CPU", || vec![attended(&q, &k, &v)]).kernels, 1);
    // weights that someone looks at are stored
    let p = plan("CPU", || {
        let weights = q.matmul(&k.t()).softmax(-1);
        vec![weights.matmul(&v), weights]
    });
    assert!(p.kernels > 1, "{p:?}");
}

/// What kernels with products in products are lowered by, and how many kernels there are in all.
fn chains(f: impl Fn() -> Tensor) -> (usize, Vec<Vec<Opt>>) {
    let target = frit_abi::Target::native(frit_abi::target::Isa::Avx2, 2, [32 << 10, 1 << 20, 32 << 20]);
    chains_on("CPU", &target, f)
}
fn chains_on(device: &str, target: &frit_abi::Target, f: impl Fn() -> Tensor) -> (usize, Vec<Vec<Opt>>) {
    let output = on(device, || f().uop().unwrap());
    let schedule = on(device, || measure::schedule(&[output])).unwrap();
    let is_inner = |n: &UOp| n.range_arg().is_some_and(|a| a.kind == AxisKind::Reduce);
    let is_chain = |ast: &UOp| {
        let nodes = ast.toposort();
        let loops: Vec<u32> = nodes.iter().filter(|n| is_inner(n)).filter_map(id).collect();
        nodes.iter().any(|n| n.op == Op::Reduce && n.ranges.iter().any(|r| loops.contains(r)))
    };
    let lowered = |ast: &UOp| frit_codegen::lower(ast, target, Opts::Heuristic).unwrap().opts;
    let opts = schedule.kernels.iter().filter(|k| is_chain(&k.ast)).map(|k| lowered(&k.ast)).collect();
    (schedule.kernels.len(), opts)
}

#[test]
fn products_in_products_are_always_walked_in_blocks_of_rows() {
    let (q, k, v) = (input(&[2, 3, 40, 16]), input(&[2, 3, 24, 16]), input(&[2, 3, 24, 16]));
    let is_one = |(count, opts): (usize, Vec<Vec<Opt>>), most: usize| {
        assert!(matches!(opts[..], [ref o] if matches!(o[..], [Opt::TileAndFuse { .. }])), "{opts:?}");
        assert!(count <= most, "{count}");
    };
    is_one(chains(|| attended(&q, &k, &v)), 1);
    is_one(chains(|| attended(&q, &k, &v) * 2.0 + &q), 1);
    // heads of a token side by side: a kernel of its own, and a copy
    is_one(chains(|| attended(&q, &k, &v).transpose(1, 2).flatten(-2, -1)), 2);
    // keys by an index from data are gathered first, as values are, and what is added
    let rows = Tensor::new([5i32, 3, 1, 0, 2, 4, 6, 7, 8, 9, 10, 11]).realize().unwrap();
    let some = |x: &Tensor| x.permute([2, 0, 1, 3]).index_select(0, &rows).permute([1, 2, 0, 3]);
    is_one(chains(|| attended(&q, &some(&k), &some(&v))), 3);
    let table = input(&[7, 2, 3, 40, 16]);
    let one = Tensor::new([2i32]).realize().unwrap();
    is_one(chains(|| attended(&q, &k, &v) + table.index_select(0, &one).squeeze(0)), 2);
    // with a factor that is one number there is no product, and nothing in anything
    assert!(chains(|| attended(&Tensor::ones([2, 3, 40, 16]), &k, &v)).1.is_empty());
    // sizes that are not known are cut as before
    let n = Variable::new("n", 1, 2).unwrap().bind(2).unwrap();
    let few = |x: &Tensor| x.narrow(0, 0, n.clone());
    assert!(chains(|| attended(&few(&q), &few(&k), &few(&v))).1.is_empty());
}

#[test]
fn products_in_products_are_on_a_unit_of_a_grid_or_apart() {
    let device = "NULL:H200";
    let target = frit_runtime::device(device).unwrap().target().clone();
    on(device, || {
        let input =
            |dims: &[usize]| Tensor::zeros(dims.to_vec()).cast(DType::BF16).contiguous().realize().unwrap();
        let (q, k, v) = (input(&[2, 3, 32, 16]), input(&[2, 3, 48, 16]), input(&[2, 3, 48, 24]));
        let is_one = |f: &dyn Fn() -> Tensor| {
            let (_, opts) = chains_on(device, &target, f);
            assert!(matches!(opts[..], [ref o] if matches!(o[..], [Opt::OnlineSoftmax { .. }])), "{opts:?}");
        };
        let sdpa = |q: &Tensor, k: &Tensor, v: &Tensor| q.scaled_dot_product_attention(k, v, None, false);
        is_one(&|| sdpa(&q, &k, &v));
        is_one(&|| attended(&q, &k, &v));
        is_one(&|| sdpa(&q, &k, &v).relu() * 2.0 + 1.0);
        is_one(&|| q.scaled_dot_product_attention(&k, &v, None, true));
        // a bias, heads side by side, factors that are computed, keys that heads share
        let bias = input(&[32, 48]);
        is_one(&|| q.scaled_dot_product_attention(&k, &v, Some(&bias), false));
        is_one(&|| sdpa(&q, &k, &v).transpose(1, 2).flatten(-2, -1));
        is_one(&|| sdpa(&q.sin(), &k.cos(), &v.exp()));
        let of_all = |x: &Tensor| x.narrow(1, 0, 1).expand([2, 3, 48, x.shape()[3].get()]);
        is_one(&|| sdpa(&q, &of_all(&k), &of_all(&v)));
        is_one(&|| sdpa(&q, &k.transpose(-1, -2).contiguous().transpose(-1, -2), &v));
        // rows that no unit takes, and types, are two products
        let none = |f: &dyn Fn() -> Tensor| assert!(chains_on(device, &target, f).1.is_empty());
        none(&|| sdpa(&q.narrow(2, 0, 31), &k, &v));
        none(&|| sdpa(&q, &k.narrow(2, 0, 47), &v.narrow(2, 0, 47)));
        none(&|| sdpa(&q.cast(DType::F32), &k.cast(DType::F32), &v.cast(DType::F32)));
    });
}

#[test]
fn gradients_of_attention_need_memory_linear_in_its_length() {
    for (device, dtype, width, short) in
        [("NULL:H200", DType::BF16, 64, 512), ("CPU", DType::F32, 16, 256), ("CPU", DType::F64, 16, 256)]
    {
        on(device, || linear_gradients(device, dtype, width, short));
    }
}

fn linear_gradients(device: &str, dtype: DType, width: usize, short: usize) {
    let temporaries = |length: usize, f: &dyn Fn(&Tensor, &Tensor, &Tensor) -> Tensor| {
        let input = || Tensor::zeros([2, 3, length, width]).cast(dtype).contiguous().realize().unwrap();
        let (q, k, v, g) = (input(), input(), input(), input());
        let y = f(&q, &k, &v);
        let mut all = y.gradient_with(&g, &[&q, &k, &v]).unwrap();
        all.push(y);
        let nodes: Vec<UOp> = all.iter().map(|t| t.uop().unwrap()).collect();
        measure::schedule(&nodes).unwrap().arena_bytes
    };
    let linear = |f: &dyn Fn(&Tensor, &Tensor, &Tensor) -> Tensor| {
        let [short, long] = [short, 4 * short].map(|n| temporaries(n, f));
        assert!(long <= 4 * short, "{device} {dtype:?}: {short} bytes, then {long}");
    };
    linear(&|q, k, v| q.scaled_dot_product_attention(k, v, None, false));
    linear(&|q, k, v| q.scaled_dot_product_attention(k, v, None, true));
    // as a user may write it
    let wide = |x: &Tensor| if dtype.is_small_float() { x.cast(DType::F32) } else { x.clone() };
    linear(&|q, k, v| {
        let weights = (wide(q).matmul(&wide(k).t()) * 0.125).softmax(-1);
        wide(&weights.cast(dtype)).matmul(&wide(v)).cast(dtype)
    });
}

#[test]
fn weights_of_windows_are_packed_for_a_unit() {
    let kernels = |device: &str, [channels, results]: [usize; 2]| {
        on(device, || {
            let input =
                |dims: [usize; 4]| Tensor::zeros(dims).cast(DType::BF16).contiguous().realize().unwrap();
            // images with channels last, so that only weights lie as no unit copies them
            let images = input([2, 12, 12, channels]).permute([0, 3, 1, 2]);
            let y = images.conv2d(&input([results, channels, 3, 3]), None, Window::new());
            measure::schedule(&[y.uop().unwrap()]).unwrap().kernels.len()
        })
    };
    assert_eq!(kernels("NULL:H200", [32, 16]), 2);
    assert_eq!(kernels("NULL:H200", [3, 16]), 2);
    // no order of these has whole vectors, and a CPU packs tiles by itself
    assert_eq!(kernels("NULL:H200", [3, 15]), 1);
    assert_eq!(kernels("NULL", [32, 16]), 1);
}
