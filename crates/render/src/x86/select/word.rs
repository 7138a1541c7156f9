//! A word that is put together from its bytes is loaded as a word.
//!
//! ```text
//! u16(p[i]) | u16(p[i + 1]) << 8   ->   movzx r, word [p + i]
//! ```
//! The loads of the bytes are left without a user, and `dead_code` takes them out.

use super::Select;
use crate::Error;
use crate::walk::memory;
use crate::x86::program::Reg;
use frit_abi::DType;
use frit_uop::{Arg, Op, UOp};
use smallvec::SmallVec;

impl Select<'_> {
    /// The register of an `Or` of the bytes of a word that lie side by side in memory which the kernel only reads.
    pub fn word_of_bytes(&mut self, n: &UOp) -> Result<Option<Reg>, Error> {
        let size = n.dtype.size();
        if n.op != Op::Or || !n.dtype.is_int() || size < 2 {
            return Ok(None);
        }
        let mut bytes: SmallVec<[Option<UOp>; 8]> = SmallVec::from_elem(None, size);
        if !gather(n, &mut bytes) {
            return Ok(None);
        }
        let Some(bytes) = bytes.into_iter().collect::<Option<SmallVec<[UOp; 8]>>>() else { return Ok(None) };
        let first = &bytes[0].src[0];
        let buf = memory(first);
        let is_read_only = match buf.arg {
            Arg::Param { slot, .. } => self.linear.written.get(slot as usize) == Some(&false),
            _ => false,
        };
        let at = self.sum(&first.src[1]);
        for (i, b) in bytes.iter().enumerate() {
            let distance = self.sum(&b.src[0].src[1]).plus(&at, -1);
            let is_next = distance.is_some_and(|d| d.is_number(i as i64));
            if !is_read_only || !is_next || memory(&b.src[0]) != buf {
                return Ok(None);
            }
        }
        let m = self.address(first)?;
        Ok(Some(self.load_scalar(n.dtype, m, None)))
    }
}

/// The loads of bytes that a word is made of, each in its place; false where it is made of something else.
fn gather(n: &UOp, bytes: &mut [Option<UOp>]) -> bool {
    if n.op == Op::Or {
        return n.src.iter().all(|s| gather(s, bytes));
    }
    let (x, shift) = match (n.op, n.src.get(1).and_then(|s| s.as_int())) {
        (Op::Shl, Some(shift)) => (&n.src[0], shift),
        _ => (n, 0),
    };
    let is_byte = x.op == Op::Cast && x.src[0].op == Op::Load && x.src[0].dtype == DType::U8;
    let is_plain = |l: &UOp| {
        l.src.len() == 1
            && l.arg == Arg::None
            && l.lanes() == 1
            && l.src[0].op == Op::Index
            && l.src[0].src.len() == 2
    };
    if !is_byte || !is_plain(&x.src[0]) || shift % 8 != 0 {
        return false;
    }
    match usize::try_from(shift / 8).ok().and_then(|at| bytes.get_mut(at)) {
        Some(place @ None) => {
            *place = Some(x.src[0].clone());
            true
        }
        _ => false,
    }
}
