//! What is a factor for a matrix unit.

use super::super::layout;
use super::super::request::Request;
use super::Walk;
use frit_abi::{DType, MatrixUnit};
use frit_uop::{Op, UOp};

/// Times that an element of a factor is used from which a matrix unit may multiply it.
const UNIT_REUSE: u64 = 16;

impl Walk<'_> {
    /// Whether there is a matrix unit for factors of a type. Vectors of a CPU, which every CPU has for bytes, are none here:
    /// what they save is less than memory costs.
    pub(super) fn is_taken(&self, d: DType) -> bool {
        let is_wide = |u: &MatrixUnit| self.target.grid.is_some() || u.size[0] > 1;
        self.target.matrix.iter().any(|u| is_wide(u) && u.operands.contains(&d))
    }
    /// Whether it converts factors of a matrix unit to a type that has all their values.
    pub(super) fn is_widened_for_a_unit(&self, n: &UOp) -> bool {
        let (from, to) = (n.input().dtype, n.dtype);
        let is_wider = from.size() < to.size() && from.is_float() == to.is_float();
        is_wider && self.is_taken(from)
    }
    /// Whether it is computed for a sum of products that there is a matrix unit for.
    pub(super) fn is_factor_for_a_unit(&self, i: usize, n: &UOp) -> bool {
        let is_factor = |r: &Request| self.is_factor_of_a_sum(r);
        n.op.is_elementwise() && self.is_taken(n.dtype) && self.cut.requests[i].iter().any(is_factor)
    }
    /// Whether it is memory that is a factor for a unit of a grid, and lies as that cannot copy it in vectors.
    pub(super) fn is_packed_for_a_unit(&self, i: usize, n: &UOp) -> bool {
        let is_memory = self.target.grid.is_some() && matches!(n.input().op, Op::Param | Op::After);
        if !is_memory || !n.dtype.is_float() || !self.is_taken(n.dtype) {
            return false;
        }
        let asked = self.cut.requests[i].iter();
        let factors: Vec<&Request> = asked.filter(|r| self.is_factor_of_a_sum(r)).collect();
        layout::packed(n.shape(), &factors, self.vector(n)).is_some()
    }
    /// Whether a request is for a factor of a sum of products that uses it many times.
    pub(super) fn is_factor_of_a_sum(&self, r: &Request) -> bool {
        r.in_reduce && r.repeat >= UNIT_REUSE && self.cut.drafts[r.kernel as usize].sums_product
    }
}
