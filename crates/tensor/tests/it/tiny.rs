//! Thirty short checks from end to end.
use frit_tensor::*;

pub fn on<T>(f: impl FnOnce() -> Result<T>) -> T {
    let device = std::env::var("FRIT_TEST_DEVICE").unwrap_or_else(|_| "INTERP".into());
    Device::scope(&device, f).unwrap().unwrap()
}

#[test]
fn adding_adds() {
    on(|| {
        let x = Tensor::new([1.0, 2.0, 3.0]);
        assert_eq!((&x + &x).to_vec::<f32>()?, [2.0, 4.0, 6.0]);
        assert_eq!((1.0 - &x * 2).to_vec::<f32>()?, [-1.0, -3.0, -5.0]);
        Ok(())
    });
}
#[test]
fn sum_and_matmul() {
    on(|| {
        let x = Tensor::arange(6).reshape([2, 3]);
        assert_eq!(x.sum(1).to_vec::<i32>()?, [3, 12]);
        assert_eq!(x.matmul(&x.t()).to_vec::<i32>()?, [5, 14, 14, 50]);
        Ok(())
    });
}
