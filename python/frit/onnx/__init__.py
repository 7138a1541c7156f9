"""ONNX models.

>>> from frit.onnx import Session
>>> model = Session("model.onnx")                              # doctest: +SKIP
>>> [y] = model.run(None, {"x": numpy.zeros((1, 3, 224, 224))})  # doctest: +SKIP

A program becomes a model with ``export``:

>>> from frit import Tensor
>>> from frit.onnx import export
>>> model = export(lambda x: (x @ x.T).softmax(), Tensor.ones(2, 3))
>>> Session(model).inputs
[Port('input0', 'float', [2, 3])]

``frit.onnx.backend`` is what the tests of the ``onnx`` package drive.
"""

from frit.onnx.exporter import export
from frit.onnx.session import Port, Session

__all__ = ["Port", "Session", "export"]
