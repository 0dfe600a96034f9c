"""experiments/study/paths: graphs, their paths and degrees, and the judge that takes any path."""
import collections
import json
import subprocess
import sys

import pytest
from paths import ROOT

FOLDER = ROOT / "experiments/study/paths"
sys.path.insert(0, str(FOLDER))
import judge_paths  # noqa: E402
import make_graphs  # noqa: E402


def made(folder, *arguments):
    subprocess.run([sys.executable, FOLDER / "make_graphs.py", *map(str, arguments), "-o", folder], check=True)
    return folder


def records(file):
    return [json.loads(line) for line in file.read_text().splitlines()]


@pytest.fixture(scope="module")
def graph(tmp_path_factory):
    return made(tmp_path_factory.mktemp("dag"), "dag", 7) / "7"


def test_degrees_are_those_of_a_graph_by_hand():
    """0 -> 1 -> 2 -> 3 -> 4, and 5 -> 0. Of the paths to 4, training shows 2 -> 3 -> 4 only: it passes 3, not 2."""
    paths = [[0, 1], [1, 2], [2, 3, 4], [5, 0]]
    pairs = [(3, 4), (2, 4), (1, 4), (0, 4), (5, 4)]
    assert make_graphs.degrees(paths, pairs) == [0, 1, 2, 3, 3]
    assert make_graphs.degrees(paths + [[1, 2, 3, 4]], pairs) == [0, 0, 1, 2, 3], "a source is not passed"


def test_every_row_is_a_path_and_no_test_pair_was_trained(graph):
    edges = {tuple(f"{node:02}" for node in edge) for edge in json.loads((graph / "edges.json").read_text())}
    train, test = records(graph / "train.jsonl"), records(graph / "test.jsonl")
    for record in train + test:
        assert judge_paths.mistake(record["completion"], record["prompt"], edges) is None, record
    assert not {row["prompt"] for row in train} & {row["prompt"] for row in test}
    rows = collections.Counter(row["completion"] for row in train)
    walks = collections.Counter(row["prompt"] for row in train)
    assert all(rows[a + b] >= 1 and walks[f"<{a}>{b}"] == 21 for a, b in edges)
    assert set(walks.values()) == {20, 21}, "20 walks of each pair, and a row of each edge"
    assert all(a < b for a, b in edges) and 400 < len(edges) < 600
    assert 0.85 < len(test) / (len(walks) - len(edges) + len(test)) < 0.95
    assert {row["task_id"].split("/")[0] for row in test} <= {f"degree {degree}" for degree in range(4)}


def test_the_same_number_gives_the_same_files_and_another_one_others(graph, tmp_path):
    again, other = made(tmp_path, "dag", 7, 8) / "7", tmp_path / "8"
    for file in graph.iterdir():
        assert file.read_bytes() == (again / file.name).read_bytes(), file.name
    assert (graph / "train.jsonl").read_bytes() != (other / "train.jsonl").read_bytes()


def test_blocksworld_has_73_states_whose_moves_can_be_taken_back(tmp_path):
    folder = made(tmp_path, "blocksworld", 1, "--paths", 5) / "1"
    edges = {tuple(edge) for edge in json.loads((folder / "edges.json").read_text())}
    assert {node for edge in edges for node in edge} == set(range(73)) and len(edges) == 240
    assert all((b, a) in edges for a, b in edges)
    lengths = collections.Counter(len(row["completion"]) // 2 - 1 for row in records(folder / "train.jsonl"))
    assert lengths == {1: 240, **{length: 5 for length in range(2, 7)}}
    test = records(folder / "test.jsonl")
    assert len(test) <= 5000 and not any((int(row["prompt"][1:3]), int(row["prompt"][4:])) in edges for row in test)


@pytest.mark.parametrize("answer, told", [
    ("031217", None), ("0317", "no edge from 03 to 17"), ("0312", "ends with 12"), ("121703", "begins with 12"),
    ("03", "ends with 03"), ("", "not a list of nodes"), ("0312171", "not a list of nodes"),
    ("03 12 17", "not a list of nodes")])
def test_an_answer_is_right_if_it_is_a_path(answer, told):
    assert judge_paths.mistake(answer, "<03>17", {("03", "12"), ("12", "17")}) == told


def test_a_node_is_one_token_and_another_one_in_the_prompt(graph):
    tokenizers = pytest.importorskip("tokenizers")
    tokenizer = tokenizers.Tokenizer.from_file(str(graph / "tokenizer.json"))
    assert tokenizer.encode("<03>17031217").tokens == ["<03", ">17", "03", "12", "17"]
    assert tokenizer.get_vocab_size() == 557
