//! The same elements in another order or shape.

use super::{PyTensor, out, outs};
use crate::convert::{
    Arg, DimArg, Ints, SizesArg, TensorArg, axes, count, given, int_list, size_list, tensors, type_name,
};
use crate::error::compute;
use frit::{Dim, Dims, Index, Operand, PadMode, Tensor};
use pyo3::exceptions::{PyRuntimeError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};

/// Sizes one by one or in one tuple; None stands for the size that is there.
fn sizes_or_same(t: &Tensor, args: &Bound<'_, PyTuple>) -> PyResult<Vec<Dim>> {
    let one = (args.len() == 1).then(|| args.get_item(0)).transpose()?;
    let list = match &one {
        Some(o) if is_list(o) => o.try_iter()?.collect::<PyResult<Vec<_>>>()?,
        _ => args.iter().collect(),
    };
    let shape = t.shape();
    let size = |(i, o): (usize, &Bound<'_, PyAny>)| match o.is_none() {
        true => Ok(shape[i].clone()),
        false => o.extract::<DimArg>().map(|d| d.0),
    };
    list.iter().enumerate().map(size).collect()
}

fn is_list(o: &Bound<'_, PyAny>) -> bool {
    o.is_instance_of::<PyTuple>() || o.is_instance_of::<PyList>()
}

/// A method whose only arguments are sizes: name, the Rust method.
macro_rules! by_sizes {
    ($($(#[$doc:meta])* $name:ident $method:ident;)*) => {
        #[pymethods]
        impl PyTensor {$(
            $(#[$doc])*
            #[pyo3(signature = (*args, shape=None))]
            fn $name<'py>(&self, args: &Bound<'py, PyTuple>, shape: Option<Bound<'py, PyAny>>) -> PyResult<PyTensor> {
                let shape = &given(args, shape)?;
                out(self.0.$method(Dims::from(sizes_or_same(&self.0, shape)?)))
            }
        )*}
    };
}
by_sizes! {
    /// The same elements in another shape; one size may be -1 and is worked out.
    reshape      reshape;
    /// The same elements in another shape; one size may be -1 and is worked out.
    view         view;
    /// Repeated along dims of size 1 and new leading ones; -1 keeps a size.
    expand       expand;
    /// Repeated along dims of size 1 and new leading ones.
    broadcast_to broadcast_to;
}

/// Amounts before and after each dim from the first.
type Amounts = Vec<(Dim, Dim)>;

/// Padding as programs write it: torch's flat list from the last dim, or pairs from the first dim.
fn amounts(rank: usize, padding: &Bound<'_, PyAny>) -> PyResult<Amounts> {
    let wrong = || {
        PyTypeError::new_err(format!("pad: expected integers or pairs of them, not {}", type_name(padding)))
    };
    let items: Vec<Bound<'_, PyAny>> = padding.try_iter().map_err(|_| wrong())?.collect::<PyResult<_>>()?;
    let is_pair = |o: &Bound<'_, PyAny>| o.is_none() || is_list(o);
    if items.iter().any(is_pair) {
        let pair = |o: &Bound<'_, PyAny>| match o.is_none() {
            true => Ok((Dim::from(0), Dim::from(0))),
            false => o.extract::<(DimArg, DimArg)>().map(|(b, a)| (b.0, a.0)).map_err(|_| wrong()),
        };
        let all: Amounts = items.iter().map(pair).collect::<PyResult<_>>()?;
        if all.len() != rank {
            return Err(PyValueError::new_err(format!("pad: {} pairs for {rank} dims", all.len())));
        }
        return Ok(all);
    }
    let amount = |o: &Bound<'_, PyAny>| o.extract::<DimArg>().map(|d| d.0).map_err(|_| wrong());
    let flat: Vec<Dim> = items.iter().map(amount).collect::<PyResult<_>>()?;
    if !flat.len().is_multiple_of(2) || flat.len() > 2 * rank {
        return Err(PyRuntimeError::new_err(format!(
            "pad: {} amounts for {rank} dims: a pair for each of the last ones",
            flat.len()
        )));
    }
    let mut all = vec![(Dim::from(0), Dim::from(0)); rank - flat.len() / 2];
    all.extend(flat.chunks(2).rev().map(|p| (p[0].clone(), p[1].clone())));
    Ok(all)
}

/// Sizes of the pieces of a split.
fn pieces(sizes: &Bound<'_, PyAny>) -> PyResult<Result<usize, Vec<usize>>> {
    match sizes.extract::<i64>() {
        Ok(n) => Ok(Ok(count(n, "split: the size")?)),
        Err(_) => Ok(Err(sizes.extract::<Ints>()?.counts("split: a size")?)),
    }
}

#[pymethods]
impl PyTensor {
    /// The dims in another order.
    #[pyo3(signature = (*args, order=None))]
    fn permute<'py>(
        &self,
        args: &Bound<'py, PyTuple>,
        order: Option<Bound<'py, PyAny>>,
    ) -> PyResult<PyTensor> {
        let order = &given(args, order)?;
        out(self.0.permute(int_list(order)?))
    }
    /// Two dims exchanged.
    #[pyo3(signature = (dim0=1, dim1=0))]
    fn transpose(&self, dim0: isize, dim1: isize) -> PyResult<PyTensor> {
        out(self.0.transpose(dim0, dim1))
    }
    /// Two dims exchanged.
    fn swapaxes(&self, axis0: isize, axis1: isize) -> PyResult<PyTensor> {
        out(self.0.swapaxes(axis0, axis1))
    }
    /// The matrix transposed.
    fn t(&self) -> PyResult<PyTensor> {
        out(if self.0.rank() < 2 { self.0.clone() } else { self.0.transpose(0, 1) })
    }
    /// The first two dims exchanged; a vector as it is.
    #[getter(T)]
    fn t_property(&self) -> PyResult<PyTensor> {
        self.t()
    }
    /// The last two dims exchanged.
    #[getter(mT)]
    fn mt_property(&self) -> PyResult<PyTensor> {
        out(self.0.transpose(-2, -1))
    }
    /// Dims moved to other places, the others in order.
    fn movedim(&self, source: Ints, destination: Ints) -> PyResult<PyTensor> {
        out(self.0.movedim(source.0, destination.0))
    }
    /// Turned by 90 degrees, so many times, in the plane of two dims.
    #[pyo3(signature = (k=1, dims=(0, 1)))]
    fn rot90(&self, k: isize, dims: (isize, isize)) -> PyResult<PyTensor> {
        out(self.0.rot90(k, dims.0, dims.1))
    }
    /// Backwards along axes.
    #[pyo3(signature = (*args, axis=None))]
    fn flip<'py>(&self, args: &Bound<'py, PyTuple>, axis: Option<Bound<'py, PyAny>>) -> PyResult<PyTensor> {
        let axis = &given(args, axis)?;
        out(self.0.flip(int_list(axis)?))
    }
    /// A box: (begin, end) for each dim, None for the whole of it.
    fn shrink(&self, arg: &Bound<'_, PyAny>) -> PyResult<PyTensor> {
        let part = |o: Bound<'_, PyAny>| {
            if o.is_none() {
                return Ok(Index::Slice { start: None, end: None, step: 1 });
            }
            let (a, b) = o.extract::<(DimArg, DimArg)>()?;
            Ok(Index::Slice { start: Some(a.0), end: Some(b.0), step: 1 })
        };
        let parts: Vec<Index> = arg.try_iter()?.map(|o| part(o?)).collect::<PyResult<_>>()?;
        if parts.len() != self.0.rank() {
            return Err(PyValueError::new_err(format!(
                "shrink: {} pairs for {} dims",
                parts.len(),
                self.0.rank()
            )));
        }
        out(self.0.at(parts))
    }
    /// The first elements of each dim, as many as the shape says; None keeps a dim.
    #[pyo3(signature = (*args, shape=None))]
    fn shrink_to<'py>(
        &self,
        args: &Bound<'py, PyTuple>,
        shape: Option<Bound<'py, PyAny>>,
    ) -> PyResult<PyTensor> {
        let shape = &given(args, shape)?;
        let ends = self.sizes_for("shrink_to", shape)?;
        let part = |d: Dim| Index::Slice { start: Some(0.into()), end: Some(d), step: 1 };
        out(self.0.at(ends.into_iter().map(part).collect::<Vec<_>>()))
    }
    /// Padded at the end of each dim to a shape; None keeps a dim.
    #[pyo3(signature = (*args, shape=None, value=None))]
    fn pad_to<'py>(
        &self,
        args: &Bound<'py, PyTuple>,
        shape: Option<Bound<'py, PyAny>>,
        value: Option<Arg>,
    ) -> PyResult<PyTensor> {
        let shape = &given(args, shape)?;
        let ends = self.sizes_for("pad_to", shape)?;
        let shape = self.0.shape();
        let all: Amounts =
            ends.iter().zip(shape.as_slice()).map(|(to, from)| (0.into(), to - from)).collect();
        out(self.0.pad(&all, value.map_or(Operand::from(0), |v| v.0)))
    }
    /// Padded: a flat tuple of amounts before and after each dim from the last (torch), or a pair (or None) for each
    /// dim from the first. mode is "constant", "reflect", "replicate" or "circular".
    #[pyo3(signature = (padding, mode="constant", value=None), text_signature = "($self, padding, mode='constant', value=0.0)")]
    fn pad(&self, padding: &Bound<'_, PyAny>, mode: &str, value: Option<Arg>) -> PyResult<PyTensor> {
        let all = amounts(self.0.rank(), padding)?;
        let mode = match mode {
            "constant" => {
                let value = value.map_or(Operand::from(0), |v| v.0);
                return out(self.0.pad(&all, value));
            }
            "reflect" => PadMode::Reflect,
            "replicate" | "edge" => PadMode::Replicate,
            "circular" | "wrap" => PadMode::Circular,
            m => {
                return Err(PyRuntimeError::new_err(format!(
                    "pad: mode must be 'constant', 'reflect', 'replicate' or 'circular', not {m:?}"
                )));
            }
        };
        out(self.0.pad_mode(&all, mode))
    }
    /// Without dims of size 1: all of them, or those named.
    #[pyo3(signature = (dim=None))]
    fn squeeze(&self, dim: Option<Ints>) -> PyResult<PyTensor> {
        out(self.0.squeeze(axes(dim, false)))
    }
    /// With a new dim of size 1.
    fn unsqueeze(&self, dim: isize) -> PyResult<PyTensor> {
        out(self.0.unsqueeze(dim))
    }
    /// Several dims as one.
    #[pyo3(signature = (start_dim=0, end_dim=-1), text_signature = "($self, start_dim=0, end_dim=-1)")]
    fn flatten(&self, start_dim: isize, end_dim: isize) -> PyResult<PyTensor> {
        out(self.0.flatten(start_dim, end_dim))
    }
    /// All dims as one.
    fn ravel(&self) -> PyResult<PyTensor> {
        out(self.0.ravel())
    }
    /// One dim as several.
    fn unflatten(&self, dim: isize, sizes: SizesArg) -> PyResult<PyTensor> {
        out(self.0.unflatten(dim, sizes.0))
    }
    /// In the shape of another, as broadcasting has it.
    fn expand_as(&self, other: TensorArg) -> PyResult<PyTensor> {
        out(self.0.expand_as(&other.0))
    }
    /// In the shape of another.
    fn view_as(&self, other: TensorArg) -> PyResult<PyTensor> {
        out(self.0.reshape(other.0.shape()))
    }
    /// Dims rearranged in einops notation: ``x.rearrange("b (h w) c -> b c h w", h=8)``.
    #[pyo3(signature = (formula, **sizes))]
    fn rearrange(&self, formula: &str, sizes: Option<&Bound<'_, PyDict>>) -> PyResult<PyTensor> {
        let sizes = super::reduce::named_sizes(sizes)?;
        let sizes: Vec<(&str, usize)> = sizes.iter().map(|(n, v)| (n.as_str(), *v)).collect();
        out(self.0.rearrange(formula, &sizes))
    }
    /// Dims repeated in einops notation: ``x.einops_repeat("h w -> h (w r)", r=2)``.
    #[pyo3(signature = (formula, **sizes))]
    fn einops_repeat(&self, formula: &str, sizes: Option<&Bound<'_, PyDict>>) -> PyResult<PyTensor> {
        let sizes = super::reduce::named_sizes(sizes)?;
        let sizes: Vec<(&str, usize)> = sizes.iter().map(|(n, v)| (n.as_str(), *v)).collect();
        out(self.0.einops_repeat(formula, &sizes))
    }
    /// Pieces along dim: of one size (the last may be shorter), or of the sizes given.
    #[pyo3(signature = (sizes, dim=0))]
    fn split<'py>(
        &self,
        py: Python<'py>,
        sizes: &Bound<'py, PyAny>,
        dim: isize,
    ) -> PyResult<Bound<'py, PyTuple>> {
        let parts = match pieces(sizes)? {
            Ok(n) => self.0.split(n, dim),
            Err(list) => self.0.split_sizes(&list, dim),
        };
        PyTuple::new(py, outs(parts)?)
    }
    /// So many pieces along dim, of equal size but the last.
    #[pyo3(signature = (chunks, dim=0))]
    fn chunk(&self, chunks: i64, dim: isize) -> PyResult<Vec<PyTensor>> {
        outs(self.0.chunk(count(chunks, "chunk: the number of chunks")?, dim))
    }
    /// Pieces along dim: so many, or cut at the places given.
    #[pyo3(signature = (indices_or_sections, dim=0))]
    fn tensor_split<'py>(
        &self,
        py: Python<'py>,
        indices_or_sections: &Bound<'py, PyAny>,
        dim: isize,
    ) -> PyResult<Bound<'py, PyTuple>> {
        let parts = match pieces(indices_or_sections)? {
            Err(places) => self.0.tensor_split(&places, dim),
            Ok(n) => self.0.tensor_split_into(n, dim),
        };
        PyTuple::new(py, outs(parts)?)
    }
    /// The parts along dim, each without it.
    #[pyo3(signature = (dim=0))]
    fn unbind<'py>(&self, py: Python<'py>, dim: isize) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, outs(self.0.unbind(dim))?)
    }
    /// This and others, one after the other along dim: ``a.cat(b, c, dim=1)``, ``Tensor.cat(a, b)``.
    #[pyo3(signature = (*args, dim=0))]
    fn cat(&self, args: &Bound<'_, PyTuple>, dim: isize) -> PyResult<PyTensor> {
        out(Tensor::cat(&self.and(args)?, dim))
    }
    /// This and others, side by side along a new dim.
    #[pyo3(signature = (*args, dim=0))]
    fn stack(&self, args: &Bound<'_, PyTuple>, dim: isize) -> PyResult<PyTensor> {
        out(Tensor::stack(&self.and(args)?, dim))
    }
    /// Moved along dims, what leaves at one end coming back at the other.
    #[pyo3(signature = (shifts, dims=None))]
    fn roll(&self, shifts: SizesArg, dims: Option<Ints>) -> PyResult<PyTensor> {
        out(match dims {
            Some(d) => self.0.roll(&shifts.0[..], d.0),
            None => self.0.ravel().roll(&shifts.0[..], 0).reshape(self.0.shape()),
        })
    }
    /// The whole tensor repeated along each dim, new ones in front.
    #[pyo3(signature = (*args, repeats=None))]
    fn repeat<'py>(
        &self,
        args: &Bound<'py, PyTuple>,
        repeats: Option<Bound<'py, PyAny>>,
    ) -> PyResult<PyTensor> {
        let repeats = &given(args, repeats)?;
        out(self.0.repeat(&size_list(repeats)?))
    }
    /// The whole tensor repeated, as numpy's tile.
    #[pyo3(signature = (*reps))]
    fn tile(&self, reps: &Bound<'_, PyTuple>) -> PyResult<PyTensor> {
        out(self.0.tile(&size_list(reps)?))
    }
    /// Each element repeated along dim (of None: of the flattened tensor), as often as a number or a tensor says.
    #[pyo3(signature = (repeats, dim=None))]
    fn repeat_interleave(
        &self,
        py: Python<'_>,
        repeats: &Bound<'_, PyAny>,
        dim: Option<isize>,
    ) -> PyResult<PyTensor> {
        let (t, d) = match dim {
            Some(d) => (self.0.clone(), d),
            None => (self.0.ravel(), 0),
        };
        if let Ok(n) = repeats.extract::<DimArg>()
            && !repeats.is_instance_of::<PyTensor>()
        {
            return out(t.repeat_interleave(n.0, d));
        }
        let counts = super::create::of_data(repeats, None)?;
        out(compute(py, || t.repeat_interleave_by(&counts, d))?)
    }
    /// A view of windows along dim: a new last dim of the window's elements.
    fn unfold(&self, dim: isize, size: i64, step: i64) -> PyResult<PyTensor> {
        out(self.0.unfold(dim, count(size, "unfold: the size")?, count(step, "unfold: the step")?))
    }
    /// A view by sizes and strides over the flattened elements.
    #[pyo3(signature = (size, stride, storage_offset=0))]
    fn as_strided(&self, size: Ints, stride: Ints, storage_offset: i64) -> PyResult<PyTensor> {
        let storage_offset = count(storage_offset, "storage_offset")?;
        let strides: Vec<isize> = stride.0.iter().map(|&s| s as isize).collect();
        out(self.0.as_strided(&size.counts("as_strided: a size")?, &strides, storage_offset))
    }
    /// A vector as a diagonal matrix; of a matrix, its diagonal.
    #[pyo3(signature = (diagonal=0))]
    fn diag(&self, diagonal: isize) -> PyResult<PyTensor> {
        out(self.0.diag_at(diagonal))
    }
    /// A diagonal of two dims, as a last dim.
    #[pyo3(signature = (offset=0, dim1=0, dim2=1))]
    fn diagonal(&self, offset: isize, dim1: isize, dim2: isize) -> PyResult<PyTensor> {
        out(self.0.diagonal_of(offset, dim1, dim2))
    }
    /// The last dim as the diagonal of two.
    #[pyo3(signature = (offset=0, dim1=-2, dim2=-1))]
    fn diag_embed(&self, offset: isize, dim1: isize, dim2: isize) -> PyResult<PyTensor> {
        out(self.0.diag_embed(offset, dim1, dim2))
    }
    /// The lower triangle of the last two dims; zeros above diagonal k.
    #[pyo3(signature = (diagonal=DimArg::from(0)), text_signature = "($self, diagonal=0)")]
    fn tril(&self, diagonal: DimArg) -> PyResult<PyTensor> {
        out(self.0.tril(diagonal.0))
    }
    /// The upper triangle of the last two dims; zeros below diagonal k.
    #[pyo3(signature = (diagonal=DimArg::from(0)), text_signature = "($self, diagonal=0)")]
    fn triu(&self, diagonal: DimArg) -> PyResult<PyTensor> {
        out(self.0.triu(diagonal.0))
    }
    /// Channels as finer pixels: (*, C r², H, W) to (*, C, H r, W r).
    fn pixel_shuffle(&self, upscale_factor: i64) -> PyResult<PyTensor> {
        let upscale_factor = count(upscale_factor, "upscale_factor")?;
        out(self.0.pixel_shuffle(upscale_factor))
    }
    /// Pixels as more channels: the way back of pixel_shuffle.
    fn pixel_unshuffle(&self, downscale_factor: i64) -> PyResult<PyTensor> {
        let downscale_factor = count(downscale_factor, "downscale_factor")?;
        out(self.0.pixel_unshuffle(downscale_factor))
    }
}

impl PyTensor {
    /// This tensor and the others.
    fn and(&self, args: &Bound<'_, PyTuple>) -> PyResult<Vec<Tensor>> {
        let mut all = vec![self.0.clone()];
        all.extend(tensors(args)?);
        Ok(all)
    }
    /// As many sizes as there are dims.
    fn sizes_for(&self, op: &str, shape: &Bound<'_, PyTuple>) -> PyResult<Vec<Dim>> {
        let sizes = sizes_or_same(&self.0, shape)?;
        match sizes.len() == self.0.rank() {
            true => Ok(sizes),
            false => {
                Err(PyValueError::new_err(format!("{op}: {} sizes for {} dims", sizes.len(), self.0.rank())))
            }
        }
    }
}
