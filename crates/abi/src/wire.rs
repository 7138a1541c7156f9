//! Messages in the protobuf wire format, as models and traces have them, written.

/// Writes a message, field by field.
#[derive(Clone, Debug, Default)]
pub struct Writer {
    bytes: Vec<u8>,
}

impl Writer {
    /// An empty message.
    pub fn new() -> Writer {
        Writer::default()
    }
    /// What was written.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }
    fn varint(&mut self, mut v: u64) {
        while v >= 0x80 {
            self.bytes.push(v as u8 | 0x80);
            v >>= 7;
        }
        self.bytes.push(v as u8);
    }
    fn tag(&mut self, field: u32, kind: u64) {
        self.varint(u64::from(field) << 3 | kind);
    }
    /// An integer.
    pub fn int(mut self, field: u32, v: i64) -> Writer {
        self.tag(field, 0);
        self.varint(v as u64);
        self
    }
    /// Eight bytes.
    pub fn fixed(mut self, field: u32, v: u64) -> Writer {
        self.tag(field, 1);
        self.bytes.extend(v.to_le_bytes());
        self
    }
    /// A float.
    pub fn float(mut self, field: u32, v: f32) -> Writer {
        self.tag(field, 5);
        self.bytes.extend(v.to_le_bytes());
        self
    }
    /// Text or bytes.
    pub fn bytes(mut self, field: u32, v: impl AsRef<[u8]>) -> Writer {
        self.tag(field, 2);
        self.varint(v.as_ref().len() as u64);
        self.bytes.extend(v.as_ref());
        self
    }
    /// A message.
    pub fn message(self, field: u32, v: Writer) -> Writer {
        self.bytes(field, v.bytes)
    }
    /// Integers, packed.
    pub fn ints(self, field: u32, values: &[i64]) -> Writer {
        let mut packed = Writer::new();
        values.iter().for_each(|v| packed.varint(*v as u64));
        self.message(field, packed)
    }
    /// Floats, packed.
    pub fn floats(self, field: u32, values: &[f32]) -> Writer {
        let packed: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
        self.bytes(field, packed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_a_tag_and_a_value() {
        let inner = Writer::new().int(1, 300);
        let bytes = Writer::new().bytes(2, "ab").message(3, inner).fixed(47, 1).into_bytes();
        let said = [0x12, 2, b'a', b'b', 0x1a, 3, 0x08, 0xac, 0x02, 0xf9, 0x02, 1, 0, 0, 0, 0, 0, 0, 0];
        assert_eq!(bytes, said);
    }
}
