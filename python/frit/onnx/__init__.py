"""ONNX models.

>>> from frit.onnx import Session
>>> model = Session("model.onnx")                              # doctest: +SKIP
>>> [y] = model.run(None, {"x": numpy.zeros((1, 3, 224, 224))})  # doctest: +SKIP

``frit.onnx.backend`` is what the tests of the ``onnx`` package drive.
"""

from frit.onnx.session import Port, Session

__all__ = ["Port", "Session"]
