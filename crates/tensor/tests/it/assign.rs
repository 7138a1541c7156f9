//! Versions: what assignment changes and what it leaves.

use crate::tiny::on;
use frit_tensor::*;

#[test]
fn old_values_stay_with_who_has_them() {
    on(|| {
        let x = Tensor::new([1.0, 2.0, 3.0]);
        let old = &x + 10.0;
        x.assign(&x * 2.0);
        let between = &x + 0.0;
        x.assign(&x + 1.0);
        assert_eq!(x.to_vec::<f32>()?, [3.0, 5.0, 7.0]);
        assert_eq!(between.to_vec::<f32>()?, [2.0, 4.0, 6.0]);
        assert_eq!(old.to_vec::<f32>()?, [11.0, 12.0, 13.0]);
        x.realize()?;
        x.assign(0.0).realize()?;
        assert_eq!(x.to_vec::<f32>()?, [0.0; 3]);
        assert_eq!(between.to_vec::<f32>()?, [2.0, 4.0, 6.0]);
        Ok(())
    });
}
#[test]
fn slices_are_written_through_views() {
    on(|| {
        let x = Tensor::arange(12).reshape([3, 4]).contiguous().realize()?;
        x.set((1, ..), 0);
        x.at((.., 0)).assign(Tensor::new([7, 8, 9]));
        x.at((0, 1..3)).assign(-1);
        x.set((2, step(.., 2)), Tensor::new([5, 6]));
        assert_eq!(x.to_vec::<i32>()?, [7, -1, -1, 3, 8, 0, 0, 0, 5, 9, 6, 11]);
        Ok(())
    });
}
#[test]
fn a_tensor_that_is_no_memory_is_set_as_a_value() {
    on(|| {
        let x = Tensor::zeros([2, 3]);
        x.set((.., 1), Tensor::new([5.0, 6.0]));
        x.set((0, 0), 1.0);
        x.set(x.gt(5.5), -1.0);
        assert_eq!(x.to_vec::<f32>()?, [1.0, 5.0, 0.0, 0.0, -1.0, 0.0]);
        Ok(())
    });
}
#[test]
fn overlapping_views_and_the_tensors_own_transpose() {
    on(|| {
        let x = Tensor::new([[1, 2], [3, 4]]);
        x.assign(x.t());
        assert_eq!(x.to_vec::<i32>()?, [1, 3, 2, 4]);
        let v = Tensor::arange(5).contiguous().realize()?;
        v.set(1.., v.at(..4));
        assert_eq!(v.to_vec::<i32>()?, [0, 0, 1, 2, 3]);
        Ok(())
    });
}
#[test]
fn index_tensors_write_in_order() {
    on(|| {
        let x = Tensor::new([0.0, 0.0, 0.0, 0.0]);
        x.set(Tensor::new([1, 3, 1]), Tensor::new([1.0, 2.0, 3.0]));
        assert_eq!(x.to_vec::<f32>()?, [0.0, 3.0, 0.0, 2.0]);
        Ok(())
    });
}
#[test]
fn gradients_go_through_assignment() {
    on(|| {
        let (x, v) = (Tensor::new([1.0, 2.0, 3.0]), Tensor::new([5.0]));
        let y = Tensor::new([0.0, 0.0, 0.0]);
        y.assign(&x * 2.0);
        y.set(1..2, &v * 3.0);
        let g = y.square().sum(..).gradient(&[&x, &v])?;
        assert_eq!(g[0].to_vec::<f32>()?, [8.0, 0.0, 24.0]);
        assert_eq!(g[1].to_vec::<f32>()?, [90.0]);
        Ok(())
    });
}
