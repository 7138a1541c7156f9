"""A backend of the ``onnx`` package, for ``onnx.backend.test`` and whatever else drives one.

>>> import onnx.backend.test, frit.onnx.backend
>>> tests = onnx.backend.test.BackendTest(frit.onnx.backend, __name__)
"""

from onnx.backend.base import Backend, BackendRep, namedtupledict

from frit.onnx.session import Session

__all__ = ["FritBackend", "FritRep", "prepare", "run_model", "run_node", "supports_device"]


def _decoded(data):
    """A picture, by Pillow where it is installed."""
    import io

    from PIL import Image

    return Image.open(io.BytesIO(data)).convert("RGB")


class FritRep(BackendRep):
    """A model that is ready to run."""

    def __init__(self, session):
        self.session = session

    def run(self, inputs, **kwargs):
        """All outputs for inputs by name, or in order: of all inputs, or of those that need a value."""
        if not isinstance(inputs, dict):
            ports = self.session.inputs
            needed = [p for p in ports if not p.optional]
            inputs = dict(zip([p.name for p in (needed if len(inputs) == len(needed) else ports)], inputs))
        outputs = self.session.run(None, inputs)
        return namedtupledict("Outputs", [p.name for p in self.session.outputs])(*outputs)


class FritBackend(Backend):
    """Models run by frit."""

    @classmethod
    def prepare(cls, model, device="CPU", **kwargs):
        return FritRep(Session(model, images=_decoded))

    @classmethod
    def supports_device(cls, device):
        return device == "CPU"


prepare = FritBackend.prepare
run_model = FritBackend.run_model
run_node = FritBackend.run_node
supports_device = FritBackend.supports_device
