"""Reference training in plain PyTorch, in one process and fp32, which the host must equal. It processes the sequences
of all ranks of a micro-batch together, so nothing here depends on ranks.

loss     "tokens": per head, sum of w * ce over the step / valid tokens of the step; then the mean over heads
         with targets
         "weights": per head, sum of w * ce over the step / sum of w over the step; then the same mean
         with head weights, each head's part of the mean is multiplied by its weight
         an auxiliary loss is divided as with "tokens": auxiliary_losses.py
         losses of a critic or of a joint value head: values.py; weights: weightings.py and values.py
heads    head k predicts the token as many positions ahead as the shape's offset(k) says
frozen   the reference's loss on a target of head k is that of its own head k, if it has as many heads as the policy;
         else, or with heads "next", that of its next-token prediction, from offset(k) - 1 more tokens of context
update   clip by global norm, AdamW without decay on norms, biases and magnitudes; lora_B and value heads have their own
         learning rates
"""
import functools
import math
import os
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

import auxiliary_losses
import philox
import torch
import values
import weightings
from mtp_model import MultiTokenLlama, token_losses
from records import ANSWER
from value_head import values_of

MARGIN = 1e-5  # rounding may move a token closer to its threshold than this to the other side


def steps_here():
    """Ten in the long form. (A run takes the same kernels and the same path in each step.)"""
    return 10 if os.environ.get("WMTP_SOAK") else 6


@dataclass
class Recipe:
    steps: int = field(default_factory=steps_here)
    sequences: int = 4  # per micro-batch, over all ranks
    accumulation: int = 1
    sequence_length: int = 64
    seed: int = 7
    data: str = "windows"  # or "records", "pairs"
    rows: int = None  # of the data, which the run reads in turn; None: as many as it reads
    pipeline: str = "baseline"
    options: dict = field(default_factory=dict)  # options of the pipeline that differ from the plugin's defaults
    frozen: dict = field(default_factory=dict)  # what differs from start.FROZEN
    heads: str = None  # of the reference, that are read; None: "auto"
    references: dict = field(default_factory=dict)  # of [references.NAME] by NAME, as `frozen`; their heads are "auto"
    auxiliary: dict = None  # plugin and options of the auxiliary loss
    adapter: str = "full"
    lora: dict = None  # options of the adapter that differ from lora.OPTIONS
    sharp: float = 1.0  # factor on the output layer, so that entropies differ by more than rounding
    value_start: float = 0.0  # deviation of a value head's given weights; 0: the host's initial values
    value_head_lr: float = None
    normalize: str = "tokens"
    head_weights: list = None  # or points: {"step": 1, "weights": [...]}
    detach_heads: bool = False
    lr: float = 1e-3
    optimizer: str = "adamw"
    momentum: float = None  # of muon and sgd
    ema: float = 0.0
    groups: list = field(default_factory=list)  # tables of [[optimizer.groups]]
    train: list = None  # shell patterns of the parameters that train
    betas: tuple = (0.9, 0.95)
    eps: float = 1e-5  # see parity_test.py
    weight_decay: float = 0.1
    clip_norm: float = 1.0
    norm: str = "l2"
    schedule: str = "constant"
    warmup_steps: int = 0
    stable_steps: int = 0
    decay: str = "linear"  # of wsd
    min_lr_ratio: float = 0.1


@dataclass
class Result:
    losses: dict = field(default_factory=dict)           # {step: objective before the update}
    sizes: dict = field(default_factory=dict)            # {step: the same of the sizes of the weights}
    first_gradients: dict = field(default_factory=dict)  # of step 1, after clipping
    norms: dict = field(default_factory=dict)  # {step: norm before clipping}, if clipping is on
    parameters: dict = field(default_factory=dict)       # after the last step
    averages: dict = field(default_factory=dict)         # of the parameters
    margins: list = field(default_factory=list)          # of each threshold: the distance of the nearest token

    @property
    def margin(self):
        return min(self.margins, default=math.inf)


def learning_rate(recipe, step):
    """The learning rate of optimizer step 1..N."""
    if step <= recipe.warmup_steps:
        return recipe.lr * step / recipe.warmup_steps
    if recipe.schedule == "constant":
        return recipe.lr
    begin = recipe.warmup_steps + recipe.stable_steps
    progress = max(0, step - begin) / (recipe.steps - begin)
    is_linear = recipe.schedule == "linear" or (recipe.schedule == "wsd" and recipe.decay == "linear")
    share = 1 - progress if is_linear else 0.5 * (1 + math.cos(math.pi * progress))
    return recipe.lr * (recipe.min_lr_ratio + (1 - recipe.min_lr_ratio) * share)


def head_weight(recipe, k, step):
    points = recipe.head_weights or [1.0] * k
    if not isinstance(points[0], dict):
        return points[k - 1]
    steps = [-1, *(point["step"] for point in points), math.inf]
    values = [point["weights"][k - 1] for point in (points[0], *points, points[-1])]
    i = max(i for i, begin in enumerate(steps) if begin <= step)
    share = (step - steps[i]) / (steps[i + 1] - steps[i])
    return values[i] + share * (values[i + 1] - values[i])


def orthogonalized_in_fp32(grad, ns_coefficients, ns_steps, eps):
    """torch.optim.Muon computes this in bf16."""
    a, b, c = ns_coefficients
    x = grad.T if grad.size(0) > grad.size(1) else grad
    x = x / x.norm().clamp(min=eps)
    for _ in range(ns_steps):
        gram = x @ x.T
        x = a * x + (b * gram + c * gram @ gram) @ x
    return x.T if grad.size(0) > grad.size(1) else x


def is_updated_by_muon(name, parameter):
    return name.startswith(("layers.", "extra_heads.")) and parameter.ndim == 2


def optimizers_of(recipe, groups):
    """PyTorch's optimizers; `groups`: a parameter's group by its name."""
    rest = dict(groups)
    adamw = {"lr": recipe.lr, "betas": recipe.betas, "eps": recipe.eps}
    if recipe.optimizer == "sgd":
        for group in rest.values():
            group["decoupled_weight_decay"] = group.pop("weight_decay")
        return [torch.optim.SGD(rest.values(), lr=recipe.lr, momentum=recipe.momentum)]
    if recipe.optimizer != "muon":
        return [torch.optim.AdamW(rest.values(), **adamw)]
    torch.optim._muon._zeropower_via_newtonschulz = orthogonalized_in_fp32
    matrices = [rest.pop(name) for name in groups if is_updated_by_muon(name, groups[name]["params"][0])]
    return [torch.optim.Muon(matrices, lr=recipe.lr, momentum=recipe.momentum, adjust_lr_fn="match_rms_adamw"),
            torch.optim.AdamW(rest.values(), **adamw)]


class Reference:
    """`frozen`: the model of [reference]; `judge`: the value model of [value]; `named`: those of [references]."""

    def __init__(self, recipe, model, frozen=None, judge=None, named=None):
        self.recipe, self.model, self.frozen, self.judge, self.named = recipe, model, frozen, judge, named or {}
        model.detach_heads = recipe.detach_heads
        self.reads_alignment = "alignment" in str(recipe.options)
        self.trained = {name: p for name, p in model.named_parameters() if p.requires_grad}
        self.optimizers = optimizers_of(recipe, {name: self._group(name) for name in self.trained})
        self.verifiable = values.Verifiable(**recipe.options) if recipe.pipeline == "verifiable" else None
        self.memory, self.result = {}, Result()
        self.previous, self.read = {}, {}  # losses of a row by a head, before this step and in it

    def _group(self, name):
        decays = self.trained[name].ndim > 1 and not name.endswith(("magnitude", "bias"))
        faster = (self.recipe.lora or {}).get("plus_ratio", 1) if name.endswith("lora_B") else 1
        if name.startswith("value_heads."):
            faster = (self.recipe.value_head_lr or self.recipe.lr) / self.recipe.lr
        decay = self.recipe.weight_decay if decays else 0.0
        for group in self.recipe.groups:
            if fnmatchcase(name, group["match"]):
                faster, decay = faster * group.get("lr_scale", 1), group.get("weight_decay", decay)
                break
        return {"params": [self.trained[name]], "weight_decay": decay, "faster": faster}

    def train(self, batches):
        """Trains on the run's micro-batches in order; None if rounding would decide about a token."""
        recipe = self.recipe
        for step in range(1, recipe.steps + 1):
            first = (step - 1) * recipe.accumulation
            self._step(step, batches[first:first + recipe.accumulation])
            if self.result.margin <= MARGIN:
                return None
        self.result.parameters = {name: p.detach().clone() for name, p in self.model.named_parameters()}
        if self.result.averages:
            self.result.averages = {**self.result.parameters, **self.result.averages}
        return self.result

    def _step(self, step, batches):
        loss = self._loss(step, batches)
        loss.backward()
        self.result.losses[step] = loss.item()
        self.result.sizes[step] = self.size
        if self.recipe.clip_norm:
            norm = torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.recipe.clip_norm,
                                                  {"l1": 1.0, "l2": 2.0, "inf": torch.inf}[self.recipe.norm])
            self.result.norms[step] = norm.item()
        if step == 1:
            self.result.first_gradients = {name: p.grad.clone() for name, p in self.trained.items()}
        self._update(step)
        self.previous |= self.read

    def _update(self, step):
        ema, averages = self.recipe.ema, self.result.averages
        if ema and not averages:
            averages.update({name: p.detach().clone() for name, p in self.trained.items()})
        for optimizer in self.optimizers:
            for group in optimizer.param_groups:
                group["lr"] = learning_rate(self.recipe, step) * group["faster"]
                if isinstance(optimizer, torch.optim.SGD):  # its own weight decay is not decoupled
                    for parameter in group["params"]:
                        parameter.data.mul_(1 - group["lr"] * group["decoupled_weight_decay"])
            optimizer.step()
            optimizer.zero_grad()
        if ema:
            for name, p in self.trained.items():
                averages[name] = ema * averages[name] + (1 - ema) * p.detach()

    def _targets(self, batch, k):
        """The targets by source, bool [B, S - offset(k)]."""
        targets = batch.kind > 0 if self.recipe.pipeline == "prompt_weight" else batch.kind == ANSWER
        return targets[:, self.model.shape.offset(k):]

    def _counts(self, batches):
        """The divisors of the step's losses."""
        counts = {k: sum(self._targets(batch, k).sum() for batch in batches)
                  for k in range(1, self.model.shape.future_tokens + 1)}
        counts["answers"] = sum((batch.kind == ANSWER).sum() for batch in batches)
        counts["pairs"] = sum(len(batch.tokens) // 2 for batch in batches)
        return counts

    def _loss(self, step, batches):
        """The step's loss over all of its micro-batches, as one sum: its divisors know nothing of their cut."""
        self.head_losses, self.size = {}, 0.0  # the parts of the sum by head, and their terms' sizes
        recipe, counts, total, sums = self.recipe, self._counts(batches), 0.0, {}
        for batch in batches:
            if recipe.pipeline == "critic":
                options = dict(recipe.options)
                dropout = options.pop("dropout", 0)
                judged = values_of(self.model, batch.tokens, dropout and functools.partial(
                    self._dropout, dropout, step, batch))
                total = total + values.critic_loss(batch, judged, counts, **options)
                continue
            known = None
            if self.verifiable:
                judged = values_of(self.model if self.verifiable.joint else self.judge, batch.tokens)
                known = self.verifiable.weights(batch, judged.detach())
                if self.verifiable.joint:
                    total = total + self.verifiable.loss(batch, judged, counts)
            for k, *parts in self._token_sums(step, batch, known):
                sums[k] = [before + part for before, part in zip(sums.get(k, [0.0] * 4), parts)]
        heads = [k for k in sums if counts[k] > 0]
        for k in heads:
            weighted, sizes, weights, auxiliary = sums[k]
            divisor = weights if recipe.normalize == "weights" else counts[k]
            loss = weighted / divisor + auxiliary / counts[k]
            self.head_losses[k] = loss * head_weight(recipe, k, step) / len(heads)
            self.size += (sizes / divisor).item() * head_weight(recipe, k, step) / len(heads)
            total = total + self.head_losses[k]
        return total

    def _dropout(self, p, step, batch, name, shape):
        return philox.dropout_factors(name, p, self.recipe.seed, step, batch.positions, shape)

    def _token_sums(self, step, batch, known):
        """(k, sum of the weighted losses, of their sizes, of the weights, of the auxiliary loss) of each head."""
        logits, alignments = self._aligned(batch) if self.reads_alignment else (self.model(batch.tokens), {})
        with torch.no_grad():
            frozen = self.frozen(batch.tokens) if self.frozen else None
            named = {name: other(batch.tokens) for name, other in self.named.items()}
        views, found = [], []
        for k, head in enumerate(logits, 1):
            valid, losses = self._targets(batch, k), token_losses(head, batch.tokens, self.model.shape.offset(k))
            found.append((k, valid, losses))
            if known is None:
                with torch.no_grad():
                    views.append(self._view(step, batch, k, valid, losses, logits, frozen, named))
                views[-1].alignment = alignments.get(k)
        if known is None:
            known = weightings.of_all(views, self.recipe.pipeline, **self.recipe.options)
        for k, valid, losses in found:
            offset = self.model.shape.offset(k)
            with torch.no_grad():
                weights = known[:, offset:] if known is not None else weightings.of(
                    views[k - 1], self.recipe.pipeline, **self.recipe.options)
            weights = weights * valid
            weighted = (weights * losses).double()
            yield (k, weighted.sum(), weighted.detach().abs().sum(), weights.double().sum(),
                   self._auxiliary_sum(step, batch, k, valid, logits, frozen))

    def _aligned(self, batch):
        """The logits, and by head [B, S - offset(k)] the cosine of the unweighted loss's gradient at the trunk's output
        with that of head 1, 0 where one of them is 0."""
        trunk, seen = self.model.trunk, []

        def kept(tokens):
            seen.append(trunk(tokens))
            return seen[-1]
        self.model.trunk = kept
        logits = self.model(batch.tokens)
        self.model.trunk = trunk
        gradients = []
        for k, head in enumerate(logits, 1):
            losses = token_losses(head, batch.tokens, self.model.shape.offset(k))
            loss = (losses * self._targets(batch, k)).sum()
            gradients.append(torch.autograd.grad(loss, seen[0][0], retain_graph=True)[0].double())
        first, cosines = gradients[0], {1: torch.ones_like(gradients[0][..., 0])}
        for k, other in enumerate(gradients[1:], 2):
            norms = first.norm(dim=-1) * other.norm(dim=-1)
            cosines[k] = torch.where(norms == 0, 0, (first * other).sum(-1) / norms)
        length = batch.tokens.shape[1]
        return logits, {k: of_head[:, :length - self.model.shape.offset(k)].float() for k, of_head in cosines.items()}

    def _auxiliary_sum(self, step, batch, k, valid, logits, frozen):
        if not self.recipe.auxiliary:
            return 0.0
        options = {name: weightings.at_step(value, step) for name, value in self.recipe.auxiliary.items()}
        length, offset = valid.shape[1], self.model.shape.offset(k)
        loss = auxiliary_losses.of(
            auxiliary_losses.Head(k, self.model.shape.vocab_size, logits[k - 1][:, :length], batch.tokens[:, offset:],
                                  logits[0][:, offset - 1:offset - 1 + length],
                                  self._frozen_logits(frozen, k, length, self.recipe.heads), batch),
            **options)
        return 0.0 if loss is None else (loss * valid).double().sum()

    def _frozen_logits(self, frozen, k, length, heads=None):
        """Those of a reference for the targets of head k."""
        if frozen is None:
            return None
        if heads != "next" and len(frozen) >= self.model.shape.future_tokens:
            return frozen[k - 1][:, :length]
        first = self.model.shape.offset(k) - 1
        return frozen[0][:, first:first + length]

    def _previous(self, batch, k, losses):
        """Those of the step that last read a row's tokens, of which other batches have more padding or less."""
        found = losses.clone()
        for row, tokens, kind in zip(range(len(losses)), batch.tokens, batch.kind):
            key = k, tuple(tokens[kind > 0].tolist())
            self.read[key] = losses[row]
            if key in self.previous:
                length = min(losses.shape[1], len(self.previous[key]))
                found[row, :length] = self.previous[key][:length]
        return found

    def _view(self, step, batch, k, valid, losses, logits, frozen, named):
        shape, length = self.model.shape, losses.shape[1]
        offset = shape.offset(k)
        own, head_1 = logits[k - 1][:, :length].detach(), logits[0][:, offset - 1:offset - 1 + length].detach()

        def scores(other, heads):
            of_head = self._frozen_logits(other, k, length, heads)
            return token_losses(of_head, batch.tokens[:, offset - 1:], 1), entropy_of(of_head)

        ref, ref_entropy = (None, None) if frozen is None else scores(frozen, self.recipe.heads)
        return weightings.Head(k, offset, shape.future_tokens, step, self.recipe.steps, self.recipe.seed, batch, valid,
                               losses.detach(), entropy_of(own), ref, ref_entropy, own, head_1, self.memory,
                               self.result.margins, {name: scores(other, None) for name, other in named.items()},
                               self._previous(batch, k, losses.detach()))


def entropy_of(logits):
    return torch.distributions.Categorical(logits=logits.detach().float()).entropy()


def filled(shape, seed, sharp=1.0):
    model = MultiTokenLlama(shape).fill(seed)
    model.output.weight.data *= sharp
    return model
