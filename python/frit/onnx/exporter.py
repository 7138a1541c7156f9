"""Programs of tensors written as ONNX models."""

from frit._frit import Tensor, export_onnx
from frit.function import _taken

__all__ = ["export"]


def export(fn, inputs, path=None, *, input_names=None, output_names=None, opset=23):
    """The bytes of a model of ``fn``, also written to ``path``.

    ``inputs`` is what ``fn`` is called with: a tensor, a list or tuple of arguments, or a dict of them by name, whose names
    are the model's. ``fn`` is called once, with tensors that have shapes and types but no numbers, and gives a tensor, or
    tensors in lists, tuples and dicts. Sizes with variables become named sizes. Products of matrices, convolutions,
    pooling, norms, softmax and attention are their ONNX operators where ``opset`` has them; everything else is elementwise
    operators, movement and reductions.
    """
    if isinstance(inputs, dict):
        args, kwargs = (), inputs
        input_names = input_names or [name for name, v in inputs.items() if isinstance(v, Tensor)]
    else:
        args, kwargs = (inputs,) if isinstance(inputs, Tensor) else tuple(inputs), {}
    tensors, put = _taken((args, kwargs))

    def body(inside):
        inner_args, inner_kwargs = put(inside)
        return _taken(fn(*inner_args, **inner_kwargs))[0]

    model = bytes(export_onnx(body, tensors, list(input_names or []), list(output_names or []), opset))
    if path is not None:
        with open(path, "wb") as file:
            file.write(model)
    return model
