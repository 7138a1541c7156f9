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
        let mut all = Product::all(ast)?.into_iter();
        match (all.next(), all.next()) {
            (Some(product), None) => Ok(product),
            _ => Err("the kernel does not have one reduce".into()),
        }
    }
    /// The sums of products that a kernel is around, if it has no other reduces and all are over the same ranges.
    pub fn all(ast: &UOp) -> Result<Vec<Product>, String> {
        let order = ast.toposort();
        let reduces = order.iter().filter(|n| matches!(n.op, Op::Reduce | Op::Scan));
        let all: Vec<Product> = reduces.map(Product::in_loop).collect::<Result<_, _>>()?;
        let loops = all.first().ok_or("the kernel has no reduce")?.reduce.closed_ranges();
        match all.iter().all(|p| p.reduce.closed_ranges() == loops) {
            true => Ok(all),
            false => Err("its sums have loops of their own".into()),
        }
    }
    fn in_loop(reduce: &UOp) -> Result<Product, String> {
        if reduce.op != Op::Reduce || reduce.arg != Arg::Alu(Alu::Add) || reduce.src[0].op != Op::Mul {
            return Err("it is not a sum of products".into());
        }
        let [x, y] = &reduce.src[0].src[..] else { return Err("it is not a sum of products".into()) };
        let loads = [behind_casts(x), behind_casts(y)];
        let [Some(a), Some(b)] = loads else { return Err("a factor is not a load".into()) };
        Ok(Product { reduce: reduce.clone(), loads: [a.clone(), b.clone()] })
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
