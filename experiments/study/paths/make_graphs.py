#!/usr/bin/env python3
"""Data for experiments/study/paths.toml: paths in graphs, as in arXiv 2509.23186 and 2405.09220 (ALPINE).

    python3 make_graphs.py dag 11 12 13 -o ../../../runs/paths
    python3 make_graphs.py blocksworld 11 --paths 100 -o ../../../runs/blocksworld

For graph 11 this writes the folder 11: train.jsonl and test.jsonl, records with the prompt "<s>t" and as its completion
a path "sab..t", edges.json, from which judge_paths.py tells whether a path is one, and a tokenizer.json. A node is two
digits and one token; with < and >, as source and target of the prompt, it is another one: rotary positions are
relative, so that a single block tells the target from the nodes of the path only by its token. The task_id of a test
record begins with its degree, which says what of it the training paths show:

    0   a training path to t passes s
    1   an edge of a training path leads from s to such a node
    2   an edge of a training path leads from s to a node of degree 1
    3   none of these

The same arguments write the same files.
"""
import argparse
import itertools
import json
import random
from pathlib import Path


def acyclic_graph(nodes, probability, rng):
    """{node: its successors}: each edge from a lower to a higher node with this probability."""
    return {i: [j for j in range(i + 1, nodes) if rng.random() < probability] for i in range(nodes)}


def blocksworld(blocks):
    """{state: the states that one move leads to}. A state is a set of stacks, a move takes the top of one to the top of
    another or to the table."""
    def moves(state):
        for stack in state:
            top, below = stack[-1], stack[:-1]
            rest = state - {stack} | ({below} if below else set())
            for other in state - {stack}:
                yield rest - {other} | {other + (top,)}
            if below:
                yield rest | {(top,)}
    first = frozenset((block,) for block in range(blocks))
    number, states = {first: 0}, [first]
    graph = {}
    for state in states:  # which grows
        for after in sorted(moves(state), key=lambda found: sorted(found)):
            if after not in number:
                number[after] = len(states)
                states.append(after)
            graph.setdefault(number[state], []).append(number[after])
    return graph


def sources_of(graph):
    """{node: the other nodes from which it can be reached}"""
    sources = {node: set() for node in graph}
    for start in graph:
        reached, waiting = set(), [start]
        while waiting:
            for after in graph[waiting.pop()]:
                if after not in reached:
                    reached.add(after)
                    waiting.append(after)
        for node in reached - {start}:
            sources[node].add(start)
    return sources


def random_walk(graph, source, target, sources, rng):
    """A path from source to target of an acyclic graph, each step uniform among those from which target is reached."""
    path = [source]
    while path[-1] != target:
        path.append(rng.choice([node for node in graph[path[-1]] if node == target or node in sources[target]]))
    return path


def walk_of_length(graph, length, rng):
    """A path of so many edges that visits no node twice, from a random node by random steps; another attempt where it
    has no next node."""
    while True:
        path = [rng.choice(sorted(graph))]
        while len(path) <= length:
            after = [node for node in graph[path[-1]] if node not in path]
            if not after:
                break
            path.append(rng.choice(after))
        else:
            return path


def distances(graph, source):
    """{node: number of edges of the shortest path from source}"""
    found, waiting = {source: 0}, [source]
    for node in waiting:  # which grows
        for after in graph[node]:
            if after not in found:
                found[after] = found[node] + 1
                waiting.append(after)
    return found


def degrees(paths, pairs):
    """The degree of each (source, target) of `pairs`, given the training paths."""
    edges, passed = {}, {}
    for path in paths:
        for a, b in zip(path, path[1:]):
            edges.setdefault(a, set()).add(b)
        passed.setdefault(path[-1], set()).update(path[1:])

    def is_observed(node, target):
        return node in passed.get(target, ())

    def is_next(node, target):
        return any(is_observed(after, target) for after in edges.get(node, ()))

    def degree(source, target):
        if is_observed(source, target):
            return 0
        if is_next(source, target):
            return 1
        return 2 if any(is_next(after, target) for after in edges.get(source, ())) else 3

    return [degree(source, target) for source, target in pairs]


def dag(number, nodes=100, probability=0.1, share=0.1, walks=20):
    """(graph, training paths, an example of each test pair). Trained on are all edges, and random walks between the
    ends of edges and of a share of the other pairs with a path. The rest of these are test pairs."""
    rng = random.Random(number)
    graph = acyclic_graph(nodes, probability, rng)
    sources = sources_of(graph)
    train, test = [], []
    for target, source in itertools.product(graph, graph):
        if source not in sources[target]:
            continue
        is_edge = target in graph[source]
        if is_edge:
            train.append([source, target])
        if is_edge or rng.random() < share:
            train += [random_walk(graph, source, target, sources, rng) for _ in range(walks)]
        else:
            test.append(random_walk(graph, source, target, sources, rng))
    return graph, train, test


def blocks(number, paths=100, lengths=range(2, 7), tests=5000):
    """The same of Blocksworld, which is one graph: every edge, and so many paths of each length. Test pairs are those
    with a shortest path of two edges or more that are not the ends of a training path, `tests` of them if there are
    more."""
    rng = random.Random(number)
    graph = blocksworld(4)
    train = [[source, target] for source in graph for target in graph[source]]
    train += [walk_of_length(graph, length, rng) for length in lengths for _ in range(paths)]
    ends = {(path[0], path[-1]) for path in train}
    test = []
    for source in graph:
        for target, distance in sorted(distances(graph, source).items()):
            if distance > 1 and (source, target) not in ends:
                test.append([source, target])
    return graph, train, sorted(rng.sample(test, min(tests, len(test))))


def text_of(nodes):
    return "".join(f"{node:02}" for node in nodes)


def record(path):
    return {"prompt": f"<{path[0]:02}>{path[-1]:02}", "completion": text_of(path)}


def byte_letters():
    """GPT-2's letters for bytes."""
    plain = [*range(0x21, 0x7f), *range(0xa1, 0xad), *range(0xae, 0x100)]
    others = [byte for byte in range(256) if byte not in plain]
    return {byte: chr(byte if byte in plain else 256 + others.index(byte)) for byte in range(256)}


def tokenizer():
    """A tokenizer.json: a byte-level BPE that reads two digits, also after < or >, as one token, and any other byte as
    itself."""
    pairs = [f"{number:02}" for number in range(100)]
    marked = [mark + pair for mark in "<>" for pair in pairs]
    letters = [byte_letters()[byte] for byte in range(256)]
    vocabulary = {token: number for number, token in enumerate([*letters, *pairs, *marked])}
    merges = [f"{pair[0]} {pair[1]}" for pair in pairs] + [f"{one[0]} {one[1:]}" for one in marked]
    end = {"id": len(vocabulary), "content": "<|end|>", "single_word": False, "lstrip": False, "rstrip": False,
           "normalized": False, "special": True}
    split = {"type": "Split", "pattern": {"Regex": "[<>]?[0-9]{2}"}, "behavior": "Isolated", "invert": False}
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": [end], "normalizer": None,
            "pre_tokenizer": {"type": "Sequence", "pretokenizers": [split, {
                "type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}]},
            "post_processor": None,
            "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
            "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
                      "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False,
                      "vocab": vocabulary, "merges": merges}}


def write(folder, graph, train, test):
    folder.mkdir(parents=True, exist_ok=True)

    def lines(name, records):
        (folder / name).write_text("".join(json.dumps(one) + "\n" for one in records))

    pairs = [(path[0], path[-1]) for path in test]
    lines("train.jsonl", map(record, train))
    lines("test.jsonl", ({"task_id": f"degree {degree}/{text_of(pair)}", **record(path)}
                         for pair, path, degree in zip(pairs, test, degrees(train, pairs))))
    (folder / "edges.json").write_text(json.dumps([[a, b] for a in graph for b in graph[a]]) + "\n")
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer(), indent=1) + "\n")
    (folder / "tokenizer_config.json").write_text(json.dumps({"eos_token": "<|end|>"}) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=["dag", "blocksworld"])
    parser.add_argument("numbers", type=int, nargs="+", help="of the graphs (of Blocksworld: of the training paths)")
    parser.add_argument("--paths", type=int, default=100, help="of Blocksworld: training paths of each length (100)")
    parser.add_argument("-o", "--output", type=Path, required=True, help="folder")
    options = parser.parse_args()
    for number in options.numbers:
        made = dag(number) if options.kind == "dag" else blocks(number, options.paths)
        write(options.output / str(number), *made)


if __name__ == "__main__":
    main()
