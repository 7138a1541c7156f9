"""Element types: ``dtypes.float32`` and its like."""

from frit import _frit
from frit._frit import DType

__all__ = ["DType", "dtypes"]


class _DTypes:
    """The types of elements by name, and questions about them."""

    bool = bool_ = _frit.dtype_bool
    int8 = char = _frit.dtype_char
    int16 = short = _frit.dtype_short
    int32 = int = _frit.dtype_int
    int64 = long = _frit.dtype_long
    uint8 = uchar = _frit.dtype_uchar
    uint16 = ushort = _frit.dtype_ushort
    uint32 = uint = _frit.dtype_uint
    uint64 = ulong = _frit.dtype_ulong
    float16 = half = _frit.dtype_half
    bfloat16 = _frit.dtype_bfloat16
    float32 = float = _frit.dtype_float
    float64 = double = _frit.dtype_double
    fp8e4m3 = float8_e4m3 = float8_e4m3fn = _frit.dtype_fp8e4m3
    fp8e5m2 = float8_e5m2 = _frit.dtype_fp8e5m2
    fp8e4m3fnuz = _frit.dtype_fp8e4m3fnuz
    fp8e5m2fnuz = _frit.dtype_fp8e5m2fnuz

    fp8_ocp = (fp8e4m3, fp8e5m2)
    fp8_fnuz = (fp8e4m3fnuz, fp8e5m2fnuz)
    fp8s = fp8_ocp + fp8_fnuz
    floats = fp8s + (float16, bfloat16, float32, float64)
    int8s = (uint8, int8)
    int16s = (uint16, int16)
    int32s = (uint32, int32)
    int64s = (uint64, int64)
    uints = (uint8, uint16, uint32, uint64)
    sints = (int8, int16, int32, int64)
    ints = uints + sints
    all = floats + ints + (bool,)

    @property
    def default_float(self):
        """The type of floats that no one gave a type; can be set."""
        return _frit.default_dtypes()[0]

    @default_float.setter
    def default_float(self, dtype):
        if dtype not in self.floats:
            raise ValueError(f"{dtype} is not a float type")
        _frit.default_dtypes(dtype)

    @property
    def default_int(self):
        """The type of integers that no one gave a type; can be set."""
        return _frit.default_dtypes()[1]

    @default_int.setter
    def default_int(self, dtype):
        if dtype not in self.ints:
            raise ValueError(f"{dtype} is not an integer type")
        _frit.default_dtypes(dtype)

    def is_float(self, x):
        """Whether a type is one of floats."""
        return _frit.dtype(x) in self.floats

    def is_int(self, x):
        """Whether a type is one of integers; bool is not."""
        return _frit.dtype(x) in self.ints

    def is_unsigned(self, x):
        """Whether a type is one of integers without sign."""
        return _frit.dtype(x) in self.uints

    def is_bool(self, x):
        """Whether a type is bool."""
        return _frit.dtype(x) == self.bool

    def min(self, dtype):
        """The least value of a type: minus infinity for floats."""
        return _frit.dtype(dtype).min

    def max(self, dtype):
        """The greatest value of a type: infinity for floats."""
        return _frit.dtype(dtype).max

    def finfo(self, dtype):
        """How many bits the exponent and the mantissa of a float type have."""
        info = _frit.finfo(dtype)
        return info["bits"] - info["digits"], info["digits"] - 1

    def iinfo(self, dtype):
        """The least and the greatest value of an integer type."""
        if not self.is_int(dtype):
            raise TypeError(f"{dtype} is not an integer type")
        return self.min(dtype), self.max(dtype)

    def from_py(self, x):
        """The type a Python number, or a list of them, would have."""
        if isinstance(x, _BOOL):
            return self.bool
        if isinstance(x, _FLOAT):
            return self.default_float
        if isinstance(x, _INT):
            return self.default_int
        if isinstance(x, (list, tuple)):
            kinds = [self.from_py(e) for e in x]
            return max(kinds, key=lambda d: d.priority) if kinds else self.default_float
        raise RuntimeError(f"{x!r} has no type of elements")

    def fields(self):
        """Every type by the name it prints."""
        return {d.name: d for d in self.all}


# inside the class these names are types of elements
_BOOL, _INT, _FLOAT = bool, int, float

dtypes = _DTypes()
