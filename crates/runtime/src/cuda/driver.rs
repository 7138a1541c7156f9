//! The driver as a table of functions: opened at run time, so that no toolkit is needed to build and none to run. Tests fill it
//! with a stand-in.

use crate::{Error, env, sys};
use frit_abi::sync::OnceLock;
use std::ffi::{CStr, c_char, c_void};
use std::sync::Arc;

/// What a call returns; 0 is success.
pub type Code = i32;
/// A context, stream, event, module, function, graph or node: a pointer that only the driver follows.
pub type Handle = usize;
/// A place in device memory.
pub type Address = u64;

/// The kernel of a graph node and its launch, as the driver lays them out.
#[repr(C)]
pub struct KernelNode {
    /// The function.
    pub function: Handle,
    /// Blocks, fastest first.
    pub grid: [u32; 3],
    /// Lanes in a block, fastest first.
    pub block: [u32; 3],
    /// Bytes of dynamic shared memory.
    pub shared_bytes: u32,
    /// A pointer to each argument.
    pub params: *const *const c_void,
    /// Unused.
    pub extra: *const *const c_void,
}

/// What an edge of a graph is, as the driver lays it out.
#[repr(C)]
pub struct Edge {
    from_port: u8,
    to_port: u8,
    kind: u8,
    reserved: [u8; 5],
}

impl Edge {
    /// The second launch begins while the first runs, and waits by itself: `CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC`,
    /// `CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC`.
    pub const EARLY: Edge = Edge { from_port: 1, to_port: 0, kind: 1, reserved: [0; 5] };
}

// The field of each function, the driver's name for it and its parameters are one line; a function could not declare them.
macro_rules! functions {
    (later { $($(#[$late_doc:meta])* $late:ident = $late_symbol:literal ($($late_arg:ident: $late_type:ty),*);)* }
     $($(#[$doc:meta])* $field:ident = $symbol:literal ($($arg:ident: $type:ty),*);)*) => {
        /// The functions of the driver that we call.
        #[derive(Clone, Copy)]
        pub struct Driver {
            $($(#[$doc])* pub $field: unsafe extern "C" fn($($arg: $type),*) -> Code,)*
            $($(#[$late_doc])* pub $late: Option<unsafe extern "C" fn($($late_arg: $late_type),*) -> Code>,)*
        }
        impl Driver {
            /// The table of a library; the error is the name that it lacks.
            ///
            /// # Safety
            /// `find` gives the addresses of functions with the signatures of the driver's interface.
            unsafe fn of(find: impl Fn(&str) -> Option<*const c_void>) -> Result<Driver, &'static str> {
                Ok(Driver {
                    // SAFETY: what `find` gives is a function of this signature, says the caller.
                    $($field: unsafe { std::mem::transmute::<*const c_void, unsafe extern "C" fn($($arg: $type),*) -> Code>(find($symbol).ok_or($symbol)?) },)*
                    // SAFETY: the same; an older driver has none.
                    $($late: find($late_symbol).map(|f| unsafe { std::mem::transmute::<*const c_void, unsafe extern "C" fn($($late_arg: $late_type),*) -> Code>(f) }),)*
                })
            }
        }
    };
}

functions! {
    later {
        /// Edges of a graph, from 12.3 on.
        graph_edges = "cuGraphAddDependencies_v2" (graph: Handle, from: *const Handle, to: *const Handle, edges: *const Edge, count: usize);
    }
    /// Once a process, before anything else.
    init = "cuInit" (flags: u32);
    /// 1000 times the major plus 10 times the minor version of CUDA it speaks.
    version = "cuDriverGetVersion" (version: *mut i32);
    /// The name of an error.
    error_name = "cuGetErrorName" (code: Code, name: *mut *const c_char);
    /// What an error means.
    error_text = "cuGetErrorString" (code: Code, text: *mut *const c_char);
    /// How many devices there are.
    device_count = "cuDeviceGetCount" (count: *mut i32);
    /// The device of a number.
    device = "cuDeviceGet" (device: *mut i32, ordinal: i32);
    /// Its name.
    device_name = "cuDeviceGetName" (name: *mut c_char, len: i32, device: i32);
    /// One of its numbers.
    device_attribute = "cuDeviceGetAttribute" (value: *mut i32, attribute: i32, device: i32);
    /// The context that everyone in the process shares.
    context_retain = "cuDevicePrimaryCtxRetain" (context: *mut Handle, device: i32);
    /// One user of it less.
    context_release = "cuDevicePrimaryCtxRelease_v2" (device: i32);
    /// The context of this thread's next calls.
    context_set = "cuCtxSetCurrent" (context: Handle);
    /// Wait for all that was queued in the context, by whomever.
    context_wait = "cuCtxSynchronize" ();
    /// Something about an address.
    address_about = "cuPointerGetAttribute" (value: *mut c_void, attribute: i32, address: Address);
    /// Device memory.
    alloc = "cuMemAlloc_v2" (address: *mut Address, bytes: usize);
    /// Give it back; waits for what uses it.
    free = "cuMemFree_v2" (address: Address);
    /// Free and all memory.
    memory_info = "cuMemGetInfo_v2" (free: *mut usize, total: *mut usize);
    /// Host memory that does not move, which devices can reach.
    host_alloc = "cuMemHostAlloc" (start: *mut *mut c_void, bytes: usize, flags: u32);
    /// Give it back.
    host_free = "cuMemFreeHost" (start: *mut c_void);
    /// Queue a copy to the device.
    copy_in = "cuMemcpyHtoDAsync_v2" (to: Address, from: *const c_void, bytes: usize, stream: Handle);
    /// Queue a copy to the host.
    copy_out = "cuMemcpyDtoHAsync_v2" (to: *mut c_void, from: Address, bytes: usize, stream: Handle);
    /// Queue a copy within the device.
    copy = "cuMemcpyDtoDAsync_v2" (to: Address, from: Address, bytes: usize, stream: Handle);
    /// Queue a copy between devices.
    copy_peer = "cuMemcpyPeerAsync" (to: Address, to_context: Handle, from: Address, from_context: Handle, bytes: usize, stream: Handle);
    /// Queue that bytes become this one.
    fill = "cuMemsetD8Async" (to: Address, byte: u8, bytes: usize, stream: Handle);
    /// A queue.
    stream = "cuStreamCreate" (stream: *mut Handle, flags: u32);
    /// The end of a queue.
    stream_destroy = "cuStreamDestroy_v2" (stream: Handle);
    /// Wait for all that was queued.
    stream_wait = "cuStreamSynchronize" (stream: Handle);
    /// What follows in the queue runs after an event.
    stream_after = "cuStreamWaitEvent" (stream: Handle, event: Handle, flags: u32);
    /// An event.
    event = "cuEventCreate" (event: *mut Handle, flags: u32);
    /// The end of an event.
    event_destroy = "cuEventDestroy_v2" (event: Handle);
    /// It is done when all that is in the queue now is.
    event_record = "cuEventRecord" (event: Handle, stream: Handle);
    /// Wait for it.
    event_wait = "cuEventSynchronize" (event: Handle);
    /// Whether it was reached.
    event_query = "cuEventQuery" (event: Handle);
    /// Milliseconds between two.
    event_between = "cuEventElapsedTime" (ms: *mut f32, from: Handle, to: Handle);
    /// A linker, which assembles.
    link = "cuLinkCreate_v2" (count: u32, options: *mut i32, values: *mut *mut c_void, state: *mut Handle);
    /// Source for it.
    link_add = "cuLinkAddData_v2" (state: Handle, kind: i32, data: *mut c_void, bytes: usize, name: *const c_char, count: u32, options: *mut i32, values: *mut *mut c_void);
    /// Its result, which lives as long as it.
    link_complete = "cuLinkComplete" (state: Handle, image: *mut *mut c_void, bytes: *mut usize);
    /// The end of a linker.
    link_destroy = "cuLinkDestroy" (state: Handle);
    /// An assembled image on the device.
    module = "cuModuleLoadData" (module: *mut Handle, image: *const c_void);
    /// The end of a module.
    module_unload = "cuModuleUnload" (module: Handle);
    /// An entry of a module.
    function = "cuModuleGetFunction" (function: *mut Handle, module: Handle, name: *const c_char);
    /// A number of one.
    function_get = "cuFuncGetAttribute" (value: *mut i32, attribute: i32, function: Handle);
    /// Set one.
    function_set = "cuFuncSetAttribute" (function: Handle, attribute: i32, value: i32);
    /// Queue a launch.
    launch = "cuLaunchKernel" (function: Handle, gx: u32, gy: u32, gz: u32, bx: u32, by: u32, bz: u32, shared_bytes: u32, stream: Handle, params: *const *const c_void, extra: *const *const c_void);
    /// An empty graph.
    graph = "cuGraphCreate" (graph: *mut Handle, flags: u32);
    /// The end of a graph.
    graph_destroy = "cuGraphDestroy" (graph: Handle);
    /// A launch in a graph.
    graph_kernel = "cuGraphAddKernelNode" (node: *mut Handle, graph: Handle, after: *const Handle, count: usize, kernel: *const KernelNode);
    /// A graph that can run.
    graph_instantiate = "cuGraphInstantiateWithFlags" (exec: *mut Handle, graph: Handle, flags: u64);
    /// Other arguments for a launch of it.
    graph_set_kernel = "cuGraphExecKernelNodeSetParams" (exec: Handle, node: Handle, kernel: *const KernelNode);
    /// Whether a node of it runs.
    graph_enable = "cuGraphNodeSetEnabled" (exec: Handle, node: Handle, is_enabled: u32);
    /// Queue it.
    graph_launch = "cuGraphLaunch" (exec: Handle, stream: Handle);
    /// The end of one that can run.
    graph_exec_destroy = "cuGraphExecDestroy" (exec: Handle);
}

/// The driver's library, where the environment names no other.
const LIBRARY: &str = if cfg!(windows) { "nvcuda.dll" } else { "libcuda.so.1" };
/// CUDA 12.0: the first whose assembler knows all that we write.
const OLDEST: i32 = 12_000;

/// The driver of this process.
static DRIVER: OnceLock<Result<Arc<Driver>, Error>> = OnceLock::new();

impl Driver {
    /// The driver of this process, opened when first asked for.
    pub fn get() -> Result<Arc<Driver>, Error> {
        DRIVER.get_or_init(|| Driver::open(&env::cuda_driver().unwrap_or_else(|| LIBRARY.into()))).clone()
    }
    /// Let functions that `find` gives by the driver's names be the driver of this process, if it has none yet.
    ///
    /// # Safety
    /// What `find` gives are functions with the signatures of the driver's interface.
    pub unsafe fn install(find: impl Fn(&str) -> Option<*const c_void>) -> Result<Arc<Driver>, Error> {
        let install = || {
            // SAFETY: as the caller says.
            let driver = unsafe { Driver::of(find) };
            let driver = driver.map_err(|name| Error::Device(format!("CUDA: the driver has no {name}")))?;
            driver.start()?;
            Ok(Arc::new(driver))
        };
        DRIVER.get_or_init(install).clone()
    }
    /// The driver in a library, ready to be used.
    pub fn open(library: &str) -> Result<Arc<Driver>, Error> {
        let symbols = sys::Library::open(library).map_err(|e| {
            Error::Device(format!("CUDA: there is no NVIDIA driver; {library} was looked for ({e})"))
        })?;
        // SAFETY: a library of this name holds the driver's interface, whose names say their signatures.
        let driver = unsafe { Driver::of(|name| symbols.find(name)) };
        let driver =
            driver.map_err(|name| Error::Device(format!("CUDA: {library} is too old, it has no {name}")))?;
        // the functions are called until the process ends
        std::mem::forget(symbols);
        driver.start()?;
        Ok(Arc::new(driver))
    }
    fn start(&self) -> Result<(), Error> {
        let mut version = 0;
        // SAFETY: the table holds the driver's functions; the place is valid for the call.
        unsafe {
            self.check("cuInit", (self.init)(0))?;
            self.check("cuDriverGetVersion", (self.version)(&mut version))?;
        }
        if version < OLDEST {
            let show = |v: i32| format!("{}.{}", v / 1000, v % 1000 / 10);
            let (have, need) = (show(version), show(OLDEST));
            return Err(Error::Device(format!(
                "CUDA: the NVIDIA driver speaks CUDA {have}; {need} is the oldest that works"
            )));
        }
        Ok(())
    }
    /// An error where a call returned one.
    pub fn check(&self, call: &str, code: Code) -> Result<(), Error> {
        if code == 0 { Ok(()) } else { Err(Error::Device(format!("{call}: {}", self.describe(code)))) }
    }
    /// A code as the driver words it: `CUDA_ERROR_INVALID_VALUE, invalid argument`.
    pub fn describe(&self, code: Code) -> String {
        let word = |get: unsafe extern "C" fn(Code, *mut *const c_char) -> Code| {
            let mut text = std::ptr::null();
            // SAFETY: the driver gives a constant string of its own, or leaves null.
            unsafe {
                let found = get(code, &mut text) == 0 && !text.is_null();
                found.then(|| CStr::from_ptr(text).to_string_lossy().into_owned())
            }
        };
        match (word(self.error_name), word(self.error_text)) {
            (Some(name), Some(text)) => format!("{name}, {text}"),
            _ => format!("error {code}"),
        }
    }
}
