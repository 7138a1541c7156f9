//! The context of a device: every call goes through it, and knows when the device is lost.

use super::driver::{Code, Driver, Handle};
use crate::Error;
use frit_abi::sync::OnceLock;
use std::sync::Arc;

/// A device as the driver has it. Dropping the last holder lets the context go.
pub struct Context {
    pub(super) driver: Arc<Driver>,
    pub(super) name: Arc<str>,
    pub(super) device: i32,
    pub(super) handle: Handle,
    /// Why nothing on it can be used any more.
    lost: OnceLock<String>,
}

/// Errors after which the context answers nothing else: memory, code or the machine itself failed under a kernel.
const STICKY: [Code; 13] = [46, 101, 214, 700, 702, 708, 709, 710, 714, 715, 716, 718, 719];
/// `CUDA_ERROR_OUT_OF_MEMORY`.
pub const OUT_OF_MEMORY: Code = 2;

impl Context {
    /// The shared context of a device.
    pub fn new(driver: Arc<Driver>, ordinal: i32, name: &str) -> Result<Context, Error> {
        let (mut device, mut handle) = (0, 0);
        // SAFETY: the places are valid for the calls.
        unsafe {
            driver.check("cuDeviceGet", (driver.device)(&mut device, ordinal))?;
            driver.check("cuDevicePrimaryCtxRetain", (driver.context_retain)(&mut handle, device))?;
        }
        Ok(Context { driver, name: name.into(), device, handle, lost: OnceLock::new() })
    }
    /// Make it this thread's, for the calls that follow; an error where the device is lost.
    pub fn enter(&self) -> Result<&Driver, Error> {
        if let Some(why) = self.lost.get() {
            return Err(Error::Device(format!("{} is lost: {why}", self.name)));
        }
        // SAFETY: the context is held until this is dropped.
        self.check("cuCtxSetCurrent", unsafe { (self.driver.context_set)(self.handle) })?;
        Ok(&self.driver)
    }
    /// [`Context::enter`] for giving back, which is tried whatever that says: only a lost device has nothing left to give
    /// back.
    pub fn leave(&self, give_back: impl FnOnce(&Driver)) {
        _ = self.enter();
        if self.lost.get().is_none() {
            give_back(&self.driver);
        }
    }
    /// An error where a call returned one; after some of them the device is lost.
    pub fn check(&self, call: &str, code: Code) -> Result<(), Error> {
        if code == 0 {
            return Ok(());
        }
        let text = format!("{call}: {}", self.driver.describe(code));
        if STICKY.contains(&code) {
            let why = self.lost.get_or_init(|| text);
            return Err(Error::Device(format!("{} is lost: {why}", self.name)));
        }
        Err(Error::Device(format!("{}: {text}", self.name)))
    }
    /// One of the device's numbers.
    pub fn attribute(&self, attribute: i32) -> Result<usize, Error> {
        let mut value = 0;
        // SAFETY: the place is valid for the call.
        let code = unsafe { (self.driver.device_attribute)(&mut value, attribute, self.device) };
        self.check("cuDeviceGetAttribute", code)?;
        Ok(value.max(0) as usize)
    }
    /// Free and all bytes of its memory.
    pub fn memory(&self) -> Result<(usize, usize), Error> {
        let (mut free, mut total) = (0, 0);
        // SAFETY: the places are valid for the call.
        let code = unsafe { (self.enter()?.memory_info)(&mut free, &mut total) };
        self.check("cuMemGetInfo", code)?;
        Ok((free, total))
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: retained when this was made; whatever was made in it holds it, and so is gone.
        unsafe { (self.driver.context_release)(self.device) };
    }
}
