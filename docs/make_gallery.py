"""Draw the pictures of docs/gallery.md by the code that the page shows.

Run it after changing the page or a figure: `.venv/bin/python docs/make_gallery.py`.
"""

import doctest
import re
from pathlib import Path

from veilsum.report.figures import render

DOCS = Path(__file__).parent
FENCE = re.compile(r"^```python\n(.*?)^```$", re.M | re.S)


def drawn() -> dict[str, bytes]:
    """Return every picture of the page as PNG, by its name."""
    page = (DOCS / "gallery.md").read_text(encoding="utf-8")
    source = "\n".join(FENCE.findall(page))
    example = doctest.DocTestParser().get_doctest(source, {}, "gallery", None, 0)
    runner = doctest.DocTestRunner()
    assert runner.run(example, clear_globs=False).failed == 0
    figures = example.globs["drawn"]
    return {name: render(figure)["png"] for name, figure in figures.items()}


if __name__ == "__main__":
    for name, picture in drawn().items():
        path = DOCS / "assets" / "gallery" / f"{name}.png"
        path.write_bytes(picture)
        print("wrote", path)
