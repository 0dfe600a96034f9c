"""The host and plain PyTorch with the same weights and token ids: losses and gradient norms of 6 steps (in the long
form 10), gradients of step 1, final parameters. Two ranks with full_shard, fp32."""
from dataclasses import replace

import experiment
import pytest
from checkpoint import adapter_tensors, model_tensors, state_tensors
from compare import assert_losses_close, assert_tensors_close
from mtp_model import Shape
from paths import cases
from reference import Recipe, is_updated_by_muon
from runlog import step_folders
from start import POLICY, READER, changes_for, train_reference

GROUPED = Shape(dim=64, layers=6, heads=4, kv_heads=2, ffn_dim=160, vocab_size=experiment.VOCAB, rope_theta=5000.0,
                norm_eps=1e-6, future_tokens=3)

LLAMA3 = {"rope_type": "llama3", "factor": 4.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 32}
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32, "attention_factor": 1.3,
        "beta_fast": 4.0, "beta_slow": 1.0}
# Features of imported models that are off by default; with sequences of 64, so that the scaling has an effect.
SCALED = replace(GROUPED, rope_scaling=LLAMA3)
BIASED = replace(GROUPED, qkv_bias=True, o_bias=True, rope_scaling={"rope_type": "linear", "factor": 2.5})
STRETCHED = replace(GROUPED, rope_scaling=YARN)
TIED = replace(GROUPED, tie_word_embeddings=True)
CHAINED = replace(GROUPED, future_heads="chained")
SHARED = replace(GROUPED, future_heads="shared")
EVERY_OPTION = replace(CHAINED, qkv_bias=True, o_bias=True, joint_qk_norm=True, post_norm=True,
                       tie_word_embeddings=True)
MULTIPLIERS = {"embedding_multiplier": 6.0, "attention_multiplier": 0.1, "residual_multiplier": 0.4,
               "logits_scaling": 3.0}
ALL_OF_IT = replace(TIED, qkv_bias=True, rope_scaling=LLAMA3)

# Adam divides by the root of the second moment. Where a gradient is mostly rounding error (below 1e-8; the median is
# 1e-4), so is the update, which is as large as any other: one to three such elements cause nearly all of a tensor's
# difference, and PyTorch's fp32 differs from fp64 (by 1e-6 to 3e-5) about as much as the host does (up to 7e-5). The
# recipes' eps is above that rounding error and removes it, so that everything else is compared closely; the default eps
# has its own case.
DEFAULT_EPS = 1e-8
CLOSE, CLOSE_WITH_DEFAULT_EPS = 3e-6, 1e-4
# An adapter's B starts at zero and consists of the updates only, so their rounding error (3.3e-6 at most here) is not
# small compared with an initial value.
CLOSE_ADAPTER = 6e-6

CASES = {
    "baseline": (POLICY, Recipe()),
    "default-eps": (POLICY, Recipe(eps=DEFAULT_EPS)),
    "cosine": (POLICY, Recipe(steps=10, schedule="cosine", warmup_steps=3, min_lr_ratio=0.2)),
    "linear": (POLICY, Recipe(steps=10, schedule="linear", warmup_steps=3, min_lr_ratio=0.2)),
    "wsd-cosine": (POLICY, Recipe(steps=10, schedule="wsd", warmup_steps=2, stable_steps=4, decay="cosine")),
    "muon": (GROUPED, Recipe(optimizer="muon", momentum=0.95)),
    "muon-chained": (CHAINED, Recipe(optimizer="muon", momentum=0.9, accumulation=2)),
    "sgd": (POLICY, Recipe(optimizer="sgd", momentum=0.9, lr=0.1)),
    "sgd-plain": (TIED, Recipe(optimizer="sgd", momentum=0.0, lr=0.1)),
    "groups": (GROUPED, Recipe(groups=[{"match": "layers.0.*", "lr_scale": 0.3},
                                       {"match": "*norm.weight", "lr_scale": 2.0, "weight_decay": 0.3}])),
    "train": (GROUPED, Recipe(train=["layers.2.*", "extra_heads.*.attention.w[qk].*", "norm.weight"])),
    "ema": (GROUPED, Recipe(ema=0.8)),
    "wsd": (POLICY, Recipe(steps=10, schedule="wsd", warmup_steps=2, stable_steps=4, min_lr_ratio=0.0)),
    "grouped": (GROUPED, Recipe()),
    "scaled": (SCALED, Recipe()),
    "yarn": (STRETCHED, Recipe()),
    "norms-of-olmo2": (replace(GROUPED, joint_qk_norm=True, post_norm=True), Recipe()),
    "multipliers-of-granite": (replace(TIED, **MULTIPLIERS), Recipe()),
    "multipliers-chained": (replace(CHAINED, **MULTIPLIERS), Recipe(accumulation=2)),
    "no-positions": (replace(GROUPED, no_rope_layer_interval=2), Recipe()),
    "biased": (BIASED, Recipe()),
    "tied": (TIED, Recipe()),
    "tied-accumulation": (ALL_OF_IT, Recipe(accumulation=2)),
    "tied-rho1": (ALL_OF_IT, Recipe(pipeline="rho1")),
    "accumulation": (POLICY, Recipe(accumulation=2)),
    "norm-l1": (POLICY, Recipe(norm="l1", clip_norm=20.0)),
    "norm-inf": (POLICY, Recipe(norm="inf", clip_norm=0.005)),
    "rho1": (POLICY, Recipe(pipeline="rho1")),
    "rho1-absolute": (POLICY, Recipe(pipeline="rho1", options={"mode": "absolute", "keep": 0.5})),
    "rho1-difficult": (POLICY, Recipe(pipeline="rho1", options={"mode": "difficult"})),
    "rho1-weights": (POLICY, Recipe(pipeline="rho1", normalize="weights", accumulation=2)),
    "dft": (POLICY, Recipe(pipeline="dft")),
    "weights": (POLICY, Recipe(normalize="weights", accumulation=2)),
    # Micro-batches with different sums of weights, known before the heads or after each one's losses.
    "weights-of-records": (READER, Recipe(normalize="weights", accumulation=3, data="records")),
    "dft-weights": (READER, Recipe(pipeline="dft", normalize="weights", accumulation=2, data="records")),
    "head-weights": (POLICY, Recipe(head_weights=[1.0, 0.3, 0.1, 0.0])),
    # DeepSeek-V3: another weight from a step on; modded-nanogpt: weights that fall to 0.
    "head-weights-jump": (POLICY, Recipe(accumulation=2, head_weights=[
        {"step": 3, "weights": [1.0, 0.3, 0.3, 0.3]}, {"step": 3, "weights": [1.0, 0.1, 0.1, 0.1]}])),
    "head-weights-fall": (POLICY, Recipe(head_weights=[
        {"step": 1, "weights": [1.0, 0.5, 0.25, 0.25]}, {"step": 4, "weights": [1.0, 0.5, 0.0, 0.25]},
        {"step": 6, "weights": [1.0, 0.0, 0.0, 2.0]}])),
    "detached": (POLICY, Recipe(detach_heads=True, accumulation=2)),
    "detached-chained": (CHAINED, Recipe(detach_heads=True)),
    "detached-chained-tied": (replace(ALL_OF_IT, future_heads="chained"), Recipe(detach_heads=True)),
    "chained": (CHAINED, Recipe()),
    "chained-tied": (replace(ALL_OF_IT, future_heads="chained"), Recipe(accumulation=2, head_weights=[1.0, 0.3, 0.1])),
    "shared": (replace(SHARED, layers=7, future_tokens=4), Recipe(accumulation=2)),
    "shared-tied": (replace(ALL_OF_IT, future_heads="shared"), Recipe(head_weights=[1.0, 0.3, 0.1])),
    "shared-muon": (SHARED, Recipe(optimizer="muon", momentum=0.9, train=["extra_heads.*"])),
    "heads-shared": (SHARED, Recipe(adapter="heads", head_weights=[0.0, 0.51, 0.31])),
    "shared-detached": (SHARED, Recipe(detach_heads=True)),
    "leaps": (replace(POLICY, future_offsets=[1, 3, 5, 7]), Recipe(accumulation=2)),
    # In PyTorch each record and document has a row of its own.
    "packed": (READER, Recipe(data="packed")),
    "packed-accumulation": (replace(READER, sliding_window=20), Recipe(data="packed", accumulation=2)),
    "packed-rho1": (READER, Recipe(data="packed", pipeline="rho1")),
    "packed-chained": (replace(READER, future_heads="chained"), Recipe(data="packed")),
    "documents": (READER, Recipe(data="documents")),
    "documents-rho1": (READER, Recipe(data="documents", pipeline="rho1")),
    # A frozen embedding, whose norm in chained heads trains.
    "heads": (GROUPED, Recipe(adapter="heads")),
    "heads-chained": (replace(CHAINED, qk_norm=True), Recipe(adapter="heads", accumulation=2)),
    "heads-of-every-option": (EVERY_OPTION, Recipe(adapter="heads")),
    "enorm": (CHAINED, Recipe(train=["*.enorm.weight"])),
    "chained-rho1": (replace(POLICY, future_heads="chained"), Recipe(pipeline="rho1")),
}
LORA = {
    "lora": (POLICY, Recipe(adapter="lora", lora={}, lr=1e-2)),
    "lora-tied": (ALL_OF_IT, Recipe(adapter="lora", lora={"targets": ["wq", "wk", "wv", "w2"]}, lr=1e-2)),
    # At 1e-2 rounding errors of the heads' small gradients grow tenfold in each of the last steps.
    "lora-chained": (CHAINED, Recipe(adapter="lora", lora={}, lr=2e-3)),
    "lora-leaps": (replace(GROUPED, future_offsets=[1, 4, 6]), Recipe(adapter="lora", lora={}, lr=2e-3)),
    "lora-shared": (SHARED, Recipe(adapter="lora", lora={"dora": True}, lr=2e-3, accumulation=2)),
    "lora-rho1": (POLICY, Recipe(adapter="lora", lora={"targets": ["wq", "wv", "w1", "w2", "w3"], "rank": 4}, lr=1e-2,
                                 pipeline="rho1")),
    "rslora": (GROUPED, Recipe(adapter="lora", lora={"rslora": True, "rank": 16}, lr=2e-3)),
    "dora": (GROUPED, Recipe(adapter="lora", lora={"dora": True}, lr=1e-2)),
    "dora-rho1": (POLICY, Recipe(adapter="lora", lora={"dora": True, "alpha": 4.0}, lr=1e-2, pipeline="rho1")),
    "lora-plus": (POLICY, Recipe(adapter="lora", lora={"plus_ratio": 16.0, "dora": True}, lr=1e-3, accumulation=2)),
    # Only in the trunk and head 1, beside heads that train as a whole, and beside norms of the adapted blocks.
    "lora-heads": (POLICY, Recipe(adapter="lora", lora={"targets": ["layers.*.w[qv]", "layers.*.feed_forward.*"]},
                                  train=["extra_heads.*"], lr=2e-3)),
    "lora-norms": (GROUPED, Recipe(adapter="lora", lora={"targets": ["extra_heads.*", "layers.1.attention.wq"]},
                                   train=["*norm.weight", "output.weight"], lr=2e-3, accumulation=2)),
    "lora-embedding": (ALL_OF_IT, Recipe(adapter="lora", lora={"dora": True},
                                         train=["tok_embeddings.weight", "*.bias"], lr=2e-3)),
    "lora-chain": (CHAINED, Recipe(adapter="lora", lora={}, train=["*.eh_proj.weight", "*.[eh]norm.weight"], lr=2e-3)),
}
CASES |= LORA
# Compared in the long form only: others combine the same keys, or are the same code with another number.
LONG = ["linear", "wsd", "sgd-plain", "train", "grouped", "multipliers-of-granite", "tied", "accumulation", "norm-l1",
        "rho1-difficult", "rho1-weights", "weights", "head-weights", "detached-chained", "chained", "shared-tied",
        "packed", "packed-rho1", "documents", "heads-chained", "enorm", "lora-tied", "lora-chained", "lora-rho1",
        "dora", "lora-embedding"]


def gradients_of_the_first_step(folder, recipe):
    """The optimizer's first moment after step 1 is (1 - beta1) times the gradient, to a rounding of beta1; in Muon so
    is the momentum, and in SGD it is the gradient."""
    moments = state_tensors(step_folders(folder)[0], "exp_avg")
    if recipe.optimizer == "sgd":
        return moments
    share = {name: 1 - (recipe.momentum if recipe.optimizer == "muon" and is_updated_by_muon(name, moment)
                        else recipe.betas[0]) for name, moment in moments.items()}
    return {name: moment / share[name] for name, moment in moments.items()}


@pytest.mark.soak
@pytest.mark.parametrize("case", cases([case for case in CASES if case not in LONG], LONG))
def test_losses_gradients_and_parameters_equal_pytorch(place, case):
    shape, recipe = CASES[case]
    wanted = train_reference(place.folder, shape, recipe)
    place.run(checkpoint__every_steps=1, checkpoint__keep=recipe.steps, **changes_for(shape, recipe))
    folder = place.log.folder()
    assert_losses_close(place.log.losses(), wanted.losses, 1e-6)
    assert_losses_close(place.log.metric("train/grad_norm"), wanted.norms, 1e-5)
    if recipe.momentum != 0:
        assert_tensors_close(gradients_of_the_first_step(folder, recipe), wanted.first_gradients, 1e-5)
    if recipe.ema:
        assert_tensors_close(model_tensors(folder, "model-ema"), wanted.averages, CLOSE)
    if case in LORA:
        trained = {name: value for name, value in wanted.parameters.items() if name in wanted.first_gradients}
        assert_tensors_close(adapter_tensors(folder), trained, CLOSE_ADAPTER)
    else:
        close = CLOSE_WITH_DEFAULT_EPS if recipe.eps == DEFAULT_EPS else CLOSE
        assert_tensors_close(model_tensors(folder), wanted.parameters, close)


# Sequences of n or n + 1 tokens for n heads, on one rank or as a rank's part: a head has a single source there.
THREE_HEADS = replace(POLICY, layers=4, future_tokens=3)
SHORTEST = {"one-head": (replace(POLICY, layers=3, future_tokens=1), 2, 1), "three-heads": (THREE_HEADS, 4, 1),
            "divided": (THREE_HEADS, 16, 4), "divided-in-two": (THREE_HEADS, 6, 2)}


@pytest.mark.parametrize("case", SHORTEST)
def test_the_shortest_sequences_equal_pytorch(place, case):
    shape, length, parts = SHORTEST[case]
    recipe = Recipe(steps=3, sequences=12, sequence_length=length)
    wanted = train_reference(place.folder, shape, recipe)
    changes = changes_for(shape, recipe, ranks=1) | {"parallel__processes": parts, "parallel__sequence": parts}
    place.run(**changes)
    assert_losses_close(place.log.losses(), wanted.losses, 1e-6)
    assert_losses_close(place.log.metric("train/grad_norm"), wanted.norms, 1e-5)
    assert_tensors_close(model_tensors(place.log.folder()), wanted.parameters, CLOSE)
