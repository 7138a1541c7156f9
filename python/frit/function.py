"""Functions whose calls are nodes of the graph: compiled once for arguments of the same shapes and types.

>>> from frit import Tensor, function
>>> @function
... def layer(x, w): return (x @ w).relu()
>>> x, w = Tensor.ones(1, 2), Tensor([[1.0, 2.0], [3.0, 4.0]])
>>> layer(layer(x, w), w).tolist()
[[22.0, 32.0]]
"""

from functools import wraps

from frit._frit import Tensor, call_function

__all__ = ["function"]


def _rebuilt(value, leaf):
    """The same lists, tuples and dicts around ``leaf(v)`` of what is in them."""
    if isinstance(value, dict):
        return type(value)((k, _rebuilt(v, leaf)) for k, v in value.items())
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(_rebuilt(v, leaf) for v in value))
    if isinstance(value, (list, tuple)):
        return type(value)(_rebuilt(v, leaf) for v in value)
    return leaf(value)


def _taken(value):
    """The tensors in ``value``, and what makes the same of other tensors."""
    found = []

    def take(v):
        if isinstance(v, Tensor):
            found.append(v)
        return v

    shape = _rebuilt(value, take)

    def put(tensors):
        rest = iter(tensors)
        return _rebuilt(shape, lambda v: next(rest) if isinstance(v, Tensor) else v)

    return found, put


def function(fxn=None, *, precompile=False, precompile_backward=False, allow_implicit=False, grad_fxn=None):
    """A function of tensors whose calls are nodes of the graph; also ``@function(...)``.

    Arguments and results are tensors and other values, in lists, tuples and dicts. Its body is planned and compiled
    once for arguments of the same shapes and types; tensors it takes from outside are captured. Gradients of any order
    pass through. In the body tensors have shapes and types, but no numbers: ``item()`` and assignments are errors.
    Bodies are always compiled on their own and may always use tensors from outside, so ``precompile``,
    ``precompile_backward`` and ``allow_implicit`` change nothing.
    """
    if grad_fxn is not None:
        raise NotImplementedError("function: a gradient of its own (grad_fxn)")
    if fxn is None:
        return function

    @wraps(fxn)
    def called(*args, **kwargs):
        arguments, put = _taken((args, kwargs))
        returned = []

        def body(inside):
            inner_args, inner_kwargs = put(inside)
            results, put_back = _taken(fxn(*inner_args, **inner_kwargs))
            returned.append(put_back)
            return results

        results = call_function(body, arguments)
        return returned[0](results)

    return called
