"""Imported first by whatever needs PyTorch in Python: without it (LIBTORCH was given at the set-up) such a file of
tests is skipped, and says why."""
import pytest

torch = pytest.importorskip(
    "torch", reason="no torch in .venv: set up with LIBTORCH; unset it and `make setup` to run this")
torch.set_num_threads(1)  # such small models gain nothing from more, and lose much when other work shares the cores
