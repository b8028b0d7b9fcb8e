"""Figures as bytes: built without global state, rendered to PNG and SVG.

matplotlib is an extra; it is imported when the first figure is drawn.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from io import BytesIO
from itertools import pairwise
from math import ceil, floor, isfinite, log10
from typing import Any

import numpy as np
from scipy.special import ndtr, ndtri

from veilsum.errors import MissingExtraError, install_advice, printable
from veilsum.graphs.layout import layout_of_graph
from veilsum.graphs.topology import Topology
from veilsum.numbers.arrays import FloatArray
from veilsum.privacy.conversions import attacker_success, gaussian_mu_of_divergence
from veilsum.showing import counted_words
from veilsum.sums.running import SumJobResult

# Okabe and Ito's palette: told apart by colour-blind readers too. Lines and marks
# differ as well, for who reads in grey.
BLUE, ORANGE, GREEN, GREY = "#0072B2", "#D55E00", "#009E73", "#666666"
PURPLE, SKY, GOLD, BLACK = "#CC79A7", "#56B4E9", "#E69F00", "#000000"
PALETTE = (BLUE, ORANGE, GREEN, PURPLE, SKY, GOLD, GREY, BLACK)
LINES = ("-", "--", "-.", ":")
MARKS = "os^DvPX*"
HATCHES = ("", "///", "...", "xxx", "\\\\\\", "+++", "ooo", "|||")
MANY_NAMES = 40  # of parties in a network, above which most stay unnamed
DPI = 150
MOST_SHOWN = 40  # bars and lines: more say nothing on a screen
# So many times as wide as another, an interval is in other units.
UNITS = 20.0

# In inches and points: on a screen 390 pixels wide such letters are 9 pixels high, and
# panels stand above each other, not side by side.
WIDTH, SMALL = 5.4, 9
LETTER = 0.08  # what an average letter of 10 points takes of an inch
LONGEST = 26  # letters of a name that stands beside an axis


@cache
def _figure_class() -> Any:
    """Return the class of figures, once matplotlib is asked for."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingExtraError(
            f"figures need matplotlib: {install_advice('report')}", code="missing-extra"
        ) from None

    class ShownFigure(Figure):
        """A figure that a notebook shows, whether or not it has heard of pyplot."""

        def _repr_png_(self) -> bytes:
            return figure_png_and_svg(self)["png"]

    return ShownFigure


def figure_panels(
    *heights: float,
    title: str = "",
    caption: str = "",
    left: float = 0.85,
    right: float = 0.2,
    bottom: float = 0.6,
    gap: float = 0.75,
    headed: bool = False,
    sharex: bool = False,
    width: float = WIDTH,
) -> tuple[Any, Any]:
    """Return a figure of panels above each other, and their axes; all in inches.

    `headed`: panels have titles of their own.
    """
    above, below = (
        figure_text_lines(title, width),
        figure_text_lines(caption, width, size=SMALL),
    )
    top = 0.25 + 0.19 * (above.count("\n") + 1 if above else 0) + 0.22 * headed
    foot = 0.1 + 0.165 * (below.count("\n") + 1) if below else 0.0
    height = top + sum(heights) + gap * (len(heights) - 1) + bottom + foot
    figure = _figure_class()(figsize=(width, height))
    if above:
        at = 0.1 / width, 1 - 0.1 / height
        figure.text(*at, above, va="top", fontsize=11, linespacing=1.25)
    if below:
        at = 0.1 / width, 0.1 / height
        figure.text(*at, below, va="bottom", fontsize=SMALL, color=GREY)
    # Fixed margins: solving a layout takes longer than drawing the figure.
    axes = figure.subplots(
        len(heights), 1, squeeze=False, sharex=sharex, height_ratios=heights
    )
    figure.subplots_adjust(
        left=left / width,
        right=1 - right / width,
        bottom=(bottom + foot) / height,
        top=1 - top / height,
        hspace=gap * len(heights) / sum(heights),
    )
    return figure, axes[:, 0]


def figure_text_lines(text: str, width: float, *, size: float = 11) -> str:
    """Return somebody's text as lines that fit, in which no letter is an order."""
    letters = int((width - 0.2) / (LETTER * size / 10))
    lines = textwrap.wrap(printable(text), letters)
    return "\n".join(lines).replace("$", r"\$")


def figure_name(name: object, most: int = LONGEST) -> str:
    """Return somebody's name for a place that has room for so many letters."""
    text = printable(str(name))
    text = text if len(text) <= most else f"{text[: most - 1]}\u2026"
    return text.replace("$", r"\$")


def figure_name_width(names: Iterable[object], most: int = LONGEST) -> float:
    """Return the inches that the longest of some names takes, with its axis."""
    return 0.3 + LETTER * max((min(len(str(one)), most) for one in names), default=0)


def figure_png_and_svg(figure: Any) -> dict[str, bytes]:
    """Return the figure as PNG and SVG, the same bytes for the same figure."""
    from matplotlib import rc_context

    files = {"png": BytesIO(), "svg": BytesIO()}
    with rc_context({"svg.hashsalt": "veilsum"}):
        figure.savefig(files["png"], format="png", dpi=DPI, metadata={})
        figure.savefig(files["svg"], format="svg", dpi=DPI, metadata={"Date": None})
    return {kind: one.getvalue() for kind, one in files.items()}


def figure_svg(figure: Any) -> bytes:
    """Return the figure for a page: letters are the reader's own, and bytes few."""
    from matplotlib import rc_context

    buffer = BytesIO()
    with rc_context({"svg.hashsalt": "veilsum", "svg.fonttype": "none"}):
        figure.savefig(buffer, format="svg", metadata={"Date": None})
    return buffer.getvalue()


def chosen_title(title: str | None, usual: str) -> str:
    return usual if title is None else title


def job_caption(result: SumJobResult, rows: int | None = None) -> str:
    """Return the caption of a job: how much is in it, and who may collude."""
    members = counted_words(len(result.released.members), "party")
    whose = members if rows is None else f"{counted_words(rows, 'row')} of {members}"
    return (
        f"{whose}; {colluder_words(result.terms.tolerate)}; "
        f"{result.terms.law.name} masks."
    )


def colluder_words(tolerate: int) -> str:
    if tolerate == 0:
        return "nobody colludes"
    if tolerate == 1:
        return "any one of them may be curious"
    return f"any {tolerate} of them may collude"


def not_drawn_words(number: int) -> str:
    left = number - MOST_SHOWN
    return f" {left:,} more {'is' if left == 1 else 'are'} not drawn." * (left > 0)


# Networks, and what they promise


def network_figure(
    topology: Topology,
    title: str,
    caption: str = "",
    *,
    corrupted: Iterable[str] = (),
    cut: Iterable[str] = (),
    dangers: Mapping[str, float] | None = None,
    added: Iterable[tuple[str, str]] = (),
    helpful: Iterable[tuple[str, str]] = (),
) -> Any:
    """Return who talks to whom, who colludes, and how well everybody else is hidden.

    The loss of the parties `cut` takes the network apart; `dangers` is infinite for a
    party that the coalition knows exactly; links `added` would mend the network.
    """
    bad, weak, known = set(corrupted), set(cut), dict(dangers or {})
    places = layout_of_graph(topology)
    at = dict(zip(topology.parties, places.tolist(), strict=True))
    # As high as it has to be: a chain lies flat.
    low, high = places[:, 1].min() - 0.3, places[:, 1].max() + 0.2
    side: dict[str, Any] = {"left": 0.2, "right": 0.2, "bottom": 0.75}
    tall = (WIDTH - 0.4) * (high - low) / 2.9
    figure, (axis,) = figure_panels(tall, title=title, caption=caption, **side)
    ends = [(topology.parties[i], topology.parties[j]) for i, j in topology.edges]
    thin = 1.4 if len(ends) <= 200 else 0.5
    free = [one for one in ends if not bad.intersection(one)]
    known_links = [one for one in ends if bad.intersection(one)]
    for label, links, colour, style, wide in (
        ("link", free, GREY, "-", thin),
        ("link the coalition knows", known_links, ORANGE, ":", thin),
        ("link that mends it", added, GREEN, "--", 2.4),
        ("link that helps further", helpful, PURPLE, "-.", 2.0),
    ):
        # What is not there yet goes in a bow: parties may stand on the straight way.
        bent = colour in (GREEN, PURPLE)
        look: dict[str, Any] = {"color": colour, "linestyle": style, "linewidth": wide}
        for place, (one, other) in enumerate(links):
            way = _drawn_link_points(np.array(at[one]), np.array(at[other]), bent=bent)
            axis.plot(*way, **look, label="" if place else label, zorder=1)
    size = 320.0 if topology.n_parties <= 20 else 6400.0 / topology.n_parties
    finite = [one for one in known.values() if isfinite(one)]
    most = max(finite, default=1.0) or 1.0
    groups: dict[tuple[str, str, str], list[str]] = {}
    for name in topology.parties:
        groups.setdefault(_drawn_party_role(name, bad, weak, known), []).append(name)
    for (label, mark, edge), names in groups.items():
        dark = label == "colludes"
        shades = [
            (0.0, 0.0, 0.0) if dark else _drawn_cell_shade(known.get(name, 0.0) / most)
            for name in names
        ]
        x, y = zip(*(at[name] for name in names), strict=True)
        thick = 1.0 if edge == BLACK else 2.4
        look = {"s": size, "c": shades, "edgecolors": edge, "linewidths": thick}
        # In the legend a plain mark, whatever shade the first of them has.
        axis.scatter(x, y, marker=mark, zorder=2, **look)
        shown = BLACK if dark else "white"
        spot: dict[str, Any] = {"markerfacecolor": shown, "markeredgecolor": edge}
        axis.plot([], [], mark, **spot, markersize=8, linestyle="", label=label)
    _write_party_names_in_figure(axis, at, bad, bad | weak)
    axis.set(xlim=(-1.45, 1.45), ylim=(low, high), xticks=[], yticks=[])
    axis.set_aspect("equal")
    for line in axis.spines.values():
        line.set_visible(False)
    below = {"loc": "upper center", "bbox_to_anchor": (0.5, 0.0), "ncols": 2}
    near = {"handletextpad": 0.4, "columnspacing": 1.0}
    axis.legend(frameon=False, fontsize=SMALL, **below, **near)
    return figure


def _drawn_link_points(start: FloatArray, end: FloatArray, *, bent: bool) -> FloatArray:
    """Return the points of a link: its ends, or those of a bow between them."""
    along = np.linspace(0.0, 1.0, 25 if bent else 2)
    across = np.array([end[1] - start[1], start[0] - end[0]])
    bow = 4.0 * along * (1.0 - along) * (0.13 if bent else 0.0)
    points = start[:, None] * (1.0 - along) + end[:, None] * along
    return np.asarray(points + across[:, None] * bow)


def _drawn_party_role(
    name: str, bad: set[str], weak: set[str], known: Mapping[str, float]
) -> tuple[str, str, str]:
    """Return what a party is in a network, its mark, and the mark's edge."""
    if name in bad:
        return "colludes", "X" if name in weak else "s", BLACK
    if not isfinite(known.get(name, 0.0)):
        return "known exactly", "^", ORANGE
    if name in weak:
        return "its loss cuts the network", "D", ORANGE
    return ("honest, darker: more in danger" if known else "party"), "o", BLACK


def _drawn_cell_shade(part: float) -> tuple[float, float, float]:
    """Return white for 0 to a blue for 1, on which black letters are still read."""
    depth = part if isfinite(part) else 0.0
    return 1.0 - 0.66 * depth, 1.0 - 0.40 * depth, 1.0 - 0.15 * depth


def _write_party_names_in_figure(
    axis: Any, at: Mapping[str, Sequence[float]], bad: set[str], marked: set[str]
) -> None:
    """Write names into marks where they fit, below them where there is room."""
    inside = max(map(len, at)) <= 3 and len(at) <= 20
    for name, place in at.items():
        if len(at) > MANY_NAMES and name not in marked:
            continue
        look: dict[str, Any] = {"fontsize": SMALL, "ha": "center", "zorder": 3}
        if inside:
            look |= {"va": "center", "color": "white" if name in bad else BLACK}
            axis.text(*place, figure_name(name), **look)
            continue
        # On white, so that links behind it do not cross it out.
        under = {"facecolor": "white", "alpha": 0.8, "linewidth": 0, "pad": 0.3}
        below: dict[str, Any] = {"xytext": (0, -11), "textcoords": "offset points"}
        axis.annotate(
            figure_name(name, 14), place, va="top", bbox=under, **below, **look
        )


def epsilon_figure(
    mu2: Mapping[int, float],
    title: str,
    caption: str = "",
    *,
    shares_per_edge: int = 2,
    chosen: tuple[float, float] | None = None,
    target: float | None = None,
) -> Any:
    """Return epsilon against sigma, by number of colluders: `mu2` of the weakest graph.

    `chosen` is a sigma with its epsilon, `target` an epsilon that was asked for.
    """
    figure, (axis,) = figure_panels(3.2, title=title, caption=caption)
    middle = 1.0 if chosen is None else chosen[0]
    sigmas = np.geomspace(middle / 4.0, 4.0 * middle, 60)
    for place, (tolerate, least) in enumerate(mu2.items()):
        label = f"{tolerate} collude" if tolerate != 1 else "1 colludes"
        look: dict[str, Any] = {"color": PALETTE[place % len(PALETTE)]}
        look |= {"linestyle": LINES[place % len(LINES)], "marker": MARKS[place % 8]}
        look |= {"markevery": (4 * place, 20), "markersize": 5, "label": label}
        axis.plot(sigmas, 1.0 / (2.0 * shares_per_edge * least * sigmas**2), **look)
    if target is not None:
        axis.axhline(target, color=GREY, linewidth=1.0, linestyle=(0, (1, 1)))
        axis.text(sigmas[0], 1.15 * target, "asked for", color=GREY, fontsize=SMALL)
    if chosen is not None:
        look = {"color": BLACK, "markersize": 13, "label": "chosen", "linestyle": ""}
        axis.plot(*chosen, "*", **look)
    axis.set(xscale="log", yscale="log", xlabel=r"$\sigma$ of one share")
    axis.set_ylabel(r"$\epsilon$: KL at distance 1, at most")
    few_ticks(axis.xaxis)
    axis.grid(visible=True, alpha=0.3)
    axis.legend(frameon=False, fontsize=SMALL)
    return figure


def success_figure(
    success: Callable[[float], float], furthest: float, title: str, caption: str = ""
) -> Any:
    """Return the best attacker's success against how far apart two inputs are.

    Args:
        success: at a distance.
        furthest: the largest distance that is drawn.
        title: what to notice.
        caption: what it rests on.
    """
    figure, (axis,) = figure_panels(2.9, title=title, caption=caption)
    distances = np.linspace(0.0, furthest, 161)
    heights = [success(float(one)) for one in distances]
    axis.plot(distances, heights, color=BLUE)
    axis.axhline(0.5, color=GREY, linestyle=":", linewidth=1.0)
    axis.text(furthest, 0.51, "by a coin", color=GREY, ha="right", fontsize=SMALL)
    axis.set(ylim=(0.47, 1.02), xlim=(0.0, furthest), ylabel="right guesses, at most")
    axis.set_xlabel("distance of two inputs of equal honest sum")
    axis.grid(visible=True, alpha=0.3)
    return figure


def roc_figure(divergence: float, title: str, caption: str = "") -> Any:
    """Return the ROC curve of the best test between two views, by their divergence."""
    figure, (axis,) = figure_panels(3.4, title=title, caption=caption)
    alarms = np.linspace(0.0, 1.0, 401)
    with np.errstate(all="ignore"):
        hits = ndtr(gaussian_mu_of_divergence(divergence) + ndtri(alarms))
    axis.fill_between(alarms, alarms, hits, color=BLUE, alpha=0.12, linewidth=0)
    axis.plot(alarms, hits, color=BLUE, label="the best test there is")
    axis.plot([0, 1], [0, 1], ":", color=GREY, linewidth=1.0, label="by a coin")
    # Where both errors are equal the guesser at even odds stands.
    right = attacker_success(divergence)
    look: dict[str, Any] = {"color": ORANGE, "linestyle": ""}
    axis.plot([1 - right], [right], "D", **look, label=f"right in {right:.1%}")
    axis.set(xlim=(-0.01, 1.01), ylim=(-0.01, 1.01))
    axis.set(xlabel="false alarms", ylabel="hits")
    axis.grid(visible=True, alpha=0.3)
    axis.legend(frameon=False, loc="lower right", fontsize=SMALL)
    return figure


def legend_below(
    axis: Any,
    handles: Sequence[Any],
    labels: Sequence[str],
    *,
    columns: int = 2,
    anchor: Any = None,
) -> None:
    """Put a legend below an axis and its label, where it hides nothing."""
    where = (anchor or axis).legend(
        handles,
        labels,
        frameon=False,
        fontsize=SMALL,
        ncols=columns,
        loc="upper left",
        bbox_to_anchor=(-0.1, -0.5 / axis.bbox.height * axis.figure.dpi),
        bbox_transform=axis.transAxes,
        handletextpad=0.5,
        columnspacing=1.2,
        borderaxespad=0.0,
    )
    where.set_zorder(5)


# Attacks


def float_leak_figure(
    sigmas: Sequence[float],
    curves: Mapping[str, Sequence[float]],
    *,
    lattice: Sequence[float],
) -> Any:
    """Return how often float64 masks rule an alternative out, over ascending sigmas.

    `lattice` has the largest share of runs of all inputs, for integer masks.
    """
    title = "In float64 more noise helps whole numbers, not decimals"
    # The lattice comes last, over the others, and lowest where it meets them.
    drawn = {f"values {held}": rates for held, rates in curves.items()}
    drawn["any of them,\non a lattice"] = lattice
    longest = [line for name in drawn for line in name.split("\n")]
    figure, (axis,) = figure_panels(
        3.0, title=title, right=0.9 * figure_name_width(longest, 30)
    )
    colours = (*(BLUE, ORANGE, PURPLE)[: len(curves)], GREEN)
    styles = (*("o-", "s--", "^:")[: len(curves)], "D-")
    for rates, colour, style in zip(drawn.values(), colours, styles, strict=True):
        axis.plot(sigmas, rates, style, color=colour, markersize=5)
    _name_at_end(axis, drawn, colours)
    axis.set(xscale="log", ylim=(-0.06, 1.0), xlabel=r"$\sigma$ of one share")
    axis.yaxis.set_major_formatter(lambda rate, _: f"{100 * rate:.0f}%")
    axis.set_ylabel("runs in which the swap is impossible")
    axis.grid(visible=True, alpha=0.3)
    return figure


def _name_at_end(
    axis: Any, curves: Mapping[str, Sequence[float]], colours: Sequence[str]
) -> None:
    ends = [rates[-1] for rates in curves.values()]
    heights = _labels_apart_in_figure(ends, gap=0.08)
    for name, height, colour in zip(curves, heights, colours, strict=True):
        _write_beside_figure_bar(axis, height, name, color=colour)


def _write_beside_figure_bar(
    axis: Any, height: float, text: str, *, at: float = 1.02, **look: Any
) -> None:
    look |= {"transform": axis.get_yaxis_transform(), "va": "center"}
    axis.text(at, height, text, **look, fontsize=SMALL)


def _labels_apart_in_figure(heights: Sequence[float], *, gap: float) -> list[float]:
    """Return the heights, raised where needed to be at least a gap apart.

    Of equal heights the last stays lowest.
    """
    raised = list(heights)
    order = sorted(range(len(raised)), key=lambda i: (raised[i], -i))
    for below, above in pairwise(order):
        raised[above] = max(raised[above], raised[below] + gap)
    return raised


# Coefficients and rows


def coefficients_figure(
    rows: Sequence[Mapping[str, Any]], pooled: Sequence[float], title: str
) -> Any:
    """Return a fit's coefficients with their intervals, beside the pooled ones.

    Args:
        rows: of a fit, with name, coefficient, standard_error, low and high.
        pooled: the coefficients that one owner of all rows would find.
        title: what to notice.
    """
    names = [str(row["name"]) for row in rows]
    figure, (axis,) = figure_panels(
        0.3 * len(rows) + 0.3,
        title=title,
        left=max(0.85, figure_name_width(names)),
        bottom=0.85,
    )
    places = np.arange(len(rows))[::-1]
    ring: dict[str, Any] = {"color": ORANGE, "markersize": 9, "fillstyle": "none"}
    # In standard errors: coefficients of different units share one axis.
    for place, row, whole in zip(places, rows, pooled, strict=True):
        unit = row["standard_error"]
        axis.plot([row["low"] / unit, row["high"] / unit], [place] * 2, color=BLUE)
        axis.plot(row["coefficient"] / unit, place, "o", color=BLUE, markersize=4)
        axis.plot(whole / unit, place, "o", **ring)
    axis.plot([], [], "o-", color=BLUE, markersize=4, label="under masks, 95 %")
    axis.plot([], [], "o", **ring, label="pooled")
    axis.axvline(0.0, color=GREY, linewidth=0.8)
    axis.set_yticks(places, list(map(figure_name, names)))
    axis.set_xlabel("coefficient, in standard errors")
    legend_below(axis, *axis.get_legend_handles_labels())
    return figure


def forest_figure(
    rows: Sequence[Mapping[str, Any]],
    title: str,
    caption: str = "",
    *,
    ratio: bool = False,
    scaled: bool = False,
    xlabel: str = "95 % interval",
) -> Any:
    """Return estimates with their intervals, one below the other.

    `ratio` shows exp of all of them on a logarithmic axis. `scaled` draws each in its
    own standard error, since they have different units; the numbers beside are not
    scaled.
    """
    names = [str(row["name"]) for row in rows]
    shown = np.exp if ratio else np.asarray
    keys = ("low", "coefficient", "high")
    with np.errstate(over="ignore"):  # of a column that tells all events
        lines = [shown([row[key] for key in keys]) for row in rows]
    words = [
        f"{_short_figure_number(b)}  [{_short_figure_number(a)}, "
        f"{_short_figure_number(c)}]"
        for a, b, c in lines
    ]
    if scaled:
        units = [row["standard_error"] or 1.0 for row in rows]
        lines = [line / unit for line, unit in zip(lines, units, strict=True)]
    figure, (axis,) = figure_panels(
        0.33 * len(rows) + 0.25,
        title=title,
        caption=caption,
        left=max(0.7, figure_name_width(names, 22)),
        right=0.92 * figure_name_width(words, 40) - 0.1,
    )
    for place, (low, middle, high), told in zip(
        range(len(rows))[::-1], lines, words, strict=True
    ):
        axis.plot([low, high], [place] * 2, color=BLUE, linewidth=1.6)
        axis.plot(middle, place, "s", color=BLUE, markersize=6)
        _write_beside_figure_bar(axis, place, told, at=1.03)
    axis.axvline(1.0 if ratio else 0.0, color=GREY, linewidth=0.8)
    axis.set_yticks(range(len(rows))[::-1], [figure_name(one, 22) for one in names])
    axis.set_ylim(-0.6, len(rows) - 0.4)
    if ratio:
        axis.set_xscale("log")
        few_ticks(axis.xaxis)
    else:
        axis.locator_params(axis="x", nbins=4)
    axis.set_xlabel(xlabel)
    axis.grid(visible=True, alpha=0.3, axis="x")
    return figure


def inference_figure(
    table: Sequence[Mapping[str, Any]],
    title: str,
    caption: str,
    *,
    ratio: str = "",
    scaled: bool | None = None,
    left_out: Callable[[str], bool] | None = None,
) -> Any:
    """Return a fit's coefficients with their intervals, one below the other.

    Args:
        table: rows with name, coefficient, standard_error, low and high.
        title: what to notice.
        caption: what they rest on.
        ratio: the name of exp(coefficient), which is drawn then.
        scaled: whether each is drawn in its own standard errors; by default where
            units differ much.
        left_out: says of a name whether its coefficient is left out.
    """
    # What there is beside intercepts, or these if there is nothing.
    rows = [one for one in table if left_out is None or not left_out(one["name"])]
    rows = rows or [*table]
    if scaled is None:
        # Columns have units of their own, and one axis does not.
        widths = [one["high"] - one["low"] for one in rows]
        known = [one for one in widths if one > 0.0 and isfinite(one)]
        scaled = not ratio and max(known, default=0.0) > UNITS * min(known, default=0.0)
    said = f"{ratio or 'coefficient'}, 95 % interval"
    return forest_figure(
        rows[:MOST_SHOWN],
        title,
        caption + not_drawn_words(len(rows)),
        ratio=bool(ratio),
        scaled=scaled,
        xlabel="coefficient and 95 %, in its standard errors" if scaled else said,
    )


def _short_figure_number(number: float) -> str:
    """Return three digits of a number, and no dot behind the last one."""
    return f"{number:#.3g}".rstrip(".")


def few_ticks(along: Any) -> None:
    """Name at most four round values on a logarithmic axis, however short it is."""
    from matplotlib.ticker import FixedLocator, NullLocator

    low, high = along.get_view_interval()
    digits = (1.0, 1.5, 2.0, 3.0, 5.0, 7.0)
    powers = range(floor(log10(low)), ceil(log10(high)) + 1)
    rounded = [digit * 10.0**power for power in powers for digit in digits]
    inside = [one for one in rounded if low <= one <= high] or [(low * high) ** 0.5]
    step = -(-len(inside) // 4)
    # The line of no effect stays named.
    first = inside.index(1.0) % step if 1.0 in inside else 0
    along.set_major_locator(FixedLocator(inside[first::step]))
    along.set_minor_locator(NullLocator())
    along.set_major_formatter(lambda tick, _: f"{tick:.3g}")


def counts_figure(
    cells: FloatArray,
    names: tuple[str, str],
    labels: tuple[Sequence[str], Sequence[str]],
    title: str,
    caption: str = "",
) -> Any:
    """Return a table of counts in colours: with bins, a histogram of two columns."""
    down, across = cells.shape
    left = 0.3 + figure_name_width(labels[0], 14)
    width = max(WIDTH, left + 0.45 * across + 0.2)
    each = (width - left - 0.2) / across
    slanted = LETTER * max(map(len, labels[1])) > 0.9 * each
    bottom = 0.5 + (
        0.7 * min(figure_name_width(labels[1], 14), 1.5) if slanted else 0.15
    )
    figure, (axis,) = figure_panels(
        0.32 * down, title=title, caption=caption, left=left, bottom=bottom, width=width
    )
    axis.pcolormesh(cells, cmap="Blues", vmin=0, edgecolors="white", linewidth=1.0)
    most = cells.max()
    for row, column in np.ndindex(cells.shape):
        number = int(cells[row, column])
        dark = "white" if number > 0.55 * most else "black" if number else "#757575"
        place = column + 0.5, row + 0.5
        axis.text(*place, number, color=dark, ha="center", va="center", fontsize=SMALL)
    turn: dict[str, Any] = {"rotation": 40, "ha": "right", "rotation_mode": "anchor"}
    ticks = [figure_name(one, 14) for one in labels[1]]
    axis.set_xticks(
        np.arange(across) + 0.5, ticks, fontsize=SMALL, **(turn if slanted else {})
    )
    rows = [figure_name(one, 14) for one in labels[0]]
    axis.set_yticks(np.arange(down) + 0.5, rows, fontsize=SMALL)
    axis.set(
        xlabel=figure_name(names[1], 40), ylabel=figure_name(names[0], 4 * down + 8)
    )
    axis.tick_params(length=0)
    return figure


def histogram_figure(
    edges: Sequence[float],
    counts: Sequence[float],
    name: str,
    title: str,
    caption: str = "",
    *,
    open_ends: tuple[bool, bool] = (False, False),
) -> Any:
    """Return counts between agreed edges; over unequal bins as rows per unit.

    So an area is a number of rows, and a wide bin with many does not look like more.
    Hatched ends go on as far as values may.
    """
    ends = np.asarray(edges, dtype=np.float64)
    widths, heights = np.diff(ends), np.asarray(counts, dtype=np.float64)
    alike = bool(np.ptp(widths) <= 1e-9 * widths.max())
    if any(open_ends):
        hatched = "Hatched: all rows beyond the edges, as far as was agreed on."
        caption = f"{caption} {hatched}".strip()
    figure, (axis,) = figure_panels(2.7, title=title, caption=caption)
    look: dict[str, Any] = {"align": "edge", "color": SKY, "edgecolor": BLUE}
    drawn = axis.bar(ends[:-1], heights if alike else heights / widths, widths, **look)
    for is_open, bar in zip(open_ends, (drawn[0], drawn[-1]), strict=True):
        if is_open:
            bar.set(facecolor="white", hatch=HATCHES[1])
    # Edges are named where there is room: a ninth of the width.
    kept = [0]
    for place in range(1, len(ends)):
        if ends[place] - ends[kept[-1]] >= (ends[-1] - ends[0]) / 9.0:
            kept.append(place)
    axis.set_xticks(ends[kept], [f"{one:.6g}" for one in ends[kept]])
    axis.tick_params(axis="x", labelsize=SMALL)
    ylabel = "rows" if alike else f"rows per unit of {figure_name(name, 18)}"
    axis.set(xlabel=figure_name(name, 40), ylabel=ylabel)
    axis.grid(visible=True, alpha=0.3, axis="y")
    return figure


def differences_figure(
    values: Mapping[str, float], xlabel: str, title: str, caption: str = ""
) -> Any:
    """Return standardised differences of groups as points, with a line at 0.1."""
    figure, (axis,) = figure_panels(
        0.3 * len(values) + 0.3,
        title=title,
        caption=f"Dotted: 0.1, below which groups are often called balanced. {caption}",
        left=max(0.85, figure_name_width(values, 22)),
        right=0.6,
    )
    places = range(len(values))[::-1]
    for place, value in zip(places, values.values(), strict=True):
        axis.plot(value, place, "o", color=BLUE, markersize=6)
        _write_beside_figure_bar(axis, place, f"{value:.3f}")
    axis.axvline(0.1, color=GREY, linestyle=":", linewidth=1.0)
    axis.set_yticks(places, [figure_name(one, 22) for one in values])
    axis.set(ylim=(-0.6, len(values) - 0.4), xlabel=xlabel)
    axis.set_xlim(0.0, 1.08 * max(0.2, *values.values()))
    axis.locator_params(axis="x", nbins=5)
    axis.grid(visible=True, alpha=0.3)
    return figure


def values_figure(
    values: Mapping[str, float],
    xlabel: str,
    title: str,
    caption: str = "",
    *,
    ends: Mapping[str, tuple[float, float]] | None = None,
) -> Any:
    """Return numbers as bars, one below the other, each written at its end.

    `ends` are intervals of some of them.
    """
    places = np.arange(len(values))[::-1]
    figure, (axis,) = figure_panels(
        0.3 * len(values) + 0.25,
        title=title,
        caption=caption,
        left=max(0.6, figure_name_width(values, 22)),
        right=1.0,
    )
    heights = list(values.values())
    axis.barh(places, heights, height=0.6, color=SKY, edgecolor=BLUE)
    for place, (name, value) in zip(places, values.items(), strict=True):
        if ends is not None and name in ends:
            axis.plot(ends[name], [place] * 2, color=BLACK, linewidth=1.4)
        _write_beside_figure_bar(axis, place, f"{value:,.6g}")
    axis.axvline(0.0, color=GREY, linewidth=0.8)
    axis.set_yticks(places, [figure_name(one, 22) for one in values])
    axis.set(xlabel=xlabel, ylim=(-0.6, len(values) - 0.4))
    axis.locator_params(axis="x", nbins=5)
    axis.grid(visible=True, alpha=0.3, axis="x")
    return figure


def lines_figure(
    x: Sequence[float] | FloatArray,
    curves: Mapping[str, Sequence[float] | FloatArray],
    labels: tuple[str, str],
    title: str,
    caption: str = "",
    *,
    scales: tuple[str, str] = ("linear", "linear"),
) -> Any:
    """Return curves over one axis, with their names below it.

    Args:
        x: what they are drawn over.
        curves: by name.
        labels: of both axes.
        title: what to notice.
        caption: what they rest on.
        scales: of both axes, `linear` or `log`.
    """
    figure, (axis,) = figure_panels(
        2.8, title=title, caption=caption, bottom=0.6 + 0.19 * ((len(curves) + 1) // 2)
    )
    for place, (name, heights) in enumerate(curves.items()):
        axis.plot(x, heights, **figure_series_look(place), label=figure_name(name, 30))
    axis.set(xlabel=labels[0], ylabel=labels[1], xscale=scales[0], yscale=scales[1])
    axis.grid(visible=True, alpha=0.3)
    legend_below(axis, *axis.get_legend_handles_labels())
    return figure


def figure_series_look(place: int) -> dict[str, Any]:
    """Return colour, line and mark of one series among many: no two are alike."""
    # Eight marks and four lines, shifted so that all 32 pairs come before one repeats.
    return {
        "color": PALETTE[place % len(PALETTE)],
        "marker": MARKS[place % len(MARKS)],
        "linestyle": LINES[(place + place // len(MARKS)) % len(LINES)],
        "markersize": 4.5,
        "markerfacecolor": "white",
    }
