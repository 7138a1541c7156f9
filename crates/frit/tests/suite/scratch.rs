use crate::support::on;
use frit::*;
#[test]
fn scratch() {
    on(&std::env::var("DEV").unwrap_or("INTERP".into()), || {
        let x = Tensor::from_vec(vec![1u8, 2, 3, 4, 5, 250], [6]).cumsum(0).reshape([3, 1, 2]);
        eprintln!("{:?}", x.to_vec::<u32>());
        let x = Tensor::from_vec((1..49).collect::<Vec<u64>>(), [3, 4, 4]).pad(&[(0, 2), (0, 1), (2, 2)], 2).cumsum(2);
        frit::engine::plan::with_random_opts(1888, || eprintln!("{:?}", x.to_vec::<u64>()));
    });
}
