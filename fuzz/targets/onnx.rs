//! An ONNX model from any bytes: loading returns, whatever they are, and so does running it on zeros.
#![no_main]

use frit_onnx::{Element, Session, Size, Value};
use frit_tensor::{Blob, Tensor};

/// Elements of an input, at most: what is looked for are panics, not large models.
const FEW: usize = 1 << 12;

/// Zeros for an input of numbers.
fn zeros(element: Option<Element>, dims: Option<&[Size]>) -> Option<Value> {
    let size = |s: &Size| if let Size::Number(n) = s { *n } else { 2 };
    let dims: Vec<usize> = dims?.iter().map(size).collect();
    let count = dims.iter().try_fold(1usize, |n, d| n.checked_mul(*d))?;
    (count <= FEW)
        .then(|| Tensor::zeros(dims).cast(element.map_or(frit_tensor::DType::F32, |e| e.dtype())).into())
}

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    if let Ok(model) = Session::from_blob(&Blob::new(bytes.to_vec())) {
        assert!(model.summary().operators.values().all(|uses| uses.nodes > 0));
        let wanted = model.inputs().iter().filter(|p| !p.has_default);
        let feeds = wanted.map(|p| Some((p.name.clone(), zeros(p.element, p.dims.as_deref())?)));
        if let Some(feeds) = feeds.collect::<Option<Vec<_>>>() {
            let _ = model.run(feeds);
        }
    }
});
