"""The tables that lower aten operators to kinds of nodes, one file for each topic."""
from . import (attention, elementwise, integers, losses, moves, norms, pools, products,  # noqa: F401
               random, recurrent, reductions, scatters, states)
from .table import LOWERINGS

__all__ = ["LOWERINGS"]
