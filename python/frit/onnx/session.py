"""A loaded model: numpy arrays in and out."""

import warnings

from frit._frit import OnnxSession, Tensor

__all__ = ["Port", "Session"]

# Element types that numpy does not have, and the type of ml_dtypes that each is.
_FOREIGN = {
    "bfloat16": "bfloat16",
    "float8e4m3fn": "float8_e4m3fn",
    "float8e4m3fnuz": "float8_e4m3fnuz",
    "float8e5m2": "float8_e5m2",
    "float8e5m2fnuz": "float8_e5m2fnuz",
    "float8e8m0": "float8_e8m0fnu",
    "float6e2m3": "float6_e2m3fn",
    "float6e3m2": "float6_e3m2fn",
    "float4e2m1": "float4_e2m1fn",
    "int4": "int4",
    "uint4": "uint4",
    "int2": "int2",
    "uint2": "uint2",
}
_ELEMENTS = {name: element for element, name in _FOREIGN.items()}
_ELEMENTS |= {"float32": "float", "float64": "double"}
# Element types by numpy's types, as they are met.
_BY_TYPE = {}


class Port:
    """An input or output of a model: its name, element type and shape (numbers, names, or None).

    ``optional`` says of an input that the model has a value for it where none is given.
    """

    def __init__(self, name, type, shape, optional=False):
        self.name, self.type, self.shape, self.optional = name, type, shape, optional

    def __repr__(self):
        return f"Port({self.name!r}, {self.type!r}, {self.shape!r})"


class Session:
    """A model, from a file, from its bytes, or from an ``onnx.ModelProto``. Its weights stay in the file.

    Sizes with names may change from run to run; those in ``bind`` are these numbers in every run. ``images`` is for models
    that decode pictures: a function from the bytes of a file to an array of height, width and three colours, as
    ``lambda data: PIL.Image.open(io.BytesIO(data)).convert("RGB")`` is.
    """

    def __init__(self, model, bind=None, images=None):
        if hasattr(model, "SerializeToString"):
            model = model.SerializeToString()
        self._session = OnnxSession(model, dict(bind or {}), images and (lambda data: _picture(images(data))))
        self._told = set()

    def _run(self, feeds):
        made = self._session.run({name: _value(v) for name, v in feeds.items()})
        for text in self._session.warnings():
            if text not in self._told:
                self._told.add(text)
                warnings.warn(text, RuntimeWarning, stacklevel=3)
        return made

    @property
    def inputs(self):
        """The inputs in the model's order."""
        return [Port(*p) for p in self._session.inputs()]

    @property
    def outputs(self):
        """The outputs in the model's order."""
        return [Port(*p) for p in self._session.outputs()]

    def run(self, names, feeds):
        """Outputs by name (None: all of them) for values by name: numpy arrays, lists for sequences, dicts
        for maps, None for nothing. A value of another shape than the model declares is a ``RuntimeWarning``."""
        made = self._run(feeds)
        if names is None:
            return [_array(v) for v in made]
        known = [p.name for p in self.outputs]
        for name in names:
            if name not in known:
                raise ValueError(f"no output {name!r}, the model has {', '.join(known)}")
        return [_array(made[known.index(name)]) for name in names]

    def tensors(self, feeds):
        """All outputs by name, tensors as they are."""
        made = self._run(feeds)
        return {p.name: v[1] if v[0] == "tensor" else _array(v) for p, v in zip(self.outputs, made)}


def _picture(image):
    """Height, width and bytes of what decodes to a picture."""
    import numpy

    array = numpy.ascontiguousarray(image, dtype=numpy.uint8)
    if array.ndim != 3 or array.shape[2] != 3:
        raise ValueError(f"a picture has a shape of height, width and 3, not {array.shape}")
    return array.shape[0], array.shape[1], array.tobytes()


def _value(v):
    """A value of a model from what Python has."""
    if v is None:
        return ("optional", None)
    if isinstance(v, (list, tuple)):
        return ("sequence", [_value(x) for x in v])
    if isinstance(v, dict):
        return ("map", {key: _value(x) for key, x in v.items()})
    if isinstance(v, Tensor):
        return ("tensor", v, "")
    import numpy

    v = numpy.asarray(v)
    element = _BY_TYPE.get(v.dtype)
    if element is None:
        if v.dtype.kind in "OUS":
            text = [x.decode() if isinstance(x, bytes) else str(x) for x in v.ravel().tolist()]
            return ("strings", list(v.shape), text)
        # numpy makes a type's name anew each time it is asked
        element = _BY_TYPE[v.dtype] = _ELEMENTS.get(v.dtype.name, v.dtype.name)
    if element in _FOREIGN:
        wide = numpy.int8 if "int" in element else numpy.float32
        v = v.astype(numpy.uint8 if element.startswith("uint") else wide)
    return ("tensor", v, element)


def _array(v):
    """A value of a model as Python has it."""
    import numpy

    kind, *rest = v
    if kind == "sequence":
        return [_array(x) for x in rest[0]]
    if kind == "map":
        return {key: _array(x)[()] for key, x in rest[0].items()}
    if kind == "optional":
        return None if rest[0] is None else _array(rest[0])
    if kind == "strings":
        return numpy.array(rest[1], dtype=object).reshape(rest[0])
    tensor, element = rest
    array = tensor.numpy()
    if element in _FOREIGN:
        import ml_dtypes

        return array.astype(getattr(ml_dtypes, _FOREIGN[element]))
    return array
