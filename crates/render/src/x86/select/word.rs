//! A word that is put together from its bytes is loaded as a word.
//!
//! ```text
//! u16(p[i]) | u16(p[i + 1]) << 8   ->   movzx r, word [p + i]
//! ```
//! The loads of the bytes are left without a user, and `dead_code` takes them out. So is the word where a conversion reads it
//! in memory.

use super::Select;
use crate::Error;
use crate::walk::memory;
use crate::x86::program::{Mem, Reg};
use frit_abi::DType;
use frit_uop::{Arg, Op, UOp};
use smallvec::SmallVec;

impl Select<'_> {
    /// The register of an `Or` of the bytes of a word that lie side by side in memory which the kernel only reads.
    pub fn word_of_bytes(&mut self, n: &UOp) -> Result<Option<Reg>, Error> {
        let Some(first) = self.first_byte(n)? else { return Ok(None) };
        let m = self.address(&first)?;
        Ok(Some(self.load_scalar(n.dtype, m, None)))
    }
    /// Where the half of a conversion to float32 is in memory which the kernel only reads, if the machine's conversion of four
    /// of them may read there: what is behind it is in the buffer too.
    pub fn halves_in_memory(&mut self, half: &UOp) -> Result<Option<Mem>, Error> {
        let address = match half.op {
            Op::Bitcast if half.src[0].dtype == DType::U16 => self.first_byte(&half.src[0])?,
            Op::Load if is_plain(half) && self.is_read_only(&half.src[0]) => Some(half.src[0].clone()),
            _ => None,
        };
        let Some(address) = address else { return Ok(None) };
        let size = address.dtype.size() as i128;
        let len = memory(&address).shape().first().and_then(|n| n.as_int()).unwrap_or(0) as i128;
        match (address.src[1].bounds.1 * size).checked_add(8) {
            Some(end) if end <= len * size => Ok(Some(self.address(&address)?)),
            _ => Ok(None),
        }
    }
    fn is_read_only(&self, address: &UOp) -> bool {
        match memory(address).arg {
            Arg::Param { slot, .. } => self.linear.written.get(slot as usize) == Some(&false),
            _ => false,
        }
    }
    /// The address of the first byte of such an `Or`.
    fn first_byte(&mut self, n: &UOp) -> Result<Option<UOp>, Error> {
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
        let is_read_only = self.is_read_only(first);
        let at = self.sum(&first.src[1]);
        for (i, b) in bytes.iter().enumerate() {
            let distance = self.sum(&b.src[0].src[1]).plus(&at, -1);
            let is_next = distance.is_some_and(|d| d.is_number(i as i64));
            if !is_read_only || !is_next || memory(&b.src[0]) != memory(first) {
                return Ok(None);
            }
        }
        Ok(Some(first.clone()))
    }
}

/// A load of one element without a gate.
fn is_plain(l: &UOp) -> bool {
    l.src.len() == 1
        && l.arg == Arg::None
        && l.lanes() == 1
        && l.src[0].op == Op::Index
        && l.src[0].src.len() == 2
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
    if x.op != Op::Cast || x.src[0].dtype != DType::U8 {
        return false;
    }
    let byte = if x.src[0].op == Op::Bitcast { &x.src[0].src[0] } else { &x.src[0] };
    if byte.op != Op::Load || !is_plain(byte) || shift % 8 != 0 {
        return false;
    }
    match usize::try_from(shift / 8).ok().and_then(|at| bytes.get_mut(at)) {
        Some(place @ None) => {
            *place = Some(byte.clone());
            true
        }
        _ => false,
    }
}
