//! All that the driver holds: devices, memory, and what its handles stand for.

use crate::api::graph::{Exec, Graph};
use crate::api::module::{Function, Linker, Module};
use crate::api::{Code, error};
use crate::event::Event;
use crate::memory::Space;
use crate::run::Fault;
use crate::settings::Settings;
use crate::stream::Stream;
use std::cell::Cell;
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicI64, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

/// Everything.
pub struct State {
    /// What tests choose.
    pub settings: Settings,
    /// All memory.
    pub space: Space,
    devices: [Device; MOST_DEVICES],
    handles: Mutex<HashMap<usize, Object>>,
    next: AtomicUsize,
}

/// Devices that can be asked for.
pub const MOST_DEVICES: usize = 16;
/// Contexts are numbers from here on, one for each device.
const CONTEXTS: usize = 0x10;
/// Other handles begin here.
const HANDLES: usize = 0x1000;

/// A device and its context.
#[derive(Default)]
pub struct Device {
    /// Bytes in use.
    pub used: AtomicUsize,
    /// Those who hold the context.
    pub holders: AtomicI64,
    /// Devices whose memory it may touch, a bit each.
    pub peers: AtomicU64,
    /// Why it answers nothing else.
    lost: Mutex<Option<Fault>>,
}

/// What a handle stands for.
#[derive(Clone)]
pub enum Object {
    /// A queue.
    Stream(Arc<Stream>),
    /// A place in a queue.
    Event(Arc<Event>),
    /// Something that is being assembled.
    Linker(Arc<Mutex<Linker>>),
    /// Something assembled.
    Module(Arc<Module>),
    /// An entry of it.
    Function(Arc<Function>),
    /// Launches that are put together.
    Graph(Arc<Mutex<Graph>>),
    /// Launches that run together.
    Exec(Arc<Mutex<Exec>>),
}

impl Object {
    fn kind(&self) -> &'static str {
        match self {
            Object::Stream(_) => "stream",
            Object::Event(_) => "event",
            Object::Linker(_) => "linker",
            Object::Module(_) => "module",
            Object::Function(_) => "function",
            Object::Graph(_) => "graph",
            Object::Exec(_) => "graph exec",
        }
    }
}

static STATE: LazyLock<State> = LazyLock::new(|| State {
    settings: Settings::from_env(),
    space: Space::default(),
    devices: std::array::from_fn(|_| Device::default()),
    handles: Mutex::new(HashMap::new()),
    next: AtomicUsize::new(HANDLES),
});

thread_local! {
    /// The device of this thread's context.
    static CURRENT: Cell<Option<usize>> = const { Cell::new(None) };
}

/// The one there is.
pub fn state() -> &'static State {
    &STATE
}

impl State {
    /// Devices there are.
    pub fn device_count(&self) -> usize {
        self.settings.devices.load(Relaxed).min(MOST_DEVICES)
    }
    /// A device by its number.
    pub fn device(&self, ordinal: i32) -> Result<&Device, Code> {
        let found = usize::try_from(ordinal).ok().filter(|d| *d < self.device_count());
        found.map(|d| &self.devices[d]).ok_or(error::INVALID_DEVICE)
    }
    /// The context of a device.
    pub fn context_of(&self, device: usize) -> usize {
        CONTEXTS + device
    }
    /// The device of a context that someone holds.
    pub fn device_of(&self, context: usize) -> Result<usize, Code> {
        let device = context.checked_sub(CONTEXTS).filter(|d| *d < self.device_count());
        device.filter(|d| self.devices[*d].holders.load(Relaxed) > 0).ok_or(error::INVALID_CONTEXT)
    }
    /// The context of this thread's next calls.
    pub fn set_current(&self, device: Option<usize>) {
        CURRENT.set(device);
    }
    /// The device of this thread's context, if it is not lost.
    pub fn current(&self) -> Result<usize, Code> {
        let device = CURRENT.get().ok_or(error::INVALID_CONTEXT)?;
        self.device_of(self.context_of(device))?;
        self.alive(device)?;
        Ok(device)
    }
    /// Its code where a device is lost.
    pub fn alive(&self, device: usize) -> Result<(), Code> {
        self.lost(device).map_or(Ok(()), |fault| Err(fault.code))
    }
    /// Why a device is lost.
    pub fn lost(&self, device: usize) -> Option<Fault> {
        self.devices.get(device)?.lost.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
    /// A device fails: the first reason counts.
    pub fn lose(&self, device: usize, fault: Fault) {
        if let Some(d) = self.devices.get(device) {
            d.lost.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(fault);
        }
    }
    /// It works again, as in a new process.
    pub fn repair(&self, device: usize) {
        if let Some(d) = self.devices.get(device) {
            d.lost.lock().unwrap_or_else(PoisonError::into_inner).take();
        }
    }
    /// Whether a device may touch another's memory.
    pub fn can_reach(&self, device: usize, owner: usize) -> bool {
        device == owner || self.devices[device].peers.load(Relaxed) >> owner & 1 == 1
    }
    /// Cores that run blocks.
    pub fn threads(&self) -> usize {
        self.settings.threads.load(Relaxed).max(1)
    }
    fn handles(&self) -> MutexGuard<'_, HashMap<usize, Object>> {
        self.handles.lock().unwrap_or_else(PoisonError::into_inner)
    }
    /// A handle for something.
    pub fn keep(&self, object: Object) -> usize {
        let handle = self.next.fetch_add(8, Relaxed);
        self.handles().insert(handle, object);
        handle
    }
    /// What a handle stands for.
    pub fn get(&self, handle: usize) -> Option<Object> {
        self.handles().get(&handle).cloned()
    }
    /// It stands for nothing any more.
    pub fn remove(&self, handle: usize, is_wanted: impl Fn(&Object) -> bool) -> Result<Object, Code> {
        let mut handles = self.handles();
        handles.get(&handle).filter(|o| is_wanted(o)).ok_or(error::INVALID_HANDLE)?;
        handles.remove(&handle).ok_or(error::INVALID_HANDLE)
    }
    /// Remove all that match.
    pub fn remove_all(&self, is_wanted: impl Fn(&Object) -> bool) {
        self.handles().retain(|_, o| !is_wanted(o));
    }
    /// The queues of a device.
    pub fn streams(&self, device: usize) -> Vec<Arc<Stream>> {
        let is_its = |o: &Object| match o {
            Object::Stream(s) if s.device == device => Some(s.clone()),
            _ => None,
        };
        self.handles().values().filter_map(is_its).collect()
    }
    /// How many of each kind there are, memory included: what is left when all should be gone was leaked.
    pub fn live(&self) -> BTreeMap<&'static str, usize> {
        let mut counts = BTreeMap::new();
        self.handles().values().for_each(|o| *counts.entry(o.kind()).or_insert(0) += 1);
        for r in self.space.all() {
            *counts.entry(if r.device.is_some() { "device memory" } else { "pinned memory" }).or_insert(0) +=
                1;
        }
        counts
    }
}
