"""Make the table and the picture of docs/theory/literature.md.

Run it after changing a mechanism: `.venv/bin/python docs/make_literature.py`.
"""

from pathlib import Path

from veilsum.audit.literature import TARGETS, beside_the_literature
from veilsum.report.figures import literature_figure, render

ASSETS = Path(__file__).parent / "assets"

if __name__ == "__main__":
    tables = [beside_the_literature(runs=4000, target=one) for one in TARGETS]
    (ASSETS / "literature.txt").write_text(f"{tables[1]}\n", encoding="utf-8")
    (ASSETS / "literature.png").write_bytes(render(literature_figure(tables))["png"])
