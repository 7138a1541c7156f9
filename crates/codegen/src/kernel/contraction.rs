//! Sums of products: recognised here, for whoever asks.

use frit_uop::{Alu, Arg, DType, Op, UOp};

/// A sum of products of two loads.
pub struct Product {
    /// The sum.
    pub reduce: UOp,
    /// The two loads.
    pub loads: [UOp; 2],
}

impl Product {
    /// The sum of products that a kernel is around, if it is that and has no other reduce.
    pub fn of(ast: &UOp) -> Result<Product, String> {
        let [reduce] = &sums(ast)?[..] else {
            return Err("the kernel does not have one reduce".into());
        };
        let loads = reduce.body().operands().map(behind_casts);
        let [Some(a), Some(b)] = loads else { return Err("a factor is not a load".into()) };
        Ok(Product { reduce: reduce.clone(), loads: [a.clone(), b.clone()] })
    }
}

/// The sums of products that a kernel is around, whatever their factors are, if it has no other reduces and all are over the same
/// ranges.
pub fn sums(ast: &UOp) -> Result<Vec<UOp>, String> {
    let order = ast.toposort();
    let all: Vec<&UOp> = order.iter().filter(|n| matches!(n.op, Op::Reduce | Op::Scan)).collect();
    let is_sum = |n: &&UOp| n.op == Op::Reduce && n.arg == Arg::Alu(Alu::Add) && n.body().op == Op::Mul;
    let first = all.first().ok_or("the kernel has no reduce")?;
    if !all.iter().all(is_sum) {
        return Err("it is not a sum of products".into());
    }
    match all.iter().all(|n| n.closed_ranges() == first.closed_ranges()) {
        true => Ok(all.into_iter().cloned().collect()),
        false => Err("its sums have loops of their own".into()),
    }
}

/// The load that a factor is, seen through conversions that keep every value.
fn behind_casts(mut n: &UOp) -> Option<&UOp> {
    while n.op == Op::Cast && keeps_values(n.input().dtype, n.dtype) {
        n = n.input();
    }
    (n.op == Op::Load && n.buffer_and_index().is_some()).then_some(n)
}

fn keeps_values(from: DType, to: DType) -> bool {
    match (from.int_range(), to.int_range()) {
        (Some(a), Some(b)) => b.0 <= a.0 && a.1 <= b.1,
        (None, None) => from.is_small_float() && matches!(to, DType::F32 | DType::F64),
        _ => false,
    }
}
