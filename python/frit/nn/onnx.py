"""ONNX models under the name that programs for tinygrad know."""

from frit.onnx.session import Session

__all__ = ["OnnxRunner"]


class OnnxRunner:
    """A model that is called with tensors by name and gives tensors by name: ``OnnxRunner(path)({"x": x})["y"]``."""

    def __init__(self, model):
        self.session = Session(model)
        self.graph_inputs = {p.name: p for p in self.session.inputs}
        self.graph_outputs = [p.name for p in self.session.outputs]

    def __call__(self, inputs, debug=0):
        return self.session.tensors(inputs)
