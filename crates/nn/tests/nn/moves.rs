//! Moving modules between types, and modes that stay in their thread.

use frit_nn::{Adam, BatchNorm, Dropout, Linear, Masks, Module, MultiheadAttention, Optimizer, training};
use frit_nn::{Gru, LstmCell, Muon, RnnOptions};
use frit_tensor::{DType, Device, Tensor};

#[derive(Module)]
struct Net {
    fc: Linear,
    bn: BatchNorm,
}

fn net() -> Net {
    Net { fc: Linear::new(3, 2), bn: BatchNorm::new(2) }
}

#[test]
fn a_net_moved_to_bfloat16_trains_with_float32_state() {
    Device::scope("INTERP", || {
        let net = net();
        net.to_dtype(DType::BF16).unwrap();
        let types: Vec<DType> = net.named_tensors().iter().map(|(_, t)| t.dtype()).collect();
        assert_eq!(types, [[DType::BF16; 6].as_slice(), &[DType::I64]].concat());
        assert_eq!(net.named_buffers().len(), 3);
        assert!(net.parameters().iter().all(Tensor::is_requires_grad));
        let mut opt = Adam::new(&net, 0.1).unwrap();
        let x = Tensor::ones([4, 3]).bfloat16();
        let before = net.fc.weight.float().to_vec::<f32>().unwrap();
        net.fc.forward(&x).square().sum(..).backward().unwrap();
        opt.step().unwrap();
        assert_ne!(net.fc.weight.float().to_vec::<f32>().unwrap(), before);
        assert!(opt.state().iter().all(|t| t.dtype() == DType::F32));
        let e = net.to_dtype(DType::I32).unwrap_err().to_string();
        assert!(e.starts_with("to_dtype: ") && e.contains("is not a float type"), "{e}");
    })
    .unwrap();
}

#[test]
fn one_thread_trains_while_another_evaluates_the_same_net() {
    Device::scope("INTERP", || {
        let (bn, dropout, x) = (BatchNorm::new(2), Dropout::new(0.5), Tensor::ones([64, 2]));
        training(true, || {
            std::thread::scope(|s| {
                let other = s.spawn(|| {
                    Device::scope("INTERP", || {
                        bn.forward(&x);
                        dropout.forward(&x).to_vec::<f32>().unwrap()
                    })
                });
                assert_eq!(other.join().unwrap().unwrap(), vec![1.0; 128]);
            });
            // the other thread took no statistics and dropped nothing
            assert_eq!(bn.num_batches_tracked.item::<i64>().unwrap(), 0);
            assert!(dropout.forward(&x).to_vec::<f32>().unwrap().contains(&0.0));
        });
    })
    .unwrap();
}

#[test]
fn inputs_that_do_not_fit_are_named() {
    let gru = Gru::with(3, 4, RnnOptions { layers: 2, ..RnnOptions::default() });
    let (y, h) = gru.forward(&Tensor::zeros([5, 2, 4]), None);
    let e = y.check().unwrap_err().to_string();
    assert!(e.contains("gru: expected (T, N, 3) or (T, 3), got [5, 2, 4]") && e.contains("moves.rs"), "{e}");
    assert!(h.check().is_err());
    let (y, _) = gru.forward(&Tensor::zeros([5, 2, 3]), Some(&Tensor::zeros([1, 2, 4])));
    assert!(y.check().unwrap_err().to_string().contains("expected states of shape [2, 2, 4], got [1, 2, 4]"));
    assert!(gru.forward(&Tensor::zeros([0, 2, 3]), None).0.check().is_err());
    let (h, _) = LstmCell::new(3, 4).forward(&Tensor::zeros([2, 5]), None);
    assert!(h.check().unwrap_err().to_string().contains("lstm_cell: expected (N, 3), got [2, 5]"));
    let x = Tensor::zeros([3, 1, 6]);
    let attention = MultiheadAttention::new(6, 2);
    let wrong = Tensor::zeros([3, 4]);
    let e = attention.forward(&x, &x, &x, Masks { attention: Some(&wrong), ..Masks::default() });
    let e = e.check().unwrap_err().to_string();
    assert!(e.contains("attention mask of shape [3, 4] for 1 sequences, 3 queries and 3 keys"), "{e}");
    assert!(attention.forward(&x, &Tensor::zeros([3, 1, 5]), &x, Masks::default()).check().is_err());
    assert!(MultiheadAttention::new(6, 4).forward(&x, &x, &x, Masks::default()).check().is_err());
    let e = Muon::new(&Linear::new(2, 2), 0.1).err().unwrap().to_string();
    assert!(e.contains("parameter \"bias\" of shape [2] is not a matrix"), "{e}");
}
