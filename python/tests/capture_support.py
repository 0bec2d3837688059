"""What the tests of the capture share."""
import sys
from pathlib import Path

import torch
from torch import nn

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
torch.set_num_threads(1)
SAMPLES = 4


class Model(nn.Module):
    """A module whose forward is a function of (module, x), with one linear layer [8, 8]."""

    def __init__(self, function):
        super().__init__()
        self.layer = nn.Linear(8, 8)
        self.function = function

    def forward(self, x):
        return self.function(self, x)


def capture_function(function, shape=(8,), loss=None, **options):
    """Captures Model(function) on normal inputs [samples, *shape] with a mean of squares."""
    from easyscale.tracing import capture
    torch.manual_seed(1)
    loss = loss or (lambda outputs, targets: (outputs.square() + outputs.sin()).mean())
    return capture(Model(function), loss, torch.randn(SAMPLES, *shape), torch.zeros(SAMPLES),
                   **options)


def kinds(captured):
    """The kinds of the nodes in their order."""
    return [node.kind for node in captured.program.nodes]
