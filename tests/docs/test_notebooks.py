"""Notebooks run from the first cell to the last, and keep nothing of earlier runs."""

from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
PAGE = FOLDER.parent / "docs" / "notebooks.md"


@pytest.fixture(scope="module")
def nbformat():
    """Imported by the tests that run a notebook: it takes seconds."""
    return pytest.importorskip("nbformat")


@pytest.fixture(scope="module")
def nbclient():
    return pytest.importorskip("nbclient")


def executed(nbclient, notebook):
    client = nbclient.NotebookClient(
        notebook,
        timeout=300,
        kernel_name="python3",
        resources={"metadata": {"path": str(FOLDER)}},
    )
    client.execute()
    return notebook


def test_every_notebook_runs(nbformat, nbclient):
    """One after another in one kernel, which forgets all names in between."""
    notebooks = {path: nbformat.read(path, 4) for path in NOTEBOOKS}
    cells = []
    for path, notebook in notebooks.items():
        nbformat.validate(notebook)
        kept = [one for one in notebook.cells if one.get("outputs")]
        assert kept == [], f"clear {path.name} first"
        cells += [nbformat.v4.new_code_cell("%reset -f"), *notebook.cells]
    executed(nbclient, nbformat.v4.new_notebook(cells=cells))
    for path, notebook in notebooks.items():
        shown = [one for cell in notebook.cells for one in cell.get("outputs", [])]
        # Figures and results are shown as a reader wants them, and nothing warns; on a
        # busy machine a line says how far things are.
        assert any("text/html" in one.get("data", {}) for one in shown), path
        assert any("image/png" in one.get("data", {}) for one in shown), path
        told = "".join(one["text"] for one in shown if one.get("name") == "stderr")
        assert "Warning" not in told, path
        assert "Error" not in told, path


def test_a_notebook_has_no_names_of_the_one_before(nbformat, nbclient):
    """The twin: in one kernel a notebook could lean on another."""
    lines = ["left = 1", "%reset -f", "left"]
    cells = [nbformat.v4.new_code_cell(line) for line in lines]
    with pytest.raises(nbclient.exceptions.CellExecutionError, match="NameError"):
        executed(nbclient, nbformat.v4.new_notebook(cells=cells))


def test_a_notebook_that_claims_too_much_fails(nbformat, nbclient):
    """The twin: an assertion in a cell is one of the test."""
    wrong = nbformat.v4.new_notebook(
        cells=[nbformat.v4.new_code_cell("assert 1 + 1 == 3, 'claimed'")]
    )
    with pytest.raises(nbclient.exceptions.CellExecutionError, match="claimed"):
        executed(nbclient, wrong)


def test_every_notebook_is_on_the_page():
    text = PAGE.read_text(encoding="utf-8")
    assert len(NOTEBOOKS) == 5
    for path in NOTEBOOKS:
        assert f"notebooks/{path.name}" in text
