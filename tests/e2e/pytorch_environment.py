"""The environment with PyTorch in which some tests run (scripts/setup_pytorch)."""
import environment

MISSING = "PyTorch is not set up: scripts/setup_pytorch"


def enter():
    environment.enter("setup_pytorch")
