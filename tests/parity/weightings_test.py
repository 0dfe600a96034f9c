"""Each weighting, compared with its formula in plain PyTorch: losses of all steps, gradients of step 1 and final
parameters. Two ranks with full_shard, fp32."""
import null_cuda
import pytest
from checkpoint import model_tensors, state_tensors
from compare import assert_losses_close, assert_tensors_close
from paths import cases
from reference import Recipe, steps_here
from runlog import step_folders
from start import POLICY, READER, changes_for, train_reference

SHARP = 8.0
# For gradients: the optimizer's first moment after step 1 is (1 - beta1) times the gradient, exactly if beta1 = 1/2.
EXACT = {"betas": (0.5, 0.95), "clip_norm": 0.0, "sharp": SHARP, "steps": steps_here()}


def of(pipeline, data="windows", accumulation=1, normalize="tokens", **options):
    shape = POLICY if data == "windows" else READER
    return shape, Recipe(pipeline=pipeline, data=data, accumulation=accumulation, normalize=normalize, options=options,
                         **EXACT)


SHORT = {
    "entropy": of("entropy"),
    "rho1-soft": of("rho1", selection="soft", temperature=2.0),
    "mile": of("mile", data="records"),
    "mean-excess": of("mean_excess", data="records", keep=0.4),
    "truncation": of("truncation", accumulation=2, warmup_steps=3),
    "frequency": of("frequency", data="records"),
    "prompt-weight": of("prompt_weight", data="records", weight=0.3),
    "formula-quantile": of("formula", weight="(excess > quantile(excess, 0.4)) * clamp(ref, 0.5, 6)"),
    # keep falls from every token to the share that rho-1 keeps, during three steps.
    "rho1-warm-up": of("rho1", accumulation=2, keep={"from": 1.0, "to": 0.4, "steps": 3}),
    "formula-progress": of("formula", weight="exp(-ce) * progress + (1 - progress)"),
    "first-head-rho1": of("first_head", accumulation=2, inner={"plugin": "rho1", "keep": 0.4}),
    "shuffled-focal": of("shuffled", data="records", inner={"plugin": "focal", "gamma": 3.0}),
}
LONG = {
    "formula-eaft": of("formula", weight="min(1, entropy / 2.9957)"),
    "formula-profit": of("formula", weight="exp(-ce) > 0.015"),
    "formula-prift": of("formula", weight="exp(-ref)"),
    "focal-rising": of("focal", gamma={"from": 0.0, "to": 3.0, "steps": 4}),
    "mile-rising": of("mile", data="records", gamma={"from": 0.0, "to": 2.0, "steps": 100}),
    "prompt-weight-falling": of("prompt_weight", data="records", weight={"from": 1.0, "to": 0.0, "steps": 2}),
    "shuffled-rho1-warm-up": of("shuffled", inner={"plugin": "rho1", "keep": {"from": 1.0, "to": 0.4, "steps": 3}}),
    "random-keep": of("random", data="records", keep=0.5),
    "mean-excess-warm-up": of("mean_excess", accumulation=2, keep={"from": 1.0, "to": 0.4, "steps": 3}),
    "rho1-self-both": of("rho1", mode="self_both", keep=0.7),
    "focal": of("focal", gamma=1.5),
    "entropy-weights": of("entropy", share=0.4, normalize="weights", accumulation=2),
    "mile-steep": of("mile", gamma=2.0, sigma=0.5),
    "truncation-records": of("truncation", data="records", drop=0.25, momentum=0.5, warmup_steps=1),
    "frequency-windows": of("frequency", power=0.7, smoothing=2.0, accumulation=2),
    "prompt-weight-none": of("prompt_weight", data="records", weight=0.0, normalize="weights"),
    "rho1-self-loss": of("rho1", mode="self_loss"),
    "rho1-self-entropy": of("rho1", mode="self_entropy", keep=0.3),
    "rho1-soft-self": of("rho1", mode="self_entropy", selection="soft", normalize="weights"),
    "formula-focal": of("formula", weight="(1 - exp(-ce))^2"),
    "formula-uniform": of("formula", weight="0.5 + uniform * entropy / head"),
    "random-lognormal": of("random", kind="lognormal"),
    "first-head-focal": of("first_head", data="records", inner={"plugin": "focal", "gamma": 3.0}),
    "first-head-mile": of("first_head", data="records", normalize="weights", inner={"plugin": "mile"}),
    "first-head-lognormal": of("first_head", inner={"plugin": "random", "kind": "lognormal"}),
    "shuffled-rho1": of("shuffled", inner={"plugin": "rho1", "keep": 0.4}),
}
CASES = SHORT | LONG


@pytest.mark.soak
@pytest.mark.parametrize("case", cases(list(SHORT), list(LONG)))
def test_a_weighting_equals_its_formula(place, case):
    shape, recipe = CASES[case]
    wanted = train_reference(place.folder, shape, recipe)
    place.run(checkpoint__every_steps=1, checkpoint__keep=recipe.steps, **changes_for(shape, recipe))
    assert_losses_close(place.log.losses(), wanted.losses, 1e-6)
    moments = state_tensors(step_folders(place.log.folder())[0], "exp_avg")
    assert_tensors_close({name: 2 * moment for name, moment in moments.items()}, wanted.first_gradients, 1e-5)
    # AdamW divides a gradient by its own size, so the order of sums matters; the null device's kernels use another.
    assert_tensors_close(model_tensors(place.log.folder()), wanted.parameters, 1e-5 if null_cuda.is_used() else 3e-6)


def test_a_formula_equals_the_plugin(place):
    """The losses are equal up to rounding."""
    shape, recipe = CASES["focal"]
    train_reference(place.folder, shape, recipe)
    losses = []
    for pipeline, options in (("focal", {"gamma": 2.0}), ("formula", {"weight": "(1 - exp(-ce))^2"})):
        place.run(**changes_for(shape, Recipe(**{**vars(recipe), "pipeline": pipeline, "options": options})))
        losses.append(place.log.losses())
    assert_losses_close(losses[1], losses[0], 1e-7)
