//! Machine code as text: for `FRIT_DEBUG=6` only.

use crate::Error;
use iced_x86::{Decoder, DecoderOptions, Formatter, Instruction, IntelFormatter, Mnemonic};

/// A line for each instruction of x86-64 code up to its return; constants may stand behind it.
pub fn disassemble(code: &[u8]) -> Result<String, Error> {
    if !cfg!(target_arch = "x86_64") {
        return Err(Error::Device("no disassembly: this is not x86-64".into()));
    }
    let mut decoder = Decoder::with_ip(64, code, 0, DecoderOptions::NONE);
    let mut formatter = IntelFormatter::new();
    formatter.options_mut().set_first_operand_char_index(10);
    let (mut text, mut line, mut i) = (String::new(), String::new(), Instruction::default());
    // code may go on behind a return that is jumped over
    let mut furthest = 0;
    while decoder.can_decode() {
        decoder.decode_out(&mut i);
        line.clear();
        formatter.format(&i, &mut line);
        text += &format!("{:6x}:  {line}\n", i.ip());
        furthest = furthest.max(i.near_branch_target());
        if i.mnemonic() == Mnemonic::Ret && furthest <= i.ip() {
            break;
        }
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    #[test]
    #[cfg(target_arch = "x86_64")]
    fn a_return_is_a_return_and_what_is_behind_it_is_not_code() {
        let text = super::disassemble(&[0xc3, 0xff, 0xff]).unwrap();
        assert_eq!(text.split_whitespace().collect::<Vec<_>>(), ["0:", "ret"]);
    }
}
