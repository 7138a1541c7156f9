//! The driver's calls, as a test wants them. Tests take turns: the driver has one state for the process.

use std::ffi::{CString, c_void};
use std::sync::{Mutex, MutexGuard, PoisonError};

pub const INVALID_PTX: i32 = 218;

// The address of a function becomes one with a signature that only the call's place knows.
macro_rules! call {
    ($name:literal, $($arg:expr => $type:ty),*) => {{
        let address = frit_mock::find($name).expect($name);
        // SAFETY: this is the signature of the driver's function; its arguments outlive the call.
        unsafe { std::mem::transmute::<*const std::ffi::c_void, unsafe extern "C" fn($($type),*) -> i32>(address)($($arg),*) }
    }};
}
pub(crate) use call;

/// The first device, with a queue, for as long as it is held.
pub struct Gpu {
    pub stream: usize,
    _turn: MutexGuard<'static, ()>,
}

#[repr(C)]
pub struct KernelNode {
    pub function: usize,
    pub grid: [u32; 3],
    pub block: [u32; 3],
    pub shared_bytes: u32,
    pub params: *const *const c_void,
    pub extra: *const *const c_void,
}

impl Gpu {
    pub fn new() -> Gpu {
        static TURN: Mutex<()> = Mutex::new(());
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        frit_mock::fail_never();
        frit_mock::repair(0);
        frit_mock::set_devices(2);
        frit_mock::set_pace(frit_mock::Pace::Eager);
        frit_mock::set_race_checks(true);
        let mut context = 0;
        assert_eq!(call!("cuDevicePrimaryCtxRetain", &mut context => *mut usize, 0 => i32), 0);
        assert_eq!(call!("cuCtxSetCurrent", context => usize), 0);
        Gpu { stream: stream(), _turn: turn }
    }
    /// Memory that holds words.
    pub fn words(&self, words: &[u32]) -> u64 {
        let at = alloc(words.len() * 4);
        let (from, bytes) = (words.as_ptr().cast(), words.len() * 4);
        assert_eq!(
            call!("cuMemcpyHtoDAsync_v2", at => u64, from => *const c_void, bytes => usize, self.stream => usize),
            0
        );
        at
    }
    /// What is there now.
    pub fn read(&self, at: u64, count: usize) -> Vec<u32> {
        let mut words = vec![0u32; count];
        let code = self.try_read(at, &mut words);
        assert_eq!(code, 0, "{:?}", frit_mock::fault(0));
        words
    }
    pub fn try_read(&self, at: u64, words: &mut [u32]) -> i32 {
        let (to, bytes) = (words.as_mut_ptr().cast(), words.len() * 4);
        call!("cuMemcpyDtoHAsync_v2", to => *mut c_void, at => u64, bytes => usize, self.stream => usize)
    }
    pub fn wait(&self) -> i32 {
        call!("cuStreamSynchronize", self.stream => usize)
    }
    pub fn launch(&self, function: usize, grid: u32, block: u32, args: &[u64]) -> i32 {
        self.launch_shared(function, grid, block, 0, args)
    }
    pub fn launch_shared(&self, function: usize, grid: u32, block: u32, shared: u32, args: &[u64]) -> i32 {
        let params: Vec<*const c_void> = args.iter().map(|a| std::ptr::from_ref(a).cast()).collect();
        call!("cuLaunchKernel", function => usize, grid => u32, 1 => u32, 1 => u32, block => u32, 1 => u32, 1 => u32,
            shared => u32, self.stream => usize, params.as_ptr() => *const *const c_void, std::ptr::null() => *const *const c_void)
    }
    /// Run a body and expect a fault that says something.
    pub fn expect_fault(&self, body: &str, grid: u32, block: u32, args: &[u64], code: i32, says: &str) {
        let f = kernel(args.len(), body);
        assert_eq!(self.launch(f, grid, block, args), 0);
        assert_eq!(self.wait(), code, "{:?} is not the fault of {body}", frit_mock::fault(0));
        let message = frit_mock::fault(0).expect("a fault").message;
        assert!(
            message.contains(says) && message.contains("kernel, line "),
            "{message:?} does not say {says:?}"
        );
        // nothing else works
        assert_eq!(self.launch(f, grid, block, args), code);
        frit_mock::repair(0);
    }
    /// Run a body to its end.
    pub fn expect_fine(&self, body: &str, grid: u32, block: u32, args: &[u64]) {
        assert_eq!(self.launch(kernel(args.len(), body), grid, block, args), 0);
        assert_eq!(self.wait(), 0, "{:?} in {body}", frit_mock::fault(0));
    }
}

pub fn stream() -> usize {
    let mut stream = 0;
    assert_eq!(call!("cuStreamCreate", &mut stream => *mut usize, 1 => u32), 0);
    stream
}
pub fn alloc(bytes: usize) -> u64 {
    let mut at = 0;
    assert_eq!(call!("cuMemAlloc_v2", &mut at => *mut u64, bytes => usize), 0);
    at
}
pub fn free(at: u64) {
    assert_eq!(call!("cuMemFree_v2", at => u64), 0);
}

/// A kernel's text: parameters a0, a1, .. are in %d0, %d1, .., the lane's number in %r0, the block's in %r1.
pub fn text(params: usize, body: &str) -> String {
    let list: Vec<String> = (0..params).map(|i| format!(".param .u64 a{i}")).collect();
    let loads: String = (0..params).map(|i| format!("ld.param.b64 %d{i}, [a{i}];\n")).collect();
    format!(
        ".version 8.1\n.target sm_90a\n.address_size 64\n.visible .entry kernel({})\n{{\n.reg .pred %p<8>;\n.reg .b16 %h<8>;\n\
         .reg .b32 %r<16>;\n.reg .b64 %d<16>;\n.shared .align 16 .b8 local[1024];\n{loads}mov.b32 %r0, %tid.x;\n\
         mov.b32 %r1, %ctaid.x;\n{body}\nret;\n}}\n",
        list.join(", ")
    )
}

/// Assemble a text; what the assembler says where it refuses.
pub fn assemble(text: &str) -> Result<Vec<u8>, (i32, String)> {
    let source = CString::new(text).expect("no zero byte");
    let mut log = vec![0u8; 1024];
    let mut values = [log.as_mut_ptr().cast::<c_void>(), log.len() as *mut c_void];
    let (mut options, mut linker) = ([5, 6], 0);
    assert_eq!(
        call!("cuLinkCreate_v2", 2 => u32, options.as_mut_ptr() => *mut i32, values.as_mut_ptr() => *mut *mut c_void, &mut linker => *mut usize),
        0
    );
    let data = source.as_bytes_with_nul();
    let none = std::ptr::null_mut::<i32>();
    let code = call!("cuLinkAddData_v2", linker => usize, 1 => i32, data.as_ptr() => *const u8, data.len() => usize, c"kernel".as_ptr() => *const std::ffi::c_char, 0 => u32, none => *mut i32, std::ptr::null_mut() => *mut *mut c_void);
    let (mut image, mut bytes) = (std::ptr::null_mut::<u8>(), 0);
    let made = match code {
        0 => {
            assert_eq!(
                call!("cuLinkComplete", linker => usize, &mut image => *mut *mut u8, &mut bytes => *mut usize),
                0
            );
            // SAFETY: the image is this long until the linker is destroyed.
            Ok(unsafe { std::slice::from_raw_parts(image, bytes) }.to_vec())
        }
        code => Err((
            code,
            String::from_utf8_lossy(log.split(|b| *b == 0).next().unwrap_or_default()).into_owned(),
        )),
    };
    assert_eq!(call!("cuLinkDestroy", linker => usize), 0);
    made
}

/// A kernel ready to be launched.
pub fn kernel(params: usize, body: &str) -> usize {
    let text = text(params, body);
    let image = assemble(&text).unwrap_or_else(|(_, said)| panic!("{said}\n{text}"));
    let (mut module, mut function) = (0, 0);
    assert_eq!(call!("cuModuleLoadData", &mut module => *mut usize, image.as_ptr() => *const u8), 0);
    let name = c"kernel".as_ptr();
    assert_eq!(
        call!("cuModuleGetFunction", &mut function => *mut usize, module => usize, name => *const std::ffi::c_char),
        0
    );
    function
}
