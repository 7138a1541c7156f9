//! Every element type, stored in every way.

use crate::build::{Model, stored};
use frit_onnx::Element::{self, *};
use frit_onnx::wire::Writer;
use frit_tensor::Result;

fn constant(t: Writer) -> Result<Vec<f32>> {
    Model::new(21).initializer(t).output("c").floats(&[])
}
fn raw(element: Element, n: i64, bytes: &[u8]) -> Result<Vec<f32>> {
    constant(stored("c", element, &[n], bytes))
}

#[test]
fn packed_elements_are_unpacked() -> Result<()> {
    assert_eq!(raw(Uint4, 3, &[0xf1, 0x02])?, [1.0, 15.0, 2.0]);
    assert_eq!(raw(Int4, 3, &[0xf1, 0x08])?, [1.0, -1.0, -8.0]);
    assert_eq!(raw(Uint2, 5, &[0b1110_0100, 1])?, [0.0, 1.0, 2.0, 3.0, 1.0]);
    assert_eq!(raw(Int2, 4, &[0b1110_0100])?, [0.0, 1.0, -2.0, -1.0]);
    assert_eq!(raw(Float4E2M1, 4, &[0x21, 0xf7])?, [0.5, 1.0, 6.0, -6.0]);
    // four in three bytes: codes 1, 31, 32, 63
    assert_eq!(raw(Float6E2M3, 4, &[0xc1, 0x07, 0xfe])?, [0.125, 7.5, -0.0, -7.5]);
    assert_eq!(raw(Float6E3M2, 4, &[0xc1, 0x07, 0xfe])?, [0.0625, 28.0, -0.0, -28.0]);
    let powers = raw(Float8E8M0, 4, &[0, 127, 254, 255])?;
    assert_eq!(powers[..3], [2f32.powi(-127), 1.0, 2f32.powi(127)]);
    assert!(powers[3].is_nan());
    Ok(())
}

#[test]
fn elements_lie_at_any_byte_and_in_any_field() -> Result<()> {
    assert_eq!(raw(Float, 2, &[1.5f32.to_le_bytes(), (-2f32).to_le_bytes()].concat())?, [1.5, -2.0]);
    assert_eq!(raw(Bool, 3, &[0, 1, 7])?, [0.0, 1.0, 1.0]);
    let typed = |e: Element| Writer::new().ints(1, &[2]).int(2, e.number()).bytes(8, "c");
    assert_eq!(constant(typed(Float).floats(4, &[1.5, 2.0]))?, [1.5, 2.0]);
    assert_eq!(constant(typed(Float).float(4, 1.5).float(4, 2.0))?, [1.5, 2.0]);
    assert_eq!(constant(typed(Int64).ints(7, &[-1, 300]))?, [-1.0, 300.0]);
    assert_eq!(constant(typed(Int8).ints(5, &[-1, 3]))?, [-1.0, 3.0]);
    assert_eq!(constant(typed(Float16).ints(5, &[0x3c00, 0xc000]))?, [1.0, -2.0]);
    assert_eq!(constant(typed(Uint4).ints(5, &[0x21]))?, [1.0, 2.0]);
    assert_eq!(constant(typed(Float6E2M3).ints(5, &[1, 31]))?, [0.125, 7.5]);
    assert_eq!(constant(typed(Uint64).ints(11, &[1, 2]))?, [1.0, 2.0]);
    Ok(())
}

#[test]
fn a_tensor_that_lies_about_its_size_is_refused() {
    let error = |t: Writer| Model::new(21).initializer(t).output("c").error(&[]);
    let said = error(stored("c", Float, &[3], &[0; 8]));
    assert!(said.contains("tensor \"c\": 8 bytes are not the float elements of [3]"), "{said}");
    let said = error(stored("c", Float, &[1 << 40, 1 << 40], &[0; 8]));
    assert!(said.contains("too large to be true"), "{said}");
    let said = error(stored("c", Float, &[-1], &[]));
    assert!(said.contains("a dim of -1"), "{said}");
    let said = error(stored("c", Complex64, &[1], &[0; 8]));
    assert!(said.contains("complex64 elements are not supported"), "{said}");
    let said = error(Writer::new().int(2, 99).bytes(8, "c"));
    assert!(said.contains("data_type: 99 is not an element type"), "{said}");
}
