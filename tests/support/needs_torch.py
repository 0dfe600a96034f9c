"""Imported first by whatever needs PyTorch in Python: without it (LIBTORCH was given at the set-up) such a file of
tests is skipped, and says why."""
import pytest

pytest.importorskip("torch", reason="no torch in .venv: set up with LIBTORCH; unset it and `make setup` to run this")
