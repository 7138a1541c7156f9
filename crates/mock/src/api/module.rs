//! Assembling, modules, functions and launches.

use super::attributes::SHARED_BYTES;
use super::stream::stream_of;
use super::{Code, error, exports, give};
use crate::ptx::{self, Program};
use crate::run::Launch;
use crate::state::{Object, state};
use crate::stream::Command;
use std::ffi::{CStr, c_char, c_void};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What an image begins with; its length and the text follow.
const MAGIC: [u8; 8] = *b"FRITMOCK";
/// `CU_JIT_ERROR_LOG_BUFFER`, and its size.
const ERROR_LOG: [i32; 2] = [5, 6];
/// `CU_JIT_INPUT_PTX`.
const PTX: i32 = 1;
/// Shared memory that no one has to ask for.
const STATIC_SHARED: u32 = 48 << 10;

/// Something that is being assembled.
pub struct Linker {
    /// Where errors are written.
    log: (usize, usize),
    text: Option<String>,
    image: Vec<u8>,
}

/// An image on a device.
pub struct Module {
    device: usize,
    entries: Vec<Arc<Program>>,
}

/// An entry of a module.
pub struct Function {
    /// Its device.
    pub device: usize,
    program: Arc<Program>,
    module: usize,
    /// The most dynamic shared memory that a launch may ask for.
    most_shared: AtomicU32,
}

/// Launch arguments as the driver takes them.
pub struct Shape {
    /// Blocks.
    pub grid: [u32; 3],
    /// Lanes of a block.
    pub block: [u32; 3],
    /// Dynamic shared memory.
    pub shared_bytes: u32,
}

impl Function {
    /// A launch of it with arguments that lie behind pointers.
    ///
    /// # Safety
    /// `params` points to a pointer for each parameter, which is valid for its size.
    pub unsafe fn launch(&self, shape: &Shape, params: *const *const c_void) -> Result<Launch, Code> {
        let program = &self.program;
        let [x, y, z] = shape.block;
        let lanes = u64::from(x) * u64::from(y) * u64::from(z);
        let blocks: u128 = shape.grid.iter().map(|n| u128::from(*n)).product();
        let is_wrong = lanes == 0 || lanes > 1024 || z > 64 || blocks == 0 || blocks >= 1 << 31;
        if is_wrong
            || shape.grid[1] > 65_535
            || shape.grid[2] > 65_535
            || program.block.is_some_and(|b| b != shape.block)
        {
            return Err(error::INVALID_VALUE);
        }
        if shape.shared_bytes > self.most_shared.load(Relaxed) {
            return Err(error::INVALID_VALUE);
        }
        if params.is_null() && !program.params.is_empty() {
            return Err(error::INVALID_VALUE);
        }
        let read = |(i, p): (usize, &ptx::program::Param)| {
            // SAFETY: there is a pointer for each parameter, says the caller.
            unsafe {
                let at = *params.add(i);
                if p.bytes == 8 {
                    at.cast::<u64>().read_unaligned()
                } else {
                    at.cast::<u32>().read_unaligned().into()
                }
            }
        };
        Ok(Launch {
            program: program.clone(),
            grid: shape.grid,
            block: shape.block,
            shared_bytes: (program.static_shared + shape.shared_bytes) as usize,
            params: program.params.iter().enumerate().map(read).collect(),
            device: self.device,
            has_race_checks: state().settings.has_race_checks.load(Relaxed),
            first: 0,
            pieces: [1; 2],
        })
    }
}

/// The function of a handle.
pub fn function_of(handle: usize) -> Result<Arc<Function>, Code> {
    let device = state().current()?;
    match state().get(handle) {
        Some(Object::Function(f)) if f.device == device => Ok(f),
        _ => Err(error::INVALID_HANDLE),
    }
}
fn linker_of(handle: usize) -> Result<Arc<Mutex<Linker>>, Code> {
    state().current()?;
    match state().get(handle) {
        Some(Object::Linker(l)) => Ok(l),
        _ => Err(error::INVALID_HANDLE),
    }
}
fn lock<T>(m: &Mutex<T>) -> MutexGuard<'_, T> {
    m.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Linker {
    fn write_log(&self, message: &str) {
        let (start, len) = self.log;
        if start == 0 || len == 0 {
            return;
        }
        let bytes = &message.as_bytes()[..message.len().min(len - 1)];
        // SAFETY: who made the linker keeps a log of this length until it is destroyed.
        unsafe {
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), start as *mut u8, bytes.len());
            (start as *mut u8).add(bytes.len()).write(0);
        }
    }
}

/// The text in an image, or an image that is text.
///
/// # Safety
/// It is an image of ours, or ends with zero.
unsafe fn text_of(image: *const c_void) -> Result<String, Code> {
    let start = image.cast::<u8>();
    // SAFETY: an image is at least as long as its head, and a text that begins like one is none.
    let is_ours = (0..MAGIC.len()).all(|i| unsafe { *start.add(i) } == MAGIC[i]);
    let bytes = match is_ours {
        // SAFETY: the length follows, and as many bytes.
        true => unsafe {
            let len = start.add(8).cast::<u64>().read_unaligned() as usize;
            std::slice::from_raw_parts(start.add(16), len)
        },
        // SAFETY: it ends with zero.
        false => unsafe { CStr::from_ptr(start.cast()) }.to_bytes(),
    };
    String::from_utf8(bytes.to_vec()).map_err(|_| error::INVALID_IMAGE)
}

exports! {
    fn cuLinkCreate_v2(count: u32, options: *mut i32, values: *mut *mut c_void, link: *mut usize) {
        state().current()?;
        let mut log = (0, 0);
        for i in 0..count as usize {
            // SAFETY: the caller gives as many of both as it says.
            let (option, value) = unsafe { (*options.add(i), *values.add(i) as usize) };
            match option {
                o if o == ERROR_LOG[0] => log.0 = value,
                o if o == ERROR_LOG[1] => log.1 = value,
                _ => return Err(error::NOT_SUPPORTED),
            }
        }
        let linker = Linker { log, text: None, image: vec![] };
        // SAFETY: the caller gives a place.
        unsafe { give(link, state().keep(Object::Linker(Arc::new(Mutex::new(linker))))) }
    }
    fn cuLinkAddData_v2(
        link: usize, kind: i32, data: *mut c_void, bytes: usize, _name: *const c_char, _count: u32, _options: *mut i32,
        _values: *mut *mut c_void
    ) {
        let linker = linker_of(link)?;
        let mut linker = lock(&linker);
        if kind != PTX || data.is_null() || linker.text.is_some() {
            return Err(error::NOT_SUPPORTED);
        }
        // SAFETY: the caller's data is this long.
        let data = unsafe { std::slice::from_raw_parts(data.cast::<u8>(), bytes) };
        let text = String::from_utf8_lossy(data.split(|b| *b == 0).next().unwrap_or_default()).into_owned();
        if let Err(e) = ptx::decode(&text) {
            linker.write_log(&e.to_string());
            return Err(error::INVALID_PTX);
        }
        linker.text = Some(text);
        Ok(())
    }
    fn cuLinkComplete(link: usize, image: *mut *mut c_void, bytes: *mut usize) {
        let linker = linker_of(link)?;
        let mut linker = lock(&linker);
        let text = linker.text.take().ok_or(error::INVALID_VALUE)?;
        linker.image = [&MAGIC[..], &(text.len() as u64).to_le_bytes(), text.as_bytes()].concat();
        // SAFETY: the caller gives places; the image lives as long as the linker.
        unsafe {
            give(image, linker.image.as_mut_ptr().cast())?;
            give(bytes, linker.image.len())
        }
    }
    fn cuLinkDestroy(link: usize) {
        state().remove(link, |o| matches!(o, Object::Linker(_))).map(drop)
    }
    fn cuModuleLoadData(module: *mut usize, image: *const c_void) {
        let device = state().current()?;
        if image.is_null() {
            return Err(error::INVALID_VALUE);
        }
        // SAFETY: the caller gives an image.
        let text = unsafe { text_of(image) }?;
        let entries = ptx::decode(&text).map_err(|_| error::INVALID_PTX)?;
        let made = Module { device, entries: entries.into_iter().map(Arc::new).collect() };
        // SAFETY: the caller gives a place.
        unsafe { give(module, state().keep(Object::Module(Arc::new(made)))) }
    }
    fn cuModuleUnload(module: usize) {
        state().current()?;
        state().remove(module, |o| matches!(o, Object::Module(_)))?;
        state().remove_all(|o| matches!(o, Object::Function(f) if f.module == module));
        Ok(())
    }
    fn cuModuleGetFunction(function: *mut usize, module: usize, name: *const c_char) {
        state().current()?;
        let Some(Object::Module(m)) = state().get(module) else { return Err(error::INVALID_HANDLE) };
        if name.is_null() {
            return Err(error::INVALID_VALUE);
        }
        // SAFETY: the name ends with zero.
        let name = unsafe { CStr::from_ptr(name) }.to_bytes();
        let program = m.entries.iter().find(|e| e.name.as_bytes() == name).ok_or(error::NOT_FOUND)?.clone();
        let most_shared = AtomicU32::new(STATIC_SHARED.saturating_sub(program.static_shared));
        let made = Function { device: m.device, program, module, most_shared };
        // SAFETY: the caller gives a place.
        unsafe { give(function, state().keep(Object::Function(Arc::new(made)))) }
    }
    fn cuFuncGetAttribute(value: *mut i32, attribute: i32, function: usize) {
        let f = function_of(function)?;
        let number = match attribute {
            0 => f.program.block.map_or(1024, |b| b.iter().product::<u32>() as i32),
            1 => f.program.static_shared as i32,
            // constants, local memory: there are none
            2 | 3 => 0,
            // as many registers as a kernel has that is not large
            4 => 32,
            8 => f.most_shared.load(Relaxed) as i32,
            _ => return Err(error::INVALID_VALUE),
        };
        // SAFETY: the caller gives a place.
        unsafe { give(value, number) }
    }
    fn cuFuncSetAttribute(function: usize, attribute: i32, value: i32) {
        let f = function_of(function)?;
        let most = SHARED_BYTES - f.program.static_shared as i32;
        match (attribute, value) {
            (8, 0..) if value <= most => {
                f.most_shared.store(value as u32, Relaxed);
                Ok(())
            }
            _ => Err(error::INVALID_VALUE),
        }
    }
    fn cuLaunchKernel(
        function: usize, gx: u32, gy: u32, gz: u32, bx: u32, by: u32, bz: u32, shared_bytes: u32, stream: usize,
        params: *const *const c_void, extra: *const *const c_void
    ) {
        let (f, stream) = (function_of(function)?, stream_of(stream)?);
        if !extra.is_null() {
            return Err(error::NOT_SUPPORTED);
        }
        let shape = Shape { grid: [gx, gy, gz], block: [bx, by, bz], shared_bytes };
        // SAFETY: the caller gives a pointer for each parameter.
        let launch = unsafe { f.launch(&shape, params) }?;
        stream.push(Command::Launches(vec![launch]));
        Ok(())
    }
}
