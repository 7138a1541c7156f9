//! DLPack: memory shared with other libraries, on the CPU and on CUDA devices.
//!
//! What is handed out is marked read-only where the other side understands that (version 1), and holds its version of
//! the tensor; what is taken in is shared where `from_dlpack` asks for it, else copied.
//!
//! On a CUDA device what is handed out is computed to its end, and comes back to us when all queues of the device are done
//! with it. Of what is taken in, its maker orders our queue after its own; it goes back when our queue is done. What either
//! side writes later the other sees in an order that the program makes by synchronising.

use super::foreign::{Layout, MOST_DIMS, layout};
use super::{PyTensor, out};
use crate::convert::type_name;
use crate::error::{checked, compute, raised};
use crate::memory::row_major;
use frit::engine::{devices, memory};
use frit::{Blob, DType, Lent, LentThere, Tensor};
use pyo3::exceptions::{PyBufferError, PyMemoryError, PyTypeError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::ffi::{CStr, c_void};

const CPU: (i32, i32) = (1, 0);
/// The kind of memory of a CUDA device; the number of the device follows.
const CUDA: i32 = 2;
const READ_ONLY: u64 = 1;
/// The version of the struct that is known here.
const MAJOR: u32 = 1;

#[repr(C)]
struct DlTensor {
    data: *mut c_void,
    device: [i32; 2],
    ndim: i32,
    code: u8,
    bits: u8,
    lanes: u16,
    shape: *mut i64,
    strides: *mut i64,
    byte_offset: u64,
}

/// The struct of version 0.
#[repr(C)]
struct Managed {
    tensor: DlTensor,
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut Managed)>,
}

/// The struct of version 1.
#[repr(C)]
struct Versioned {
    version: [u32; 2],
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut Versioned)>,
    flags: u64,
    tensor: DlTensor,
}

/// A kind of capsule: its names before and after someone took what is in it.
trait Capsule: Sized + 'static {
    const NAME: &'static CStr;
    const USED: &'static CStr;
    fn tensor(&self) -> &DlTensor;
    /// The version whose struct it is; of another one nothing else may be looked at.
    fn major(&self) -> u32;
    /// Let its maker free it.
    unsafe fn delete(this: *mut Self);
}
impl Capsule for Managed {
    const NAME: &'static CStr = c"dltensor";
    const USED: &'static CStr = c"used_dltensor";
    fn tensor(&self) -> &DlTensor {
        &self.tensor
    }
    fn major(&self) -> u32 {
        MAJOR
    }
    unsafe fn delete(this: *mut Managed) {
        // SAFETY: the caller owns it.
        if let Some(f) = unsafe { (*this).deleter } {
            // SAFETY: as above; this is what the maker wants called.
            unsafe { f(this) }
        }
    }
}
impl Capsule for Versioned {
    const NAME: &'static CStr = c"dltensor_versioned";
    const USED: &'static CStr = c"used_dltensor_versioned";
    fn tensor(&self) -> &DlTensor {
        &self.tensor
    }
    fn major(&self) -> u32 {
        self.version[0]
    }
    unsafe fn delete(this: *mut Versioned) {
        // SAFETY: the caller owns it.
        if let Some(f) = unsafe { (*this).deleter } {
            // SAFETY: as above; this is what the maker wants called.
            unsafe { f(this) }
        }
    }
}

/// Kind of number and bits of every type.
const TYPES: [(DType, u8, u8); 17] = [
    (DType::Bool, 6, 8),
    (DType::I8, 0, 8),
    (DType::I16, 0, 16),
    (DType::I32, 0, 32),
    (DType::I64, 0, 64),
    (DType::U8, 1, 8),
    (DType::U16, 1, 16),
    (DType::U32, 1, 32),
    (DType::U64, 1, 64),
    (DType::F16, 2, 16),
    (DType::F32, 2, 32),
    (DType::F64, 2, 64),
    (DType::BF16, 4, 16),
    (DType::F8E4M3, 10, 8),
    (DType::F8E4M3Fnuz, 11, 8),
    (DType::F8E5M2, 12, 8),
    (DType::F8E5M2Fnuz, 13, 8),
];

// ---- handing out

/// Memory that is handed out.
enum Memory {
    Host(Lent),
    There(LentThere),
}

/// What a capsule of ours points into.
struct Shared {
    memory: Memory,
    device: (i32, i32),
    shape: Vec<i64>,
    strides: Vec<i64>,
}

unsafe extern "C" fn free_managed(m: *mut Managed) {
    // SAFETY: made from boxes in `capsule`; freed once, by whoever holds it last.
    unsafe {
        drop(Box::from_raw((*m).context.cast::<Shared>()));
        drop(Box::from_raw(m));
    }
}
unsafe extern "C" fn free_versioned(m: *mut Versioned) {
    // SAFETY: as above.
    unsafe {
        drop(Box::from_raw((*m).context.cast::<Shared>()));
        drop(Box::from_raw(m));
    }
}

/// Frees what no one took out of a capsule.
unsafe extern "C" fn forget<C: Capsule>(capsule: *mut ffi::PyObject) {
    // SAFETY: the interpreter calls this for a capsule made in `capsule`, which has this name until it is taken.
    unsafe {
        if ffi::PyCapsule_IsValid(capsule, C::NAME.as_ptr()) == 1 {
            let p = ffi::PyCapsule_GetPointer(capsule, C::NAME.as_ptr());
            C::delete(p.cast());
        }
    }
}

fn capsule<C: Capsule>(py: Python<'_>, content: C) -> PyResult<Bound<'_, PyAny>> {
    let p = Box::into_raw(Box::new(content));
    // SAFETY: the name is static, the pointer owned; the destructor frees it where no one takes it.
    unsafe {
        let made = ffi::PyCapsule_New(p.cast(), C::NAME.as_ptr(), Some(forget::<C>));
        if made.is_null() {
            C::delete(p);
        }
        Bound::from_owned_ptr_or_err(py, made)
    }
}

fn describe(d: DType, shared: &mut Shared) -> PyResult<DlTensor> {
    let (_, code, bits) = TYPES
        .into_iter()
        .find(|k| k.0 == d)
        .ok_or_else(|| PyBufferError::new_err(format!("DLPack has no {d} elements")))?;
    Ok(DlTensor {
        data: match &shared.memory {
            Memory::Host(lent) => lent.as_ptr() as *mut c_void,
            Memory::There(lent) => lent.address() as *mut c_void,
        },
        device: [shared.device.0, shared.device.1],
        ndim: shared.shape.len() as i32,
        code,
        bits,
        lanes: 1,
        shape: shared.shape.as_mut_ptr(),
        strides: shared.strides.as_mut_ptr(),
        byte_offset: 0,
    })
}

/// DLPack's numbers for where a tensor is: those of the CPU for devices that it does not know.
fn place(t: &Tensor) -> PyResult<(i32, i32)> {
    let name = t.device().map_err(raised)?;
    Ok(match name.split_once(':') {
        _ if *name == *"CUDA" => (CUDA, 0),
        Some(("CUDA", number)) => number.parse().map_or(CPU, |n| (CUDA, n)),
        _ => CPU,
    })
}

#[pymethods]
impl PyTensor {
    /// For other libraries: ``torch.from_dlpack(tensor)`` shares this tensor's memory. They must not write to it.
    #[pyo3(signature = (*, stream=None, max_version=None, dl_device=None, copy=None))]
    fn __dlpack__<'py>(
        &self,
        py: Python<'py>,
        stream: Option<Bound<'py, PyAny>>,
        max_version: Option<(u32, u32)>,
        dl_device: Option<(i32, i32)>,
        copy: Option<bool>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let here = place(&self.0)?;
        let device = dl_device.unwrap_or(here);
        if device != here && (device != CPU || copy == Some(false)) {
            return Err(PyBufferError::new_err(format!("DLPack: a tensor on {here:?} is not on {device:?}")));
        }
        // 0 could be either of two queues; all others are right, since what is handed out is computed
        if device.0 == CUDA && stream.is_some_and(|s| s.extract::<i64>().is_ok_and(|n| n == 0)) {
            return Err(PyBufferError::new_err("DLPack: stream 0 is not one that can be asked for"));
        }
        let t = match copy {
            Some(true) => checked(self.0.contiguous())?,
            _ => self.0.clone(),
        };
        let memory = match device == CPU {
            true => Memory::Host(compute(py, || t.lend())?),
            false => Memory::There(compute(py, || t.lend_there())?),
        };
        let shape: Vec<i64> = t.dims().map_err(raised)?.iter().map(|&d| d as i64).collect();
        let steps = row_major(&shape.iter().map(|&d| d as isize).collect::<Vec<_>>(), 1);
        let strides = steps.iter().map(|&s| s as i64).collect();
        let mut shared = Box::new(Shared { memory, device, shape, strides });
        let tensor = describe(t.dtype(), &mut shared)?;
        let context = Box::into_raw(shared).cast();
        match max_version {
            Some((major, _)) if major >= 1 => {
                let flags = if copy == Some(true) { 0 } else { READ_ONLY };
                capsule(
                    py,
                    Versioned { version: [1, 0], context, deleter: Some(free_versioned), flags, tensor },
                )
            }
            _ => capsule(py, Managed { tensor, context, deleter: Some(free_managed) }),
        }
    }
    /// For other libraries: where it is.
    fn __dlpack_device__(&self) -> PyResult<(i32, i32)> {
        place(&self.0)
    }
    /// A tensor over the memory of another library's: what is written to it later shows through.
    #[staticmethod]
    #[pyo3(signature = (x, /, *, device=None, copy=None))]
    fn from_dlpack(x: &Bound<'_, PyAny>, device: Option<&str>, copy: Option<bool>) -> PyResult<PyTensor> {
        let t = if x.is_instance_of::<PyTensor>() {
            x.cast::<PyTensor>()?.get().0.clone()
        } else {
            take(x, copy != Some(true))?
        };
        out(match device {
            Some(d) => t.to(d),
            None => t,
        })
    }
}

// ---- taking in

/// Memory of another library, freed by it when no one uses it any more.
struct Taken<C: Capsule>(*mut C, *const u8, usize);

// SAFETY: DLPack's structs may be read and freed on any thread.
unsafe impl<C: Capsule> Send for Taken<C> {}
// SAFETY: as above; it is only read.
unsafe impl<C: Capsule> Sync for Taken<C> {}

impl<C: Capsule> AsRef<[u8]> for Taken<C> {
    fn as_ref(&self) -> &[u8] {
        match self.2 {
            0 => &[],
            // SAFETY: the other library keeps so many bytes there until it is told to free them.
            n => unsafe { std::slice::from_raw_parts(self.1, n) },
        }
    }
}
impl<C: Capsule> Drop for Taken<C> {
    fn drop(&mut self) {
        // its maker may be Python code; an interpreter that is gone has freed it already
        Python::try_attach(|_| {
            // SAFETY: taken once out of its capsule, freed once here.
            unsafe { C::delete(self.0) }
        });
    }
}

/// The tensor of an object with `__dlpack__`.
pub fn take(obj: &Bound<'_, PyAny>, share: bool) -> PyResult<Tensor> {
    let py = obj.py();
    let device: (i32, i32) = obj.call_method0("__dlpack_device__")?.extract()?;
    if device.0 != CPU.0 && device.0 != CUDA {
        let text = format!("DLPack: a {} on device {device:?}; move it to the CPU first", type_name(obj));
        return Err(PyBufferError::new_err(text));
    }
    // a tensor that records gradients elsewhere is taken for its values
    let plain = match obj.getattr("requires_grad").and_then(|r| r.is_truthy()) {
        Ok(true) => obj.call_method0("detach")?,
        _ => obj.clone(),
    };
    let asked = PyDict::new(py);
    asked.set_item("max_version", (1, 0))?;
    if device.0 == CUDA {
        // its maker lets our queue wait for what it has queued
        asked.set_item("stream", devices::queue_handle(&name_of(device)).map_err(refused)?)?;
    }
    let capsule = match plain.call_method("__dlpack__", (), Some(&asked)) {
        Err(e) if e.is_instance_of::<PyTypeError>(py) => {
            // one that knows less, but all know of queues
            asked.del_item("max_version")?;
            plain.call_method("__dlpack__", (), Some(&asked))?
        }
        r => r?,
    };
    // SAFETY: only asks for the capsule's name.
    match unsafe { ffi::PyCapsule_IsValid(capsule.as_ptr(), Versioned::NAME.as_ptr()) } {
        1 => of_capsule::<Versioned>(&capsule, share),
        _ => of_capsule::<Managed>(&capsule, share),
    }
}

/// Our name for a CUDA device.
fn name_of(device: (i32, i32)) -> String {
    format!("CUDA:{}", device.1)
}

/// What a device says, as this protocol raises it.
fn refused(e: frit::engine::Error) -> PyErr {
    PyBufferError::new_err(format!("DLPack: {e}"))
}

fn of_capsule<C: Capsule>(capsule: &Bound<'_, PyAny>, share: bool) -> PyResult<Tensor> {
    let py = capsule.py();
    // SAFETY: the interpreter checks the name and gives null with an exception where it is another.
    let p = unsafe { ffi::PyCapsule_GetPointer(capsule.as_ptr(), C::NAME.as_ptr()) }.cast::<C>();
    if p.is_null() {
        return Err(PyErr::fetch(py));
    }
    // SAFETY: the struct lives while the capsule does; in every version it begins as this one does.
    let major = unsafe { (*p).major() };
    if major != MAJOR {
        return Err(PyBufferError::new_err(format!(
            "DLPack: a struct of version {major}; this reads {MAJOR}"
        )));
    }
    // SAFETY: as above; its pointers are what DLPack says.
    let ((at, d, data), device) = unsafe { (checked_layout((*p).tensor())?, (*p).tensor().device) };
    let is_there = device[0] == CUDA;
    if is_there && at.strides.is_some() {
        let text =
            "DLPack: elements of a CUDA device that are not in row-major order; make it contiguous first";
        return Err(PyBufferError::new_err(text));
    }
    if is_there {
        // what cannot be used is not taken
        devices::queue_handle(&name_of((device[0], device[1]))).map_err(refused)?;
    }
    // SAFETY: the name is static; renaming it makes us the owner of the struct.
    if unsafe { ffi::PyCapsule_SetName(capsule.as_ptr(), C::USED.as_ptr()) } != 0 {
        return Err(PyErr::fetch(py));
    }
    if is_there {
        return of_device(Taken(p, std::ptr::null(), 0), data as u64, d, at.dims, &device, share);
    }
    let taken = Taken(p, data, if at.strides.is_none() { at.bytes } else { 0 });
    checked(match &at.strides {
        Some(s) => Tensor::from_bytes(d, &gathered(taken.1, &at, s, d.size())?, at.dims),
        None if share => Tensor::from_blob(d, &Blob::volatile(taken), at.dims),
        None => Tensor::from_bytes(d, taken.as_ref(), at.dims),
    })
}

/// Memory of a CUDA device, where it lies or copied there.
fn of_device<C: Capsule>(
    taken: Taken<C>,
    address: u64,
    d: DType,
    dims: Vec<usize>,
    device: &[i32; 2],
    share: bool,
) -> PyResult<Tensor> {
    let (name, len) = (name_of((device[0], device[1])), dims.iter().product());
    // SAFETY: the other library keeps so many elements there until it is told to free them, which dropping `taken` does.
    let node = unsafe { memory::adopt(&name, d, address, len, Box::new(taken), !share) }.map_err(refused)?;
    checked(Tensor::from_uop(node).reshape(dims))
}

/// Where its elements lie, what they are, and the address of the first one.
///
/// # Safety
/// The pointers of the struct are null or what DLPack says.
unsafe fn checked_layout(t: &DlTensor) -> PyResult<(Layout, DType, *const u8)> {
    let refuse = |why: String| PyBufferError::new_err(format!("DLPack: {why}"));
    if t.device[0] != CPU.0 && t.device[0] != CUDA {
        return Err(refuse(format!("memory of device {:?}; move it to the CPU first", t.device)));
    }
    let n = usize::try_from(t.ndim).ok().filter(|n| *n <= MOST_DIMS);
    let n = n.ok_or_else(|| refuse(format!("{} dims", t.ndim)))?;
    let list = |p: *const i64| match n {
        0 => Some(&[][..]),
        _ if p.is_null() || !p.is_aligned() => None,
        // SAFETY: as many numbers as there are dims.
        n => Some(unsafe { std::slice::from_raw_parts(p, n) }),
    };
    let shape = list(t.shape).ok_or_else(|| refuse("dims without sizes".into()))?;
    let strides = list(t.strides);
    if strides.is_none() && !t.strides.is_null() {
        return Err(refuse("strides that are not at an address of numbers".into()));
    }
    let d = dtype_of(t)?;
    let offset = usize::try_from(t.byte_offset).ok().filter(|o| t.data.addr().checked_add(*o).is_some());
    let offset = offset.ok_or_else(|| refuse(format!("an offset of {} bytes", t.byte_offset)))?;
    let data = t.data.cast_const().cast::<u8>().wrapping_add(offset);
    // a null pointer with an offset is still no memory
    let address = if t.data.is_null() { 0 } else { data.addr() as u64 };
    Ok((layout(shape, strides, d.size(), address).map_err(refuse)?, d, data))
}

fn dtype_of(t: &DlTensor) -> PyResult<DType> {
    let found = TYPES.into_iter().find(|k| (k.1, k.2, 1) == (t.code, t.bits, t.lanes));
    found.map(|k| k.0).ok_or_else(|| {
        PyTypeError::new_err(format!(
            "DLPack: elements of kind {}, {} bits, {} lanes have no tensor",
            t.code, t.bits, t.lanes
        ))
    })
}

/// Elements by strides, in row-major order.
fn gathered(data: *const u8, at: &Layout, strides: &[isize], size: usize) -> PyResult<Vec<u8>> {
    let mut out = vec![];
    out.try_reserve_exact(at.bytes)
        .map_err(|_| PyMemoryError::new_err(format!("DLPack: no memory for {} bytes", at.bytes)))?;
    let mut place = vec![0usize; at.dims.len()];
    loop {
        let offset: isize = place.iter().zip(strides).map(|(&i, s)| i as isize * s).sum();
        // SAFETY: sizes and strides are those the other library gave for this memory, and reach no further than the
        // layout says, which was checked.
        let element = unsafe { std::slice::from_raw_parts(data.offset(offset * size as isize), size) };
        out.extend_from_slice(element);
        // the next place, the last dim first
        let Some(dim) = (0..place.len()).rev().find(|&i| place[i] + 1 < at.dims[i]) else { return Ok(out) };
        place[dim] += 1;
        place[dim + 1..].fill(0);
    }
}
