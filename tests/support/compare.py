"""Comparisons with the project's tolerances; a failure names the step or the tensors."""


def assert_losses_close(found, wanted, relative=1e-6, sizes=None):
    """Relative to the losses or, where their terms cancel, to the terms' sizes."""
    assert found.keys() == wanted.keys(), f"steps {sorted(found)} against {sorted(wanted)}"
    sizes = {step: max(abs(loss), (sizes or {}).get(step, 0.0)) for step, loss in wanted.items()}
    worst = max(wanted, key=lambda step: abs(found[step] - wanted[step]) / sizes[step])
    error = abs(found[worst] - wanted[worst]) / sizes[worst]
    assert error <= relative, f"step {worst}: {found[worst]!r} against {wanted[worst]!r}, {error:.2e} > {relative:.0e}"


def assert_tensors_close(found, wanted, relative):
    """Norm of the difference over the norm, tensor by tensor."""
    assert found.keys() == wanted.keys(), f"only on one side: {sorted(found.keys() ^ wanted.keys())}"
    errors = {}
    for name, tensor in wanted.items():
        assert found[name].shape == tensor.shape, f"{name}: {found[name].shape} against {tensor.shape}"
        norm = tensor.double().norm().item()
        errors[name] = (found[name].double() - tensor.double()).norm().item() / (norm or 1.0)
    bad = {name: error for name, error in errors.items() if not error <= relative}
    assert not bad, f"{len(bad)} of {len(errors)} tensors beyond {relative:.0e}: " + \
        ", ".join(f"{name} {error:.2e}" for name, error in sorted(bad.items(), key=lambda item: -item[1])[:6])


def assert_tensors_equal(found, wanted):
    """Bit for bit."""
    assert found.keys() == wanted.keys(), f"only on one side: {sorted(found.keys() ^ wanted.keys())}"
    different = [name for name in wanted if found[name].numpy().tobytes() != wanted[name].numpy().tobytes()]
    assert not different, f"bits differ in {len(different)} of {len(wanted)} tensors: {different[:6]}"
