"""Records as an experiment's file and as batches of ids: byte tokens, template "plain", in the order of the file. It
contains a right answer followed by a wrong one to each problem."""
import json
from dataclasses import dataclass

import numpy as np
import torch

VOCAB, END = 258, 257
SEPARATOR = "\n---\n"
PROMPT, ANSWER = 1, 2


@dataclass
class Batch:
    """A micro-batch of all ranks."""
    tokens: torch.Tensor   # [B, S]
    kind: torch.Tensor     # [B, S]: 0 padding, 1 prompt, 2 answer
    correct: torch.Tensor  # [B]: 1 right, 0 wrong, -1 unknown
    first: int             # the first sequence's position in the run
    weight: torch.Tensor = None     # [B, S]: of the token at each position
    pass_rate: torch.Tensor = None  # [B]: of the row's problem

    @property
    def positions(self):
        return range(self.first, self.first + len(self.tokens))


def window_batches(ids, length, sequences):
    """From a token file: every token is a target."""
    windows = torch.tensor(ids).view(-1, length).split(sequences)
    return [Batch(tokens, torch.full_like(tokens, ANSWER), torch.full((len(tokens),), -1), i * sequences)
            for i, tokens in enumerate(windows)]


def write_records(folder, count, unknown=False, seed=17, weighted=False):
    """Writes records.jsonl. `unknown`: some answers lack is_correct. `weighted`: answers have weights, and problems
    have different numbers of right answers."""
    random = np.random.default_rng(seed)
    lines = []
    answers = 3 if weighted else 2
    for i in range(count):
        if i % answers == 0:
            asked = {"instruction": f"count {random.integers(1000)}", "input": "up" if random.integers(2) else ""}
        letters = np.cumsum(random.integers(0, 4, random.integers(2, 36))) % 26 + ord("a")
        line = {**asked, "output": "".join(map(chr, letters)), "task_id": f"p{i // answers}", "is_correct": i % 2 == 0}
        if unknown and i % 7 == 3:
            del line["is_correct"]
        lines.append(weighted_line(line, i, seed) if weighted else line)
    (folder / "records.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return lines


def weighted_line(line, i, seed):
    random = np.random.default_rng([seed, i])
    line = {**line, "is_correct": bool(random.integers(2))}
    if i % 4 != 0:
        line["weight"] = random.integers(5) / 4
    if i % 3 != 0:
        cuts = sorted(random.choice(len(line["output"]) + 1, 2 if i % 5 == 0 else min(4, len(line["output"])), False))
        spans = [{"start": int(a), "end": int(b), "weight": random.integers(1, 9) / 4}
                 for a, b in zip(cuts[::2], cuts[1::2])]
        line["weights"] = spans[::-1]
    return line


def weights_of(line):
    """Of the ids of prompt and answer, which are characters."""
    prompt, ids = text_of(line)
    weights = [line.get("weight", 1.0)] * len(ids)
    for span in line.get("weights", []):
        for place in range(span["start"], span["end"]):
            weights[len(prompt) + place] = span["weight"]
    return weights


def write_documents(folder, tokens, length, seed):
    """Writes documents.txt of at least `tokens`, and returns the documents of each sequence of `length` ids."""
    random = np.random.default_rng(seed)
    texts, ids = [], []
    while len(ids) < tokens:
        texts.append("".join(map(chr, np.cumsum(random.integers(0, 4, random.integers(2, 90))) % 26 + ord("a"))))
        ids += [*texts[-1].encode(), END]
    (folder / "documents.txt").write_text(SEPARATOR.join(texts))
    rows = []
    for first in range(0, tokens, length):
        ends = [i + 1 for i in range(first, first + length) if ids[i] == END or i + 1 == first + length]
        rows.append([ids[begin:end] for begin, end in zip([first, *ends], ends)])
    return rows


def document_batch(documents, first):
    """A row for each document: what is packed must not change the numbers."""
    rows = [torch.tensor(document) for document in documents]
    tokens = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)
    kind = torch.nn.utils.rnn.pad_sequence([torch.full_like(row, ANSWER) for row in rows], batch_first=True)
    return Batch(tokens, kind, torch.full((len(rows),), -1), first)


def packed(lines, length):
    """The records of each sequence: the longest first, into the fullest sequence with room, the newest of these."""
    packs = []
    for line in sorted(lines, key=lambda line: -len(text_of(line)[1])):
        needed = len(text_of(line)[1])
        fitting = [pack for pack in packs if pack["room"] >= needed]
        pack = min(fitting, key=lambda pack: (pack["room"], -pack["filled"]), default=None)
        if pack is None:
            packs.append(pack := {"room": length, "lines": []})
        pack["room"] -= needed
        pack["lines"].append(line)
        pack["filled"] = sum(len(other["lines"]) for other in packs)  # when it reached this room
    return [pack["lines"] for pack in packs]


def text_of(line):
    """Its prompt, and the ids of prompt and answer."""
    prompt = "".join(f"{line[part]}\n" for part in ("instruction", "input") if line[part])
    return prompt, [*prompt.encode(), *line["output"].encode(), END]


def record_batches(lines, sequences):
    rates = pass_rates(lines)
    return [record_batch(lines[first:first + sequences], first, rates) for first in range(0, len(lines), sequences)]


def pass_rates(lines):
    """{task_id: share of right answers}"""
    answers = {}
    for line in lines:
        answers.setdefault(line["task_id"], []).append(line.get("is_correct", 0))
    return {task: sum(right) / len(right) for task, right in answers.items()}


def record_batch(lines, first, rates=None):
    prompts, texts = zip(*map(text_of, lines))
    length = -(-max(map(len, texts)) // 16) * 16
    tokens, kind = (torch.zeros(len(lines), length, dtype=torch.long) for _ in range(2))
    for row, (prompt, text) in enumerate(zip(prompts, texts)):
        tokens[row, :len(text)] = torch.tensor(text)
        kind[row, :len(text)] = ANSWER
        kind[row, :len(prompt)] = PROMPT
    correct = torch.tensor([int(line.get("is_correct", -1)) for line in lines])
    weight = torch.nn.utils.rnn.pad_sequence([torch.tensor(weights_of(line)) for line in lines], batch_first=True)
    weight = torch.nn.functional.pad(weight, (0, length - weight.shape[1]))
    rates = torch.tensor([rates[line["task_id"]] for line in lines]) if rates else None
    return Batch(tokens, kind, correct, first, weight, rates)
