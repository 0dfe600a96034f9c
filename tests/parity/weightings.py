"""Each weighting's formula for one head of a micro-batch of all ranks. All tensors are [B, S - o], by source: the
element at s belongs to the target at s + o, with the head's offset o. A function's keywords are the plugin's options
with its defaults."""
import math
from dataclasses import dataclass, replace

import torch
from philox import drawn_for_tokens
from records import PROMPT


@dataclass
class Head:
    k: int
    offset: int
    heads: int
    step: int             # from 1
    steps: int            # of the run
    seed: int
    batch: object         # records.Batch
    valid: torch.Tensor   # bool
    ce: torch.Tensor
    entropy: torch.Tensor
    ref: torch.Tensor     # None without a reference
    ref_entropy: torch.Tensor
    logits: torch.Tensor  # [B, S - o, V]
    head_1: torch.Tensor  # [B, S - o, V]: head 1's logits for the same targets
    memory: dict          # state of a weighting across micro-batches
    margins: list         # distance of the token nearest to each threshold: if too small, rounding decides
    named: dict           # name -> (losses, entropies) of [references.NAME]
    previous: torch.Tensor  # losses of the step that last read the tokens, ce if none has
    alignment: torch.Tensor = None  # cosine with head 1's gradient at the trunk's output, if the formula reads it

    def quantile(self, score, q):
        return torch.quantile(score[self.valid], q)

    def above(self, score, threshold):
        self.margins.append((score - threshold)[self.valid].abs().min().item())
        return score >= threshold

    def reaches(self, score, threshold):
        """With the tolerance of the sdk, so that tokens in equal contexts are treated alike."""
        return self.above(score, threshold - (1e-5 + 1.3e-6 * threshold.abs()))

    def top(self, score, share):
        return self.reaches(score, self.quantile(score, 1 - share))

    def uniform(self, stream):
        """[B, S - o]"""
        length = self.batch.tokens.shape[1]
        numbers = drawn_for_tokens(stream, self.seed, self.step, self.batch.positions, length, self.heads)
        return numbers[:, :length - self.offset, self.k - 1]

    def logit(self):
        return self.logits.gather(2, self.at_target(self.batch.tokens).unsqueeze(2)).squeeze(2)

    def other(self, place):
        """The logit at a place of the order of all but the target's, from 1."""
        targets = self.at_target(self.batch.tokens).unsqueeze(2)
        return self.logits.scatter(2, targets, -math.inf).topk(place).values[..., -1]

    def top_mass(self, count):
        return torch.softmax(self.logits, 2).topk(count).values.sum(2)

    def agreement(self):
        for logits in (self.logits, self.head_1):
            first, second = logits.topk(2).values.unbind(2)
            self.margins.append((first - second)[self.valid].min().item())
        return (self.logits.argmax(2) == self.head_1.argmax(2)).float()

    def of_rows(self, values):
        """[B] -> [B, S - o]"""
        return values.unsqueeze(1).expand_as(self.ce)

    def at_target(self, values):
        """[B, S] -> [B, S - o]: the values of the tokens that this head predicts."""
        return values[:, self.offset:]


def baseline(head):
    return torch.ones_like(head.ce)


def dft(head):
    return torch.exp(-head.ce)


def focal(head, gamma=2.0):
    return (1 - torch.exp(-head.ce)) ** gamma


def entropy(head, share=0.2):
    return head.top(head.entropy, share).float()


def mile(head, gamma=1.0, sigma=1.0):
    weights = (sigma + head.entropy) ** gamma
    return weights / weights[head.valid].mean()


def truncation(head, drop=0.1, momentum=0.1, warmup_steps=10):
    now, before = head.quantile(head.ce, 1 - drop), head.memory.get(head.k)
    head.memory[head.k] = now if before is None else before + momentum * (now - before)
    if head.step <= warmup_steps:
        return torch.ones_like(head.ce)
    return 1 - head.reaches(head.ce, before).float()


def frequency(head, power=0.4, smoothing=1.0):
    counts = head.memory.setdefault("counts", {})
    if head.k == 1:  # each token is a target of the first head at most once
        for token in head.at_target(head.batch.tokens)[head.valid].tolist():
            counts[token] = counts.get(token, 0) + 1
    most = max(counts.values())
    targets = head.at_target(head.batch.tokens)
    relative = [(counts.get(token, 0) + smoothing) / most for token in targets.flatten().tolist()]
    return torch.tensor([x ** -power for x in relative]).view(targets.shape)


def prompt_weight(head, weight=0.1):
    return torch.where(head.at_target(head.batch.kind) == PROMPT, weight, 1.0)


def mean_excess(views, keep=0.6):
    """[B, S] by target: the tokens with the largest mean excess loss of the heads that predict them."""
    total, count = (torch.zeros(views[0].batch.tokens.shape) for _ in range(2))
    for head in views:
        total[:, head.offset:] += (head.ce - head.ref) * head.valid
        count[:, head.offset:] += head.valid
    return replace(views[0], valid=count > 0).top(total / count.clamp(min=1), keep).float()


def rho1(head, keep=0.6, mode="signed", selection="hard", temperature=1.0):
    if mode == "self_both":
        return (head.top(-head.ref, keep) & head.top(-head.ref_entropy, keep)).float()
    excess = head.ce - head.ref
    score = {"signed": excess, "absolute": excess.abs(), "difficult": head.ref, "self_loss": -head.ref,
             "self_entropy": -head.ref_entropy}[mode]
    if selection == "hard":
        return head.top(score, keep).float()
    shares = torch.zeros_like(score)
    shares[head.valid] = torch.softmax(score[head.valid].double() / temperature, 0).float()
    return head.valid.sum() * shares


def gap(head, one, other):
    return head.named[one][0] - head.named[other][0]


FORMULAS = {
    "(1 - exp(-ce))^2": lambda head: (1 - torch.exp(-head.ce)) ** 2,
    "(excess > quantile(excess, 0.4)) * clamp(ref, 0.5, 6)": lambda head: head.above(
        head.ce - head.ref, head.quantile(head.ce - head.ref, 0.4)) * head.ref.clamp(0.5, 6),
    "max(0, amateur_loss - reference_loss)": lambda head: (head.named["amateur"][0] - head.ref).clamp(min=0),
    "(amateur_loss > ref) * ce * exp(-amateur_entropy)": lambda head: head.above(
        head.named["amateur"][0] - head.ref, torch.tensor(0.0)) * head.ce * torch.exp(-head.named["amateur"][1]),
    "general_loss - domain_loss >= quantile(general_loss - domain_loss, 0.4)": lambda head: head.above(
        gap(head, "general", "domain"), head.quantile(gap(head, "general", "domain"), 0.4)).float(),
    "min(1, entropy / 2.9957)": lambda head: (head.entropy / 2.9957).clamp(max=1),
    "exp(-ce) > 0.015": lambda head: head.above(torch.exp(-head.ce), torch.tensor(0.015)),
    "ref * exp(-reference_entropy)": lambda head: head.ref * torch.exp(-head.ref_entropy),
    "(entropy > reference_entropy) * ce": lambda head: head.above(head.entropy - head.ref_entropy,
                                                                  torch.tensor(0.0)) * head.ce,
    "(ce > quantile(ce, 0.4)) * exp(-ce)": lambda head: head.above(
        head.ce, head.quantile(head.ce, 0.4)) * torch.exp(-head.ce),
    "(head < 3) + (head > 3)": lambda head: torch.full_like(head.ce, float(head.k != 3)),
    "data_weight": lambda head: head.at_target(head.batch.weight),
    "data_weight * exp(-ce)": lambda head: head.at_target(head.batch.weight) * torch.exp(-head.ce),
    "data_weight * ce * position": lambda head: (head.at_target(head.batch.weight) * head.ce
                                                 * torch.arange(head.ce.shape[1])),
    "(rank < 9) / (1 + exp(-margin))": lambda head: (head.above(head.logit() - head.other(9), torch.tensor(0.0))
                                                     * torch.sigmoid(head.logit() - head.other(1))),
    "1 + agreement": lambda head: 1 + head.agreement(),
    "1 + min(0, alignment)": lambda head: 1 + head.alignment.clamp(max=0),
    "max(0, alignment) * (1 - exp(-ce))": lambda head: head.alignment.clamp(min=0) * (1 - torch.exp(-head.ce)),
    "(1 + alignment) * position": lambda head: (1 + head.alignment) * torch.arange(head.ce.shape[1]),
    "signed(alignment)": lambda head: head.alignment,
    "(1 + agreement * 3) * (1 - exp(-ce))": lambda head: (1 + head.agreement() * 3) * (1 - torch.exp(-head.ce)),
    "agreement * position": lambda head: head.agreement() * torch.arange(head.ce.shape[1]),
    "1 - top_mass(5)": lambda head: 1 - head.top_mass(5),
    "(1 - top_mass(5) > 0.4) * ce": lambda head: head.above(1 - head.top_mass(5), torch.tensor(0.4)) * head.ce,
    "data_weight * (1 + (rank < 9)) / (1 + exp(-margin)) * (2 - top_mass(4)) * (1 + agreement)": lambda head: (
        head.at_target(head.batch.weight) * torch.sigmoid(head.logit() - head.other(1))
        * (1 + head.above(head.logit() - head.other(9), torch.tensor(0.0)).float())
        * (2 - head.top_mass(4)) * (1 + head.agreement())),
    "correct * (1 - pass_rate) + bytes / 2": lambda head: (
        head.of_rows(head.batch.correct * (1 - head.batch.pass_rate))
        + (head.at_target(head.batch.tokens) < 256).float() / 2),
    "signed((correct - pass_rate) / ((pass_rate * (1 - pass_rate))^0.5 + 1e-4))": lambda head: (
        advantage(head) / deviation(head)),
    "signed((correct - pass_rate) * exp(ref - ce) * (1 - (correct > pass_rate) * (ref - ce > log(1.2))"
    " - (correct < pass_rate) * (ref - ce < log(0.8))))": lambda head: clipped(head),
    "signed((correct - pass_rate) * exp(-ce) * position)": lambda head: (
        advantage(head) * torch.exp(-head.ce) * torch.arange(head.ce.shape[1])),
    "exp(-ref)": lambda head: torch.exp(-head.ref),
    "exp(-ce) * progress + (1 - progress)": lambda head: torch.exp(-head.ce) * progress(head) + 1 - progress(head),
    "1 + clamp(previous_ce - ce, 0, 2)": lambda head: 1 + (head.previous - head.ce).clamp(0, 2),
    "(2 + clamp(ce - previous_ce, -1, 1)) * (1 + position) / 64": lambda head: (
        (2 + (head.ce - head.previous).clamp(-1, 1)) * (1 + torch.arange(head.ce.shape[1])) / 64),
    "0.5 + uniform * entropy / head": lambda head: 0.5 + head.uniform(0) * head.entropy / head.k,
}


def advantage(head):
    return head.of_rows(head.batch.correct - head.batch.pass_rate)


def deviation(head):
    return head.of_rows((head.batch.pass_rate * (1 - head.batch.pass_rate)) ** 0.5 + 1e-4)


def clipped(head):
    """PPO's surrogate without its ratio's gradient outside of 0.8 to 1.2."""
    ratio, gain = torch.exp(head.ref - head.ce), advantage(head)
    above, below = head.above(ratio, torch.tensor(1.2)), ~head.above(ratio, torch.tensor(0.8))
    return gain * ratio * ~((above & (gain > 0)) | (below & (gain < 0)))


def progress(head):
    return (head.step - 1) / (head.steps - 1)


def formula(head, weight):
    return FORMULAS[weight](head).float()


def random(head, kind="keep", keep=0.6, mean=1.328, deviation=0.981, min=0.1, max=3.0):
    if kind == "keep":
        return (head.uniform(0) < keep).float()
    length = head.batch.tokens.shape[1]
    u = drawn_for_tokens(0, head.seed, head.step, head.batch.positions, length, head.heads)[:, :, 0]
    variance = math.log(1 + (deviation / mean) ** 2)
    z = torch.special.ndtri(head.at_target(u).double())
    return (z * math.sqrt(variance) + math.log(mean) - variance / 2).exp().clamp(min, max).float()


def shuffled(head, inner):
    """The i-th valid position gets the weight of the one with the i-th smallest random number."""
    weights, numbers = of(head, **inner), head.uniform(0x73687566)
    for row, valid in enumerate(head.valid):
        places = valid.nonzero().flatten()
        weights[row, places] = weights[row, places][numbers[row, places].argsort()]
    return weights


def first_head(head, inner):
    """Head 1's weights, for the same targets."""
    if head.k == 1:
        head.memory["first_head"] = head.offset, of(head, **inner)
    offset, weights = head.memory["first_head"]
    return weights[:, head.offset - offset:]


def at_step(option, step):
    """An option that may change over the run."""
    if not isinstance(option, dict) or "from" not in option:
        return option
    share = min((step - 1) / option["steps"], 1)
    return option["from"] + share * (option["to"] - option["from"])


def options_at(step, options):
    return {name: at_step(option, step) for name, option in options.items()}


def of(head, plugin, **options):
    return globals()[plugin](head, **options_at(head.step, options))


def of_all(views, plugin, **options):
    """[B, S] by target: the weights that a plugin gives to all heads at once; None if it weighs each by itself."""
    if plugin != "mean_excess":
        return None
    return mean_excess(views, **options_at(views[0].step, options))
