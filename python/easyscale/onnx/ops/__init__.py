"""The conversions of ONNX operators to kinds of nodes, one file for each topic."""
from . import (elementwise, indices, losses, moves, norms, pools, products, recurrent,  # noqa: F401
               reductions)
