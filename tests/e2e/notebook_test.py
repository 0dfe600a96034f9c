"""docs/notebook.md: its cells are run in order, as a notebook runs them, on shortened experiments; the page is opened
in a browser inside the frame that the last cell returns. IPython itself is not needed: a module with its IFrame,
reduced to the attributes that the page uses, takes its place where it is not installed."""
import ast
import html
import importlib.util
import os
import re
import sys
import types

import pytest
from browser import CHROMIUM, Browser
from paths import BUILD, ROOT
from readme_test import copy_shortened_experiments

CELL = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
pytest.importorskip("pandas", reason="no pandas in .venv: `make setup-tests` installs it")


class IFrame:
    def __init__(self, src, width, height):
        self.src, self.width, self.height = src, width, height

    def _repr_html_(self):
        return f'<iframe width="{self.width}" height="{self.height}" src="{html.escape(self.src)}"></iframe>'


def run_cell(cell, names):
    """The value of the last line if it is an expression, as a notebook shows it."""
    tree = ast.parse(cell)
    last = ast.Expression(tree.body.pop().value) if isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, "cell", "exec"), names)
    return eval(compile(last, "cell", "eval"), names) if last else None


@pytest.fixture
def notebook(program, tmp_path, monkeypatch):
    """The values of the cells of the page, run in a folder with shortened experiments."""
    copy_shortened_experiments(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"{BUILD / 'bin'}:{os.environ['PATH']}")
    if not importlib.util.find_spec("IPython"):
        display = types.ModuleType("IPython.display")
        display.IFrame = IFrame
        monkeypatch.setitem(sys.modules, "IPython", types.ModuleType("IPython"))
        monkeypatch.setitem(sys.modules, "IPython.display", display)
    names = {}
    return [run_cell(cell, names) for cell in CELL.findall((ROOT / "docs/notebook.md").read_text())]


def drawn_in_frame(frame, folder):
    """The names of the runs in the table of the page inside the frame."""
    (folder / "notebook.html").write_text(f"<!doctype html><body>{frame._repr_html_()}</body>")
    with Browser() as browser:
        browser.open((folder / "notebook.html").as_uri())
        child, = browser.call("Page.getFrameTree")["frameTree"]["childFrames"]
        world = browser.call("Page.createIsolatedWorld", frameId=child["frame"]["id"])["executionContextId"]
        found = browser.call("Runtime.evaluate", contextId=world, returnByValue=True, awaitPromise=True, expression="""
            new Promise((done) => {
              const look = () => {
                const rows = [...document.querySelectorAll('#run-table tbody tr[data-run]')];
                if (rows.length && document.querySelector('canvas')) done(rows.map((row) => row.innerText));
                else setTimeout(look, 50);
              };
              look();
            })""")["result"]["value"]
        assert browser.errors == []
    return found


def test_the_cells_of_the_page_show_a_run_and_its_page(notebook, tmp_path):
    *_, runs, curves, keys, frame = notebook
    assert runs.name.tolist() == ["reference", "rho1"] and set(runs.status) == {"finished"}
    assert list(curves.columns) == ["reference", "rho1"] and curves.index.name == "step" and len(curves) == 3
    assert float(keys.loc[2, "pipeline.keep"]) == 0.6 and keys.loc[1, "pipeline.plugin"] == "baseline"
    if CHROMIUM is None:
        pytest.skip("there is no chromium; `make setup-tests` installs it")
    rows = " ".join(drawn_in_frame(frame, tmp_path))
    assert "rho1" in rows and "reference" in rows
