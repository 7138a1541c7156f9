//! How many kernels a program runs.

use crate::tiny::on;
use frit_tensor::*;

fn kernels(t: &[&Tensor]) -> Result<usize> {
    let before = frit_engine::stats::stats().launches;
    Tensor::realize_all(t)?;
    Ok((frit_engine::stats::stats().launches - before) as usize)
}

#[test]
fn programs_run_in_few_kernels() {
    on(|| {
        let x = (Tensor::arange(64 * 64).float() * 0.1).sin().reshape([64, 64]).realize()?;
        let y = x.cos().realize()?;
        let mut found = vec![];
        let mut count = |name: &'static str, most: usize, t: &[&Tensor]| -> Result<()> {
            found.push((name, kernels(t)?, most));
            Ok(())
        };
        count("(a*b+c).relu().sum()", 1, &[&(&x * &y + &x).relu().sum(..)])?;
        count("softmax", 3, &[&x.softmax(-1)])?;
        count("layernorm", 3, &[&x.layernorm(-1, None, None, 1e-5)])?;
        count("arange", 1, &[&Tensor::arange(1000)])?;
        count("one_hot", 1, &[&Tensor::new([1, 5, 2]).one_hot(10)])?;
        count("embedding", 1, &[&x.embedding(&Tensor::new([3, 1, 4]))])?;
        count("argmax", 2, &[&x.argmax(-1)])?;
        let img = Tensor::rand([2, 3, 8, 8]).realize()?;
        let w = Tensor::rand([4, 3, 3, 3]).realize()?;
        let b = Tensor::rand([4]).realize()?;
        let conv = img.conv2d(&w, Some(&b), Window::new().padding(1)).relu();
        count("conv + bias + relu", 1, &[&conv])?;
        let conv = img.conv2d(&w, Some(&b), Window::new().padding(1)).relu().sum(..);
        let g = conv.gradient(&[&img, &w, &b])?;
        // one to know where relu was open, one for the sum over channels and window
        count("conv backward by input", 2, &[&g[0]])?;
        count("conv backward by weight", 2, &[&g[1]])?;
        let (mean, invstd) = (Tensor::rand([4]).realize()?, Tensor::rand([4]).realize()?);
        let bn = img.conv2d(&w, None, Window::new()).batchnorm(None, None, &mean, &invstd);
        count("conv + batchnorm", 1, &[&bn])?;
        count("sum, max, sum of squares", 1, &[&x.sum(..), &x.max(..), &x.square().sum(..)])?;
        let bad: Vec<String> = found
            .iter()
            .filter(|f| f.1 > f.2)
            .map(|(n, k, m)| format!("{n}: {k} kernels, {m} allowed"))
            .collect();
        assert!(bad.is_empty(), "{}", bad.join("\n"));
        Ok(())
    });
}

#[test]
fn rows_set_by_an_index_are_all_that_is_written() {
    on(|| {
        let x = Tensor::zeros([100, 2]).contiguous().realize()?;
        let (idx, v) = (Tensor::new([7, 3, 7]).realize()?, Tensor::new([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]));
        let v = v.realize()?;
        x.set(&idx, &v);
        assert_eq!(kernels(&[&x])?, 1, "the base is not copied");
        let before = &x + 1.0;
        x.set(Tensor::new([7, 3]), v.at(1..).flip(0));
        x.realize()?;
        assert_eq!(before.at(3).to_vec::<f32>()?, [4.0, 5.0], "computed from the old value");
        let rows = |i: i64| x.at(i).to_vec::<f32>();
        assert_eq!([rows(7)?, rows(3)?, rows(0)?], [[5.0, 6.0], [3.0, 4.0], [0.0, 0.0]]);
        // rows and places that are made of the tensor are computed before any is written
        x.set(Tensor::new([0, 3, 7]), x.at(Tensor::new([3, 7, 0])));
        assert_eq!([rows(0)?, rows(3)?, rows(7)?], [[3.0, 4.0], [5.0, 6.0], [0.0, 0.0]]);
        x.set(x.at((.., 0)).narrow(0, 0, 4).int(), v.at(..1).expand([4, 2]));
        assert_eq!([rows(0)?, rows(3)?, rows(5)?], [[1.0, 2.0], [1.0, 2.0], [1.0, 2.0]]);
        // sums go to one place in order
        x.update(|x| x.index_put(Tensor::new([9, 9]), 2.0, true));
        assert_eq!(rows(9)?, [4.0, 4.0]);
        Ok(())
    });
}
