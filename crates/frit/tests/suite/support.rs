//! What several subjects use: devices, arrays to tensors and back, random numbers.

use frit_reference::Array;
use frit_reference::goldens::Kind;
use frit_tensor::{DType, Device, Result, Tensor};

/// Every device that computes.
pub const DEVICES: [&str; 3] = ["INTERP", "INTERP:GPU", "CPU"];

/// Run `f` on a device; it must be there.
pub fn on<T>(device: &str, f: impl FnOnce() -> T) -> T {
    Device::scope(device, f).unwrap_or_else(|e| panic!("{e}"))
}

/// The type an array of the golden file had.
pub fn dtype(kind: Kind) -> DType {
    match kind {
        Kind::Bool => DType::Bool,
        Kind::I8 => DType::I8,
        Kind::U8 => DType::U8,
        Kind::I32 => DType::I32,
        Kind::F32 => DType::F32,
    }
}

/// Memory with the values of an array.
pub fn tensor(array: &Array, dtype: DType) -> Tensor {
    let bits = |v: f64| frit_abi::Scalar::Float(v).cast(dtype).to_bits(dtype).to_le_bytes();
    let bytes: Vec<u8> = array.data.iter().flat_map(|&v| bits(v)[..dtype.size()].to_vec()).collect();
    Tensor::from_bytes(dtype, &bytes, &array.shape)
}

/// The values of a tensor.
pub fn array(x: &Tensor) -> Result<Array> {
    let (shape, dtype) = (x.dims()?, x.dtype());
    let value = |b: &[u8]| {
        let mut word = [0u8; 8];
        word[..b.len()].copy_from_slice(b);
        frit_abi::Scalar::from_bits(u64::from_le_bytes(word), dtype).as_f64()
    };
    let bytes = x.to_bytes()?;
    Ok(Array::new(&shape, bytes.chunks(dtype.size()).map(value).collect::<Vec<_>>()))
}
