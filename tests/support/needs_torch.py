"""Imported first by every module that needs PyTorch in Python: without it (LIBTORCH was given at set-up) the test file
is skipped with a reason."""
import pytest

torch = pytest.importorskip(
    "torch", reason="no torch in .venv: set up with LIBTORCH; unset it and `make setup` to run this")
torch.set_num_threads(1)  # more threads do not help such small models, and are slow on busy cores
