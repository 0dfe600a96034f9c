"""Judges answers of make_graphs.py's test records: `wmtp-host eval RUN --suite test.jsonl --judge judge_paths.py`.

An answer is right if it begins with the source, ends with the target, and each step is an edge of the graph, in
edges.json beside the suite: any path counts.
"""
import json
import re
import sys
from pathlib import Path


def mistake(answer, prompt, edges):
    """What is wrong with an answer to the prompt "<s>t"; None if it is a path from s to t."""
    if not re.fullmatch("([0-9]{2})+", answer):
        return "not a list of nodes"
    source, target = prompt[1:3], prompt[4:6]
    nodes = re.findall("..", answer)
    if nodes[0] != source:
        return f"begins with {nodes[0]}"
    for step in zip(nodes, nodes[1:]):
        if step not in edges:
            return "no edge from {} to {}".format(*step)
    return None if nodes[-1] == target and len(nodes) > 1 else f"ends with {nodes[-1]}"


def main():
    edges = {(f"{a:02}", f"{b:02}") for a, b in json.loads(Path(sys.argv[1]).with_name("edges.json").read_text())}
    for line in sys.stdin:
        asked = json.loads(line)
        told = mistake(asked["answer"], asked["record"]["prompt"], edges)
        print(json.dumps({"passed": told is None, "told": told or ""}))


if __name__ == "__main__":
    main()
