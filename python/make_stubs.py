"""Writes the type stubs of the package beside its modules: python python/make_stubs.py [--check]

Names, arguments and defaults come from the module as it is installed (the part in Rust) and from the sources (the part
in Python). Types come from annotations, or from the tables here: of an argument by its name, else by its default; of a result by the name of
the function, else a tensor. ``--check`` writes nothing, and fails where a stub is not what would be written.
"""

import argparse
import ast
import inspect
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).parent / "frit"

TENSOR = "Tensor"
LIKE = "TensorLike"  # what an operation accepts beside a tensor
SIZE = "Size"
SIZES = "Size | Sequence[Size]"
AXES = "int | Sequence[int] | None"
INTS = "int | Sequence[int]"
NUMBER = "float"

# Types of arguments by name, wherever they occur.
ARGUMENTS = {
    TENSOR: "imag mat2 idx index indices_ invstd grid key target targets input_lengths target_lengths positive negative"
    " var margin_ boundaries sorter tgt memory query src_ x1 x2 idx_ Y",
    LIKE: "x y other w b end weight_ source values mask src gradient positions",
    "Tensor | None": "weight bias attn_mask pos_weight buffer hc h state window src_mask tgt_mask memory_mask weights",
    "DTypeLike": "dtype",
    "str | None": "device norm rounding_mode",
    AXES: "axis",
    INTS: "stride dilation kernel_size output_padding dims shifts repeats size output_size stride_ normalized_shape"
    " signal_ndim dim",
    "int | Sequence[int] | str": "padding",
    SIZES: "shape sizes new_shape reps order",
    SIZE: "n m r c chunks num_classes start stop step steps diagonal offset storage_offset length low high",
    "str": "reduction formula mode indexing padding_mode interpolation approximate cfg reduce pad_mode name key_ prefix"
    " desc word anneal_strategy threshold_mode nonlinearity",
    "bool": "keepdim descending stable sorted sorted_ largest right upper left unitriangular ceil_mode affine on"
    " count_include_pad return_indices align_corners antialias is_causal enable_gqa include_self accumulate"
    " bias_ requires_grad is_param nesterov classic adam centered fused bidirectional batch_first norm_first"
    " replacement contiguous reverse return_inverse return_counts as_tuple full_matrices track_running_stats"
    " elementwise_affine tgt_is_causal strict verbose consume realize fashion background disable enabled prune",
    "int": "correction groups k in_features out_features in1_features in2_features in_channels out_channels vocab_size"
    " embed_size sz num_groups num_channels num_features input_size hidden_size num_layers embed_dim num_heads kdim"
    " vdim d_model nhead dim_feedforward upscale_factor downscale_factor minlength bins decimals num_samples blank"
    " padding_idx n_fft hop_length ns_steps T_max total_iters total_steps step_size patience cooldown chunk start_dim"
    " end_dim ptr min_val max_val dim0 dim1 dim2 axis0 axis1",
    NUMBER: "eps momentum p alpha beta gamma lr b1 b2 weight_decay tcoef max_norm clip_value label_smoothing"
    " dropout dropout_p std mean_ base scale lambd threshold delta factor rtol atol layer_norm_eps max_lr"
    " pct_start div_factor final_div_factor lr_decay min_lr start_factor end_factor initial_accumulator_value"
    " fill_value norm_type eta_min neg_slope",
    "Iterable[Tensor] | Tensor": "params",
    "Sequence[Callable[[Any], Any]]": "ll",
    "dict[str, Tensor]": "state_dict",
    "dict[str, int]": "bind",
    "Optimizer": "optimizer optimizers",
    "str | os.PathLike[str] | Tensor": "fn",
    "tuple[float, float] | None": "betas",
    "tuple[float, float, float]": "ns_coefficients",
}
ARGUMENT = {name: t for t, names in ARGUMENTS.items() for name in names.split()}

# Where a name means something else than in the table: by function and argument, or class, function and argument.
SPECIAL = {
    "min_val": {"hardtanh": NUMBER},
    "max_val": {"hardtanh": NUMBER},
    "bias": {"__init__": "bool"},
    "size": {"local_response_norm": "int"},
    "alpha": {"__init__": NUMBER},
    "low": {"uniform": NUMBER},
    "high": {"uniform": NUMBER},
    "start": {"arange": NUMBER, "linspace": NUMBER, "logspace": NUMBER},
    "stop": {"arange": "float | None", "linspace": NUMBER, "logspace": NUMBER},
    "step": {"arange": "float | None"},
    "dim": {
        n: "int"
        for n in "cat concat concatenate stack softmax_ chunk split gather scatter scatter_reduce index_select unsqueeze size topk sort argsort"
        " kthvalue median mode cosine_similarity normalize repeat_interleave unbind select tensor_split".split()
    }
    | {"__init__": "int"},
    "n": {"update": "int"},
    "mode": {"__init__": "str"},
    "steps": {"__init__": "int"},
    "mean": {"batchnorm": TENSOR, "normal": NUMBER},
    "stride": {"as_strided": SIZES},
    "padding": {"pad": "Any"},
    "value": {"pad": NUMBER},
    "k": {"local_response_norm": NUMBER},
    "seed": {"manual_seed": "int | None"},
    "src": {"__call__": TENSOR},
    "idx": {"__getitem__": "Any", "__setitem__": "Any", "__delitem__": "Any"},
    "tensors": {"safe_save": "dict[str, Tensor]"},
}

# Types of results, where they are not a tensor.
RESULTS = {
    "list[Tensor]": "gradient chunk tensor_split unbind broadcast_tensors meshgrid get_parameters schedule_step",
    "tuple[Tensor, ...]": "split nonzero_",
    "tuple[Tensor, Tensor]": "var_mean std_mean qr slogdet lu_factor",
    "ValuesIndices": "sort topk kthvalue mode cummax cummin",
    "tuple[Tensor, Tensor, Tensor]": "svd",
    "Any": "tolist item numpy max_pool2d max_pool1d max_pool3d adaptive_max_pool2d unique sequential median nonzero"
    " __getattr__ __call__ size numel __get__ __reduce__ __array__ __dlpack__ fxn torch_load __wrapped__ max_ min_",
    "memoryview": "data",
    "bytes": "tobytes",
    "int": "ndim dim element_size nbytes __len__ __int__ __index__ __hash__ cnt kernel_count global_mem global_ops mem_used"
    " vmin vmax val itemsize bitsize priority",
    "float": "__float__ get_lr prod_",
    "bool": "__bool__ is_floating_point is_param allclose equal training is_float is_int is_unsigned is_bool __lt__ __le__"
    " __gt__ __ge__",
    "str": "__repr__ __str__ __format__ _repr_html_ device name expr colored canonicalize key write",
    "tuple[Any, ...]": "shape",
    "DType": "dtype default_float default_int base scalar",
    "None": "__init__ __setitem__ __delitem__ manual_seed zero_grad zero_grad_ step reset __setattr__ set_default_device"
    " set_flag update close set_description safe_save __exit__ write clip_grad_value_",
    "Tensor | None": "grad",
    "bool | None": "requires_grad",
    "tuple[int, int]": "__dlpack_device__",
    "Iterator[Tensor]": "__iter__",
    "dict[str, Tensor]": "get_state_dict safe_load load zip_extract tar_extract",
    "dict[str, str]": "safe_load_metadata",
    "list[Tensor] ": "load_state_dict",
    "tuple[dict[str, Any], dict[str, Tensor]]": "gguf_load",
    "tuple[Tensor, Tensor, Tensor, Tensor]": "mnist cifar",
    "list[int] | None": "captured",
}
RESULT = {name: t.strip() for t, names in RESULTS.items() for name in names.split()}
# By class and function, before the table above.
RESULT_OF = {
    "Session.inputs": "list[Port]",
    "Session.outputs": "list[Port]",
    "Session.run": "list[Any]",
    "Session.tensors": "dict[str, Any]",
    "OnnxRunner.__call__": "dict[str, Any]",
    "Variable.bind": "SymbolicInt",
    "SymbolicInt.bind": "SymbolicInt",
    "SymbolicInt.unbind": "tuple[SymbolicInt, int]",
    "SymbolicInt.__eq__": "bool",
    "Tensor.__eq__": TENSOR,
    "Tensor.__ne__": TENSOR,
    "Tensor.__lt__": TENSOR,
    "Tensor.__le__": TENSOR,
    "Tensor.__gt__": TENSOR,
    "Tensor.__ge__": TENSOR,
    "TinyJit.__get__": "Any",
    "LSTMCell.__call__": "tuple[Tensor, Tensor]",
    "RNN.__call__": "tuple[Tensor, Tensor]",
    "GRU.__call__": "tuple[Tensor, Tensor]",
    "LSTM.__call__": "tuple[Tensor, tuple[Tensor, Tensor]]",
    "_Stack.__call__": "tuple[Tensor, Any]",
    "BatchNorm.calc_stats": "tuple[Tensor, Tensor]",
    "OptimizerGroup.__getitem__": "Optimizer",
    "_DTypes.min": "Any",
    "_DTypes.max": "Any",
    "_DTypes.finfo": "tuple[int, int]",
    "_DTypes.iinfo": "tuple[int, int]",
    "_DTypes.fields": "dict[str, DType]",
    "_DTypes.from_py": "DType",
    "_Device.get_available_devices": "Iterator[str]",
    "_Device.describe": "list[tuple[str, str, str | None, str | None]]",
    "_Device.memory": "tuple[int, int, int]",
    "_Device.DEFAULT": "str",
    "_Device.__getitem__": "str",
    "Context.__call__": "F",
    "Context.__enter__": "Context",
    "_Train.__call__": "F",
    "_Train.__enter__": "None",
    "Timing.__enter__": "Timing",
    "tqdm.__enter__": "tqdm",
    "tqdm.__iter__": "Iterator[Any]",
    "ContextVar.value": "Any",
    "ContextVar.__eq__": "bool",
    "helpers.getenv": "Any",
    "helpers.prod": "Any",
    "optim.clip_grad_norm_": "Tensor",
}
# What gives one thing or another.
OVERLOADS = {
    "Tensor.max": ("axis: Any = ..., keepdim: bool = ...", "*, dim: int, keepdim: bool = ..."),
    "Tensor.min": ("axis: Any = ..., keepdim: bool = ...", "*, dim: int, keepdim: bool = ..."),
    "Tensor.median": ("dim: None = ..., keepdim: bool = ...", "dim: int, keepdim: bool = ..."),
    "Tensor.nanmedian": ("dim: None = ..., keepdim: bool = ...", "dim: int, keepdim: bool = ..."),
}
# Types of attributes that are set in Python.
ATTRIBUTES = {
    "weight": TENSOR,
    "bias": "Tensor | None",
    "lr": TENSOR,
    "t": TENSOR,
    "params": "list[Tensor]",
    "buffers": "list[Tensor]",
    "m": "list[Tensor]",
    "v": "list[Tensor]",
    "b": "list[Tensor]",
    "optimizers": "tuple[Optimizer, ...]",
    "layers": "list[Any]",
    "weight_ih": TENSOR,
    "weight_hh": TENSOR,
    "bias_ih": "Tensor | None",
    "bias_hh": "Tensor | None",
    "running_mean": TENSOR,
    "running_var": TENSOR,
    "num_batches_tracked": TENSOR,
}

HEAD = '''# Written by python/make_stubs.py from the modules themselves; not to be edited.
{imports}
'''
IMPORTS = (
    "import builtins\nimport os\nfrom typing import Any, Callable, Iterable, Iterator, NamedTuple, Sequence, TypeVar, overload\n\n"
    'F = TypeVar("F", bound=Callable[..., Any])'
)


def argument(function, name, default, owner=""):
    """The type of an argument."""
    if owner == "Context" and function == "__call__":
        return "F"
    if owner == "_Train" and function == "__call__":
        return "F"
    t = SPECIAL.get(name, {}).get(function) or ARGUMENT.get(name)
    guess = {"True": "bool", "False": "bool"}.get(default)
    if guess is None and default and default[0] in "'\"":
        guess = "str"
    if guess is None and default is not None and default.lstrip("-").replace("_", "").isdigit():
        guess = "int"
    t = t or guess or ("float" if default and default[:1].isdigit() else "Any")
    return t if default != "None" or "None" in t or t == "Any" else f"{t} | None"


def result(owner, function, fallback):
    """The type of a result."""
    return RESULT_OF.get(f"{owner}.{function}") or RESULT.get(function) or fallback


# Methods that are also called with a list: ``Tensor.cat([a, b])``.
JOINED = ("cat", "concat", "concatenate", "stack")

# Operators take what becomes a tensor.
OPERATORS = "add sub mul truediv floordiv mod pow matmul and or xor lshift rshift".split()


def native_function(owner, name, o, fallback, indent):
    """A function of the part in Rust."""
    if overloads := OVERLOADS.get(f"{owner}.{name}"):
        forms = zip(overloads, (TENSOR, "ValuesIndices"))
        return "\n".join(f"{indent}@overload\n{indent}def {name}(self, {args}) -> {to}: ..." for args, to in forms)
    try:
        parameters = inspect.signature(o).parameters.values()
    except (ValueError, TypeError):
        return f"{indent}def {name}(self, *args: Any, **kwargs: Any) -> Any: ..."
    pieces, star = [], False
    for p in parameters:
        default = None if p.default is p.empty else (repr(p.default) if p.default is not ... else "...")
        if p.name == "self":
            pieces.append("self")
            continue
        if p.kind is p.KEYWORD_ONLY and not star:
            pieces.append("*")
            star = True
        mark = {p.VAR_POSITIONAL: "*", p.VAR_KEYWORD: "**"}.get(p.kind, "")
        star = star or mark == "*"
        t = "Any" if mark else argument(name, p.name, default, owner)
        if mark == "*" and p.name in ("shape", "args_", "reps", "order"):
            t = SIZES
        pieces.append(f"{mark}{p.name}: {t}" + (" = ..." if default is not None else ""))
        if p.kind is p.POSITIONAL_ONLY and p.name != "self":
            pieces.append("/")
    static = "self" not in pieces and owner
    if name in JOINED:
        pieces[0] = "self: Tensor | Sequence[Tensor]"
    made = f"{indent}def {name}({', '.join(pieces)}) -> {result(owner, name, fallback)}: ..."
    return f"{indent}@staticmethod\n{made}" if static else made


def operators(indent):
    """What operators of tensors take and give."""
    for op in OPERATORS:
        yield from (f"{indent}def __{kind}{op}__(self, o: Any) -> Tensor: ..." for kind in ("", "r", "i"))
    for op in "eq ne".split():
        yield f"{indent}def __{op}__(self, o: Any) -> Tensor: ...  # type: ignore[override]"
    for op in "lt le gt ge".split():
        yield f"{indent}def __{op}__(self, o: Any) -> Tensor: ..."
    for op in "neg pos invert abs".split():
        yield f"{indent}def __{op}__(self) -> Tensor: ..."
    yield f"{indent}def __getitem__(self, idx: Any) -> Tensor: ..."
    yield f"{indent}def __setitem__(self, idx: Any, value: Any) -> None: ..."
    yield f"{indent}def __iter__(self) -> Iterator[Tensor]: ..."
    for name in "len int index hash".split():
        yield f"{indent}def __{name}__(self) -> int: ..."
    yield f"{indent}def __float__(self) -> float: ..."
    yield f"{indent}def __bool__(self) -> bool: ..."


NEW = {
    "Tensor": "self, data: Any = ..., device: str | None = ..., dtype: DTypeLike = ..., requires_grad: bool | None = ...",
    "OnnxSession": "self, model: Any, sizes: dict[str, int]",
    "LlmModel": "self, path: Any, *args: Any",
    "LlmEmbedder": "self, path: Any",
    "Variable": "self, name: str, min_val: int, max_val: int, dtype: Any = ..., multiple_of: int = ...",
    "TinyJit": "self, fxn: Callable[..., Any] | None = ..., captured: Any = ..., prune: bool = ..., optimize: bool = ...",
}


def native_class(name, cls):
    """A class of the part in Rust."""
    base = "(SymbolicInt)" if name == "Variable" else ""
    yield f"class {name}{base}:"
    if name in NEW:
        yield f"    def __init__({NEW[name]}) -> None: ..."
    if name == "Tensor":
        yield "    training: bool"
        yield "    no_grad: bool"
        yield "    train: type[_Train]"
        yield "    test: type[_Train]"
        yield "    inference_mode: type[_Train]"
        yield from operators("    ")
    if name == "SymbolicInt":
        for op in "add radd sub rsub mul rmul floordiv rfloordiv mod rmod".split():
            yield f"    def __{op}__(self, o: Any) -> SymbolicInt: ..."
        yield "    def __neg__(self) -> SymbolicInt: ..."
        for op in "truediv rtruediv".split():
            yield f"    def __{op}__(self, o: Any) -> Tensor: ..."
        for op in "lt le gt ge".split():
            yield f"    def __{op}__(self, o: Any) -> bool: ..."
        yield "    def __int__(self) -> int: ..."
        yield "    def __index__(self) -> int: ..."
        yield "    def __float__(self) -> float: ..."
    if name == "TinyJit":
        yield "    def __call__(self, *args: Any, **kwargs: Any) -> Any: ..."
        yield "    def __get__(self, obj: Any, owner: Any = ...) -> Any: ..."
    for n in sorted(vars(cls)):
        o = inspect.getattr_static(cls, n)
        if n.startswith("_") or n in ("training", "no_grad", "train", "test", "inference_mode"):
            continue
        if inspect.isgetsetdescriptor(o):
            yield f"    @property\n    def {n}(self) -> {result(name, n, TENSOR if name == 'Tensor' else 'Any')}: ..."
            if name == "Tensor" and n in ("grad", "requires_grad"):
                yield f"    @{n}.setter\n    def {n}(self, value: Any) -> None: ..."
        elif callable(getattr(cls, n)):
            yield native_function(name, n, getattr(cls, n), TENSOR if name == "Tensor" else "Any", "    ")


def native():
    """The stub of the part in Rust."""
    from frit import _frit

    lines = [
        "from frit.tensor import _Train",
        "",
        "Size = int | SymbolicInt",
        "TensorLike = Any  # a tensor, a number, or whatever holds numbers",
        "DTypeLike = DType | str | None",
        "__version__: str",
        "",
    ]
    for name in sorted(n for n in vars(_frit) if not n.startswith("_")):
        o = getattr(_frit, name)
        if inspect.isclass(o) and issubclass(o, BaseException):
            lines += [f"class {name}({o.__base__.__name__}): ...", ""]
        elif hasattr(o, "_fields"):
            lines += [f"class {name}(NamedTuple):", *(f"    {field}: Tensor" for field in o._fields), ""]
        elif inspect.isclass(o):
            made = list(native_class(name, o))
            lines += [*(made if len(made) > 1 else [f"{made[0]} ..."]), ""]
        elif inspect.isroutine(o):
            lines.append(native_function("", name, o, "Any", ""))
        else:
            lines.append(f"{name}: {type(o).__name__}")
    return qualified(HEAD.format(imports=IMPORTS) + "\n".join(lines) + "\n")


def python_function(owner, f, fallback, indent):
    """A function of the part in Python."""
    a, pieces = f.args, []
    plain = a.posonlyargs + a.args
    defaults = [None] * (len(plain) - len(a.defaults)) + [ast.unparse(d) for d in a.defaults]
    marks = [ast.unparse(d) for d in f.decorator_list]
    for p, d in zip(plain, defaults):
        if p.arg in ("self", "cls") and owner:
            pieces.append(p.arg)
        else:
            t = ast.unparse(p.annotation) if p.annotation else argument(f.name, p.arg, d, owner)
            pieces.append(f"{p.arg}: {t}" + (" = ..." if d is not None else ""))
    if a.vararg:
        pieces.append(f"*{a.vararg.arg}: Any")
    elif a.kwonlyargs:
        pieces.append("*")
    for p, d in zip(a.kwonlyargs, a.kw_defaults):
        t = ast.unparse(p.annotation) if p.annotation else argument(f.name, p.arg, None if d is None else ast.unparse(d), owner)
        pieces.append(f"{p.arg}: {t}" + (" = ..." if d is not None else ""))
    if a.kwarg:
        pieces.append(f"**{a.kwarg.arg}: Any")
    head = "".join(f"{indent}@{m}\n" for m in marks if m in ("property", "classmethod", "staticmethod") or ".setter" in m)
    to = ast.unparse(f.returns) if f.returns else result(owner, f.name, fallback)
    to = "None" if any(".setter" in m for m in marks) else to
    return f"{head}{indent}def {f.name}({', '.join(pieces)}) -> {to}: ..."


def attributes(cls):
    """Attributes that methods of a class set."""
    names = {}
    for f in (n for n in cls.body if isinstance(n, ast.FunctionDef)):
        for node in ast.walk(f):
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and ast.unparse(node.value) == "self":
                names.setdefault(node.attr, None)
    methods = {n.name for n in cls.body if isinstance(n, ast.FunctionDef)}
    return [n for n in names if n not in methods and not n.startswith("_")]


def python_class(module, cls):
    """A class of the part in Python."""
    bases = ", ".join(ast.unparse(b) for b in cls.bases)
    yield f"class {cls.name}({bases}):" if bases else f"class {cls.name}:"
    body = []
    for n in cls.body:
        if isinstance(n, ast.Assign) and not ast.unparse(n.targets[0]).startswith("_"):
            t = "DType" if "_frit.dtype_" in ast.unparse(n.value) else "tuple[DType, ...]" if module == "dtype" else "Any"
            body += [f"    {ast.unparse(name)}: {t}" for name in n.targets]
    owns = dict(ATTRIBUTES, lr="float") if cls.name == "ReduceLROnPlateau" else ATTRIBUTES
    optional = {"LayerNorm", "LayerNorm2d", "RMSNorm", "BatchNorm", "GroupNorm", "InstanceNorm"}
    for n in attributes(cls):
        t = owns.get(n, "Any")
        body.append(f"    {n}: {'Tensor | None' if n == 'weight' and cls.name in optional else t}")
    for n in cls.body:
        if isinstance(n, ast.FunctionDef) and (not n.name.startswith("_") or n.name.startswith("__")) and n.name != "__new__":
            fallback = TENSOR if module.startswith("nn") and n.name == "__call__" else "Any"
            made = python_function(cls.name, n, TENSOR if fallback == TENSOR else "Any", "    ")
            made = made.replace("-> Any", f"-> {fallback}") if n.name == "__call__" and f"{cls.name}.__call__" not in RESULT_OF else made
            body.append(made + ("  # type: ignore[override]" if n.name == "__eq__" else ""))
    yield from body or ["    pass"]


def python(path):
    """The stub of one module in Python."""
    tree = ast.parse(path.read_text())
    module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
    lines = ["from frit._frit import DType, DTypeLike, Size, Tensor, TensorLike"]
    if module.startswith("nn.") and module != "nn.optim":
        lines.append("from frit.nn.optim import Optimizer")
    for n in tree.body:
        if isinstance(n, (ast.Import, ast.ImportFrom)):
            lines.append(ast.unparse(n))
        elif isinstance(n, ast.Assign):
            name = ast.unparse(n.targets[0])
            if name == "__all__" and not path.name.startswith("__"):
                lines.append(f"__all__ = {ast.unparse(n.value)}")
            elif isinstance(n.value, ast.Call) and not name.startswith("_") and "." not in name:
                lines += [f"{part}: {ast.unparse(n.value.func)}" for part in name.strip("()").split(", ")]
            elif all(isinstance(t, ast.Name) for t in n.targets) and isinstance(n.value, ast.Name):
                lines += [f"{t.id} = {n.value.id}" for t in n.targets]
        elif isinstance(n, ast.FunctionDef) and not n.name.startswith("_"):
            lines.append(python_function(module.split(".")[-1], n, "Any", "").replace("(self, ", "("))
        elif isinstance(n, ast.ClassDef):
            lines += ["", *python_class(module, n)]
    return qualified(HEAD.format(imports=IMPORTS) + "\n".join(lines) + "\n")


def qualified(text):
    """Builtin types by their full names: methods called ``int`` and ``float`` stand before the short ones in a class."""
    in_method = re.compile(r"^    (def \w+|\w+:)(.*)$", re.MULTILINE)
    plain = re.compile(r"(?<![\w.])(int|float|bool)\b(?!: \w)")
    return in_method.sub(lambda m: "    " + m[1] + plain.sub(r"builtins.\1", m[2]), text)


def stubs():
    """Every stub by its path."""
    all = {ROOT / "_frit.pyi": native()}
    for path in sorted(ROOT.rglob("*.py")):
        # these only pass names on, which a checker reads by itself
        if path.name not in ("__main__.py", "__init__.py", "backend.py"):
            all[path.with_suffix(".pyi")] = python(path)
    return all


def main():
    sys.path.pop(0)  # the module as it is installed, not the sources beside this file
    args = argparse.ArgumentParser(description=__doc__)
    args.add_argument("--check", action="store_true")
    check, stale = args.parse_args().check, []
    for path, text in stubs().items():
        if not path.exists() or path.read_text() != text:
            stale.append(path.name)
            if not check:
                path.write_text(text)
    if check and stale:
        sys.exit(f"{', '.join(stale)}: not what `python python/make_stubs.py` writes; run it")


if __name__ == "__main__":
    main()
