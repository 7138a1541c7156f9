//! The handle people hold: a graph node that can be swapped, or an error.

use crate::error::{Error, Result, call, fail};
use crate::shape::{self, Shape, show_all};
use frit_uop::promote;
use frit_uop::{DType, Op, UOp};
use smallvec::SmallVec;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, RwLock, Weak};

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
    node: RwLock<Result<UOp>>,
    /// The tensor this is a view of: assigning to the view updates it.
    base: Option<Weak<Inner>>,
    requires_grad: AtomicBool,
    grad: Mutex<Option<Tensor>>,
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
    pub(crate) fn wrap(node: Result<UOp>, base: Option<Weak<Inner>>) -> Tensor {
        Tensor(Arc::new(Inner {
            node: RwLock::new(node),
            base,
            requires_grad: AtomicBool::new(false),
            grad: Mutex::new(None),
        }))
    }
    /// A tensor of a graph node, for rooms that build nodes themselves. A node that is no tensor value fails.
    #[track_caller]
    pub fn from_uop(node: UOp) -> Tensor {
        let _c = call("from_uop");
        let ok = node.try_shape().is_some() && !matches!(node.dtype, DType::Void | DType::Index);
        Tensor::wrap(
            if ok { Ok(node) } else { fail!("from_uop", "a {} node is not a tensor value", node.op.name()) },
            None,
        )
    }
    /// A failed tensor.
    pub fn failed(e: Error) -> Tensor {
        Tensor::wrap(Err(e), None)
    }
    pub(crate) fn of(node: Result<UOp>) -> Tensor {
        Tensor::wrap(node, None)
    }
    /// The graph node, or the error of a failed tensor.
    pub fn uop(&self) -> Result<UOp> {
        self.0.node.read().unwrap_or_else(|e| e.into_inner()).clone()
    }
    pub(crate) fn set_uop(&self, node: Result<UOp>) {
        *self.0.node.write().unwrap_or_else(|e| e.into_inner()) = node;
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
    /// loading and moving. Tensors made from it before keep what they were made from.
    pub fn replace(&self, value: &Tensor) {
        self.set_uop(value.uop());
    }
    /// The tensor this is a view of, while someone holds it.
    pub(crate) fn base(&self) -> Option<Tensor> {
        self.0.base.as_ref().and_then(|b| b.upgrade()).map(Tensor)
    }
    /// A new tensor made of this one's node.
    pub(crate) fn map(&self, f: impl FnOnce(&UOp) -> Result<UOp>) -> Tensor {
        Tensor::of(self.uop().and_then(|x| f(&x)))
    }
    /// A view: a new tensor made by movement only, which writes through to this one.
    pub(crate) fn seen(&self, f: impl FnOnce(&UOp) -> Result<UOp>) -> Tensor {
        let base = self.0.base.clone().unwrap_or_else(|| Arc::downgrade(&self.0));
        Tensor::wrap(self.uop().and_then(|x| f(&x)), Some(base))
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
        let node = self.uop();
        Shape::new(node.as_ref().map(|u| u.shape()).map_err(|e| e.clone()))
    }
    /// The dims as numbers, variables at their bound values.
    pub fn dims(&self) -> Result<Vec<usize>> {
        self.shape().sizes()
    }
    /// How many dims; zero for a failed tensor.
    pub fn rank(&self) -> usize {
        self.uop().map_or(0, |u| u.shape().len())
    }
    /// How many elements, variables at their bound values.
    pub fn numel(&self) -> Result<usize> {
        Ok(self.dims()?.iter().product())
    }
    /// The type of the elements; `Void` for a failed tensor.
    pub fn dtype(&self) -> DType {
        self.uop().map_or(DType::Void, |u| u.dtype)
    }
    /// The device its buffers are on: the default one if it has none, an error if there is no such device.
    pub fn device(&self) -> Result<Arc<str>> {
        match self.uop()?.device() {
            Some(d) => Ok(d),
            None => crate::realize::default_device(),
        }
    }
    /// Mark it (or not) as something `backward` computes gradients for; gives the same tensor back. A tensor made of
    /// constants only gets memory of its own, so that it is told apart from equal constants.
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
            } else if !u.any(|n| n.op == Op::Buffer) {
                self.set_uop(crate::realize::own_memory(&u));
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
    /// The same value, opaque to gradients.
    #[track_caller]
    pub fn detach(&self) -> Tensor {
        let _c = call("detach");
        self.map(|x| Ok(x.detach()))
    }
    /// The same value, materialised in row-major order where it is computed.
    #[track_caller]
    pub fn contiguous(&self) -> Tensor {
        let _c = call("contiguous");
        self.map(|x| Ok(x.contiguous()))
    }
    /// A copy on another device; itself where it is there already.
    #[track_caller]
    pub fn to(&self, device: &str) -> Tensor {
        let _c = call("to");
        self.map(|x| {
            let device = crate::realize::check_device(device)?;
            Ok(if x.device().as_deref() == Some(&*device) { x.clone() } else { x.copy_to(&device) })
        })
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

/// Is it memory seen through movement that maps places one to one, so that it can be stored to?
pub(crate) fn is_memory(x: &UOp) -> bool {
    let mut n = x;
    loop {
        match n.op {
            Op::Buffer => return true,
            Op::Reshape | Op::Permute | Op::Shrink | Op::Flip | Op::After => n = &n.src[0],
            _ => return false,
        }
    }
}
