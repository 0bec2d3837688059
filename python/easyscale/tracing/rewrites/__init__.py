"""Operators that have no lowering, written with operators that have one.

A function has the arguments of the operator's schema, and is traced. What is not here is taken from
torch's own decompositions (decompose.py). A comment says where the gradient, which follows from
what is written here, needs care.
"""
from . import backward, division, elementwise, functions, images, places, reductions, sorting
from .functions import atan2
from .sorting import SORTED_MAX
from .table import REWRITES, rewrites

__all__ = ["REWRITES", "SORTED_MAX", "atan2", "backward", "division", "elementwise", "functions",
           "images", "places", "reductions", "rewrites", "sorting"]
