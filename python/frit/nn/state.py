"""Values by name: found in plain Python objects, and in files.

Files are mapped: opening takes milliseconds however large they are, and the bytes of a tensor are read when it is used.
Nothing in a file is believed or executed; one that lies is an exception that names it.
"""

import warnings

from frit import _frit
from frit._frit import Tensor

__all__ = [
    "get_parameters",
    "get_state_dict",
    "gguf_load",
    "load",
    "load_state_dict",
    "safe_load",
    "safe_load_metadata",
    "safe_save",
    "tar_extract",
    "torch_load",
    "zip_extract",
]


def get_state_dict(obj, prefix="", tensor_type=Tensor):
    """Every tensor in an object, by its way there: ``{"layers.0.weight": ..}``.

    Walks attributes of objects, lists, tuples and dicts.
    """
    found = {}
    _collect(obj, prefix.strip("."), tensor_type, found, set())
    return found


def _collect(obj, path, kind, found, above):
    if isinstance(obj, kind):
        found[path] = obj
        return
    if id(obj) in above:  # an object that holds itself
        return
    if isinstance(obj, dict):
        items = obj.items()
    elif isinstance(obj, tuple) and hasattr(obj, "_fields"):
        items = zip(obj._fields, obj)
    elif isinstance(obj, (list, tuple)):
        items = enumerate(obj)
    elif isinstance(obj, (type, type(_collect), type(warnings))):  # classes, functions, modules are no part of a model
        return
    elif hasattr(obj, "__dict__"):
        items = vars(obj).items()
    elif hasattr(obj, "__slots__"):
        items = ((k, getattr(obj, k)) for k in obj.__slots__ if hasattr(obj, k))
    else:
        return
    above = above | {id(obj)}
    for k, v in list(items):
        _collect(v, f"{path}.{k}" if path else str(k), kind, found, above)


def get_parameters(obj):
    """Every tensor in an object."""
    return list(get_state_dict(obj).values())


def load_state_dict(model, state_dict, strict=True, verbose=True, consume=False, realize=True):
    """Lets the tensors of a model have the values of a state dict; gives the tensors back that got one.

    With ``strict`` every tensor of the model must be there. All that is missing or has another shape is named at once,
    and then nothing is changed. Names the model does not have are warned about if ``verbose``.
    """
    own = get_state_dict(model)
    missing = [k for k in own if k not in state_dict]
    shapes = [
        f"{k} is {v.shape} here and {state_dict[k].shape} in the state"
        for k, v in own.items()
        if k in state_dict and not _fits(v.shape, state_dict[k].shape)
    ]
    wrong = []
    if missing and strict:
        wrong.append(f"{len(missing)} missing: {', '.join(missing)}")
    if shapes:
        wrong.append(f"{len(shapes)} of another shape: {', '.join(shapes)}")
    if wrong:
        raise (KeyError if missing and strict else ValueError)("load_state_dict: " + "; ".join(wrong))
    unused = [k for k in state_dict if k not in own]
    if verbose and (unused or missing):
        said = [f"{what}: {', '.join(names)}" for what, names in (("unused", unused), ("not loaded", missing)) if names]
        warnings.warn("load_state_dict: " + "; ".join(said), stacklevel=2)
    loaded = []
    for k, t in own.items():
        if k in state_dict:
            value = state_dict.pop(k) if consume else state_dict[k]
            t.replace(value.to(t.device).reshape(t.shape))
            loaded.append(t)
    if realize and loaded:
        loaded[0].realize(*loaded[1:])
    return loaded


def _fits(a, b):
    # a number may have been saved as a list of one
    return a == b or {a, b} == {(), (1,)}


def safe_load(fn):
    """The tensors of a safetensors file, by name: of a path, or of a tensor with the file's bytes."""
    return _frit.safe_load(fn)[0]


def safe_load_metadata(fn):
    """The free text in the header of a safetensors file."""
    return _frit.safe_load(fn)[1]


def safe_save(tensors, fn, metadata=None):
    """Writes tensors to a safetensors file; one that is there is replaced when all of it is written."""
    _frit.safe_save(tensors, fn, {str(k): str(v) for k, v in (metadata or {}).items()})


def torch_load(fn):
    """What is in a file that torch saved: usually a dict of tensors. Nothing in it is executed."""
    return _frit.torch_load(fn)


def gguf_load(fn):
    """What a GGUF file says, and its tensors by name, quantised ones as float32 that is made when it is used."""
    return _frit.gguf_load(fn)


def load(fn):
    """The tensors of a file by name, whatever its format: safetensors (one file or an index), GGUF, torch, npy, npz."""
    return _frit.load_state(fn)


def _reader(fn):
    import io

    return io.BytesIO(fn.tobytes()) if isinstance(fn, Tensor) else open(fn, "rb")


def zip_extract(fn):
    """The files in a zip archive, by name, as tensors of bytes."""
    import zipfile

    with _reader(fn) as f, zipfile.ZipFile(f) as archive:
        return {i.filename: Tensor(archive.read(i)) for i in archive.infolist() if not i.is_dir()}


def tar_extract(fn):
    """The files in a tar archive, by name, as tensors of bytes."""
    import tarfile

    with _reader(fn) as f, tarfile.open(fileobj=f) as archive:
        return {i.name: Tensor(archive.extractfile(i).read()) for i in archive if i.isfile()}
