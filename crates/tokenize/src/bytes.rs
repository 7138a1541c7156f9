//! Bytes as letters: printable ones stand for themselves, the others for letters from U+0100 on, in order.

/// The letter of a byte.
pub(crate) fn letter(byte: u8) -> char {
    match byte {
        b'!'..=b'~' | 0xa1..=0xac | 0xae..=0xff => byte as char,
        // how many bytes before it have no letter of their own
        0..=b' ' => above(byte as u32),
        0x7f..=0xa0 => above(byte as u32 - 0x7f + 33),
        0xad => above(67),
    }
}
fn above(n: u32) -> char {
    char::from_u32(0x100 + n).unwrap_or(char::REPLACEMENT_CHARACTER)
}

/// The byte of a letter.
pub(crate) fn byte(letter: char) -> Option<u8> {
    match letter as u32 {
        c @ (0x21..=0x7e | 0xa1..=0xac | 0xae..=0xff) => Some(c as u8),
        c @ 0x100..=0x120 => Some((c - 0x100) as u8),
        c @ 0x121..=0x142 => Some((c - 0x121 + 0x7f) as u8),
        0x143 => Some(0xad),
        _ => None,
    }
}

/// The bytes of base64; none if it is not that.
pub(crate) fn base64(text: &str) -> Option<Vec<u8>> {
    const DIGITS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut values = [None; 256];
    DIGITS.iter().zip(0u32..).for_each(|(d, v)| values[*d as usize] = Some(v));
    let mut out = Vec::with_capacity(text.len() / 4 * 3);
    for group in text.trim_end_matches('=').as_bytes().chunks(4) {
        let bits = group.iter().try_fold(0, |bits, d| Some(bits << 6 | values[*d as usize]?))?;
        let bytes = (bits << (6 * (4 - group.len()))).to_be_bytes();
        // a digit alone is no byte
        out.extend(&bytes[1..group.len().checked_sub(2)? + 2]);
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    #[test]
    fn base64_is_bytes() {
        assert_eq!(super::base64("Zm9vYmE=").as_deref(), Some(&b"fooba"[..]));
        assert_eq!((super::base64("Zg==").as_deref(), super::base64("Z")), (Some(&b"f"[..]), None));
        assert_eq!(super::base64("Zm9?"), None);
    }
    #[test]
    fn every_byte_has_a_letter_of_its_own() {
        for b in 0..=255 {
            assert_eq!(super::byte(super::letter(b)), Some(b));
        }
        assert_eq!((super::letter(b' '), super::letter(b'\n'), super::letter(b'a')), ('Ġ', 'Ċ', 'a'));
    }
}
