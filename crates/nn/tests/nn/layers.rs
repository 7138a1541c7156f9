//! Layers: shapes, first values, torch's results.

use crate::assert_close;
use frit_nn::{BatchNorm, Conv2d, Dropout, Embedding, LayerNorm, Linear, Module, Sequential, training};
use frit_tensor::Tensor;

fn ramp(n: usize) -> Vec<f32> {
    (0..n).map(|i| i as f32).collect()
}

#[test]
fn linear_maps_the_last_dim() {
    let l = Linear::new(3, 2);
    l.weight.assign(Tensor::from_vec([1f32, 2., 3., 4., 5., 6.], [2, 3]));
    l.bias.as_ref().unwrap().assign(Tensor::from_slice(&[0.5f32, -0.5]));
    assert_close(
        &l.forward(&Tensor::from_vec([1f32, 0., -1., 2., 1., 0.], [2, 3])),
        &[-1.5, -2.5, 4.5, 12.5],
    );
    assert_eq!(l.forward(&Tensor::zeros([3])).shape(), [2]);
    assert_eq!(l.forward(&Tensor::zeros([4, 5, 3])).shape(), [4, 5, 2]);
    assert_eq!(Linear::without_bias(3, 2).parameters().len(), 1);
    let e = l.forward(&Tensor::zeros([2, 4])).check().unwrap_err().to_string();
    assert!(e.starts_with("linear: ") && e.contains("layers.rs"), "{e}");
}

#[test]
fn first_values_are_even_within_torchs_bound() {
    let w = Linear::new(100, 1000).weight.to_vec::<f32>().unwrap();
    assert!(w.iter().all(|v| v.abs() <= 0.1));
    let mean = w.iter().sum::<f32>() / w.len() as f32;
    let var = w.iter().map(|v| v * v).sum::<f32>() / w.len() as f32;
    assert!(mean.abs() < 1e-3 && (var - 0.01 / 3.0).abs() < 1e-4, "{mean} {var}");
    let c = Conv2d::new(4, 8, 5);
    assert!(c.weight.to_vec::<f32>().unwrap().iter().all(|v| v.abs() <= 0.1));
    assert_eq!(c.weight.shape(), [8, 4, 5, 5]);
}

#[test]
fn conv2d_with_stride_padding_and_groups_is_torchs() {
    let c = Conv2d::grouped(2, 2, [2, 2], 2).stride(2).padding(1);
    c.weight
        .assign(Tensor::from_vec(ramp(8).iter().map(|v| v * 0.5 - 1.0).collect::<Vec<_>>(), [2, 1, 2, 2]));
    c.bias.as_ref().unwrap().assign(Tensor::from_slice(&[0.25f32, -0.5]));
    let x = Tensor::from_vec(ramp(18), [1, 2, 3, 3]) * 0.1;
    assert_close(
        &c.forward(&x),
        &[0.25, 0.349999994, 0.400000006, 0.0, 1.75000012, 4.25, 5.05000019, 10.3500004],
    );
    assert_eq!(Conv2d::new(3, 6, 3).dilation(2).forward(&Tensor::zeros([2, 3, 9, 8])).shape(), [2, 6, 5, 4]);
    assert!(Conv2d::grouped(3, 4, [1, 1], 2).forward(&x).check().is_err());
    assert!(Conv2d::new(3, 4, 3).forward(&x).check().is_err());
}

fn batch() -> Tensor {
    (Tensor::from_vec(ramp(24), [2, 3, 2, 2]) * 0.25 - 1.0).square()
}

#[test]
fn batchnorm_is_torchs_in_both_modes() {
    let bn = BatchNorm::new(3);
    bn.weight.as_ref().unwrap().assign(Tensor::from_slice(&[1f32, 2., 0.5]));
    bn.bias.as_ref().unwrap().assign(Tensor::from_slice(&[0f32, 0.5, -1.]));
    let x = batch();
    let trained = training(true, || {
        let y = bn.forward(&x);
        bn.forward(&(&x + 1.0));
        y
    });
    #[rustfmt::skip]
    assert_close(&trained, &[
        -0.747914553, -0.904195189, -1.0158242, -1.0828017, -1.52091289, -1.49929881, -1.43445671, -1.32638657,
        -1.5442543, -1.51234365, -1.4733417, -1.42724848, 0.32372427, 0.703262985, 1.12745333, 1.59629536,
        1.5915091, 2.13186002, 2.71543908, 3.34224629, -0.693302929, -0.576297104, -0.452200025, -0.321011692,
    ]);
    assert_close(&bn.running_mean, &[0.687812507, 1.21031249, 2.11281252]);
    assert_close(&bn.running_var, &[2.51172996, 8.07262325, 17.6778011]);
    assert_eq!(bn.num_batches_tracked.item::<i64>().unwrap(), 2);
    #[rustfmt::skip]
    assert_close(&bn.forward(&x), &[
        0.196982741, -0.0790691376, -0.276249051, -0.394556999, -0.351961434, -0.30796653, -0.17598179, 0.0439927652,
        -1.1323359, -1.06544328, -0.983685553, -0.887062907, 2.08991003, 2.76032162, 3.50960541, 4.33776093,
        5.98330593, 7.08317852, 8.27104092, 9.54689312, 0.651467681, 0.896740675, 1.15687871, 1.43188179,
    ]);
    assert_eq!(bn.forward(&Tensor::zeros([5, 3])).shape(), [5, 3]);
    let e = bn.forward(&Tensor::zeros([5, 4])).check().unwrap_err().to_string();
    assert!(e.contains("batchnorm: expected (N, 3, ..), got [5, 4]") && e.contains("layers.rs"), "{e}");
    assert_eq!((bn.parameters().len(), bn.named_tensors().len()), (2, 5));
}

#[test]
fn layernorm_is_torchs() {
    let ln = LayerNorm::new([2, 2]);
    ln.weight.as_ref().unwrap().assign(Tensor::from_vec([1f32, 2., 0.5, 3.], [2, 2]));
    ln.bias.as_ref().unwrap().assign(Tensor::from_vec([0f32, 0.5, -1., 1.], [2, 2]));
    #[rustfmt::skip]
    assert_close(&ln.forward(&batch()).narrow(0, 0, 1), &[
        1.49670708, 1.0282495, -1.30814552, -2.43362236, -0.999895513, -0.928422213, -0.928578913, 5.71379328,
        -1.25617278, -0.55356431, -0.817652345, 5.25477886,
    ]);
    assert!(ln.forward(&Tensor::zeros([2, 3])).check().is_err());
    assert!(ln.forward(&Tensor::zeros([2])).check().is_err());
}

#[test]
fn embedding_gives_rows_and_refuses_what_is_not_there() {
    let e = Embedding::new(5, 3);
    let table = e.weight.to_vec::<f32>().unwrap();
    let rows = e.forward(&Tensor::from_vec([4i32, 0], [1, 2]));
    assert_eq!(rows.shape(), [1, 2, 3]);
    assert_eq!(rows.to_vec::<f32>().unwrap(), [&table[12..15], &table[..3]].concat());
    assert!(e.forward(&Tensor::from_slice(&[5i32])).to_vec::<f32>().is_err());
}

#[test]
fn dropout_drops_only_while_training() {
    let d = Dropout::new(0.25);
    let x = Tensor::ones([10_000]);
    assert_eq!(d.forward(&x).to_vec::<f32>().unwrap(), vec![1.0; 10_000]);
    let y = training(true, || d.forward(&x)).to_vec::<f32>().unwrap();
    assert!(y.iter().all(|v| *v == 0.0 || (*v - 4.0 / 3.0).abs() < 1e-6));
    let dropped = y.iter().filter(|v| **v == 0.0).count();
    assert!((2_300..2_700).contains(&dropped), "{dropped}");
    assert!(training(true, || Dropout::new(1.5).forward(&x)).check().is_err());
}

#[test]
fn sequential_names_by_position_and_says_which_layer_failed() {
    let inner = Sequential::new().then(Linear::new(8, 8)).then_fn(|x| x.reshape([1, 2]));
    let net = Sequential::new().then(Linear::new(4, 8)).then_fn(Tensor::relu).then(inner);
    let names: Vec<String> = net.named_parameters().into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["0.weight", "0.bias", "2.0.weight", "2.0.bias"]);
    let e = net.forward(&Tensor::zeros([3, 4])).check().unwrap_err().to_string();
    assert!(e.contains("in 2.1"), "{e}");
}
