"""The house holds its own rules, and each rule notices a house that breaks it."""
from pathlib import Path

import pytest
from layers import violations

ROOT = Path(__file__).resolve().parents[2]

SOUND = {
    "docs/architecture.md": "main > cli > run > train > data > base\nplugins > sdk < host (train)\n",
    "host/CMakeLists.txt": "set(engine_files\n  data/batches.cpp)\nadd_rooms(core_files base data)\n",
    "host/main.cpp": '#include "cli/run.hpp"\n',
    "host/cli/run.hpp": '#include <string>\n#include "run/run.hpp"\n',
    "host/run/run.hpp": '#include "base/error.hpp"\nclass Run : public Base {\n};\n',
    "host/train/trainer.hpp": '#include <ATen/ATen.h>\n#include <wmtp/step.hpp>\n#include "data/corpus.hpp"\n',
    "host/data/corpus.hpp": '#include "base/error.hpp"\n',
    "host/data/corpus.cpp": '#include "data/corpus.hpp"\n',
    "host/data/batches.cpp": '#include <ATen/ATen.h>\n',
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


def test_the_house_holds_its_rules():
    assert violations(ROOT) == []


def test_a_sound_house_has_no_violations(tmp_path):
    assert violations(build(tmp_path, {})) == []


@pytest.mark.parametrize("file, text, wanted", [
    ("host/data/corpus.cpp", '#include "train/trainer.hpp"\n', "room data includes train, which does not lie below"),
    ("host/base/error.hpp", '#include "data/corpus.hpp"\n', "room base includes data"),
    ("host/run/run.hpp", '#include "../train/trainer.hpp"\n', "is no file of host/"),
    ("host/attic/old.hpp", "\n", "room attic stands on no floor"),
    ("host/data/pack.cpp", "#include <wmtp/step.hpp>\n", "room data includes the sdk"),
    ("sdk/include/wmtp/step.hpp", '#include "train/trainer.hpp"\n', "the sdk includes train/trainer.hpp"),
    ("sdk/include/wmtp/step.hpp", "#include <torch/torch.h>\n", "the sdk includes torch/torch.h"),
    ("sdk/include/wmtp/step.hpp", "#include <train/trainer.hpp>\n", "the sdk includes train/trainer.hpp"),
    ("plugins/pipelines/rho1/rho1.cpp", '#include "train/trainer.hpp"\n', "a plugin includes train/trainer.hpp"),
    ("plugins/pipelines/focal/focal.cpp", '#include "../rho1/local.hpp"\n', "a plugin includes ../rho1/local.hpp"),
    ("plugins/pipelines/focal/focal.cpp", '#include "../shared/../rho1/local.hpp"\n',
     "a plugin includes ../shared/../rho1"),
    ("tests/plugins/dft.cpp", "#include <torch/torch.h>\n", "a plugin includes torch/torch.h"),
    ("host/data/corpus.cpp", "#include <ATen/ATen.h>\n", "the core includes ATen/ATen.h"),
    ("host/base/error.hpp", "#include <c10/util/Exception.h>\n", "the core includes c10/util/Exception.h, reached"),
    ("host/train/long.cpp", "// A promise.\n" + "int x;\n" * 400, "401 lines"),
    ("host/train/run.hpp", "struct Run {\n};\n", "defines Run, as host/run/run.hpp does"),
    ("docs/notes.md", "see /ho" "me/someone/notes\n", "names a path of a developer's machine"),
])
def test_a_broken_rule_is_seen(tmp_path, file, text, wanted):
    found = violations(build(tmp_path, {file: text}))
    assert any(line.startswith(file) and wanted in line for line in found), found


def test_a_long_file_may_say_why(tmp_path):
    text = "// A promise. It is over 400 lines because the table is one thing.\n" + "int x;\n" * 400
    assert violations(build(tmp_path, {"host/train/long.cpp": text})) == []
