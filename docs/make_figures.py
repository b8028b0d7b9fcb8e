"""Draw the pictures of these pages, each by what its page says draws it.

Run it after changing a figure, a command or the gallery:
`.venv/bin/python docs/make_figures.py`, with names of MAKERS for some of them. With
`--check` nothing is written: files that have changed are named, and it ends with 1.
"""

import doctest
import re
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from click.testing import CliRunner
from PIL import Image

from veilsum.audit.literature import (
    TARGETS,
    beside_the_literature,
    literature_figure,
)
from veilsum.cli.app import app
from veilsum.report import figures
from veilsum.report.figures import DPI, coefficients_figure, counts_figure
from veilsum.sums.job_file import read_job

DOCS = Path(__file__).parent
EXAMPLES = DOCS.parent / "examples"
FENCE = re.compile(r"^```python\n(.*?)^```$", re.M | re.S)
# The share of what is drawn that may look different: fonts are drawn a little
# otherwise by other versions of the library that draws them.
MOST_CHANGED = 0.02
VISIBLE, WHITE = 48, 250  # of 255


def drawn_by(words: str, pictures: dict[str, str]) -> dict[str, bytes]:
    """Return what a command draws, under the names that pictures have on pages."""
    with tempfile.TemporaryDirectory() as folder:
        answer = CliRunner().invoke(app, [*words.split(), "--out", folder])
        assert answer.exit_code == 0, answer.output
        return {
            f"{name}.png": small((Path(folder) / f"{written}.png").read_bytes())
            for written, name in pictures.items()
        }


def picture(figure: Any) -> bytes:
    """Return a figure as a page has it."""
    buffer = BytesIO()
    figure.savefig(buffer, format="png", dpi=DPI)
    return small(buffer.getvalue())


def small(png: bytes) -> bytes:
    """Return a picture in 128 colours, a third as long; nobody sees the difference."""
    # This way of choosing them keeps the colour of a thin line among much grey.
    image = Image.open(BytesIO(png)).convert("RGB")
    image = image.quantize(128, method=Image.Quantize.MAXCOVERAGE, dither=0)
    buffer = BytesIO()
    image.save(buffer, "png", optimize=True)
    return buffer.getvalue()


def changed(new: bytes, old: bytes) -> bool:
    """Return whether a file differs from another for somebody who looks at it."""
    if not old.startswith(b"\x89PNG"):
        return new != old
    pictures = [Image.open(BytesIO(one)).convert("RGB") for one in (new, old)]
    if pictures[0].size != pictures[1].size:
        return True
    first, second = (np.asarray(one, dtype=np.int16) for one in pictures)
    ink = ((first < WHITE) | (second < WHITE)).any(axis=2)
    different = (abs(first - second) > VISIBLE).any(axis=2)
    return bool(different.sum() > MOST_CHANGED * ink.sum())


def hospitals() -> dict[str, bytes]:
    """What `make demo` draws, of the same sums without processes."""
    found = read_job(EXAMPLES / "diabetes.toml", "model").run(driver="vectorised")
    title = "Five hospitals under masks, and the pooled fit"
    figure = coefficients_figure(
        found.to_dict()["table"], found.reference.tolist(), title
    )
    return {"hospitals.png": picture(figure)}


def counts() -> dict[str, bytes]:
    """The histogram in two dimensions that the page asks for."""
    both = _computed_on("guides/table1.md")["both"]
    (names, axes), *_ = both.wishes.tables.items()
    labels = axes[0].labels, axes[1].labels
    title = f"{both.count} tumours"
    figure = counts_figure(both.tables[names], names, labels, title)
    return {"counts.png": picture(figure)}


def gallery() -> dict[str, bytes]:
    """What the code on the page draws."""
    drawn = _computed_on("gallery.md")["drawn"]
    return {f"gallery/{name}.png": picture(one) for name, one in drawn.items()}


def literature() -> dict[str, bytes]:
    """Function Sharing beside others: a table and its picture."""
    tables = [beside_the_literature(runs=4000, target=one) for one in TARGETS]
    return {
        "literature.txt": f"{tables[1]}\n".encode(),
        "literature.png": picture(literature_figure(figures, tables)),
    }


GBSG, TABLE_1 = EXAMPLES / "gbsg2.toml", EXAMPLES / "table1.toml"
MAKERS: dict[str, Callable[[], dict[str, bytes]]] = {
    "survival": partial(
        drawn_by,
        f"survival {GBSG} --driver vectorised --life-table",
        {"survival": "survival"},
    ),
    "boxes": partial(
        drawn_by,
        f"stats {TABLE_1} --driver vectorised --by malignant",
        {"boxes_1": "boxes"},
    ),
    "counts": counts,
    "hospitals": hospitals,
    "gallery": gallery,
    "paper": partial(
        drawn_by,
        "paper",
        {name: name for name in ("fig1_convergence", "fig2_densities")},
    ),
    "float": partial(drawn_by, "attack float", {"float_leak": "float_leak"}),
    "literature": literature,
}


def _computed_on(page: str) -> dict[str, Any]:
    """Return all names that the code on a page gives to something."""
    source = "\n".join(FENCE.findall((DOCS / page).read_text(encoding="utf-8")))
    example = doctest.DocTestParser().get_doctest(source, {}, page, None, 0)
    runner = doctest.DocTestRunner(
        optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
    )
    assert runner.run(example, clear_globs=False).failed == 0
    return {key: one for key, one in example.globs.items() if key[0] != "_"}


def stale(maker: str, *, mend: bool) -> list[str]:
    """Return which files of one maker differ from what is drawn today; mend them."""
    found = []
    for name, content in MAKERS[maker]().items():
        path = DOCS / "assets" / name
        if not path.is_file() or changed(content, path.read_bytes()):
            found.append(f"docs/assets/{name}")
            if mend:
                path.write_bytes(content)
    return found


if __name__ == "__main__":
    wanted = [one for one in sys.argv[1:] if one != "--check"] or [*MAKERS]
    checked = "--check" in sys.argv
    found = [name for one in wanted for name in stale(one, mend=not checked)]
    for name in found:
        print(name, "is not what is drawn today" if checked else "is drawn anew")
    sys.exit(1 if checked and found else 0)
