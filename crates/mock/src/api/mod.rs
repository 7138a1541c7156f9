//! The driver's functions, under its names.

mod attributes;
pub mod device;
pub mod error;
pub mod graph;
pub mod memory;
pub mod module;
pub mod stream;

use crate::run::Fault;
use crate::state::state;
use std::ffi::c_void;

/// What a call returns; 0 is success.
pub type Code = i32;
/// What a call does.
pub type Done = Result<(), Code>;

// The functions have C's signatures, which one generic function cannot have; `find` needs their names once more.
macro_rules! exports {
    ($($(#[$doc:meta])* fn $name:ident($($arg:ident: $type:ty),*) $body:block)*) => {
        $(
            $(#[$doc])*
            // SAFETY: the names are the driver's own; nothing else in a process with the stand-in defines them.
            #[unsafe(no_mangle)]
            #[allow(non_snake_case)]
            unsafe extern "C" fn $name($($arg: $type),*) -> $crate::api::Code {
                $crate::api::call(stringify!($name), || $body)
            }
        )*
        /// The address of a function of this part of the driver.
        pub fn find(name: &str) -> Option<*const std::ffi::c_void> {
            match name {
                $(stringify!($name) => Some($name as *const std::ffi::c_void),)*
                _ => None,
            }
        }
    };
}
pub(crate) use exports;

/// The address of a function of the driver.
pub fn find(name: &str) -> Option<*const c_void> {
    [device::find, memory::find, stream::find, module::find, graph::find].iter().find_map(|f| f(name))
}

/// A call, unless it is the one that is to fail.
fn call(name: &str, body: impl FnOnce() -> Done) -> Code {
    // words for errors are not part of what can fail: they are asked for when something has
    if !name.starts_with("cuGetError")
        && let Some(code) = state().settings.count_call()
    {
        if error::is_sticky(code)
            && let Ok(device) = state().current()
        {
            state().lose(device, Fault { code, message: format!("{name} was told to fail") });
        }
        // what gives back does so, and passes on an error of something else, as the driver's do
        if ["Free", "Destroy", "Unload", "Release"].iter().any(|word| name.contains(word)) {
            _ = body();
        }
        return code;
    }
    body().err().unwrap_or(0)
}

/// Write a result.
///
/// # Safety
/// The place is null or valid for a write.
pub(crate) unsafe fn give<T>(to: *mut T, value: T) -> Done {
    if to.is_null() {
        return Err(error::INVALID_VALUE);
    }
    // SAFETY: it is valid, says the caller.
    unsafe { to.write(value) };
    Ok(())
}
