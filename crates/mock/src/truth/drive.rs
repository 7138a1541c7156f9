//! A driver in use, real or stand-in, by its functions' addresses: as much of it as running a snippet needs.

use super::{ANSWERS, GIVEN, Sample, Snippet};
use std::ffi::{CStr, CString, c_char, c_void};

type Find<'a> = &'a dyn Fn(&str) -> Option<*const c_void>;
/// A module that is to be assembled.
type Link = unsafe extern "C" fn(u32, *mut i32, *mut *mut c_void, *mut usize) -> i32;
type LinkAdd = unsafe extern "C" fn(
    usize,
    i32,
    *const c_void,
    usize,
    *const c_char,
    u32,
    *mut i32,
    *mut *mut c_void,
) -> i32;
type Launch = unsafe extern "C" fn(
    usize,
    u32,
    u32,
    u32,
    u32,
    u32,
    u32,
    u32,
    usize,
    *const *const c_void,
    *const *const c_void,
) -> i32;

/// A context and a stream of a driver.
pub struct Driver<'a> {
    find: Find<'a>,
    stream: usize,
    given: u64,
    answers: u64,
}

/// Lanes that one run may have.
const MOST: usize = 1024;
/// What the scalar parameters hold.
const SCALARS: (i32, i64) = (-123_456_789, -0x0123_4567_89ab_cdef);

// The address of a function becomes one with a signature that only the call's place knows.
macro_rules! call {
    ($self:ident, $name:literal as $type:ty, $($arg:expr),*) => {{
        let address = ($self.find)($name).ok_or(concat!("there is no ", $name))?;
        // SAFETY: the driver's interface says that the function of this name has this signature; its arguments outlive it.
        let code = unsafe { std::mem::transmute::<*const c_void, $type>(address)($($arg),*) };
        if code == 0 { Ok(()) } else { Err(format!("{} gives {code}", $name)) }
    }};
}

impl<'a> Driver<'a> {
    /// The first device of a driver.
    pub fn new(find: Find<'a>) -> Result<Driver<'a>, String> {
        let mut made = Driver { find, stream: 0, given: 0, answers: 0 };
        let (mut device, mut context) = (0i32, 0usize);
        call!(made, "cuInit" as unsafe extern "C" fn(u32) -> i32, 0)?;
        call!(made, "cuDeviceGet" as unsafe extern "C" fn(*mut i32, i32) -> i32, &mut device, 0)?;
        call!(
            made,
            "cuDevicePrimaryCtxRetain" as unsafe extern "C" fn(*mut usize, i32) -> i32,
            &mut context,
            device
        )?;
        call!(made, "cuCtxSetCurrent" as unsafe extern "C" fn(usize) -> i32, context)?;
        call!(made, "cuStreamCreate" as unsafe extern "C" fn(*mut usize, u32) -> i32, &mut made.stream, 1)?;
        let alloc = |bytes: usize| -> Result<u64, String> {
            let mut at = 0;
            call!(made, "cuMemAlloc_v2" as unsafe extern "C" fn(*mut u64, usize) -> i32, &mut at, bytes)?;
            Ok(at)
        };
        let (given, answers) = (alloc(8 * GIVEN * MOST)?, alloc(8 * ANSWERS * MOST)?);
        (made.given, made.answers) = (given, answers);
        Ok(made)
    }
    /// The answers of a snippet.
    pub fn run(&self, snippet: &Snippet, given: &[[u64; GIVEN]]) -> Result<Vec<Sample>, String> {
        let image = self.assemble(&snippet.text)?;
        let (mut module, mut function) = (0usize, 0usize);
        call!(
            self,
            "cuModuleLoadData" as unsafe extern "C" fn(*mut usize, *const c_void) -> i32,
            &mut module,
            image.as_ptr().cast()
        )?;
        call!(
            self,
            "cuModuleGetFunction" as unsafe extern "C" fn(*mut usize, usize, *const c_char) -> i32,
            &mut function,
            module,
            c"snippet".as_ptr()
        )?;
        let mut answers = vec![[0u64; ANSWERS]; given.len()];
        self.copy_in(self.given, given)?;
        self.copy_in(self.answers, &answers)?;
        let (n, m) = SCALARS;
        let params = [
            (&raw const self.given).cast::<c_void>(),
            (&raw const self.answers).cast(),
            (&raw const n).cast(),
            (&raw const m).cast(),
        ];
        call!(
            self,
            "cuLaunchKernel" as Launch,
            function,
            1,
            1,
            1,
            given.len() as u32,
            1,
            1,
            0,
            self.stream,
            params.as_ptr(),
            std::ptr::null()
        )?;
        let bytes = std::mem::size_of_val(&answers[..]);
        call!(
            self,
            "cuMemcpyDtoHAsync_v2" as unsafe extern "C" fn(*mut c_void, u64, usize, usize) -> i32,
            answers.as_mut_ptr().cast(),
            self.answers,
            bytes,
            self.stream
        )?;
        call!(self, "cuStreamSynchronize" as unsafe extern "C" fn(usize) -> i32, self.stream)?;
        call!(self, "cuModuleUnload" as unsafe extern "C" fn(usize) -> i32, module)?;
        Ok(given.iter().zip(answers).map(|(&given, answer)| Sample { given, answer }).collect())
    }
    fn copy_in<const N: usize>(&self, to: u64, words: &[[u64; N]]) -> Result<(), String> {
        let bytes = std::mem::size_of_val(words);
        call!(
            self,
            "cuMemcpyHtoDAsync_v2" as unsafe extern "C" fn(u64, *const c_void, usize, usize) -> i32,
            to,
            words.as_ptr().cast(),
            bytes,
            self.stream
        )?;
        call!(self, "cuStreamSynchronize" as unsafe extern "C" fn(usize) -> i32, self.stream)
    }
    fn assemble(&self, text: &str) -> Result<Vec<u8>, String> {
        let source = CString::new(text).map_err(|e| e.to_string())?;
        let mut log = vec![0u8; 8192];
        let mut options = [5, 6];
        let mut values = [log.as_mut_ptr().cast::<c_void>(), log.len() as *mut c_void];
        let mut state = 0usize;
        call!(self, "cuLinkCreate_v2" as Link, 2, options.as_mut_ptr(), values.as_mut_ptr(), &mut state)?;
        let none = (std::ptr::null_mut(), std::ptr::null_mut());
        let data = source.as_bytes_with_nul();
        let mut done = call!(
            self,
            "cuLinkAddData_v2" as LinkAdd,
            state,
            1,
            data.as_ptr().cast(),
            data.len(),
            c"snippet".as_ptr(),
            0,
            none.0,
            none.1
        );
        let (mut image, mut bytes) = (std::ptr::null_mut(), 0usize);
        if done.is_ok() {
            done = call!(
                self,
                "cuLinkComplete" as unsafe extern "C" fn(usize, *mut *mut c_void, *mut usize) -> i32,
                state,
                &mut image,
                &mut bytes
            );
        }
        let said = CStr::from_bytes_until_nul(&log).unwrap_or_default().to_string_lossy();
        let made = match done {
            // SAFETY: the image is this long and lives until the linker is destroyed.
            Ok(()) => Ok(unsafe { std::slice::from_raw_parts(image.cast::<u8>(), bytes) }.to_vec()),
            Err(e) => Err(format!("{e}: {said}")),
        };
        call!(self, "cuLinkDestroy" as unsafe extern "C" fn(usize) -> i32, state)?;
        made
    }
}
