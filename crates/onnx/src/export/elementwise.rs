//! What is computed element by element.

use super::lower::Lowering;
use super::writer::Attribute::Int;
use frit_uop::{Alu, DType, Op, UOp};

type Done<T> = Result<T, String>;

/// The operands, without the expansions that ONNX does by itself.
pub(super) fn operands(n: &UOp) -> Vec<UOp> {
    let mut all: Vec<UOp> = n.src.iter().cloned().collect();
    for i in 0..all.len() {
        let mut bare = &all[i];
        while bare.op == Op::Expand {
            bare = bare.input();
        }
        let bare = bare.clone();
        let covers = |axis: usize, d: &UOp| {
            let behind = n.shape().len() - axis;
            let others = all.iter().enumerate().map(|(j, o)| if j == i { &bare } else { o });
            let mut dims =
                others.filter_map(|o| o.shape().len().checked_sub(behind).map(|at| &o.shape()[at]));
            dims.any(|o| o == d)
        };
        if n.shape().iter().enumerate().all(|(axis, d)| covers(axis, d)) {
            all[i] = bare;
        }
    }
    all
}

/// The operator of an operation that ONNX has as well.
fn direct(alu: Alu, dtype: DType) -> Option<&'static str> {
    let is_bool = dtype == DType::Bool;
    Some(match alu {
        Alu::Neg if !dtype.is_unsigned() => "Neg",
        Alu::Not => ["BitwiseNot", "Not"][is_bool as usize],
        Alu::Recip => "Reciprocal",
        Alu::Sqrt => "Sqrt",
        Alu::Exp => "Exp",
        Alu::Log => "Log",
        Alu::Sin => "Sin",
        Alu::Cos => "Cos",
        Alu::Tan => "Tan",
        Alu::Asin => "Asin",
        Alu::Acos => "Acos",
        Alu::Sinh => "Sinh",
        Alu::Cosh => "Cosh",
        Alu::Tanh => "Tanh",
        Alu::Sigmoid => "Sigmoid",
        Alu::Erf => "Erf",
        Alu::Floor => "Floor",
        Alu::Round => "Round",
        Alu::Add => "Add",
        Alu::Sub => "Sub",
        Alu::Mul if !is_bool => "Mul",
        Alu::Fdiv | Alu::Tdiv => "Div",
        Alu::Max if !is_bool => "Max",
        Alu::Min if !is_bool => "Min",
        Alu::Pow => "Pow",
        Alu::Lt if !is_bool => "Less",
        Alu::Eq => "Equal",
        Alu::And => ["BitwiseAnd", "And"][is_bool as usize],
        Alu::Or => ["BitwiseOr", "Or"][is_bool as usize],
        Alu::Xor => ["BitwiseXor", "Xor"][is_bool as usize],
        Alu::Mul | Alu::Min => "And",
        Alu::Max => "Or",
        Alu::Where => "Where",
        _ => return None,
    })
}

/// One node, and the few operators it is where ONNX has none of its own.
pub(super) fn lower(l: &mut Lowering, n: &UOp) -> Done<String> {
    let Some(alu) = n.op.alu() else { return Err(format!("a {} is not elementwise", n.op.name())) };
    let nodes = operands(n);
    // of a choice the type of what is chosen
    let dtype = n.src.last().map_or(n.dtype, |s| s.dtype);
    let args = nodes.iter().map(|s| l.name(s)).collect::<Done<Vec<_>>>()?;
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    if let Some(op) = direct(alu, dtype) {
        return Ok(l.graph.call(op, &args, vec![]));
    }
    if alu == Alu::Atan2 && nodes[1].op == Op::Const && is_one(&nodes[1]) {
        return Ok(l.graph.call("Atan", &args[..1], vec![]));
    }
    let number = |l: &mut Lowering, v: f64| {
        l.scalar(&if dtype.is_float() { UOp::float(v, dtype) } else { UOp::int(v as i64, dtype) })
    };
    let is_float = dtype.is_float();
    Ok(match (alu, &args[..]) {
        (Alu::Neg, [x]) => {
            let zero = number(l, 0.0)?;
            l.graph.call("Sub", &[&zero, x], vec![])
        }
        (Alu::Rsqrt, [x]) => {
            let root = l.graph.call("Sqrt", &[x], vec![]);
            l.graph.call("Reciprocal", &[&root], vec![])
        }
        (Alu::Exp2, [x]) => {
            let two = number(l, 2.0)?;
            l.graph.call("Pow", &[&two, x], vec![])
        }
        (Alu::Log2 | Alu::Log10, [x]) => {
            let base = number(l, if alu == Alu::Log2 { 2f64.ln() } else { 10f64.ln() })?;
            let log = l.graph.call("Log", &[x], vec![]);
            l.graph.call("Div", &[&log, &base], vec![])
        }
        // 2 sinh(x/2) exp(x/2) does not cancel
        (Alu::Expm1, [x]) => {
            let (half, two) = (number(l, 0.5)?, number(l, 2.0)?);
            let h = l.graph.call("Mul", &[x, &half], vec![]);
            let (sinh, exp) = (l.graph.call("Sinh", &[&h], vec![]), l.graph.call("Exp", &[&h], vec![]));
            let product = l.graph.call("Mul", &[&sinh, &exp], vec![]);
            l.graph.call("Mul", &[&product, &two], vec![])
        }
        // 2 atanh(x / (x + 2)) does not cancel near 0, and is worse than the logarithm far from it
        (Alu::Log1p, [x]) => {
            let (one, two) = (number(l, 1.0)?, number(l, 2.0)?);
            let plain = l.graph.call("Add", &[x, &one], vec![]);
            let plain = l.graph.call("Log", &[&plain], vec![]);
            let wide = l.graph.call("Add", &[x, &two], vec![]);
            let part = l.graph.call("Div", &[x, &wide], vec![]);
            let near = l.graph.call("Atanh", &[&part], vec![]);
            let near = l.graph.call("Mul", &[&near, &two], vec![]);
            let size = l.graph.call("Abs", &[x], vec![]);
            let is_near = l.graph.call("Less", &[&size, &one], vec![]);
            l.graph.call("Where", &[&is_near, &near, &plain], vec![])
        }
        (Alu::Erfc, [x]) => {
            let (one, erf) = (number(l, 1.0)?, l.graph.call("Erf", &[x], vec![]));
            l.graph.call("Sub", &[&one, &erf], vec![])
        }
        (Alu::Trunc, [x]) => {
            let (sign, size) = (l.graph.call("Sign", &[x], vec![]), l.graph.call("Abs", &[x], vec![]));
            let size = l.graph.call("Floor", &[&size], vec![]);
            l.graph.call("Mul", &[&sign, &size], vec![])
        }
        (Alu::Idiv, [x, y]) if is_float => {
            let q = l.graph.call("Div", &[x, y], vec![]);
            l.graph.call("Floor", &[&q], vec![])
        }
        (Alu::Idiv, [x, y]) if dtype.is_unsigned() => l.graph.call("Div", &[x, y], vec![]),
        (Alu::Idiv, [x, y]) => {
            let rest = l.graph.call("Mod", &[x, y], vec![]);
            let whole = l.graph.call("Sub", &[x, &rest], vec![]);
            l.graph.call("Div", &[&whole, y], vec![])
        }
        (Alu::Mod, [x, y]) if is_float => {
            let q = l.graph.call("Div", &[x, y], vec![]);
            let q = l.graph.call("Floor", &[&q], vec![]);
            let whole = l.graph.call("Mul", &[&q, y], vec![]);
            l.graph.call("Sub", &[x, &whole], vec![])
        }
        (Alu::Mod, [x, y]) => l.graph.call("Mod", &[x, y], vec![("fmod", Int(0))]),
        (Alu::Atan2, [y, x]) => {
            let zero = number(l, 0.0)?;
            let (pi, back) = (number(l, std::f64::consts::PI)?, number(l, -std::f64::consts::PI)?);
            let (half, down) =
                (number(l, std::f64::consts::FRAC_PI_2)?, number(l, -std::f64::consts::FRAC_PI_2)?);
            let ratio = l.graph.call("Div", &[y, x], vec![]);
            let angle = l.graph.call("Atan", &[&ratio], vec![]);
            let below = l.graph.call("Less", &[y, &zero], vec![]);
            let turn = l.graph.call("Where", &[&below, &back, &pi], vec![]);
            let far = l.graph.call("Add", &[&angle, &turn], vec![]);
            let (left, right) =
                (l.graph.call("Less", &[x, &zero], vec![]), l.graph.call("Greater", &[x, &zero], vec![]));
            let above = l.graph.call("Greater", &[y, &zero], vec![]);
            let upright = l.graph.call("Where", &[&above, &half, &zero], vec![]);
            let upright = l.graph.call("Where", &[&below, &down, &upright], vec![]);
            let side = l.graph.call("Where", &[&left, &far, &upright], vec![]);
            l.graph.call("Where", &[&right, &angle, &side], vec![])
        }
        (Alu::Lt, [x, y]) => {
            let not = l.graph.call("Not", &[x], vec![]);
            l.graph.call("And", &[&not, y], vec![])
        }
        (Alu::Ne, [x, y]) => {
            let equal = l.graph.call("Equal", &[x, y], vec![]);
            l.graph.call("Not", &[&equal], vec![])
        }
        (Alu::MulAcc, [x, y, z]) => {
            let product = l.graph.call("Mul", &[x, y], vec![]);
            l.graph.call("Add", &[&product, z], vec![])
        }
        (Alu::Shl | Alu::Shr, [x, y]) if dtype.is_unsigned() => {
            let direction = if alu == Alu::Shl { "LEFT" } else { "RIGHT" };
            let text = super::writer::Attribute::Text(direction);
            l.graph.call("BitShift", &[x, y], vec![("direction", text)])
        }
        _ => return Err(format!("ONNX has no form for {alu:?} of {dtype}")),
    })
}

fn is_one(n: &UOp) -> bool {
    matches!(&n.arg, frit_uop::Arg::Scalar(s) if s.as_f64() == 1.0)
}
