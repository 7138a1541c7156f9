//! Codes that calls return, and their names.

use super::Code;
use std::ffi::CStr;

/// An argument is wrong.
pub const INVALID_VALUE: Code = 1;
/// There is no more memory.
pub const OUT_OF_MEMORY: Code = 2;
/// There is no such device.
pub const INVALID_DEVICE: Code = 101;
/// What is loaded is no image.
pub const INVALID_IMAGE: Code = 200;
/// There is no current context, or it is no more.
pub const INVALID_CONTEXT: Code = 201;
/// The text is wrong.
pub const INVALID_PTX: Code = 218;
/// A handle of nothing, or of something else.
pub const INVALID_HANDLE: Code = 400;
/// There is no entry of this name.
pub const NOT_FOUND: Code = 500;
/// It is not done yet.
pub const NOT_READY: Code = 600;
/// A launch that needs more than there is.
pub const LAUNCH_OUT_OF_RESOURCES: Code = 701;
/// Peer access was there already.
pub const PEER_ACCESS_ALREADY_ENABLED: Code = 704;
/// What the stand-in cannot do.
pub const NOT_SUPPORTED: Code = 801;

/// Codes by number, with the driver's names and words.
const NAMES: &[(Code, &CStr, &CStr)] = &[
    (0, c"CUDA_SUCCESS", c"no error"),
    (INVALID_VALUE, c"CUDA_ERROR_INVALID_VALUE", c"invalid argument"),
    (OUT_OF_MEMORY, c"CUDA_ERROR_OUT_OF_MEMORY", c"out of memory"),
    (3, c"CUDA_ERROR_NOT_INITIALIZED", c"initialization error"),
    (46, c"CUDA_ERROR_DEVICE_UNAVAILABLE", c"CUDA-capable device(s) is/are busy or unavailable"),
    (100, c"CUDA_ERROR_NO_DEVICE", c"no CUDA-capable device is detected"),
    (INVALID_DEVICE, c"CUDA_ERROR_INVALID_DEVICE", c"invalid device ordinal"),
    (INVALID_IMAGE, c"CUDA_ERROR_INVALID_IMAGE", c"device kernel image is invalid"),
    (INVALID_CONTEXT, c"CUDA_ERROR_INVALID_CONTEXT", c"invalid device context"),
    (214, c"CUDA_ERROR_ECC_UNCORRECTABLE", c"uncorrectable ECC error encountered"),
    (INVALID_PTX, c"CUDA_ERROR_INVALID_PTX", c"a PTX JIT compilation failed"),
    (INVALID_HANDLE, c"CUDA_ERROR_INVALID_HANDLE", c"invalid resource handle"),
    (NOT_FOUND, c"CUDA_ERROR_NOT_FOUND", c"named symbol not found"),
    (NOT_READY, c"CUDA_ERROR_NOT_READY", c"device not ready"),
    (700, c"CUDA_ERROR_ILLEGAL_ADDRESS", c"an illegal memory access was encountered"),
    (
        LAUNCH_OUT_OF_RESOURCES,
        c"CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES",
        c"too many resources requested for launch",
    ),
    (702, c"CUDA_ERROR_LAUNCH_TIMEOUT", c"the launch timed out and was terminated"),
    (
        PEER_ACCESS_ALREADY_ENABLED,
        c"CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED",
        c"peer access is already enabled",
    ),
    (716, c"CUDA_ERROR_MISALIGNED_ADDRESS", c"misaligned address"),
    (719, c"CUDA_ERROR_LAUNCH_FAILED", c"unspecified launch failure"),
    (NOT_SUPPORTED, c"CUDA_ERROR_NOT_SUPPORTED", c"operation not supported"),
    (999, c"CUDA_ERROR_UNKNOWN", c"unknown error"),
];

/// The name of a code and what it means.
pub fn words(code: Code) -> Option<(&'static CStr, &'static CStr)> {
    NAMES.iter().find(|n| n.0 == code).map(|n| (n.1, n.2))
}

/// Whether nothing works after it.
pub fn is_sticky(code: Code) -> bool {
    matches!(code, 46 | 214 | 700 | 702 | 708 | 709 | 710 | 714 | 715 | 716 | 718 | 719)
}
