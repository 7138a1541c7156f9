"""Layers, optimisers, state files and data sets.

A layer is a plain object that is called on tensors; whatever has layers or tensors as attributes, or in lists and dicts,
is a model. ``nn.state.get_parameters(model)`` finds them.

>>> from frit import Tensor, nn
>>> class Net:
...     def __init__(self):
...         self.hidden, self.out = nn.Linear(2, 8), nn.Linear(8, 1)
...
...     def __call__(self, x):
...         return self.out(self.hidden(x).tanh())
>>> Net()(Tensor.zeros(4, 2)).shape
(4, 1)
"""

from frit.nn import optim, schedule, state
from frit.nn.attention import *
from frit.nn.layers import *
from frit.nn.norm import *
from frit.nn.recurrent import *
from frit.nn import attention, layers, norm, recurrent

__all__ = ["optim", "schedule", "state", *layers.__all__, *norm.__all__, *recurrent.__all__, *attention.__all__]
