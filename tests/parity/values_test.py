"""Critics and value-weighted runs on records, compared with plain PyTorch: losses of all steps, gradients of step 1 and
final parameters. Two ranks with full_shard, fp32."""
import pytest
from checkpoint import adapter_tensors, model_tensors, state_tensors
from compare import assert_losses_close, assert_tensors_close
from paths import cases
from reference import Recipe, Reference, filled, steps_here
from runlog import step_folders
from start import JUDGE, READER, changes_for, start_model, train_reference, write_batches, write_start
from value_head import add_value_head, without_token_heads

# For gradients: the optimizer's first moment after step 1 is (1 - beta1) times the gradient, exactly if beta1 = 1/2.
EXACT = {"betas": (0.5, 0.95), "clip_norm": 0.0, "steps": steps_here()}


def critic(loss, data="records", head="linear", value_start=0.1, more=None, **rest):
    return Recipe(pipeline="critic", data=data, options={"loss": loss, "head": head, **(more or {})},
                  value_start=value_start, **{**EXACT, **rest})


def verifiable(data="records", **options):
    return Recipe(pipeline="verifiable", data=data, options=options, **EXACT)


CASES = {
    "pairwise": critic("pairwise", data="pairs"),
    "pairwise-mlp-from-nothing": critic("pairwise", data="pairs", head="mlp", value_start=0, accumulation=2,
                                        value_head_lr=1e-2, clip_norm=1.0),
    "pairwise-frozen": critic("pairwise", data="pairs", head="mlp", adapter="frozen",
                              more={"margin": 0.5, "center": 0.01}),
    "pairwise-dropout": critic("pairwise", data="pairs", head="mlp", accumulation=2, more={"dropout": 0.2}),
    "lambda-return": critic("lambda_return"),
    "lambda-return-huber-lora": critic("lambda_return", adapter="lora", lora={"rank": 4}, value_head_lr=5e-3,
                                       more={"error": "huber", "huber_delta": 0.3, "gamma": 0.95, "lambda": 0.7}),
    "monte-carlo": critic("monte_carlo", head="mlp", value_start=0, more={"gamma": 0.9}),
    "gae": verifiable(),
    "gae-raw": verifiable(whiten=False, gamma=0.98, beta=0.5, **{"lambda": 0.8}, mean_one="batch"),
    "scores": verifiable(critic="score", mean_one="batch"),
    "td": verifiable(mode="td", squash="sigmoid", mean_one="sequence"),
    "joint": Recipe(pipeline="verifiable", data="records", value_start=0.1, value_head_lr=3e-3, accumulation=2,
                    options={"joint": True, "head": "mlp", "value_coefficient": 0.5, "error": "huber"}, **EXACT),
    "joint-lora": Recipe(pipeline="verifiable", data="records", value_start=0.1, value_head_lr=3e-3, adapter="lora",
                         lora={"rank": 4, "targets": ["wq", "wo", "w2"]}, options={"joint": True}, **EXACT),
    "gae-lora": Recipe(pipeline="verifiable", data="records", adapter="lora", lora={}, **EXACT),
}


def trained_tensors(folder, names):
    found = model_tensors(folder)
    if (folder / "adapter").exists():
        found |= adapter_tensors(folder)
    return {name: found[name] for name in names}


def last_bias(names):
    return max(name for name in names if name.startswith("value_heads.") and name.endswith("bias"))


LONG = ("pairwise-frozen", "monte-carlo", "lambda-return", "gae-raw", "gae-lora")


@pytest.mark.soak
@pytest.mark.parametrize("case", cases([case for case in CASES if case not in LONG], LONG))
def test_values_and_their_losses_and_weights_equal_pytorch(place, case):
    recipe = CASES[case]
    wanted = train_reference(place.folder, READER, recipe)
    place.run(checkpoint__every_steps=1, checkpoint__keep=recipe.steps, **changes_for(READER, recipe))
    # A pair's loss is of the difference between two values, which loses digits that both have.
    assert_losses_close(place.log.losses(), wanted.losses, 3e-6 if recipe.data == "pairs" else 1e-6)
    moments = state_tensors(step_folders(place.log.folder())[0], "exp_avg")
    gradients = {name: 2 * moment for name, moment in moments.items()}
    assert gradients.keys() == wanted.first_gradients.keys()
    compared = set(gradients)
    if recipe.data == "pairs" and "center" not in recipe.options:
        # an offset of all values changes no comparison: this gradient is only rounding
        bias = last_bias(compared)
        assert max(gradients[bias].abs().max(), wanted.first_gradients[bias].abs().max()) < 1e-7
        compared.remove(bias)
    assert_tensors_close(*({name: tensors[name] for name in compared}
                           for tensors in (gradients, wanted.first_gradients)), 1e-5)
    trained = {name: wanted.parameters[name] for name in compared}
    assert_tensors_close(trained_tensors(place.log.folder(), trained), trained, 3e-6)


def test_the_values_of_a_critics_run_weigh_another_run(place):
    recipe = CASES["lambda-return-huber-lora"]
    write_start(place.folder, JUDGE, recipe, seed=12)
    place.run(**changes_for(JUDGE, recipe))
    judge = add_value_head(without_token_heads(filled(JUDGE, seed=0)), "linear", seed=0).requires_grad_(False)
    judge.load_state_dict(model_tensors(place.log.folder()))

    recipe = CASES["gae"]
    model, batches = start_model(place.folder, READER, recipe), write_batches(place.folder, recipe, seed=13)
    place.run(**changes_for(READER, recipe) | {"value__weights": "run:trial"})
    assert_losses_close(place.log.losses(), Reference(recipe, model, judge=judge).train(batches).losses, 1e-6)
