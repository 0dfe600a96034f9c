"""Returns, advantages and losses of values, token by token as in their definitions. V_t is the value after token t."""
import torch
import torch.nn.functional as F
from records import ANSWER, PROMPT


def answers(batch):
    """The positions of each row's answer."""
    return [(kind == ANSWER).nonzero().flatten().tolist() for kind in batch.kind]


def returns(values, right, gamma, lam):
    """G_T = reward, G_t = gamma ((1 - lambda) V_{t+1} + lambda G_{t+1})."""
    found = [float(right)]
    for later in reversed(values[1:]):
        found.append(gamma * ((1 - lam) * later + lam * found[-1]))
    return found[::-1]


def regression(batch, values, monte_carlo=False, gamma=1.0, lam=0.95, error="mse", huber_delta=0.5):
    """The sum over the answers whose correctness is known."""
    total = 0.0
    for row, places in enumerate(answers(batch)):
        if batch.correct[row] < 0:
            continue
        found = values[row, places]
        wanted = torch.tensor(returns(found.tolist(), batch.correct[row] == 1, gamma, 1 if monte_carlo else lam))
        distance = (found - wanted).abs()
        if error == "mse":
            total = total + distance.square().sum()
        else:
            linear = huber_delta * (distance - huber_delta / 2)
            total = total + torch.where(distance <= huber_delta, distance.square() / 2, linear).sum()
    return total


def ranking(batch, values, margin=0.0, center=0.0):
    """The Bradley-Terry loss over pairs of adjacent rows, one of which is right."""
    mean = [values[row, places].mean() for row, places in enumerate(answers(batch))]
    total = 0.0
    for row in range(0, len(mean), 2):
        right, wrong = (row, row + 1) if batch.correct[row] == 1 else (row + 1, row)
        total = total - F.logsigmoid(mean[right] - mean[wrong] - margin) + center * (mean[right] + mean[wrong]) ** 2
    return total


def critic_loss(batch, values, counts, loss="pairwise", margin=0.0, center=0.0, head=None, **rest):
    if loss == "pairwise":
        return ranking(batch, values, margin, center) / counts["pairs"]
    return regression(batch, values, loss == "monte_carlo", **_lambda(rest)) / counts["answers"]


def _lambda(options):
    return {"lam" if name == "lambda" else name: value for name, value in options.items()}


def advantages(values, right, mode, gamma, lam, first=0.5):
    """The advantages of one answer; `first` is V before it."""
    before = [first, *values[:-1]]
    if mode == "td":
        after = [gamma * v for v in values[:-1]] + [float(right)]
        return [a - b for a, b in zip(after, before)]
    found, later = [], 0.0
    for value, previous in zip(reversed(values), reversed(before)):
        later = gamma * value - previous + gamma * lam * later
        found.append(later)
    return found[::-1]


class Verifiable:
    """Weights of the tokens AT each position; with `whiten`, statistics are kept across micro-batches."""

    def __init__(self, mode="gae", beta=1.0, min=0.1, max=3.0, whiten=True, mean_one="none", squash="none", gamma=1.0,
                 joint=False, critic="value", head=None, value_loss="lambda_return", value_coefficient=1.0, **rest):
        self.mode, self.beta, self.least, self.most, self.gamma = mode, beta, min, max, gamma
        self.whiten, self.mean_one, self.squash, self.joint = whiten, mean_one, squash, joint
        self.of_scores = critic == "score"
        self.lam = rest.get("lambda", 0.95)
        self.monte_carlo, self.coefficient = value_loss == "monte_carlo", value_coefficient
        self.regression = {"gamma": gamma, **_lambda(rest)}
        self.updates, self.mean, self.deviation = 0, 0.0, 0.0

    def squashed(self, values):
        return values.sigmoid() if self.squash == "sigmoid" else values

    def before(self, values, places):
        """V before an answer; with scores, that at the prompt's last token."""
        return values[places[0] - 1].item() if self.of_scores and places else 0.5

    def loss(self, batch, values, counts):
        """The loss of the policy's value head."""
        total = regression(batch, self.squashed(values), self.monte_carlo, **self.regression)
        return self.coefficient * total / counts["answers"]

    def weights(self, batch, values):
        values, rows = self.squashed(values), answers(batch)
        found = {row: torch.tensor(advantages(values[row, places].tolist(), batch.correct[row] == 1, self.mode,
                                              self.gamma, self.lam, self.before(values[row], places)),
                                   dtype=torch.float64)
                 for row, places in enumerate(rows) if self.mode == "gae" or batch.correct[row] >= 0}
        scaled = self._whitened(found) if self.whiten else found
        weights = (batch.kind == PROMPT).double()
        for row, places in enumerate(rows):
            known = row in scaled
            weights[row, places] = (scaled[row] / self.beta).exp().clamp(self.least, self.most) if known else 1.0
            if self.mean_one == "sequence":
                weights[row, places] /= weights[row, places].mean()
        if self.mean_one == "batch":
            at_answers = batch.kind == ANSWER
            weights[at_answers] /= weights[at_answers].mean()
        return weights.float()

    def _whitened(self, found):
        now = torch.cat(list(found.values()))
        self.updates += 1
        share = max(1 / self.updates, 0.1)
        self.mean += share * (now.mean().item() - self.mean)
        self.deviation += share * (now.std(correction=0).item() - self.deviation)
        return {row: (one - self.mean) / self.deviation for row, one in found.items()}
