//! Decide the width of index arithmetic: 32 bits where every value fits, else 64.

use crate::error::Error;
use crate::pass::Ctx;
use frit_uop::graph::Numbered;
use frit_uop::rewrite::replaced;
use frit_uop::{Arg, DType, Op, UOp};
use smallvec::SmallVec;

/// The pass. Leaves no value of type `Index` behind.
pub fn widths(sink: &UOp, ctx: &mut Ctx) -> Result<UOp, Error> {
    let mut wide = false;
    let new = Numbered::of(sink).map(|n, src| {
        let new = node(n, src);
        if new.dtype != n.dtype {
            replaced("as wide as its values need", n, &new);
        }
        wide |= new.dtype == DType::I64 && n.dtype == DType::Index;
        Ok(new)
    })?;
    if wide && !ctx.target.int64 {
        return Err(Error::Target(format!("an index needs 64 bits, {} has none", ctx.target.name)));
    }
    Ok(new.last().unwrap_or(sink).clone())
}

fn fits(n: &UOp) -> bool {
    n.bounds.0 >= i32::MIN as i128 && n.bounds.1 <= i32::MAX as i128
}

fn node(n: &UOp, src: SmallVec<[UOp; 4]>) -> UOp {
    let is_index = n.dtype == DType::Index;
    let reads_index = n.src.iter().any(|s| s.dtype == DType::Index);
    if !is_index && !reads_index {
        return n.with_src(src);
    }
    let wide_source = n.src.iter().zip(&src).any(|(o, s)| o.dtype == DType::Index && s.dtype == DType::I64);
    let width = if (fits(n) || !is_index) && !wide_source { DType::I32 } else { DType::I64 };
    match n.op {
        Op::Const => UOp::new(Op::Const, width, [], n.arg.clone()),
        Op::Variable | Op::Range | Op::Special | Op::Define | Op::Param => {
            UOp::new(n.op, width, src, n.arg.clone())
        }
        // conversions do not mix operands; addresses, effects and loops take an index of any width
        Op::Cast | Op::Index | Op::End | Op::After | Op::Sink | Op::Barrier | Op::Reduce | Op::Scan => {
            let dtype = match n.op {
                _ if !is_index => n.dtype,
                Op::Cast => width,
                _ => src[0].dtype,
            };
            if n.op == Op::Cast && src[0].dtype == dtype {
                src[0].clone()
            } else {
                UOp::new(n.op, dtype, src, n.arg.clone())
            }
        }
        Op::Load => UOp::new(n.op, src[0].dtype, src, n.arg.clone()),
        Op::Store => {
            let value = to_width(&src[1], src[0].dtype);
            let mut src = src;
            src[1] = value;
            UOp::new(n.op, n.dtype, src, n.arg.clone())
        }
        _ => {
            let src: SmallVec<[UOp; 4]> = n
                .src
                .iter()
                .zip(&src)
                .map(|(o, s)| if o.dtype == DType::Index { to_width(s, width) } else { s.clone() })
                .collect();
            UOp::new(n.op, if is_index { width } else { n.dtype }, src, n.arg.clone())
        }
    }
}

fn to_width(n: &UOp, width: DType) -> UOp {
    match &n.arg {
        Arg::Scalar(v) if n.op == Op::Const => UOp::constant(*v, width),
        _ => n.cast(width),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use frit_abi::Target;
    use frit_uop::AxisKind;

    #[test]
    fn an_index_beyond_32_bits_is_wide_and_needs_a_target_that_has_them() {
        let target = Target::interp();
        let big = UOp::range(&UOp::index(1 << 20), 0, AxisKind::Global);
        let p = UOp::param(0, 1 << 40, DType::F32);
        let s =
            UOp::sink([p.at(&(&big * (1 << 20) + 3)).store(&UOp::float(1.0, DType::F32)).end([big.clone()])]);
        let new = widths(&s, &mut Ctx::new(&s, &target, crate::Opts::List(&[]))).unwrap();
        assert!(new.toposort().iter().all(|n| n.dtype != DType::Index));
        let idx = new.toposort().iter().find(|n| n.op == Op::Index).unwrap().src[1].clone();
        assert_eq!(idx.dtype, DType::I64);
        let narrow = Target { int64: false, ..target.clone() };
        assert!(widths(&s, &mut Ctx::new(&s, &narrow, crate::Opts::List(&[]))).is_err());
    }
}
