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

from veilsum.audit.auditing import Audit
from veilsum.audit.literature import LiteratureTable
from veilsum.errors import MissingExtraError, install_advice, printable
from veilsum.graphs.layout import layout_of_graph
from veilsum.graphs.topology import Topology
from veilsum.minimise.paper import SIGMA, A, B, PaperReport
from veilsum.minimise.solve import Run, RunRecord, SolveTrace
from veilsum.models.survival import SurvivalCurve
from veilsum.models.tallies import TallyQuantile
from veilsum.numbers.arrays import FloatArray
from veilsum.privacy.conversions import attacker_success, gaussian_mu_of_divergence
from veilsum.questions.dispatch import DispatchResult, PeriodsResult
from veilsum.questions.evaluate.bins import ChanceEvaluation
from veilsum.questions.survival import SurvivalResult
from veilsum.showing import counted_words

# Okabe and Ito's palette: told apart by colour-blind readers too. Lines and marks
# differ as well, for who reads in grey.
BLUE, ORANGE, GREEN, GREY = "#0072B2", "#D55E00", "#009E73", "#666666"
PURPLE, SKY, GOLD, BLACK = "#CC79A7", "#56B4E9", "#E69F00", "#000000"
PALETTE = (BLUE, ORANGE, GREEN, PURPLE, SKY, GOLD, GREY, BLACK)
LINES = ("-", "--", "-.", ":")
MARKS = "os^DvPX*"
HATCHES = ("", "///", "...", "xxx", "\\\\\\", "+++", "ooo", "|||")
AGENT_STYLES = ("-", "--", ":")
MOST_BARS = 18  # of an audit's attacks
FEW_PARTIES = 6  # of which each has a curve of its own
MANY_NAMES = 40  # of parties in a network, above which most stay unnamed
MANY_TIMES = 30  # of survival curves, from which on they have no marks
DPI = 150

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


# Runs


def convergence_figure(report: PaperReport) -> Any:
    """Fig. 1: each agent's error, plain DGD beside Function Sharing."""
    title = "Masked or not, every agent's error vanishes like 1/k"
    look: dict[str, Any] = {"bottom": 0.5, "gap": 0.4, "headed": True, "sharex": True}
    figure, axes = figure_panels(2.5, 2.5, title=title, **look)
    runs = (("DGD, no masks", report.plain), ("Function Sharing", report.veiled))
    for axis, (name, run) in zip(axes, runs, strict=True):
        for agent, style in enumerate(AGENT_STYLES):
            way = run.trace.iterations, run.trace.errors[:, agent]
            axis.plot(*way, style, color=PALETTE[agent], label=f"agent {agent + 1}")
        axis.set_title(name, fontsize=10)
        axis.set_ylabel(r"$|x_i(k) - x^*|$")
        _logarithmic_figure_axes(axis, [run.trace for _, run in runs])
    axes[1].set_xlabel("iteration")
    axes[0].legend(frameon=False)
    axes[0].text(1.15, 4e-5, "agent 2's coefficient is the\nmean: exact from step 2")
    return figure


def error_figure(
    run: Run | RunRecord | SolveTrace, title: str, caption: str = ""
) -> Any:
    """Return parties' distances from the pooled minimiser, by iteration and by byte.

    Of more than six parties the worst, the middle and the best one are drawn: they may
    be others at every iteration.
    """
    trace = run if isinstance(run, SolveTrace) else run.trace
    assert trace.sent is not None, "one exchange leaves no curve"
    figure, axes = figure_panels(2.6, 2.6, title=title, caption=caption, left=0.95)
    names = trace.parties
    if len(names) <= FEW_PARTIES:
        drawn = dict(zip(map(figure_name, names), trace.errors.T, strict=True))
        sent = dict(zip(drawn, trace.sent.T, strict=True))
    else:
        order = np.sort(trace.errors, axis=1)
        places = {"worst": -1, "middle": len(names) // 2, "best": 0}
        drawn = {name: order[:, place] for name, place in places.items()}
        sent = dict.fromkeys(drawn, trace.sent.mean(axis=1))
    ways = (
        ("iteration", dict.fromkeys(drawn, trace.iterations)),
        ("bytes that a party has sent, as bare numbers", sent),
    )
    for axis, (xlabel, along) in zip(axes, ways, strict=True):
        for place, (name, errors) in enumerate(drawn.items()):
            look = {**figure_series_look(place), "label": name}
            look["markevery"] = place * 3, max(len(errors) // 6, 1)
            axis.plot(along[name], errors, **look)
        _logarithmic_figure_axes(axis, [trace])
        axis.set(xlabel=xlabel, ylabel="distance from\nthe pooled minimiser")
    axes[1].set_xscale("log")
    legend = {"frameon": False, "fontsize": SMALL, "title": "party"}
    axes[0].legend(**legend, title_fontsize=SMALL)
    return figure


def answers_figure(run: Run | RunRecord, title: str, caption: str = "") -> Any:
    """Return what parties found in one exchange beside the pooled minimiser."""
    figure, (axis,) = figure_panels(2.6, title=title, caption=caption)
    places = np.arange(1, len(run.reference) + 1)
    look: dict[str, Any] = {"markersize": 9, "fillstyle": "none", "color": ORANGE}
    axis.plot(places, run.minimiser, "o", color=BLUE, markersize=4, label="found")
    axis.plot(places, run.reference, "s", **look, label="pooled minimiser")
    axis.axhline(0.0, color=GREY, linewidth=0.8)
    axis.set(xlabel="coordinate", ylabel="value", xlim=(0.4, places[-1] + 0.6))
    axis.xaxis.get_major_locator().set_params(integer=True)
    axis.grid(visible=True, alpha=0.3, axis="y")
    axis.legend(frameon=False)
    axis.margins(y=0.25)
    return figure


def _logarithmic_figure_axes(axis: Any, traces: Sequence[SolveTrace]) -> None:
    """Draw both axes on logarithmic scales, alike for traces to be compared."""
    worst = np.concatenate([trace.errors.max(axis=1) for trace in traces])
    axis.set_xscale("symlog", linthresh=1.0)
    axis.set_yscale("log")
    axis.minorticks_off()
    if (worst > 0).any():
        axis.set_ylim(max(worst[worst > 0].min(), 1e-12) / 5, worst.max() * 3)
    axis.grid(visible=True, alpha=0.3)


def density_figure(report: PaperReport) -> Any:
    """Fig. 2: agent 1's coefficient under A and under B, in both readings.

    What everybody sees, alpha~_1, has variance 2 sigma^2 d_1 = 4; what the coalition is
    left with after removing the shares it knows, alpha_bar_1, has variance 2.
    """
    title = (
        f"Two inputs with the same sum look alike: KL {report.kl_exact:g}, "
        f"{report.executions:,} executions each (bars) and theory (lines)"
    )
    look: dict[str, Any] = {"bottom": 0.5, "gap": 0.4, "headed": True, "sharex": True}
    figure, axes = figure_panels(2.4, 2.4, title=title, **look)
    readings = (
        (r"as sent: $\tilde\alpha_1$, variance 4", 4.0, "effective"),
        (r"as agent 3 sees it: $\bar\alpha_1$, variance 2", 2.0, "stripped"),
    )
    for axis, (name, variance, kind) in zip(axes, readings, strict=True):
        for label, mean, sample, colour, style in (
            ("A", A[0], report.under_a, BLUE, "-"),
            ("B", B[0], report.under_b, ORANGE, "--"),
        ):
            seen, bins = getattr(sample, kind)[:, 0, 0], np.arange(-12.0, 15.0, 0.25)
            heights, _ = np.histogram(seen, bins, density=True)
            axis.stairs(heights, bins, fill=True, color=colour, alpha=0.25)
            grid = np.linspace(mean - 8, mean + 8, 400)
            wide = variance * SIGMA**2
            curve = np.exp(-((grid - mean) ** 2) / (2 * wide)) / np.sqrt(
                2 * np.pi * wide
            )
            text = rf"under {label}: $\alpha_1 = {mean:g}$"
            axis.plot(grid, curve, style, color=colour, label=text)
        axis.set(ylabel="density", xlim=(-6.5, 9.5), ylim=(0, 0.33))
        axis.set_title(name, fontsize=10)
        axis.legend(frameon=False, loc="upper right", fontsize=SMALL)
    axes[1].set_xlabel("coefficient")
    return figure


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
    _few_figure_ticks(axis.xaxis)
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


def literature_figure(tables: Sequence[LiteratureTable]) -> Any:
    """Return errors over the attacker's success, one line for each mechanism.

    Exact answers are so much better that they have an axis of their own, below. Open
    marks are of mechanisms that hide the sum as well.
    """
    title = "At the same divergence of the view: how far answers are from the true one"
    lines = (len(tables[0].rows) + 1) // 2
    caption = "filled: the sum is released; open: the sum is hidden, too"
    side: dict[str, Any] = {"gap": 0.12, "bottom": 0.65 + 0.19 * lines}
    figure, (upper, lower) = figure_panels(
        2.7, 1.3, title=title, caption=caption, sharex=True, **side
    )
    marks, untouched = "oDs^vPX", tables[0].untouched
    noisy = [row for one in tables for row in one.rows if not row.exact]
    least = min([row.error for row in noisy], default=untouched)
    for place, rows in enumerate(zip(*(one.rows for one in tables), strict=True)):
        exact = rows[0].exact
        at = np.array([row.measured for row in rows])
        ends = [[row.low for row in rows], [row.high for row in rows]]
        look: dict[str, Any] = {"color": PALETTE[place]}
        look["markerfacecolor"] = PALETTE[place] if exact else "white"
        (lower if exact else upper).errorbar(
            at,
            # Nothing is drawn of a zero on such an axis.
            np.maximum([row.error for row in rows], 2.0**-55),
            xerr=np.abs(np.array(ends) - at),
            fmt=marks[place],
            linestyle=LINES[place % len(LINES)],
            linewidth=0.8,
            **look,
        )
        upper.plot([], [], marks[place], **look, label=rows[0].mechanism)
    upper.axhline(untouched, color=GREY, linewidth=0.8)
    upper.text(1.0, untouched * 1.15, "no answer at all", ha="right", color=GREY)
    for one in (upper, lower):
        one.set_yscale("log")
        one.grid(visible=True, alpha=0.3)
    upper.set(ylim=(least / 3.0, 4.0 * untouched), ylabel="error of the answer")
    lower.set(ylim=(1e-17, 1e-14), xlim=(0.48, 1.02))
    lower.set(xlabel="how often the attacker is right, with its 95 % interval")
    lower.set_ylabel("of exact ones")
    handles, labels = upper.get_legend_handles_labels()
    _figure_legend_below(lower, handles, labels, anchor=upper)
    return figure


def _figure_legend_below(
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


# Prices


def supply_figure(result: DispatchResult, title: str, caption: str = "") -> Any:
    """Return what a dispatch released: the prices tried, and all surpluses there.

    Between two prices nothing is known but that the surplus does not fall: the curve
    is somewhere in the shaded boxes.
    """
    figure, (axis,) = figure_panels(3.0, title=title, caption=caption)
    tried = result.tried[np.argsort(result.tried[:, 0], kind="stable")]
    prices, least, most = tried[:, 0], tried[:, 1], tried[:, 2]
    for k in range(len(tried) - 1):
        sides = prices[k : k + 2], [most[k]] * 2, [least[k + 1]] * 2
        label = "" if k else "the curve is in here"
        axis.fill_betweenx(*sides, color=BLUE, alpha=0.15, label=label)
    axis.hlines(prices, least, most, color=BLUE, linewidth=2.5)
    ends, twice = np.concatenate([least, most]), np.concatenate([prices, prices])
    axis.plot(ends, twice, "o", color=BLUE, markersize=4, label="released")
    axis.axvline(0.0, color=GREY, linewidth=0.8)
    found = result.settled
    if found.lowest < found.highest:
        label = f"from {found.lowest:.6g} to {found.highest:.6g} it balances"
        axis.vlines(0.0, found.lowest, found.highest, color=ORANGE, linewidth=4)
    else:
        label = f"it balances at {result.price:.6g}"
    axis.plot([0.0], [result.price], "D", color=ORANGE, markersize=7, label=label)
    # A search sets out from far away: the window is where anything changes.
    low, high = most == most[0], least == least[-1]
    window = prices[max(int(np.argmin(low)) - 1, 0) : int(np.argmax(high)) + 1]
    bottom, top = min(window[0], found.lowest), max(window[-1], found.highest)
    room = 0.06 * (top - bottom) or 1.0
    axis.set(xlabel="output less demand, all parties", ylabel="price")
    axis.set_ylim(bottom - room, top + room)
    axis.grid(visible=True, alpha=0.3)
    axis.legend(frameon=False, loc="upper left", fontsize=SMALL)
    return figure


def schedule_figure(result: PeriodsResult, title: str, caption: str = "") -> Any:
    """Return the price of every period, and below it who gives what.

    Prices are known to everybody. Bars are of the parties that are known here: all in a
    simulation, one's own in a real run, and nobody's in a report, which has prices
    alone; below zero stores are filled.
    """
    known = {party: one.sum(axis=0) for party, one in result.outputs.items()}
    given = {party: one for party, one in known.items() if one.any()}
    figure, (upper, *others) = figure_panels(
        1.6,
        *([2.3] if given else []),
        title=title,
        caption=caption,
        sharex=True,
        gap=0.15,
        bottom=0.6 + 0.19 * ((len(given) + 1) // 2),
    )
    edges = np.arange(len(result.prices) + 1) + 0.5
    upper.stairs(result.prices, edges, baseline=None, color=BLACK, linewidth=1.6)
    lower = others[0] if given else upper
    upper.set_ylabel("price")
    places = np.arange(1, len(edges))
    above, below = np.zeros((2, len(places)))
    for place, (party, output) in enumerate(given.items()):
        look: dict[str, Any] = {"color": PALETTE[place % len(PALETTE)], "width": 0.8}
        look |= {"edgecolor": "white", "hatch": HATCHES[place % len(HATCHES)]}
        base = np.where(output < 0.0, below, above)
        lower.bar(places, output, bottom=base, **look, label=figure_name(party))
        above, below = above + np.maximum(output, 0), below + np.minimum(output, 0)
    if given:
        lower.axhline(0.0, color=GREY, linewidth=0.8)
        lower.set_ylabel("output")
        _figure_legend_below(lower, *lower.get_legend_handles_labels())
    lower.set(xlabel="period", xlim=(edges[0], edges[-1]))
    lower.xaxis.get_major_locator().set_params(integer=True)
    for one in (upper, *others):
        one.grid(visible=True, alpha=0.3, axis="y")
    return figure


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


def audit_figure(found: Audit) -> Any:
    """Return what attackers can do: both errors, and promised beside measured success.

    Of many coalitions the first part shows the most successful ones. Points below a
    promised curve would be better than promised.
    """
    chosen = [one for one in found.outcomes if one.looked_at == "masks"][:MOST_BARS]
    names = [f"{one.attack}: {', '.join(one.coalition) or 'anybody'}" for one in chosen]
    figure, (upper, lower) = figure_panels(
        2.9,
        0.2 * max(len(chosen), 2) + 0.2,
        title=found.verdict.split(". ")[0].rstrip("."),
        gap=0.9,
        headed=True,
        left=max(0.85, figure_name_width(names, 26)),
    )
    curves = sorted(found.curves, key=lambda one: -one.area)[: len(LINES)]
    alarms = np.linspace(0.0, 1.0, 201)
    drawn: set[float] = set()
    for curve, mark, colour in zip(curves, "os^D", PALETTE, strict=False):
        name = ", ".join(curve.coalition) or "anybody"
        if curve.promised not in drawn:
            what = "exact" if curve.gaussian else "proved"
            grey: dict[str, Any] = {"color": GREY, "lw": 4, "alpha": 0.35, "zorder": 0}
            label = None if drawn else f"promised, {what}"
            upper.plot(alarms, curve.least_misses(alarms), **grey, label=label)
            drawn.add(curve.promised)
        at = [[one[key] for one in curve.points] for key in ("false_alarms", "misses")]
        look: dict[str, Any] = {"ms": 4, "mfc": "none", "color": colour}
        upper.plot(*at, mark, **look, label=f"{figure_name(name, 16)}: measured")
    upper.plot([0, 1], [1, 0], ":", color=GREY, lw=1, label="by a coin")
    upper.set(xlabel="false alarms", ylabel="misses")
    upper.set_title("Telling two inputs apart", fontsize=10)
    upper.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02))
    upper.legend(frameon=False, loc="upper right", fontsize=SMALL)
    places = np.arange(len(chosen))[::-1]
    for place, one in zip(places, chosen, strict=True):
        low, high = one.interval(found.alarms)
        above = one.exceeds(found.alarms)
        colour, mark = (ORANGE, "X") if above else (BLUE, "o")
        lower.plot([low, high], [place, place], "-", color=colour, lw=2)
        lower.plot(one.rate, place, mark, color=colour, ms=7 if above else 4)
        lower.plot(one.promised, place, "|", color=BLACK, ms=12)
    lower.set_yticks(places, [figure_name(one, 26) for one in names], fontsize=SMALL)
    lower.set(xlabel="success", xlim=(-0.03, 1.03), ylim=(-0.7, len(chosen) - 0.3))
    lower.set_title("| promised, o measured, X more", fontsize=10)
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


# Tables of rows


def survival_figure(
    result: SurvivalResult,
    title: str = "",
    caption: str = "",
    *,
    life_table: bool = False,
) -> Any:
    """Return the curves with their intervals, and below them the numbers at risk.

    Args:
        result: the curves.
        title: what to notice.
        caption: what it rests on.
        life_table: whether these are life tables; else by Kaplan and Meier.
    """
    curves = result.life_tables if life_table else result.curves
    agreed = counted_words(len(result.times), "agreed time")
    told = (
        f"Life tables at {agreed}, straight in between."
        if life_table
        else f"Steps at {agreed}; too high between them, where events lie."
    )
    figure, (axis,) = figure_panels(
        3.2,
        title=title,
        caption=f"{told} {caption}",
        left=max(0.85, 0.25 + figure_name_width(["at risk", *curves], 12)),
        right=0.35,
        bottom=0.95 + 0.2 * len(curves),
    )
    times = [0.0, *result.times.tolist()]
    # What Kaplan and Meier drew stays until an event, and actuaries' tables slope.
    band: dict[str, Any] = {} if life_table else {"step": "post"}
    style = "default" if life_table else "steps-post"
    for place, (label, curve) in enumerate(curves.items()):
        look: dict[str, Any] = {"color": PALETTE[place % len(PALETTE)]}
        heights = [1.0, *curve.survival.tolist()]
        low, high = ([1.0, *one.tolist()] for one in curve.interval())
        axis.fill_between(times, low, high, **band, **look, alpha=0.15, linewidth=0)
        look |= {"linestyle": LINES[place % len(LINES)], "label": label}
        if len(times) <= MANY_TIMES:
            look |= {"marker": MARKS[place % len(MARKS)], "ms": 4}
        axis.plot(times, heights, drawstyle=style, **look)
    axis.set(xlim=(0.0, 1.02 * times[-1]), ylim=(0.0, 1.02), ylabel="survival")
    axis.set_xlabel(figure_name(result.job.formula.time, 40))
    axis.grid(visible=True, alpha=0.3)
    words = f"{'life tables' if life_table else 'Kaplan-Meier'}, 95 % log-log limits"
    if result.log_rank is not None:
        words = f"{words}\nlog-rank p = {result.log_rank.p:.2g}"
    axis.text(0.02, 0.03, words, transform=axis.transAxes, fontsize=SMALL, color=GREY)
    if result.job.group is not None:
        axis.legend(frameon=False, title=figure_name(result.job.group), fontsize=SMALL)
    _numbers_at_risk(axis, curves)
    return figure


def _numbers_at_risk(axis: Any, curves: Mapping[str, SurvivalCurve]) -> None:
    """Write below the axis how many rows go on after each time that has room."""
    times = [0.0, *next(iter(curves.values())).times.tolist()]
    # A number takes a ninth of the width; the first and the last have theirs.
    last, room = len(times) - 1, times[-1] / 9.0
    kept = [0]
    for place in range(1, last):
        if times[kept[-1]] + room <= times[place] <= times[last] - room:
            kept.append(place)
    kept.append(last)
    axis.set_xticks([times[k] for k in kept])
    axis.xaxis.set_major_formatter(lambda tick, _: f"{tick:g}")
    small: dict[str, Any] = {"textcoords": "offset points", "fontsize": SMALL}
    side = {"xycoords": "axes fraction", "ha": "right"}
    axis.annotate("at risk", (0.0, 0.0), xytext=(-20, -46), **side, **small)
    for line, (label, curve) in enumerate(curves.items()):
        height, colour = -46 - 14.4 * (line + 1), PALETTE[line % len(PALETTE)]
        where = {"xytext": (-20, height), "color": colour}
        axis.annotate(figure_name(label, 12), (0.0, 0.0), **where, **side, **small)
        numbers = [*curve.at_risk.tolist(), curve.later]
        for k in kept:
            where = {"xytext": (0, height), "xycoords": ("data", "axes fraction")}
            axis.annotate(
                f"{numbers[k]:,}", (times[k], 0.0), ha="center", **where, **small
            )


def evaluation_figure(
    result: ChanceEvaluation, title: str = "", caption: str = ""
) -> Any:
    """Return the ROC curve, and below it what was predicted and what happened."""
    figure, (upper, lower) = figure_panels(3.1, 3.1, title=title, caption=caption)
    false, true = result.found.roc()
    # Between two edges the curve may be anywhere in the box that they span.
    for a, b in pairwise(zip(false.tolist(), true.tolist(), strict=True)):
        sides = [a[0], b[0]], [a[1], a[1]], [b[1], b[1]]
        upper.fill_between(*sides, color=BLUE, alpha=0.15, linewidth=0)
    upper.plot(false, true, color=BLUE, marker="o", ms=4)
    area = result.auc
    words = f"area {area.value:.3f}\nbins allow {area.least:.3f} to {area.largest:.3f}"
    upper.text(0.98, 0.04, words, ha="right", fontsize=SMALL, color=BLUE)
    upper.set(xlabel="1 - specificity", ylabel="sensitivity")
    lines = result.found.calibration()
    places = [one["predicted"] for one in lines]
    heights = [one["observed"] for one in lines]
    ends = [
        [one["observed"] - one["low"] for one in lines],
        [one["high"] - one["observed"] for one in lines],
    ]
    lower.errorbar(places, heights, yerr=ends, color=ORANGE, marker="o", ms=4, lw=1.2)
    words = f"Brier {result.brier:.3f}"
    if result.slope is not None:
        words = f"slope {result.slope[1]:.3f}\nintercept {result.slope[0]:.3f}\n{words}"
    lower.text(0.98, 0.04, words, ha="right", fontsize=SMALL, color=ORANGE)
    lower.set(xlabel="predicted", ylabel="observed, 95 % by Wilson")
    for axis in (upper, lower):
        axis.plot([0.0, 1.0], [0.0, 1.0], color=GREY, linestyle=":", linewidth=1.0)
        axis.set(xlim=(-0.01, 1.01), ylim=(-0.01, 1.01))
        axis.grid(visible=True, alpha=0.3)
    return figure


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
    _figure_legend_below(axis, *axis.get_legend_handles_labels())
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
        _few_figure_ticks(axis.xaxis)
    else:
        axis.locator_params(axis="x", nbins=4)
    axis.set_xlabel(xlabel)
    axis.grid(visible=True, alpha=0.3, axis="x")
    return figure


def _short_figure_number(number: float) -> str:
    """Return three digits of a number, and no dot behind the last one."""
    return f"{number:#.3g}".rstrip(".")


def _few_figure_ticks(along: Any) -> None:
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


def boxes_figure(
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
    wide = max(WIDTH, 1.0 + 0.75 * len(groups))
    figure, (axis,) = figure_panels(
        2.7, title=title, caption=caption, width=wide, bottom=0.95
    )
    from matplotlib.patches import Rectangle  # `panels` says so if there is none

    for place, found in enumerate(groups.values()):
        known = {one.share: one for one in found if isfinite(one.between)}
        aside = np.linspace(-0.18, 0.18, len(known)) if len(known) > 1 else [0.0]
        for one, at in zip(known.values(), aside, strict=True):
            spot = (place + at - 0.04, one.low), 0.08, one.high - one.low
            axis.add_patch(Rectangle(*spot, color=ORANGE, alpha=0.35, linewidth=0))
        ends = [one.between for one in known.values()]
        middle = [known[share].between for share in (0.25, 0.75) if share in known]
        if len(middle) == 2:
            spot = (place - 0.25, middle[0]), 0.5, middle[1] - middle[0]
            axis.add_patch(Rectangle(*spot, fill=False, edgecolor=BLUE, linewidth=1.2))
        for edge, end in zip(middle, (min, max), strict=False):
            axis.plot([place, place], [edge, end(ends)], color=BLUE, linewidth=1.2)
        for one in known.values():
            width = 0.25 if 0.25 <= one.share <= 0.75 else 0.1
            bold = 2.4 if one.share == 0.5 else 1.2
            line = [place - width, place + width], [one.between] * 2
            axis.plot(*line, color=BLUE, linewidth=bold)
    axis.plot([], [], color=BLUE, linewidth=2.4, label="quantile, if spread evenly")
    axis.plot([], [], color=ORANGE, alpha=0.35, linewidth=7, label="where it surely is")
    most = int(46 / len(groups))
    ticks = [
        "\n".join(textwrap.wrap(figure_name(one, 2 * most), most)) for one in groups
    ]
    axis.set_xticks(range(len(groups)), ticks)
    axis.set(xlim=(-0.6, len(groups) - 0.4), ylabel=figure_name(name, 36))
    axis.margins(y=0.1)
    _figure_legend_below(axis, *axis.get_legend_handles_labels())
    return figure


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
    _figure_legend_below(axis, *axis.get_legend_handles_labels())
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


# Nothing is drawn of a zero on a logarithmic axis.
LEAST_DRAWN = 2.0**-55


def sweep_figure(
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
    figure, (axis,) = figure_panels(3.1, title=title, caption=caption, bottom=deep)
    for place, (name, at) in enumerate(groups.items()):
        seen = {x: np.maximum(at[x], LEAST_DRAWN) for x in sorted(at)}
        middle = np.array([float(np.median(one)) for one in seen.values()])
        ends = np.array([[one.min(), one.max()] for one in seen.values()]).T
        look = figure_series_look(place)
        axis.vlines([*seen], *ends, color=look["color"], linewidth=1.0, alpha=0.6)
        axis.plot([*seen], middle, **look, label=figure_name(name, 34))
    for place, (name, heights) in enumerate(level.items(), len(groups)):
        look = {**figure_series_look(place), "marker": ""}
        height = max(float(np.median(heights)), LEAST_DRAWN)
        axis.axhline(height, **look, linewidth=1.2, label=figure_name(name, 34))
    axis.set(xlabel=labels[0], ylabel=labels[1], xscale="log", yscale="log")
    axis.grid(visible=True, alpha=0.3)
    # Between two powers of ten there may be no tick that has a name.
    for along in (axis.xaxis, axis.yaxis):
        low, high = along.get_view_interval()
        if high < 30.0 * low:
            _few_figure_ticks(along)
    _figure_legend_below(axis, *axis.get_legend_handles_labels())
    return figure
