"""The figure of a sweep: medians over seeds, by any two of its numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any

import numpy as np

from veilsum.errors import InvalidInputError
from veilsum.numbers.arrays import nearest_name
from veilsum.showing import counted_words

# Nothing is drawn of a zero on a logarithmic axis.
LEAST_DRAWN = 2.0**-55
# More series than these are not told apart.
MOST_SERIES = 16
AXES = {
    "sigma": "sigma of one share",
    "epsilon": "epsilon: KL at distance 1, at most",
    "attacker_success": "right guesses of the best attacker: at most",
    "error": "worst party's error",
    "iterations": "iterations",
    "iterations_to_tolerance": "iterations until within {:g}",
    "rounds": "message rounds",
    "bytes": "bytes on all links together",
}


def sweep_figure(
    figures: ModuleType,
    rows: Sequence[Mapping[str, Any]],
    tolerance: float,
    *,
    x: str,
    y: str,
    title: str | None,
) -> Any:
    """Return column `y` over column `x`: a series for each graph, method, ..."""
    for name in (x, y):
        if name not in AXES:
            raise InvalidInputError(
                f"no numbers are called {name!r}; {nearest_name(name, tuple(AXES))}"
                f"there are {', '.join(AXES)}",
                code="unknown-numbers",
            )
    kept_rows = [row for row in rows if row[x] and row[y] is not None]
    # Without masks there is neither sigma nor epsilon: a line over all of them.
    bare = [
        row
        for row in rows
        if row["law"] == "none" and row[x] is None and row[y] is not None
    ]
    left = len(rows) - len(kept_rows) - len(bare)
    if not kept_rows:
        raise InvalidInputError(
            f"no run has both {x} and {y} above 0: choose others of {', '.join(AXES)}",
            code="nothing-above-zero",
        )
    # What sigma does is along the axis; every other choice that varies has a series.
    choices = ("graph", "law", "method", "tolerate")
    varied = [name for name in choices if len({row[name] for row in kept_rows}) > 1]
    groups: dict[str, dict[float, list[float]]] = {}
    for row in kept_rows:
        words = [str(row[key]) for key in varied if key != "tolerate"]
        if "tolerate" in varied:
            words.append(f"{row['tolerate']} collude")
        at = groups.setdefault(", ".join(words) or row["graph"], {})
        at.setdefault(float(row[x]), []).append(float(row[y]))
    baselines: dict[str, list[float]] = {}
    for row in bare:
        words = [str(row[key]) for key in ("graph", "method") if key in varied]
        at_all = baselines.setdefault(", ".join([*words, "no masks"]), [])
        at_all.append(float(row[y]))
    kept = dict(list(groups.items())[:MOST_SERIES])
    labels = [AXES[name].format(tolerance) for name in (x, y)]
    caption = (
        f"{counted_words(len(kept_rows), 'line')}; medians over seeds, from "
        "least to most"
    )
    if left:
        caption += f"; {counted_words(left, 'line')} without these numbers not drawn"
    if len(kept) < len(groups):
        caption += f"; the first {len(kept)} of {len(groups)} series"
    if any(row[y] < LEAST_DRAWN for row in (*kept_rows, *bare)):
        caption += f"; what is 0 or below {LEAST_DRAWN:.1g} is drawn there"
    usual = " against ".join(one.partition(":")[0] for one in reversed(labels))
    return _draw_series(
        figures,
        kept,
        (labels[0], labels[1]),
        figures.chosen_title(title, usual[:1].upper() + usual[1:]),
        f"{caption}.",
        baselines=dict(list(baselines.items())[:MOST_SERIES]),
    )


def _draw_series(
    figures: ModuleType,
    groups: Mapping[str, Mapping[float, Sequence[float]]],
    labels: tuple[str, str],
    title: str,
    caption: str = "",
    *,
    baselines: Mapping[str, Sequence[float]] | None = None,
) -> Any:
    """Return medians of `groups` by series and place on the axis, from least to most.

    `baselines` belong to no place on the axis: their medians are drawn all along it.
    """
    level = baselines or {}
    deep = 0.6 + 0.19 * ((len(groups) + len(level) + 1) // 2)
    figure, (axis,) = figures.figure_panels(
        3.1, title=title, caption=caption, bottom=deep
    )
    for place, (name, at) in enumerate(groups.items()):
        seen = {x: np.maximum(at[x], LEAST_DRAWN) for x in sorted(at)}
        middle = np.array([float(np.median(one)) for one in seen.values()])
        ends = np.array([[one.min(), one.max()] for one in seen.values()]).T
        look = figures.figure_series_look(place)
        axis.vlines([*seen], *ends, color=look["color"], linewidth=1.0, alpha=0.6)
        axis.plot([*seen], middle, **look, label=figures.figure_name(name, 34))
    for place, (name, heights) in enumerate(level.items(), len(groups)):
        look = {**figures.figure_series_look(place), "marker": ""}
        height = max(float(np.median(heights)), LEAST_DRAWN)
        axis.axhline(height, **look, linewidth=1.2, label=figures.figure_name(name, 34))
    axis.set(xlabel=labels[0], ylabel=labels[1], xscale="log", yscale="log")
    axis.grid(visible=True, alpha=0.3)
    # Between two powers of ten there may be no tick that has a name.
    for along in (axis.xaxis, axis.yaxis):
        low, high = along.get_view_interval()
        if high < 30.0 * low:
            figures.few_ticks(along)
    figures.legend_below(axis, *axis.get_legend_handles_labels())
    return figure
