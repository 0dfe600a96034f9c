"""The auxiliary losses in plain PyTorch, over whole logits: each token's loss by source, [B, S - o], with the head's
offset o."""
from dataclasses import dataclass

import torch


@dataclass
class Head:
    """`logits` [B, S - o, V] of head k for `targets` [B, S - o]; those of head 1 and of the reference for the same
    targets; `batch` as of records.py."""
    k: int
    vocab_size: int
    logits: torch.Tensor
    targets: torch.Tensor
    head_1: torch.Tensor
    reference: torch.Tensor
    batch: object


def label_smoothing(head, share=0.1):
    smooth = torch.nn.functional.cross_entropy(head.logits.transpose(1, 2), head.targets, reduction="none",
                                               label_smoothing=share)
    return smooth - torch.nn.functional.cross_entropy(head.logits.transpose(1, 2), head.targets, reduction="none")


def z_loss(head, weight=1e-4):
    return weight * torch.logsumexp(head.logits, -1) ** 2


def unlikelihood(head, weight=1.0):
    p = torch.softmax(head.logits.double(), -1).gather(-1, head.targets.unsqueeze(-1)).squeeze(-1)
    is_wrong = (head.batch.correct == 0).unsqueeze(1)
    return (-weight * torch.log1p(-p) * is_wrong).float()


def kl(q, p):
    return torch.nn.functional.kl_div(torch.log_softmax(p, -1), torch.log_softmax(q, -1), reduction="none",
                                      log_target=True).sum(-1)


def reference_divergence(head, weight=0.05, direction="forward"):
    between = (head.reference, head.logits) if direction == "forward" else (head.logits, head.reference)
    return weight * kl(*between)


def head_distillation(head, weight=1.0, distance="kl", top=0):
    teacher = head.head_1.detach()
    if distance == "tv":
        return weight * 0.5 * (torch.softmax(teacher, -1) - torch.softmax(head.logits, -1)).abs().sum(-1)
    if not top:
        return weight * kl(teacher, head.logits)
    kept = teacher >= teacher.topk(top, -1).values[..., -1:]
    q = torch.softmax(teacher.masked_fill(~kept, -torch.inf), -1)
    return weight * (torch.special.xlogy(q, q) - q * torch.log_softmax(head.logits, -1)).sum(-1)


def token_order(head, weight=1.0, window=32):
    tokens, kind = head.batch.tokens, head.batch.kind
    rows, length = head.targets.shape
    scores = torch.full((rows, length, head.vocab_size), -torch.inf)
    for b in range(rows):
        for s in range(length):
            for away in range(min(window, tokens.shape[1] - 1 - s), 0, -1):  # the first occurrence is written last
                if kind[b, s + away] > 0:
                    scores[b, s, tokens[b, s + away]] = window + 1 - away
    scores[torch.isinf(scores).all(-1)] = 0.0  # not a target
    return -weight * (torch.softmax(scores, -1) * torch.log_softmax(head.logits, -1)).sum(-1)


LOSSES = {loss.__name__: loss for loss in (label_smoothing, z_loss, unlikelihood, reference_divergence,
                                           head_distillation, token_order)}


def of(given, plugin, **options):
    """None for a head without this loss."""
    if plugin == "head_distillation" and given.k == 1:
        return None
    if plugin == "token_order":
        number = options.pop("head", 2)
        return token_order(given, **options) if given.k == number else None
    return LOSSES[plugin](given, **options)
