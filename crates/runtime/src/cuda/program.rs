//! A kernel on the device: assembled by the driver, kept on disk, launched on the device's queue.

use super::context::Context;
use super::device::Shared;
use super::driver::{Driver, Handle};
use super::status::Status;
use crate::{Bound, Error, Executable, Memory, Resources, check_args};
use frit_abi::{Code, Kernel, LaunchDims, Param};
use smallvec::SmallVec;
use std::ffi::{CString, c_void};
use std::sync::Arc;

/// A kernel that can be launched.
pub struct CudaKernel {
    name: String,
    params: Vec<Param>,
    pub(super) device: Arc<Shared>,
    pub(super) function: Handle,
    /// Bytes of dynamic shared memory.
    pub(super) shared_bytes: u32,
    /// Whether it may be started before the launch ahead of it has ended, for which it waits itself.
    pub(super) waits: bool,
    status: Status,
    _module: Module,
}

/// The instruction with which a kernel waits for the launch ahead of it.
const WAIT: &str = "griddepcontrol.wait;";

/// An image on the device.
struct Module {
    context: Arc<Context>,
    handle: Handle,
}

impl Drop for Module {
    fn drop(&mut self) {
        // SAFETY: loaded by `CudaKernel::new`, and its functions are used no more.
        self.context.leave(|driver| _ = unsafe { (driver.module_unload)(self.handle) });
    }
}

impl Drop for CudaKernel {
    fn drop(&mut self) {
        // launches of it may still run, and write to its status word; a lost device runs none
        _ = self.device.queue.wait();
    }
}

/// What a launch passes: addresses, variables and the status word, each as 64 bits.
pub(super) type Words = SmallVec<[u64; 12]>;

/// A pointer to each of them, as the driver wants it.
pub(super) fn pointers(words: &Words) -> SmallVec<[*const c_void; 12]> {
    words.iter().map(|w| std::ptr::from_ref(w).cast()).collect()
}

impl CudaKernel {
    /// An assembled image of a kernel, on its device.
    pub fn new(device: &Arc<Shared>, kernel: &Kernel, image: &[u8]) -> Result<CudaKernel, Error> {
        /// `CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES`.
        const MAX_DYNAMIC_SHARED: i32 = 8;
        let (context, name) = (&device.context, entry_name(kernel)?);
        let driver = context.enter()?;
        let (mut handle, mut function) = (0, 0);
        // SAFETY: the image is what the driver's linker made (the cache checks that it is whole), the places are valid.
        let module = unsafe {
            context.check("cuModuleLoadData", (driver.module)(&mut handle, image.as_ptr().cast()))?;
            let module = Module { context: context.clone(), handle };
            context.check("cuModuleGetFunction", (driver.function)(&mut function, handle, name.as_ptr()))?;
            module
        };
        let shared_bytes = u32::try_from(kernel.scratch).map_err(|_| Error::Launch {
            kernel: kernel.name.clone(),
            message: format!("it needs {} bytes of shared memory", kernel.scratch),
        })?;
        if shared_bytes > 0 {
            // SAFETY: the function is of a module that is held.
            let code = unsafe { (driver.function_set)(function, MAX_DYNAMIC_SHARED, shared_bytes as i32) };
            context.check("cuFuncSetAttribute", code)?;
        }
        Ok(CudaKernel {
            name: kernel.name.clone(),
            params: kernel.params.clone(),
            device: device.clone(),
            function,
            shared_bytes,
            waits: matches!(&kernel.code, Code::Ptx(text) if text.contains(WAIT)),
            status: device.statuses.word(&kernel.name)?,
            _module: module,
        })
    }
    pub(super) fn words(&self, addresses: impl Iterator<Item = u64>, vars: &[i64]) -> Words {
        addresses.chain(vars.iter().map(|v| *v as u64)).chain([self.status.address()]).collect()
    }
    fn queue(&self, words: &Words, dims: LaunchDims) -> Result<(), Error> {
        let ([gx, gy, gz], [bx, by, bz]) = (dims.global, dims.local);
        if dims.global.contains(&0) || dims.local.contains(&0) {
            return Ok(());
        }
        let (context, params) = (&self.device.context, pointers(words));
        let driver = context.enter()?;
        // SAFETY: the arguments fit the kernel's parameters, as was checked when they were bound, and the driver copies them
        // before it returns; the memory they point to is freed in the order of the same queue.
        let code = unsafe {
            let (none, stream) = (std::ptr::null(), self.device.queue.stream);
            (driver.launch)(
                self.function,
                gx,
                gy,
                gz,
                bx,
                by,
                bz,
                self.shared_bytes,
                stream,
                params.as_ptr(),
                none,
            )
        };
        context.check("cuLaunchKernel", code).map_err(|e| match e {
            Error::Device(message) => Error::Launch { kernel: self.name.clone(), message },
            e => e,
        })
    }
}

impl Executable for CudaKernel {
    fn name(&self) -> &str {
        &self.name
    }
    fn params(&self) -> &[Param] {
        &self.params
    }
    fn launch(&self, bufs: &[&Memory], vars: &[i64], dims: LaunchDims) -> Result<(), Error> {
        check_args(&self.name, &self.params, bufs, vars)?;
        self.queue(&self.words(bufs.iter().map(|b| b.address()), vars), dims)
    }
    fn launch_bound(&self, bound: &Bound) -> Result<(), Error> {
        self.queue(&self.words(bound.addresses().iter().copied(), bound.vars()), bound.dims())
    }
    fn resources(&self) -> Option<Resources> {
        /// `CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES`.
        const LOCAL_BYTES: i32 = 3;
        /// `CU_FUNC_ATTRIBUTE_NUM_REGS`.
        const REGISTERS: i32 = 4;
        let driver = self.device.context.enter().ok()?;
        let number = |attribute| {
            let mut value = 0;
            // SAFETY: the place is valid for the call, the function is of a module that is held.
            let code = unsafe { (driver.function_get)(&mut value, attribute, self.function) };
            (code == 0).then_some(value.max(0) as u32)
        };
        Some(Resources { registers: number(REGISTERS)?, spilled: number(LOCAL_BYTES)? })
    }
    fn as_any(&self) -> Option<&dyn std::any::Any> {
        Some(self)
    }
}

fn entry_name(kernel: &Kernel) -> Result<CString, Error> {
    CString::new(kernel.name.as_str())
        .map_err(|_| Error::compiler(&kernel.name, "its name holds a zero byte"))
}

/// PTX as machine code for the device of the current context.
pub fn assemble(context: &Context, kernel: &str, text: &str) -> Result<Vec<u8>, Error> {
    /// `CU_JIT_ERROR_LOG_BUFFER` and its size in bytes.
    const ERROR_LOG: [i32; 2] = [5, 6];
    /// `CU_JIT_INPUT_PTX`.
    const PTX: i32 = 1;
    let driver = context.enter()?;
    let source = CString::new(text).map_err(|_| Error::compiler(kernel, "its text holds a zero byte"))?;
    let (mut log, mut options) = (vec![0u8; 16 << 10], ERROR_LOG);
    let mut values = [log.as_mut_ptr().cast::<c_void>(), log.len() as *mut c_void];
    let mut linker = Linker { driver, state: 0 };
    // SAFETY: options and values are as many as is said, and they and the log outlive the linker.
    let code = unsafe { (driver.link)(2, options.as_mut_ptr(), values.as_mut_ptr(), &mut linker.state) };
    context.check("cuLinkCreate", code)?;
    let (mut image, mut bytes) = (std::ptr::null_mut(), 0);
    let (data, none) = (source.as_bytes_with_nul(), std::ptr::null_mut());
    // SAFETY: the source ends with a zero byte and outlives the call; the places are valid.
    let code = unsafe {
        let (start, none_either) = (data.as_ptr() as *mut c_void, std::ptr::null_mut());
        let name = source.as_ptr();
        match (driver.link_add)(linker.state, PTX, start, data.len(), name, 0, none, none_either) {
            0 => (driver.link_complete)(linker.state, &mut image, &mut bytes),
            code => code,
        }
    };
    if code != 0 {
        let said = String::from_utf8_lossy(log.split(|b| *b == 0).next().unwrap_or_default()).into_owned();
        // what the device itself says of a lost one comes first
        context.check("cuLink", code).or_else(|e| if said.is_empty() { Err(e) } else { Ok(()) })?;
        return Err(Error::compiler(kernel, format!("the driver's assembler refuses it:\n{said}\n{text}")));
    }
    // SAFETY: the image is this long, and lives until the linker is destroyed.
    Ok(unsafe { std::slice::from_raw_parts(image.cast::<u8>(), bytes) }.to_vec())
}

struct Linker<'a> {
    driver: &'a Driver,
    state: Handle,
}

impl Drop for Linker<'_> {
    fn drop(&mut self) {
        if self.state != 0 {
            // SAFETY: made by the driver, and its result was copied.
            unsafe { (self.driver.link_destroy)(self.state) };
        }
    }
}
