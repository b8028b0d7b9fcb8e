"""The figures of statistics: boxes, bins, tables, means and differences of groups."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from math import isfinite
from types import ModuleType
from typing import Any

import numpy as np

from veilsum.errors import InvalidInputError
from veilsum.models.tallies import TallyQuantile
from veilsum.numbers.arrays import listed_names, nearest_name


def statistics_figure(
    figures: ModuleType,
    result: Any,
    of: str | tuple[str, str] | None,
    title: str | None,
) -> Any:
    """Return a column's, two crossed ones', the "means" or "differences" of groups."""
    ways = _drawable_statistics(figures, result)
    wanted: Any = next(iter(ways), None) if of is None else of
    wanted = tuple(wanted) if isinstance(wanted, list) else wanted
    if wanted not in ways:
        names = [one if isinstance(one, str) else " x ".join(one) for one in ways]
        asked = "of" if wanted is None else f"of {wanted!r}"
        raise InvalidInputError(
            f"nothing {asked} can be drawn; "
            f"{nearest_name(str(wanted), tuple(names))}there is "
            f"{listed_names(names) or 'nothing'}",
            code="nothing-to-draw",
        )
    return ways[wanted](title)


def _drawable_statistics(figures: ModuleType, result: Any) -> dict[Any, Any]:
    """Return what can be drawn, and by what; the fullest comes first."""
    wishes, caption = result.wishes, figures.job_caption(result, result.count)
    found: dict[Any, Any] = {}

    def boxes(name: str) -> Any:
        groups = quantile_groups(result, name)
        return lambda title: boxes_figure(
            figures,
            groups,
            name,
            figures.chosen_title(title, f"Quantiles of {name}"),
            caption,
        )

    def counts(names: tuple[str, str]) -> Any:
        axes = wishes.tables[names]
        labels = axes[0].labels, axes[1].labels
        usual = f"Rows by {names[0]} and {names[1]}"
        return lambda title: figures.counts_figure(
            result.tables[names].astype(float),
            names,
            labels,
            figures.chosen_title(title, usual),
            caption,
        )

    def bins(name: str) -> Any:
        held, column = result.histograms[name], result.schema.column(name)
        edges, heights, beyond = held.edges.tolist(), held.counts.tolist(), ""
        before = after = False
        # Open bins end where values do by agreement; without one they have no width.
        if column.minimum is not None and column.minimum < edges[0]:
            before, edges = True, [column.minimum, *edges]
            heights = [held.below, *heights]
        elif held.below:
            beyond += f" {held.below:,.0f} rows are below, not drawn."
        if column.maximum is not None and column.maximum > edges[-1]:
            after, edges = True, [*edges, column.maximum]
            heights = [*heights, held.above]
        elif held.above:
            beyond += f" {held.above:,.0f} rows are above, not drawn."
        return lambda title: figures.histogram_figure(
            edges,
            heights,
            name,
            figures.chosen_title(title, f"Rows by {name}"),
            caption + beyond,
            open_ends=(before, after),
        )

    def means(columns: tuple[str, ...]) -> Any:
        whole = result.marginals
        parts = {"": whole}
        if wishes.by is not None:
            parts = dict(zip(result.groups.names, result.groups.parts, strict=True))
        rows = []
        for k, column in enumerate(columns):
            # In the spread of all rows, so that groups are on one scale.
            unit = float(np.sqrt(whole.variance[k]))
            for label, part in parts.items():
                m, sd = float(part.mean[k]), float(np.sqrt(part.variance[k]))
                name = f"{column}: {label}" if label else column
                ends = {"low": m - sd, "high": m + sd, "standard_error": unit}
                if isfinite(m):
                    rows.append({"name": name, "coefficient": m, **ends})
        of_all = " of all rows" if wishes.by is not None else ""
        return lambda title: figures.forest_figure(
            rows[: figures.MOST_SHOWN],
            figures.chosen_title(title, "Means, and one standard deviation either way"),
            caption + figures.not_drawn_words(len(rows)),
            scaled=True,
            xlabel=f"in standard deviations{of_all}",
        )

    def differences(title: str | None) -> Any:
        groups = result.groups
        known = {key: one.largest for key, one in groups.comparisons.items()}
        apart = {key: one for key, one in known.items() if isfinite(one)}
        ranked = dict(
            sorted(apart.items(), key=lambda one: -one[1])[: figures.MOST_SHOWN]
        )
        which = "of two groups, the largest" if len(groups.names) > 2 else "in size"
        return figures.differences_figure(
            ranked,
            f"standardised difference, {which}",
            figures.chosen_title(
                title, f"How far groups of {groups.by.column} are apart"
            ),
            caption + figures.not_drawn_words(len(apart)),
        )

    if wishes.by is not None and any(
        isfinite(one.largest) for one in result.groups.comparisons.values()
    ):
        found["differences"] = differences
    for name in result.quantiles:
        found[name] = boxes(name)
    for names in wishes.tables:
        if len(names) == 2:
            found[names] = counts((names[0], names[1]))
    for name in result.histograms:
        found.setdefault(name, bins(name))
    if result.columns:
        found["means"] = means(result.columns)
    return found


def quantile_groups(result: Any, name: str) -> dict[str, Sequence[TallyQuantile]]:
    """Return a column's quantiles of all rows, and of each group."""
    groups = {"all": result.quantiles[name]}
    if (by := result.wishes.by) is not None:
        names = (f"{by.column} = {label}" for label in by.labels)
        parts = result.groups.quantiles[name][1:]
        groups |= dict(zip(names, parts, strict=True))
    return groups


def boxes_figure(
    figures: ModuleType,
    groups: Mapping[str, Sequence[TallyQuantile]],
    name: str,
    title: str,
    caption: str = "",
) -> Any:
    """Return a box for each group, drawn from counts at agreed thresholds.

    A line stands where a quantile is if values are spread evenly between two
    thresholds; the bar across it is where it surely is. There are no dots and no ends:
    the smallest and the largest value are single rows. Quartiles make the box, and the
    outermost quantiles beyond them its whiskers.
    """
    wide = max(figures.WIDTH, 1.0 + 0.75 * len(groups))
    figure, (axis,) = figures.figure_panels(
        2.7, title=title, caption=caption, width=wide, bottom=0.95
    )
    from matplotlib.patches import Rectangle  # `panels` says so if there is none

    for place, found in enumerate(groups.values()):
        known = {one.share: one for one in found if isfinite(one.between)}
        aside = np.linspace(-0.18, 0.18, len(known)) if len(known) > 1 else [0.0]
        for one, at in zip(known.values(), aside, strict=True):
            spot = (place + at - 0.04, one.low), 0.08, one.high - one.low
            axis.add_patch(
                Rectangle(*spot, color=figures.ORANGE, alpha=0.35, linewidth=0)
            )
        ends = [one.between for one in known.values()]
        middle = [known[share].between for share in (0.25, 0.75) if share in known]
        if len(middle) == 2:
            spot = (place - 0.25, middle[0]), 0.5, middle[1] - middle[0]
            axis.add_patch(
                Rectangle(*spot, fill=False, edgecolor=figures.BLUE, linewidth=1.2)
            )
        for edge, end in zip(middle, (min, max), strict=False):
            axis.plot(
                [place, place], [edge, end(ends)], color=figures.BLUE, linewidth=1.2
            )
        for one in known.values():
            width = 0.25 if 0.25 <= one.share <= 0.75 else 0.1
            bold = 2.4 if one.share == 0.5 else 1.2
            line = [place - width, place + width], [one.between] * 2
            axis.plot(*line, color=figures.BLUE, linewidth=bold)
    axis.plot(
        [], [], color=figures.BLUE, linewidth=2.4, label="quantile, if spread evenly"
    )
    axis.plot(
        [],
        [],
        color=figures.ORANGE,
        alpha=0.35,
        linewidth=7,
        label="where it surely is",
    )
    most = int(46 / len(groups))
    ticks = [
        "\n".join(textwrap.wrap(figures.figure_name(one, 2 * most), most))
        for one in groups
    ]
    axis.set_xticks(range(len(groups)), ticks)
    axis.set(xlim=(-0.6, len(groups) - 0.4), ylabel=figures.figure_name(name, 36))
    axis.margins(y=0.1)
    figures.legend_below(axis, *axis.get_legend_handles_labels())
    return figure
