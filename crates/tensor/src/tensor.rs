//! The handle people hold: a graph node that can be swapped, or an error.

use crate::error::{Error, Result, call, fail};
use crate::history::Earlier;
use crate::shape::{self, Shape, show_all, sized};
use crate::turn::{Taken, Turn};
use crate::view::{Strides, View};
use crate::watch;
use frit_abi::sync::{Mutex, RwLock};
use frit_uop::promote;
use frit_uop::{DType, Op, UOp};
use smallvec::SmallVec;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};

/// An array that is only a description until someone needs the numbers.
///
/// Cloning shares the handle. Operations take `&self` and build graph; `realize`, `to_vec`, `item` and `Display`
/// compute. A bad argument gives a failed tensor, and the first call that returns a `Result` gives the error back.
#[derive(Clone)]
pub struct Tensor(pub(crate) Arc<Inner>);

/// A tensor that someone else keeps alive, or not.
#[derive(Clone)]
pub struct WeakTensor(Weak<Inner>);

impl WeakTensor {
    /// The tensor, while someone holds it.
    pub fn upgrade(&self) -> Option<Tensor> {
        self.0.upgrade().map(Tensor)
    }
    /// Whether someone holds it.
    pub fn is_alive(&self) -> bool {
        self.0.strong_count() > 0
    }
}

pub(crate) struct Inner {
    value: RwLock<Value>,
    /// Held by whoever makes the next version of the value from this one.
    turn: Turn,
    /// How often the value was swapped.
    changes: AtomicU64,
    /// Whether memory that it is may be another tensor's: then it is a value, and not a place to store to.
    shared: AtomicBool,
    /// Tensors are numbered in the order they are made.
    born: AtomicU64,
    requires_grad: AtomicBool,
    grad: Mutex<Option<Tensor>>,
    /// What it was before it was assigned to, where someone may have it still.
    earlier: Mutex<Vec<Earlier>>,
    /// Of a copy that stands for a part of another tensor: how the part lies there.
    part: Mutex<Option<Strides>>,
}

enum Value {
    /// A node, or the error of a failed tensor.
    Own(Result<UOp>),
    /// Another tensor's value, seen another way.
    View(View),
}

static BORN: AtomicU64 = AtomicU64::new(0);

/// Tensors with smaller numbers are there already.
pub(crate) fn next_born() -> u64 {
    BORN.load(Ordering::Relaxed)
}

/// Every tensor ever marked with `requires_grad` that still lives.
static MARKED: Mutex<Vec<Weak<Inner>>> = Mutex::new(Vec::new());

/// The tensors marked with `requires_grad`, in the order they were.
pub(crate) fn marked() -> Vec<Tensor> {
    let all = MARKED.lock().unwrap_or_else(|e| e.into_inner());
    let live = all.iter().filter_map(|w| w.upgrade()).map(Tensor);
    live.filter(|t| t.is_requires_grad()).collect()
}

impl Tensor {
    fn wrap(value: Value) -> Tensor {
        if let Value::Own(Ok(node)) = &value {
            crate::realize::record_line(node);
        }
        Tensor(Arc::new(Inner {
            value: RwLock::new(value),
            turn: Turn::default(),
            changes: AtomicU64::new(0),
            shared: AtomicBool::new(false),
            born: AtomicU64::new(BORN.fetch_add(1, Ordering::Relaxed)),
            requires_grad: AtomicBool::new(false),
            grad: Mutex::new(None),
            earlier: Mutex::new(Vec::new()),
            part: Mutex::new(None),
        }))
    }
    /// A tensor of a graph node, for rooms that build nodes themselves. A node that is no tensor value fails.
    #[track_caller]
    pub fn from_uop(node: UOp) -> Tensor {
        let _c = call("from_uop");
        let ok = node.try_shape().is_some() && !matches!(node.dtype, DType::Void | DType::Index);
        Tensor::of(if ok {
            Ok(node)
        } else {
            fail!("from_uop", "a {} node is not a tensor value", node.op.name())
        })
    }
    /// A failed tensor.
    pub fn failed(e: Error) -> Tensor {
        Tensor::of(Err(e))
    }
    pub(crate) fn of(node: Result<UOp>) -> Tensor {
        Tensor::wrap(Value::Own(node.and_then(sized)))
    }
    /// A tensor that a constructor makes: told apart from others with equal values, so that each has its own gradient.
    pub(crate) fn leaf(node: Result<UOp>) -> Tensor {
        Tensor::of(node.map(|n| if n.dtype.is_float() { n.leaf() } else { n }))
    }
    /// The graph node, or the error of a failed tensor. Of a view: the node of what it looks at, as it is now.
    pub fn uop(&self) -> Result<UOp> {
        if let Value::View(view) = &*self.0.value.read().unwrap_or_else(|e| e.into_inner()) {
            return view.node();
        }
        let node = self.peek();
        watch::read(self);
        node
    }
    /// A node of its shape and type: for a view one that is there already.
    pub(crate) fn form(&self) -> Result<UOp> {
        match &*self.0.value.read().unwrap_or_else(|e| e.into_inner()) {
            Value::View(view) => return view.form(),
            Value::Own(_) => {}
        }
        self.uop()
    }
    /// The same for someone who only looks around: a Jit that records takes no notice.
    pub fn peek(&self) -> Result<UOp> {
        let node = match &*self.0.value.read().unwrap_or_else(|e| e.into_inner()) {
            Value::Own(node) => node.clone()?,
            Value::View(view) => return view.node(),
        };
        // what a replay stored to in place is its owner's, in its latest version
        if self.0.shared.load(Ordering::Relaxed) {
            return Ok(node);
        }
        let Some(new) = crate::realize::refreshed(&node) else { return Ok(node) };
        let mut value = self.0.value.write().unwrap_or_else(|e| e.into_inner());
        if matches!(&*value, Value::Own(Ok(n)) if *n == node) {
            *value = Value::Own(Ok(new.clone()));
        }
        Ok(new)
    }
    pub(crate) fn set_uop(&self, node: Result<UOp>) {
        let old = std::mem::replace(
            &mut *self.0.value.write().unwrap_or_else(|e| e.into_inner()),
            Value::Own(node),
        );
        self.0.shared.store(false, Ordering::Relaxed);
        self.0.changes.fetch_add(1, Ordering::Release);
        // dropped without the lock: a base may go with it
        drop(old);
    }
    /// Be another version: what was made of this one is known to be.
    pub(crate) fn set_version(&self, node: Result<UOp>) {
        if let Ok(was) = self.peek() {
            Earlier::remember(&mut self.0.earlier.lock().unwrap_or_else(|e| e.into_inner()), &was);
        }
        self.set_uop(node);
    }
    /// The names of what it was.
    pub(crate) fn earlier(&self) -> Vec<u64> {
        self.0.earlier.lock().unwrap_or_else(|e| e.into_inner()).iter().map(Earlier::name).collect()
    }
    /// The same with a value that was computed of others: if it is memory, it is theirs.
    pub(crate) fn set_computed(&self, node: Result<UOp>) {
        // a replay must do it, too: as a store
        let recorded =
            |n: UOp| if crate::realize::is_recording() && is_memory(&n) { n.contiguous() } else { n };
        self.set_version(node.map(recorded));
        self.0.shared.store(true, Ordering::Relaxed);
    }
    /// Put a node in the place of another, unless someone else was faster.
    pub(crate) fn swap_uop(&self, old: &UOp, new: UOp) {
        let mut value = self.0.value.write().unwrap_or_else(|e| e.into_inner());
        if new != *old && matches!(&*value, Value::Own(Ok(n)) if n == old) {
            // a version that was another tensor's is still in that one's memory
            if !is_memory(old) {
                self.0.shared.store(false, Ordering::Relaxed);
            }
            let old = std::mem::replace(&mut *value, Value::Own(Ok(new)));
            self.0.changes.fetch_add(1, Ordering::Release);
            drop(value);
            drop(old);
        }
    }
    /// Let an assignment that was computed meanwhile be the memory it went to; not what was made of one, and is in memory of
    /// its own, once that holds another version.
    pub(crate) fn settle(&self) {
        if let Ok(node) = self.peek()
            && let Some(memory) = crate::realize::settled(&node)
            && (node.realized().is_none() || crate::realize::refreshed(&memory).is_none())
        {
            self.swap_uop(&node, memory);
        }
    }
    /// Be a view from now on.
    pub(crate) fn set_view(&self, view: View) {
        *self.0.value.write().unwrap_or_else(|e| e.into_inner()) = Value::View(view);
        self.0.changes.fetch_add(1, Ordering::Release);
    }
    /// From now on a copy of what `view` sees, to whoever asks how its elements lie; or no longer.
    pub(crate) fn stand_for(&self, view: Option<&View>) {
        *self.0.part.lock().unwrap_or_else(|e| e.into_inner()) = view.map(View::strides);
    }
    pub(crate) fn strides_of_part(&self) -> Option<Strides> {
        self.0.part.lock().unwrap_or_else(|e| e.into_inner()).clone()
    }
    /// How often the value was swapped: what was found out about it holds while this is the same.
    pub(crate) fn changes(&self) -> u64 {
        self.0.changes.load(Ordering::Acquire)
    }
    /// A number that identifies the handle while it lives.
    pub(crate) fn address(&self) -> usize {
        Arc::as_ptr(&self.0) as usize
    }
    /// Its number in the order tensors were made.
    pub(crate) fn born(&self) -> u64 {
        self.0.born.load(Ordering::Relaxed)
    }
    /// Be, with this node, what was looked at so far: no one else has that.
    pub(crate) fn take_over(&self, base: &Tensor, node: UOp) {
        self.0.born.store(base.born(), Ordering::Relaxed);
        let before = std::mem::take(&mut *base.0.earlier.lock().unwrap_or_else(|e| e.into_inner()));
        *self.0.earlier.lock().unwrap_or_else(|e| e.into_inner()) = before;
        self.set_uop(Ok(node));
    }
    /// As what it looks at another tensor; `None` for a tensor with a value of its own.
    pub(crate) fn as_view(&self) -> Option<View> {
        match &*self.0.value.read().unwrap_or_else(|e| e.into_inner()) {
            Value::View(view) => Some(view.clone()),
            Value::Own(_) => None,
        }
    }
    /// The tensor whose value it is or looks at.
    pub(crate) fn owner(&self) -> Tensor {
        self.as_view().map_or_else(|| self.clone(), |v| v.base)
    }
    /// Keep others from making a new version of the value meanwhile. Of an owner.
    pub(crate) fn take_turn(&self) -> Taken<'_> {
        self.0.turn.take()
    }
    /// Whether no one but one view holds this tensor, or follows it.
    pub(crate) fn is_only_looked_at_by_one(&self) -> bool {
        // the view's own handle and the one we were asked through
        Arc::strong_count(&self.0) <= 2 && Arc::weak_count(&self.0) == 0
    }
    /// Whether both are the same handle: what changes one changes the other.
    pub fn is_same(&self, o: &Tensor) -> bool {
        Arc::ptr_eq(&self.0, &o.0)
    }
    /// The same handle without keeping it alive.
    pub fn downgrade(&self) -> WeakTensor {
        WeakTensor(Arc::downgrade(&self.0))
    }
    /// Let this handle mean another value from now on, on whatever device that is, without storing anything: for
    /// loading and moving. What was computed from it before keeps what it was computed from; views of it follow.
    pub fn replace(&self, value: &Tensor) {
        self.set_computed(value.uop());
    }
    /// A new tensor made of this one's node.
    pub(crate) fn map(&self, f: impl FnOnce(&UOp) -> Result<UOp>) -> Tensor {
        Tensor::computed(self.uop().and_then(|x| f(&x)))
    }
    /// A value that was computed of others: if it is memory, it is theirs.
    pub(crate) fn computed(node: Result<UOp>) -> Tensor {
        let t = Tensor::of(node);
        t.0.shared.store(true, Ordering::Relaxed);
        t
    }
    /// What it is, no one else sees: it may be stored to in place.
    pub(crate) fn own(&self) {
        self.0.shared.store(false, Ordering::Relaxed);
    }
    /// Whether it is memory of its own, seen through movement that maps places one to one, so that it can be stored to.
    pub(crate) fn is_place(&self, node: &UOp) -> bool {
        // what no one else sees any more, and no one stored to, is its own by now; we look at it, too
        let is_own = || is_sole(node) && crate::realize::refreshed(node).is_none();
        is_memory(node) && (!self.0.shared.load(Ordering::Relaxed) || is_own())
    }
    /// The tensor that a view of this base is.
    pub(crate) fn of_view(view: View) -> Tensor {
        Tensor::wrap(Value::View(view))
    }
    /// A view: what `f` makes of this by movement, whatever this comes to be; it writes through.
    pub(crate) fn seen(&self, f: impl FnOnce(&UOp) -> Result<UOp>) -> Tensor {
        match View::of(self, |x| f(x).and_then(sized)) {
            Ok(Ok(view)) => Tensor::wrap(Value::View(view)),
            Ok(Err(value)) => Tensor::computed(Ok(value)),
            Err(e) => Tensor::failed(e),
        }
    }
    /// The error of a failed tensor, early.
    ///
    /// ```
    /// # use frit_tensor::*;
    /// assert!(Tensor::zeros([2, 3]).matmul(&Tensor::zeros([4, 5])).check().is_err());
    /// ```
    pub fn check(&self) -> Result<()> {
        self.uop().map(|_| ())
    }
    /// The dims. A failed tensor's shape is failed; using its dims makes failed tensors, never a panic.
    pub fn shape(&self) -> Shape {
        let node = self.form();
        Shape::new(node.as_ref().map(|u| u.shape()).map_err(|e| e.clone()))
    }
    /// The dims as numbers, variables at their bound values.
    pub fn dims(&self) -> Result<Vec<usize>> {
        self.shape().sizes()
    }
    /// How many dims; zero for a failed tensor.
    pub fn rank(&self) -> usize {
        self.form().map_or(0, |u| u.shape().len())
    }
    /// How many elements, variables at their bound values.
    pub fn numel(&self) -> Result<usize> {
        Ok(self.dims()?.iter().product())
    }
    /// The type of the elements; `Void` for a failed tensor.
    pub fn dtype(&self) -> DType {
        self.form().map_or(DType::Void, |u| u.dtype)
    }
    /// The device its buffers are on: the default one if it has none, an error if there is no such device.
    pub fn device(&self) -> Result<Arc<str>> {
        match self.uop()?.device() {
            Some(d) => Ok(d),
            None => crate::realize::default_device(),
        }
    }
    /// Mark it (or not) as something `backward` computes gradients for; gives the same tensor back.
    #[track_caller]
    pub fn requires_grad(&self, on: bool) -> Tensor {
        let _c = call("requires_grad");
        if let Ok(u) = self.uop()
            && on
        {
            if !u.dtype.is_float() {
                let dtype = u.dtype;
                self.set_uop(fail!(
                    "requires_grad",
                    "{dtype} values have no gradients; cast to a float type"
                ));
            } else if self.as_view().is_none() && !is_memory(&u) && u.op != Op::Leaf {
                // equal values that are computed are one node, and this must be told apart from them
                self.set_uop(Ok(u.leaf()));
            }
        }
        if on && !self.0.requires_grad.swap(true, Ordering::Relaxed) {
            let mut all = MARKED.lock().unwrap_or_else(|e| e.into_inner());
            // forget the dead when there are as many as the living may be
            if all.len() >= all.capacity() {
                all.retain(|w| w.strong_count() > 0);
            }
            all.push(Arc::downgrade(&self.0));
        }
        self.0.requires_grad.store(on, Ordering::Relaxed);
        self.clone()
    }
    /// Whether `backward` computes a gradient for it.
    pub fn is_requires_grad(&self) -> bool {
        self.0.requires_grad.load(Ordering::Relaxed)
    }
    /// The gradient that `backward` calls have added up, if any.
    pub fn grad(&self) -> Option<Tensor> {
        self.0.grad.lock().unwrap_or_else(|e| e.into_inner()).clone()
    }
    /// Replace or clear the gradient.
    pub fn set_grad(&self, g: Option<Tensor>) {
        *self.0.grad.lock().unwrap_or_else(|e| e.into_inner()) = g;
    }
    /// The same value, opaque to gradients: a view, so what is written to it is written here.
    #[track_caller]
    pub fn detach(&self) -> Tensor {
        let _c = call("detach");
        self.seen(|x| Ok(x.detach()))
    }
    /// The same value, materialised in row-major order where it is computed.
    #[track_caller]
    pub fn contiguous(&self) -> Tensor {
        let _c = call("contiguous");
        self.map(|x| Ok(x.contiguous()))
    }
    /// A copy on another device; itself where it is there already. To `disk:/path` it is written at once, as the first
    /// bytes of that file.
    #[track_caller]
    pub fn to(&self, device: &str) -> Tensor {
        let _c = call("to");
        if let Some(path) = crate::realize::disk_path(device) {
            return Tensor::of(self.uop().and_then(|x| crate::realize::save_to_disk(path, &x)));
        }
        let (x, device) = match (self.uop(), crate::realize::check_device(device)) {
            (Ok(x), Ok(device)) => (x, device),
            (Err(e), _) | (_, Err(e)) => return Tensor::failed(e),
        };
        if x.device().as_deref() == Some(&*device) {
            self.clone()
        } else if *device == *frit_engine::disk::NAME {
            Tensor::of(fail!("to", "memory on DISK is a file: name it, as in disk:/path"))
        } else {
            Tensor::of(Ok(x.copy_to(&device)))
        }
    }
    /// Converted to another type. Float to int truncates and saturates; NaN gives 0.
    #[track_caller]
    pub fn cast(&self, dtype: DType) -> Tensor {
        let _c = call("cast");
        self.map(|x| match dtype {
            DType::Void | DType::Index => fail!("cast", "{dtype} is not a type of elements"),
            _ => Ok(x.cast(dtype)),
        })
    }
    /// As float32.
    #[track_caller]
    pub fn float(&self) -> Tensor {
        self.cast(DType::F32)
    }
    /// As float16.
    #[track_caller]
    pub fn half(&self) -> Tensor {
        self.cast(DType::F16)
    }
    /// As bfloat16.
    #[track_caller]
    pub fn bfloat16(&self) -> Tensor {
        self.cast(DType::BF16)
    }
    /// As float64.
    #[track_caller]
    pub fn double(&self) -> Tensor {
        self.cast(DType::F64)
    }
    /// As int16.
    #[track_caller]
    pub fn short(&self) -> Tensor {
        self.cast(DType::I16)
    }
    /// As bool: whether it is not zero.
    #[track_caller]
    pub fn bool(&self) -> Tensor {
        self.cast(DType::Bool)
    }
    /// As int32.
    #[track_caller]
    pub fn int(&self) -> Tensor {
        self.cast(DType::I32)
    }
    /// As int64.
    #[track_caller]
    pub fn long(&self) -> Tensor {
        self.cast(DType::I64)
    }
}

impl std::fmt::Debug for Tensor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.uop() {
            Ok(u) => write!(f, "Tensor({} {})", u.dtype, show_all(u.shape())),
            Err(e) => write!(f, "Tensor(failed: {e})"),
        }
    }
}

// ---- what every file of operations uses on nodes

/// A node brought to `dims` by leading ones and repetition. Its shape is known to broadcast.
pub(crate) fn expand_to(x: &UOp, dims: &[UOp]) -> UOp {
    let s = x.shape();
    if s == dims {
        return x.clone();
    }
    let mut lead: SmallVec<[UOp; 4]> = SmallVec::from_elem(UOp::index(1), dims.len().saturating_sub(s.len()));
    lead.extend(s.iter().cloned());
    let alike = (0..lead.len()).filter(|&i| lead[i].as_int() != Some(1) && i < dims.len());
    alike.fold(x.reshape(&lead), |x, i| crate::movement::resized(&x, i, &dims[i])).expand(dims)
}

/// Several nodes brought to one shape; scalars stay scalars, which the language broadcasts by itself.
pub(crate) fn align<const N: usize>(op: &'static str, xs: [UOp; N]) -> Result<[UOp; N]> {
    let mut dims: SmallVec<[UOp; 4]> = SmallVec::new();
    for x in &xs {
        dims = shape::broadcast(op, &dims, x.shape())?;
    }
    check_devices(op, &xs)?;
    Ok(xs.map(|x| if x.shape().is_empty() { x } else { expand_to(&x, &dims) }))
}

/// Operands with memory must have it on one device.
pub(crate) fn check_devices(op: &'static str, xs: &[UOp]) -> Result<()> {
    let mut found: Option<Arc<str>> = None;
    for d in xs.iter().filter(|x| x.op != Op::Const).filter_map(|x| x.device()) {
        match &found {
            Some(f) if *f != d && [f, &d].iter().any(|d| ***d == *frit_engine::disk::NAME) => {
                return fail!(
                    op,
                    "operands are on {f} and {d}, and DISK only holds bytes: move it with to(...)"
                );
            }
            Some(f) if *f != d => {
                return fail!(op, "operands are on {f} and {d}; move one with to({f:?})");
            }
            _ => found = Some(d),
        }
    }
    Ok(())
}

/// The type two tensors meet at.
pub(crate) fn promoted(op: &'static str, a: DType, b: DType) -> Result<DType> {
    match promote::promote(a, b) {
        Some(d) => Ok(d),
        None => fail!(op, "{a} and {b} have no common type"),
    }
}

/// A number of the node's kind: a float constant for floats.
pub(crate) fn number(v: f64, dtype: DType) -> UOp {
    if dtype.is_float() { UOp::float(v, dtype) } else { UOp::int(v as i64, dtype) }
}

/// Every element `v`.
pub(crate) fn filled(dims: &[UOp], v: UOp) -> UOp {
    expand_to(&v, dims)
}

/// Whether no one but its tensor, and we while we look, sees this version of a value in memory.
pub(crate) fn is_sole(view: &UOp) -> bool {
    let (mut n, mut handles, mut depth) = (view, view.ref_count(), 1);
    while n.op != Op::Buffer
        && let Some(first) = n.src.first()
    {
        n = first;
        handles += n.ref_count();
        depth += 1;
    }
    handles <= depth + 1
}

/// Is it memory seen through movement that maps places one to one, so that it can be stored to?
pub(crate) fn is_memory(x: &UOp) -> bool {
    let mut n = x;
    loop {
        match n.op {
            Op::Buffer => return true,
            Op::Reshape | Op::Permute | Op::Shrink | Op::Flip | Op::After => n = n.input(),
            _ => return false,
        }
    }
}
