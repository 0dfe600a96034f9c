"""Reference training in plain PyTorch, one process, fp32: what the host must equal. It sees every rank's sequences of a
micro-batch at once, so nothing here knows of ranks.

loss     "tokens": per head, sum of w * ce over the step / valid tokens of the step; then the mean over heads
         "weights": per head and micro-batch, sum of w * ce / sum of w; then the mean over micro-batches and heads
rho-1    excess = policy ce - reference ce of the same target; the reference sees the k - 1 tokens more;
         kept where excess >= quantile(excess, 1 - keep), per head and micro-batch
dft      w = exp(-ce), not differentiated
update   clip by global norm, AdamW without decay on norms and magnitudes; lora_B at plus_ratio times the learning rate
"""
import math
from dataclasses import dataclass, field

import torch
from mtp_model import MultiTokenLlama, token_losses


@dataclass
class Recipe:
    steps: int = 10
    sequences: int = 4  # of a micro-batch, all ranks together
    accumulation: int = 1
    sequence_length: int = 64
    pipeline: str = "baseline"
    lora: dict = None  # options of the adapter that differ from lora.OPTIONS; None: all of the model trains
    keep: float = 0.6
    mode: str = "signed"
    normalize: str = "tokens"
    lr: float = 1e-3
    betas: tuple = (0.9, 0.95)
    eps: float = 1e-5  # parity_test.py says why
    weight_decay: float = 0.1
    clip_norm: float = 1.0
    schedule: str = "constant"
    warmup_steps: int = 0
    min_lr_ratio: float = 0.1


@dataclass
class Result:
    losses: dict = field(default_factory=dict)           # {step: objective before its update}
    first_gradients: dict = field(default_factory=dict)  # before clipping
    parameters: dict = field(default_factory=dict)       # after the last step
    margin: float = math.inf                             # the smallest distance of any token to its threshold


def learning_rate(recipe, step):
    """Of optimizer step 1..N."""
    if step <= recipe.warmup_steps:
        return recipe.lr * step / recipe.warmup_steps
    if recipe.schedule == "constant":
        return recipe.lr
    progress = (step - recipe.warmup_steps) / (recipe.steps - recipe.warmup_steps)
    cosine = 0.5 * (1 + math.cos(math.pi * progress))
    return recipe.lr * (recipe.min_lr_ratio + (1 - recipe.min_lr_ratio) * cosine)


def rho1_score(recipe, policy, reference):
    difference = policy - reference
    return {"signed": difference, "absolute": difference.abs(), "difficult": reference}[recipe.mode]


class Reference:
    def __init__(self, recipe, model, frozen=None):
        self.recipe, self.model, self.frozen = recipe, model, frozen
        self.trained = {name: p for name, p in model.named_parameters() if p.requires_grad}
        self.optimizer = torch.optim.AdamW([self._group(name) for name in self.trained], lr=recipe.lr,
                                           betas=recipe.betas, eps=recipe.eps)
        self.result = Result()

    def _group(self, name):
        decays = self.trained[name].ndim > 1 and not name.endswith("magnitude")
        faster = (self.recipe.lora or {}).get("plus_ratio", 1) if name.endswith("lora_B") else 1
        return {"params": [self.trained[name]], "weight_decay": self.recipe.weight_decay if decays else 0.0,
                "faster": faster}

    def train(self, ids):
        """ids: the token file's. Windows are taken in order, each once."""
        recipe = self.recipe
        windows = torch.tensor(ids).view(-1, recipe.sequence_length)
        batches = windows.split(recipe.sequences)
        for step in range(1, recipe.steps + 1):
            first = (step - 1) * recipe.accumulation
            self._step(step, batches[first:first + recipe.accumulation])
        self.result.parameters = {name: p.detach().clone() for name, p in self.model.named_parameters()}
        return self.result

    def _step(self, step, batches):
        total = 0.0
        for tokens in batches:
            loss = self._loss(tokens)
            loss.backward()
            total += loss.item()
        self.result.losses[step] = total
        if step == 1:
            self.result.first_gradients = {name: p.grad.clone() for name, p in self.trained.items()}
        if self.recipe.clip_norm:
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.recipe.clip_norm)
        for group in self.optimizer.param_groups:
            group["lr"] = learning_rate(self.recipe, step) * group["faster"]
        self.optimizer.step()
        self.optimizer.zero_grad()

    def _loss(self, tokens):
        """This micro-batch's part of the step's loss. Every position has a target here, so valid tokens are counted by
        shape, and each micro-batch holds the same share of the step's."""
        logits = self.model(tokens)
        with torch.no_grad():
            frozen = self.frozen(tokens)[0] if self.frozen else None
        total = 0.0
        for k, head in enumerate(logits, 1):
            losses = token_losses(head, tokens, k)
            weights = self._weights(losses.detach(), frozen, tokens, k)
            count = weights.sum() if self.recipe.normalize == "weights" else losses.numel()
            total = total + (weights * losses).double().sum() / count
        return total / (len(logits) * self.recipe.accumulation)

    def _weights(self, losses, frozen, tokens, k):
        if self.recipe.pipeline == "baseline":
            return torch.ones_like(losses)
        if self.recipe.pipeline == "dft":
            return torch.exp(-losses)
        reference = token_losses(frozen[:, k - 1:], tokens[:, k - 1:], 1)
        score = rho1_score(self.recipe, losses, reference)
        threshold = torch.quantile(score, 1 - self.recipe.keep)
        self.result.margin = min(self.result.margin, (score - threshold).abs().min().item())
        return (score >= threshold).float()


def filled(shape, seed):
    return MultiTokenLlama(shape).fill(seed)
