"""The source tree follows the rules of layers.py, and each rule finds a tree that breaks it."""
from pathlib import Path

import pytest
from layers import violations

ROOT = Path(__file__).resolve().parents[2]

SOUND = {
    "docs/architecture.md": "## Rooms\n```floors\ncli, train\ndata, data/torch, data/text\nbase\n```\n"
                            "| `cli`, `train` | x |\n| `data` | x |\n| `base` | x |\n## Where to look\n"
                            "| ? | ! |\n| - | - |\n",
    "host/CMakeLists.txt": 'set(WMTP_TORCH_FOLDERS "(^train|/torch)/" CACHE INTERNAL "")\n',
    "host/data/torch/batches.hpp": '#include <ATen/ATen.h>\n#include "data/corpus.hpp"\n',
    "host/cli/run.hpp": '#include <string>\n#include "data/corpus.hpp"\nclass Run : public Base {\n};\n',
    "host/train/trainer.hpp":
        '#include <ATen/ATen.h>\n#include <wmtp/step.hpp>\n#include "data/corpus.hpp"\n',
    "host/data/corpus.hpp": '#include "base/error.hpp"\n',
    "host/data/corpus.cpp": '#include "data/corpus.hpp"\n',
    "host/base/error.hpp": "#include <string>\n",
    "sdk/include/wmtp/step.hpp": "#include <ATen/ATen.h>\n#include <string>\n",
    "plugins/pipelines/rho1/rho1.cpp":
        '#include <wmtp/step.hpp>\n#include "local.hpp"\n#include "../shared/math.hpp"\n',
    "plugins/pipelines/rho1/local.hpp": "#include <vector>\n",
    "plugins/pipelines/shared/math.hpp": "#include <wmtp/step.hpp>\n",
}


def build(root, changes):
    for name, text in {**SOUND, **changes}.items():
        file = root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return root


def test_the_source_tree_keeps_the_rules():
    assert violations(ROOT) == []


def test_a_sound_tree_has_no_violations(tmp_path):
    assert violations(build(tmp_path, {})) == []


@pytest.mark.parametrize("file, text, wanted", [
    ("host/data/corpus.cpp", '#include "cli/run.hpp"\n', "data includes cli, which is not on a lower floor"),
    ("host/base/error.hpp", '#include "data/corpus.hpp"\n', "base includes data"),
    ("host/data/text/lines.hpp", '#include "cli/run.hpp"\n', "data/text includes cli, which is not on a lower floor"),
    ("host/data/corpus.cpp", '#include "data/torch/batches.hpp"\n', "data includes data/torch, which includes data"),
    ("host/data/corpus.cpp", '#include "data/torch/batches.hpp"\n', "includes data/torch/batches.hpp outside"),
    ("host/data/corpus.cpp", "// " + "x" * 118 + "\n", "host/data/corpus.cpp:1: 121 columns; at most 120"),
    ("scripts/wheel.py", "# " + "x" * 119 + "\n", "scripts/wheel.py:1: 121 columns; at most 120"),
    ("tests/e2e/run_test.py", 'NAME = "' + "x" * 112 + '"\n', "tests/e2e/run_test.py:1: 121 columns; at most 120"),
    ("host/ui/page/main.js", "// " + "x" * 118 + "\n", "host/ui/page/main.js:1: 121 columns; at most 120"),
    ("sdk/CMakeLists.txt", "# " + "x" * 119 + "\n", "sdk/CMakeLists.txt:1: 121 columns; at most 120"),
    ("docs/architecture.md", "```floors\nbase\n```\n", "has no row for the room base"),
    ("docs/architecture.md", "```floors\nbase\n```\n" + "\n" * 160, "163 lines; at most 160"),
    ("docs/architecture.md", "```floors\nbase\n```\n## Where to look\n" + "| a | b |\n" * 28, "26 rows of"),
    ("docs/architecture.md", "```floors\n" + "data\n" * 11 + "```\n", "11 floors; at most 10"),
    ("host/data/corpus.cpp", 'bool is_rho1 = name == "rho1";\n', "host/data/corpus.cpp:1: names the plugin rho1"),
    ("host/cli/run.hpp", '#include "../base/error.hpp"\n', "is no file of host/"),
    ("host/attic/old.hpp", "\n", "folder attic is on no floor"),
    ("host/data/pack.cpp", "#include <wmtp/step.hpp>\n",
     "includes wmtp/step.hpp outside of the folders that link LibTorch"),
    ("host/data/pack.cpp", "#include <ATen/ATen.h>\n",
     "includes ATen/ATen.h outside of the folders that link LibTorch"),
    ("host/base/error.hpp", "#include <c10/util/Exception.h>\n", "includes c10/util/Exception.h outside"),
    ("host/cli/run.hpp", '#include "train/trainer.hpp"\n', "includes train/trainer.hpp outside"),
    ("sdk/include/wmtp/step.hpp", '#include "train/trainer.hpp"\n', "the sdk includes train/trainer.hpp"),
    ("sdk/include/wmtp/step.hpp", "#include <torch/torch.h>\n", "the sdk includes torch/torch.h"),
    ("sdk/include/wmtp/step.hpp", "#include <train/trainer.hpp>\n", "the sdk includes train/trainer.hpp"),
    ("plugins/pipelines/rho1/rho1.cpp", '#include "train/trainer.hpp"\n', "a plugin includes train/trainer.hpp"),
    ("plugins/pipelines/focal/focal.cpp", '#include "../rho1/local.hpp"\n', "a plugin includes ../rho1/local.hpp"),
    ("plugins/pipelines/focal/focal.cpp", '#include "../shared/../rho1/local.hpp"\n',
     "a plugin includes ../shared/../rho1"),
    ("tests/plugins/dft.cpp", "#include <torch/torch.h>\n", "a plugin includes torch/torch.h"),
    ("host/train/long.cpp", "// A promise.\n" + "int x;\n" * 600, "601 lines"),
    ("host/train/run.hpp", "struct Run {\n};\n", "defines Run, as host/cli/run.hpp does"),
    ("host/data/corpus.cpp", 'auto home = std::getenv("HOME");\n', "calls getenv"),
    ("docs/notes.md", "see /ho" "me/someone/notes\n", "names a path of a developer's machine"),
    ("tests/e2e/forgotten_test.py", "\n", "is in no CMakeLists.txt"),
    ("docs/notes.md", "[a page](no.md)\n", "links to no.md, which does not exist"),
    ("docs/notes.md", "# A note\n\n[up](#a-note) [down](#b-note)\n", "links to #b-note, a heading that does not exist"),
    ("docs/notes.md", "[floors](architecture.md#floors)\n",
     "links to architecture.md#floors, a heading that does not exist"),
])
def test_a_broken_rule_is_seen(tmp_path, file, text, wanted):
    found = violations(build(tmp_path, {file: text}))
    assert any(line.startswith(file) and wanted in line for line in found), found


def test_a_long_file_may_say_why(tmp_path):
    text = "// A promise. It is over 600 lines because the table is one thing.\n" + "int x;\n" * 600
    assert violations(build(tmp_path, {"host/train/long.cpp": text})) == []


def test_links_to_pages_headings_and_other_sites_are_followed_or_left_alone(tmp_path):
    text = ("# `[a]` and *b*: 8 c\n\n[1](#a-and-b-8-c) [2](other.md#x-1) "
            "[3](https://example.org/no.md#no) `[4](no.md)`\n\n```\n[5](no.md)\n# no\n```\n")
    assert violations(build(tmp_path, {"docs/notes.md": text, "docs/other.md": "## x\n## x\n"})) == []


@pytest.mark.parametrize("others, lines, folded", [
    ({}, 49, True),
    ({"host/data/draft.cpp": '#include "data/draft.hpp"\n'}, 48, True),  # its own .cpp is no user, and counts as lines
    ({"host/data/draft.cpp": '#include "data/draft.hpp"\n'}, 49, False),
    ({}, 50, False),
    ({"host/data/more.cpp": '#include "data/draft.hpp"\n'}, 49, False),
    ({"host/cli/run.cpp": '#include "data/draft.hpp"\n'}, 49, False),
    ({"tests/unit/data/draft_test.cpp": '#include "data/draft.hpp"\n'}, 49, False),
])
def test_a_small_header_of_one_user_is_folded_into_it(tmp_path, others, lines, folded):
    tree = {"host/data/draft.hpp": "int x;\n" * lines,
            "host/data/pack.cpp": '#include "data/draft.hpp"\n', **others}
    found = violations(build(tmp_path, tree))
    wanted = ["host/data/draft.hpp:1: 49 lines for one user; fold it into host/data/pack.cpp"]
    assert found == (wanted if folded else [])
