//! Words of four bytes that are put together from them.

use frit_uop::{DType, Op, UOp};

/// The bytes of `b0 | b1 << 8 | b2 << 16 | b3 << 24`, where all are of the kind that is asked for.
pub fn bytes_of_word(n: &UOp, is_byte: impl Fn(&UOp) -> bool) -> Option<[UOp; 4]> {
    let mut bytes: [Option<UOp>; 4] = Default::default();
    if n.op != Op::Or || n.dtype.size() != 4 || !gather(n, &is_byte, &mut bytes) {
        return None;
    }
    let [Some(a), Some(b), Some(c), Some(d)] = bytes else { return None };
    Some([a, b, c, d])
}

/// Each byte in its place; false where something else is among them.
fn gather(n: &UOp, is_byte: &impl Fn(&UOp) -> bool, bytes: &mut [Option<UOp>; 4]) -> bool {
    if n.op == Op::Or {
        return n.src.iter().all(|s| gather(s, is_byte, bytes));
    }
    let (x, shift) = match (n.op, n.src.get(1).and_then(|s| s.as_int())) {
        (Op::Shl, Some(shift)) => (&n.src[0], shift),
        _ => (n, 0),
    };
    if x.op != Op::Cast || x.src[0].dtype != DType::U8 || shift % 8 != 0 {
        return false;
    }
    let byte = if x.src[0].op == Op::Bitcast { &x.src[0].src[0] } else { &x.src[0] };
    match usize::try_from(shift / 8).ok().and_then(|at| bytes.get_mut(at)) {
        Some(place @ None) if is_byte(byte) => {
            *place = Some(byte.clone());
            true
        }
        _ => false,
    }
}
