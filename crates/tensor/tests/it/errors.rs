//! What users see when something does not fit: messages, and the line of their program.

use crate::tiny::on;
use frit_tensor::*;

/// The message, and that it ends with the line of the call: here, or a little below where this one is written over
/// several lines.
#[track_caller]
fn says(t: Result<()>, message: &str) {
    let line = std::panic::Location::caller().line();
    let e = t.expect_err(message).to_string();
    let fits = (line..line + 5).any(|l| e == format!("{message} at {}:{l}", file!()));
    assert!(fits, "{e}\nis not\n{message} at line {line}");
}
/// The message with the line where it was born.
#[track_caller]
fn born(t: Result<()>, message: &str, line: u32) {
    let e = t.expect_err(message).to_string();
    assert_eq!(e, format!("{message} at {}:{line}", file!()));
}
fn failed(t: Tensor) -> Result<()> {
    t.check()
}

#[test]
fn shapes_that_do_not_fit() {
    on(|| {
        let (a, b) = (Tensor::zeros([2, 3]), Tensor::zeros([4, 5]));
        says(failed(a.matmul(&b)), "matmul: shapes [2, 3] and [4, 5] do not contract (3 != 4)");
        says(failed(&a + &b), "add: shapes [2, 3] and [4, 5] do not broadcast (2 != 4)");
        says(failed(a.reshape([-1, -1])), "reshape: more than one -1 in [-1, -1]");
        says(failed(a.reshape([4, 2])), "reshape: shape [2, 3] has 6 elements and does not fit [4, 2]");
        says(failed(a.reshape([-1, 4])), "reshape: shape [2, 3] has 6 elements and does not fit [-1, 4]");
        says(failed(a.sum(2)), "sum: axis 2 is out of range for 2 dims (-2..=1)");
        says(failed(a.sum([0, 0])), "sum: axis 0 is given twice");
        says(failed(a.softmax(5)), "softmax: axis 5 is out of range for 2 dims (-2..=1)");
        says(failed(a.permute([0])), "permute: 1 axes for shape [2, 3]");
        says(failed(a.expand([3, 3])), "expand: shape [2, 3] does not expand to [3, 3]");
        says(failed(a.at((0, 3))), "index: index 3 is out of range for size 3 of shape [2, 3]");
        says(failed(a.at(-3)), "index: index -3 is out of range for size 2 of shape [2, 3]");
        says(failed(a.at((0, 0, 0))), "index: 3 indices for shape [2, 3]");
        says(
            failed(Tensor::cat(&[a.clone(), b.clone()], 0)),
            "cat: shapes [2, 3] and [4, 5] differ outside axis 0",
        );
        says(failed(Tensor::new(vec![vec![1.0], vec![1.0, 2.0]])), "new: rows differ in length");
        says(
            failed(Tensor::from_vec(vec![1.0f32; 5], [2, 3])),
            "from_vec: new: 5 elements do not fill shape [2, 3]",
        );
        says(
            failed(a.layernorm(7, None, None, 1e-5)),
            "layernorm: mean: axis 7 is out of range for 2 dims (-2..=1)",
        );
        says(failed(Tensor::zeros([-1])), "zeros: full: size -1 in [-1]");
        says(a.item::<f32>().map(|_| ()), "item: shape [2, 3] has 6 elements, not one");
        Ok(())
    });
}

#[test]
fn types_and_literals_that_do_not_fit() {
    on(|| {
        let u = Tensor::from_vec(vec![1u8, 2], [2]);
        says(failed(u.lt(300)), "lt: literal 300 does not fit uint8 (0..=255)");
        says(failed(u.maximum(-1)), "maximum: literal -1 does not fit uint8 (0..=255)");
        says(
            failed(Tensor::full([2], u64::MAX)),
            "full: tensor: literal 18446744073709551615 is beyond int64",
        );
        assert_eq!(Tensor::full([2], 1i64 << 40).dtype(), DType::I64);
        says(failed(Tensor::ones([2]) & Tensor::ones([2])), "bitwise_and: is not defined for float32");
        says(
            failed(u.requires_grad(true)),
            "requires_grad: uint8 values have no gradients; cast to a float type",
        );
        let i = Tensor::arange(3);
        says(i.to_vec::<u8>().map(|_| ()), "to_vec: uint8 does not hold int32 values; cast first");
        says(
            failed(Tensor::ones([2]).at(Tensor::ones([1]))),
            "index: an index tensor must be of integers or bools, not float32",
        );
        Ok(())
    });
}

#[test]
fn the_first_error_stays_and_its_shape_poisons() {
    on(|| {
        let bad = Tensor::zeros([2]).reshape([3]);
        let line = line!() - 1;
        let later = (&bad + 1.0).sum(..).relu().matmul(&Tensor::ones([3]));
        let want = "reshape: shape [2] has 2 elements and does not fit [3]";
        born(failed(later), want, line);
        let shape = bad.shape();
        born(failed(Tensor::zeros((&shape[0] * 2, 5))), want, line);
        born(failed(Tensor::zeros(bad.shape())), want, line);
        let pieces = bad.chunk(3, 0);
        assert_eq!(pieces.len(), 3);
        born(failed(pieces[2].clone()), want, line);
        born(bad.sum(..).backward(), want, line);
        born(bad.realize().map(|_| ()), want, line);
        assert!(bad.to_string().contains(want));
        let missing = Tensor::zeros([2]).shape()[4].clone();
        assert!(Tensor::zeros((missing, 1)).check().unwrap_err().to_string().starts_with("shape: no dim 4"));
        Ok(())
    });
}

#[test]
fn gradients_that_are_not_there() {
    on(|| {
        let (x, y) = (Tensor::new([1.0, 2.0]), Tensor::new([3.0]));
        let loss = x.square().sum(..);
        says(
            loss.gradient(&[&y]).map(|_| ()),
            "gradient: does not depend on target 0 of shape [1] (gradient_or_zeros gives zeros)",
        );
        assert_eq!(loss.gradient_or_zeros(&[&y])?[0].to_vec::<f32>()?, [0.0]);
        says(x.gradient(&[&x]).map(|_| ()), "gradient: of shape [2], not a scalar: reduce it first");
        let h = x.exp();
        h.realize()?;
        let line = line!() - 1;
        let e = h.sum(..).gradient(&[&x]).unwrap_err().to_string();
        assert!(
            e.starts_with(&format!("gradient: realised at {}:{line} before its gradient was built", file!())),
            "{e}"
        );
        assert_eq!(h.sum(..).gradient(&[&h])?[0].to_vec::<f32>()?, [1.0, 1.0]);
        // reading never cuts history, and a realised tensor is still found in graphs built before
        let z = &x * 2.0;
        z.to_vec::<f32>()?;
        let l = z.square().sum(..);
        z.realize()?;
        assert_eq!(l.gradient(&[&x, &z])?[0].to_vec::<f32>()?, [8.0, 16.0]);
        Ok(())
    });
}

#[test]
fn devices_and_data_that_are_not_there() {
    assert!(Device::scope("NOSUCH", || ()).is_err());
    on(|| {
        assert!(Tensor::ones([2]).to("NOSUCH").check().is_err());
        let x = Tensor::new([1.0, 2.0, 3.0]);
        let y = x.at(Tensor::new([0, 3]));
        let line = line!() - 1;
        let e = y.to_vec::<f32>().unwrap_err().to_string();
        assert!(e.contains(&format!("index at {}:{line}", file!())), "{e}");
        // the process carries on
        assert_eq!(x.at(Tensor::new([0, -1])).to_vec::<f32>()?, [1.0, 3.0]);
        let far = Device::scope("NULL", || Tensor::new([1.0, 2.0, 3.0]))?;
        let e = (&x + &far).check().unwrap_err().to_string();
        assert!(e.starts_with("add: operands are on INTERP and NULL"), "{e}");
        Ok(())
    });
}

#[test]
fn an_index_outside_is_an_error_whatever_the_table_is_made_of() {
    on(|| {
        let at = |v: i32| Tensor::new([v]);
        let nothing = Tensor::zeros([3, 0]).contiguous().realize()?;
        for table in [
            Tensor::arange(3),
            Tensor::ones([3]),
            Tensor::arange(3) * 2 + 1,
            Tensor::zeros([1]).expand([3]),
            nothing.sum(1),
            Tensor::ones([2]).pad(&[(0, 1)], 7),
            Tensor::new([1.0, 2.0, 3.0]),
        ] {
            for idx in [at(3), at(5), at(-4), Tensor::full([1], 3)] {
                for picked in
                    [table.at(&idx), table.gather(0, &idx), table.take(&idx), table.index_select(0, &idx)]
                {
                    let e = picked.to_bytes().expect_err("an index outside");
                    assert_eq!(e.kind(), Kind::Index, "{e}");
                }
            }
            assert_eq!(table.at(at(-1)).to_bytes()?, table.at(2..3).to_bytes()?);
        }
        let rows = Tensor::arange(8).reshape([4, 2]).float();
        assert_eq!(rows.embedding(&at(-1)).to_vec::<f32>().unwrap_err().kind(), Kind::Index);
        assert_eq!(rows.at(at(-1)).to_vec::<f32>()?, [6.0, 7.0]);
        Ok(())
    });
}

#[test]
fn sizes_that_no_number_holds_are_errors_of_their_call() {
    on(|| {
        let (x, far) = (Tensor::ones([3]), 1isize << 62);
        let huge = Tensor::ones([1]).expand([1usize << 58]);
        let calls: Vec<(&str, Tensor)> = vec![
            ("pad", x.pad(&[(far, far)], 0)),
            ("pad", x.pad(&[(isize::MAX, isize::MAX)], 0)),
            ("cat", Tensor::cat(&vec![huge.clone(); 40], 0)),
            ("repeat", x.repeat(&[usize::MAX])),
            ("repeat", x.repeat(&[1i64 << 40, 1 << 40])),
            ("repeat_interleave", x.repeat_interleave(1i64 << 62, 0)),
            ("expand", Tensor::ones([1, 1]).expand([1usize << 40, 1 << 40])),
            ("unfold", huge.unfold(0, 1 << 57, 1)),
            ("unfold", x.unfold(0, usize::MAX, 1)),
            ("add", huge.unsqueeze(1) + huge.unsqueeze(0)),
            ("max_pool2d", Tensor::ones([1, 1, 3, 3]).max_pool2d(usize::MAX, Window::new())),
            ("avg_pool1d", Tensor::ones([1, 1, 3]).avg_pool1d(2, Window::new().dilation(usize::MAX))),
            ("conv_transpose1d", {
                let w = Tensor::ones([1, 1, 3]);
                w.conv_transpose1d(&w, None, Window::new().stride(usize::MAX))
            }),
            ("reshape", Tensor::ones([1]).reshape(vec![1i64; 302])),
            ("split", huge.split(1, 0).remove(0)),
            ("unbind", huge.unbind(0).remove(0)),
            ("chunk", huge.chunk(1 << 40, 0).remove(0)),
            ("tensor_split", huge.tensor_split_into(usize::MAX, 0).remove(0)),
        ];
        for (op, t) in calls {
            let e = t.check().expect_err(op);
            assert_eq!(e.op(), op, "{e}");
        }
        // what can be counted is fine, and a step beyond the end picks one
        assert_eq!(huge.shape()[0].get(), 1 << 58);
        assert_eq!(x.at(step(.., i64::MAX)).to_vec::<f32>()?, [1.0]);
        assert_eq!(x.at(step(.., i64::MIN)).to_vec::<f32>()?, [1.0]);
        assert_eq!(x.unfold(0, 2, usize::MAX).shape(), [1, 2]);
        let dims = vec![1i64; 64];
        assert_eq!((Tensor::ones(dims) + 1.0).sum(..).item::<f32>()?, 2.0);
        Ok(())
    });
}
