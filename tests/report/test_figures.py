"""Figures show what they were given."""

import numpy as np
import pytest

import veilsum as vs
from cases import each
from readable import can_be_read
from veilsum.audit.literature import (
    LiteratureTable,
    MechanismRow,
    literature_figure,
)
from veilsum.files.datasets import gbsg2
from veilsum.minimise.paper import reproduce
from veilsum.models.fleets import Fleet
from veilsum.models.price import Site
from veilsum.models.tallies import TallyQuantile
from veilsum.questions.dispatch import dispatch, dispatch_periods
from veilsum.questions.statistics.figure import boxes_figure
from veilsum.report import figures
from veilsum.report.drawing import draw
from veilsum.report.figures import (
    coefficients_figure,
    counts_figure,
    figure_png_and_svg,
    float_leak_figure,
    forest_figure,
)

pytestmark = pytest.mark.usefixtures("unchecked_shapes")


@pytest.fixture(scope="module")
def report():
    return reproduce(executions=3000, seed=1)


def test_convergence_shows_every_agent_of_both_runs(report):
    axes = report.plot().axes
    for axis, run in zip(axes, (report.plain, report.veiled), strict=True):
        assert len(axis.lines) == 3
        for agent, line in enumerate(axis.lines):
            np.testing.assert_array_equal(line.get_ydata(), run.trace.errors[:, agent])
    assert axes[0].get_ylim() == axes[1].get_ylim()


def test_the_paper_s_figures_can_be_read(report):
    can_be_read(draw(report))
    can_be_read(draw(report, densities=True))


def test_densities_show_both_readings_with_their_own_variance(report):
    for axis, variance in zip(
        report.plot(densities=True).axes, (4.0, 2.0), strict=True
    ):
        peaks = [line.get_ydata().max() for line in axis.lines]
        np.testing.assert_allclose(peaks, 1 / np.sqrt(2 * np.pi * variance), rtol=1e-3)
        assert len(axis.patches) == 2


def test_the_same_figure_is_the_same_bytes(report):
    first = figure_png_and_svg(report.veiled.plot(title="a run"))
    again = figure_png_and_svg(report.veiled.plot(title="a run"))
    assert first == again
    assert first["png"].startswith(b"\x89PNG")


@each("life_table", [False, True])
@each("times", [[365, 730, 1095, 1460, 1825], range(60, 2600, 60)])
def test_survival_shows_every_curve_and_how_many_are_left(times, life_table):
    found = vs.survival(
        "Surv(time, event) ~ C(hormone)",
        gbsg2(4),
        times=times,
        rules=vs.Rules.none(),
        driver="vectorised",
    )
    figure = found.plot(title="a study", life_table=life_table)
    (axis,) = figure.axes
    drawn = {line.get_label(): line for line in axis.lines}
    curves = found.life_tables if life_table else found.curves
    assert [*drawn] == [*curves]
    told = " ".join(one.get_text() for one in figure.texts)
    assert f"{len(times)} agreed times" in told
    assert ("too high between them" in told) != life_table
    for label, curve in curves.items():
        line = drawn[label]
        np.testing.assert_array_equal(line.get_ydata(), [1.0, *curve.survival])
        # Kaplan-Meier curves are steps, however few; a slope would be a life table's.
        assert (line.get_drawstyle() == "steps-post") != life_table
        assert (line.get_marker() == "None") == (len(times) > 30)
        told = [one.get_text() for one in axis.texts if one.get_text().isdigit()]
        assert str(curve.n) in told
        assert str(curve.later) in told
    assert len({line.get_linestyle() for line in drawn.values()}) == 2
    assert len({line.get_color() for line in drawn.values()}) == 2


def test_the_band_of_a_survival_curve_has_steps_as_the_curve_has():
    """Just before a time its limits are those of the time before."""
    found = vs.survival(
        "Surv(time, event) ~ 1", gbsg2(4), times=[365, 1825], driver="vectorised"
    )
    for life_table in (False, True):
        (axis,) = found.plot(life_table=life_table).axes
        (band,) = axis.collections
        corners = band.get_paths()[0].vertices
        curves = found.life_tables if life_table else found.curves
        low = curves["all rows"].interval()[0][0]
        there = np.isclose(corners, [1825.0, low]).all(axis=1).any()
        assert there != life_table


SHARES = ((0.25, 1), (0.5, 4), (0.75, 9), (0.95, 20))


@pytest.mark.parametrize("demand", [200.0, 100.0])
def test_a_supply_curve_shows_what_was_released_and_no_more(demand):
    """A point at both ends of each step met, and boxes where nothing is known."""
    flat = {"a": [0, 0], "b": [10, 30], "low": [0, 0], "high": [100, 300]}
    sites = {
        "a": Site.of(demand),
        "b": Site.of(0, **flat),
        **dict.fromkeys("cd", Site.of(0)),
    }
    found = dispatch(sites, prices=(0, 64), price_unit=2, driver="vectorised", seed=0)
    (axis,) = found.plot(title="steps").axes
    tried = found.tried
    released, balance = axis.lines[0], axis.lines[-1]
    ends = [*map(tuple, tried[:, [1, 0]]), *map(tuple, tried[:, [2, 0]])]
    assert sorted(released.get_xydata().tolist()) == sorted(map(list, ends))
    assert balance.get_xydata().tolist() == [[0.0, found.price]]
    assert len(axis.collections) == len(tried) + (demand == 100.0)
    label = "from 10 to 30 it balances" if demand == 100.0 else "it balances at 30"
    assert label in [text.get_text() for text in axis.get_legend().texts]


@pytest.mark.parametrize("ratio", [True, False])
def test_a_forest_shows_every_estimate_with_its_interval(ratio):
    rows = [
        {"name": "age", "coefficient": 0.5, "low": 0.25, "high": 0.75},
        {"name": "dose", "coefficient": -1.0, "low": -1.5, "high": -0.5},
    ]
    (axis,) = forest_figure(rows, "two", ratio=ratio).axes
    told = np.exp if ratio else np.asarray
    for place, (line, dot) in enumerate(
        zip(axis.lines[:-1:2], axis.lines[1::2], strict=True)
    ):
        row = rows[place]
        assert line.get_xdata() == pytest.approx(told([row["low"], row["high"]]))
        assert dot.get_xdata() == pytest.approx(told([row["coefficient"]]))
        assert line.get_ydata()[0] == dot.get_ydata()[0] == 1 - place
    assert axis.lines[-1].get_xdata() == ([1, 1] if ratio else [0, 0])
    names = [label.get_text() for label in axis.get_yticklabels()]
    assert names == ["age", "dose"]
    texts = [one.get_text() for one in axis.texts]
    assert texts[0].startswith(f"{told(0.5):#.3g}  [")


def test_a_ratio_beyond_all_numbers_is_drawn_as_far_as_it_goes():
    """A column that tells all events has such an interval."""
    wide = {"name": "dose", "coefficient": 20.0, "low": -800.0, "high": 800.0}
    narrow = {"name": "age", "coefficient": 0.1, "low": 0.0, "high": 0.2}
    figure = forest_figure([wide, narrow], "two", ratio=True)
    can_be_read(figure)
    assert figure.axes[0].texts[0].get_text() == "4.85e+08  [0.00, inf]"


def test_a_schedule_shows_prices_and_stacks_what_is_known():
    unit = {"a": [0.1], "b": [10], "low": [0], "high": [99], "ramp": [99]}
    store = {"wear": [0.01], "energy": [9], "power": [5], "efficiency": [1]}
    fleets = {
        "a": Fleet.of([20, 30, 40], **unit),
        "b": Fleet.of([0, 0, 0], **store, start=[3]),
        **dict.fromkeys("cd", Fleet.of([1, 1, 1])),
    }
    found = dispatch_periods(
        fleets, prices=(0, 64), periods=3, driver="vectorised", seed=0
    )
    upper, lower = found.plot(title="three hours").axes
    assert upper.patches[0].get_data().values.tolist() == found.prices.tolist()
    heights = [[bar.get_height() for bar in group] for group in lower.containers]
    shown = [found.outputs[name].sum(axis=0).tolist() for name in "ab"]
    assert heights == shown
    assert shown[1][0] < 0.0 < shown[1][2]
    # What is given stands on what others give, what is stored hangs below zero.
    for group, other in zip(*lower.containers, strict=True):
        assert other.get_y() == (0.0 if other.get_height() < 0 else group.get_height())
    assert [text.get_text() for text in lower.get_legend().texts] == ["a", "b"]


SIGMAS = [1.0, 10.0, 1e6]
RATES = {"1, 2, 3": [0.2, 0.04, 0.0], "0.1, 0.2, 0.3": [0.7, 0.65, 0.64]}


def test_the_float_leak_shows_every_rate_and_names_it():
    (axis,) = float_leak_figure(SIGMAS, RATES, lattice=[0.0] * 3).axes
    drawn = [list(line.get_ydata()) for line in axis.lines]
    assert drawn == [*RATES.values(), [0.0] * 3]
    assert all(list(line.get_xdata()) == SIGMAS for line in axis.lines)
    assert axis.get_xscale() == "log"
    for text, line in zip(axis.texts, axis.lines, strict=True):
        assert text.get_color() == line.get_color()
    names = [text.get_text() for text in axis.texts]
    assert [any(held in name for name in names) for held in RATES] == [True, True]


@each("last", [[0.0, 0.0, 0.0], [0.5, 0.51, 0.0], [0.02, 0.6, 0.61]])
def test_names_of_curves_that_end_together_do_not_overlap(last):
    curves = {str(i): [0.1, rate] for i, rate in enumerate(last)}
    (axis,) = float_leak_figure([1.0, 2.0], curves, lattice=[0.0, 0.0]).axes
    heights = sorted(text.get_position()[1] for text in axis.texts)
    assert min(np.diff(heights)) >= 0.07 - 1e-12
    assert axis.texts[-1].get_position()[1] == 0.0, "the lattice stays at its line"


ROWS = [
    {"name": "x", "coefficient": 2.0, "standard_error": 0.5, "low": 1.0, "high": 3.0},
    {
        "name": "y",
        "coefficient": -1.0,
        "standard_error": 0.1,
        "low": -1.2,
        "high": -0.8,
    },
]


def test_coefficients_stand_beside_the_pooled_ones_in_standard_errors():
    (axis,) = coefficients_figure(ROWS, [2.5, -1.0], "as good as pooled").axes
    drawn = [line for line in axis.lines if len(line.get_xdata())]
    found = np.concatenate([np.atleast_1d(line.get_xdata()) for line in drawn[:6]])
    np.testing.assert_allclose(found, [2, 6, 4, 5, -12, -8, -10, -10])
    assert [text.get_text() for text in axis.get_yticklabels()] == ["x", "y"]
    assert axis.figure.texts[0].get_text() == "as good as pooled"
    names = [text.get_text() for text in axis.get_legend().get_texts()]
    assert names == ["under masks, 95 %", "pooled"]


def test_coefficients_without_their_pooled_ones_are_refused():
    with pytest.raises(ValueError, match="shorter"):
        coefficients_figure(ROWS, [2.5], "one is missing")


def test_boxes_stand_between_the_values_that_are_proved():
    groups = {
        "a": [TallyQuantile(p, v, v + 2.0, v + 1.0) for p, v in SHARES],
        "b": [
            TallyQuantile(0.5, 3.0, 5.0, 4.0),
            TallyQuantile(0.75, 5.0, np.inf, np.nan),
        ],
    }
    (axis,) = boxes_figure(figures, groups, "age", "two groups").axes
    bars = [one for one in axis.patches if one.get_fill()]
    heights = [(one.get_y(), one.get_y() + one.get_height()) for one in bars]
    known = [one for found in groups.values() for one in found if one.high < np.inf]
    assert heights == [(one.low, one.high) for one in known]
    (box,) = (one for one in axis.patches if not one.get_fill())
    assert (box.get_y(), box.get_height()) == (2.0, 8.0)
    ends = [list(line.get_ydata()) for line in axis.lines]
    assert [10.0, 21.0] in ends  # a whisker to the outermost
    assert [4.0, 4.0] in ends


def test_a_table_shows_every_count():
    cells = np.array([[0.0, 3.0, 12.0], [7.0, 1.0, 40.0]])
    labels = ("low", "high"), ("x", "y", "z")
    (axis,) = counts_figure(cells, ("age", "arm"), labels, "six cells").axes
    shown = {one.get_position(): one.get_text() for one in axis.texts}
    assert shown == {
        (k + 0.5, j + 0.5): str(int(cells[j, k])) for j, k in np.ndindex(cells.shape)
    }
    assert [one.get_text() for one in axis.get_yticklabels()] == ["low", "high"]
    assert axis.get_xlabel() == "arm"


def compared(mechanism, error, moves):
    """Return a line of the comparison, as far as a figure shows it."""
    return MechanismRow(
        mechanism=mechanism,
        releases="something",
        noise="some",
        divergence=0.25,
        divergence_if_sum_moves=moves,
        promised=0.65,
        measured=0.62,
        low=0.6,
        high=0.64,
        error=error,
    )


def test_mechanisms_stand_at_their_errors_exact_ones_apart():
    rows = compared("ours", 0.0, np.inf), compared("theirs", 0.3, 0.1)
    figure = literature_figure(figures, [LiteratureTable(0.25, 10, 1, 3.0, rows)])
    upper, lower = figure.axes
    (theirs,), (ours,) = upper.containers, lower.containers
    assert theirs.lines[0].get_ydata().tolist() == [0.3]
    assert 0 < ours.lines[0].get_ydata()[0] < 1e-16  # a zero is drawn at the foot
    for one in (theirs, ours):
        assert one.lines[0].get_xdata().tolist() == [0.62]
        (bar,) = one.lines[2][0].get_segments()
        np.testing.assert_allclose(bar[:, 0], [0.6, 0.64])
    assert theirs.lines[0].get_markerfacecolor() == "white"
    names = [text.get_text() for text in upper.get_legend().get_texts()]
    assert names == ["ours", "theirs"]
    low, high = upper.get_ylim()
    assert low < 0.3 < 3.0 < high
