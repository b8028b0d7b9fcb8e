"""Every result has a figure that can be read: on a telephone, in grey, uncut."""

from inspect import signature

import numpy as np
import pandas as pd
import pytest

import veilsum as vs
from cases import each
from later import Later
from readable import (
    can_be_read,
    is_apart,
    is_not_cut_off,
    is_read_on_a_telephone,
    is_told_apart_in_grey,
    letters,
)
from refusals import refused
from veilsum.audit.attack import Outcome
from veilsum.audit.auditing import EDGES, AttackTradeOff, Audit
from veilsum.audit.literature import LiteratureTable, MechanismRow
from veilsum.files.datasets import gbsg2
from veilsum.questions.from_moments import Components, Path
from veilsum.report.drawing import draw, draw_before_a_run
from veilsum.report.figures import figure_series_look
from veilsum.showing import Renderable

backend_agg = Later("matplotlib.backends.backend_agg")

pytestmark = pytest.mark.usefixtures("unchecked_shapes")

FAMILY = vs.Topology.family
CLINICS = vs.Topology.from_edges(
    [
        ("a hospital with a name that goes on", "basil"),
        ("basil", "coral $x$"),
        ("coral $x$", "delta"),
        ("delta", "a hospital with a name that goes on"),
        ("coral $x$", "ember"),
        ("ember", "flint"),
        ("flint", "coral $x$"),
    ]
)
CHANCE = np.random.default_rng(5)
ROWS = {
    name: {
        "y": CHANCE.normal(size=60).round(2),
        "age": CHANCE.integers(20, 80, 60),
        "hospitalisations_in_the_last_year": CHANCE.integers(0, 5, 60),
        "event": CHANCE.integers(0, 2, 60),
        "arm": CHANCE.choice(["a", "b"], 60),
    }
    for name in "pqrst"
}
FREE = {"rules": vs.Rules.none(), "driver": "vectorised", "seed": 1}


def solved(n, **options):
    costs = [vs.minimise.Cost.squared_distance([k, 2.0 * k]) for k in range(n)]
    given = {
        "domain": vs.minimise.Box(-30, 30, dim=2),
        "seed": 0,
        "sigma": 1.0,
        **options,
    }
    steps = vs.minimise.Settings(iterations=200, step=0.5)
    graph = given.pop("graph", f"complete:{n}")
    return vs.solve(
        costs, topology=FAMILY(graph), **{"settings": steps, "corrupted": (), **given}
    )


def swept():
    return vs.minimise.sweep(
        [vs.minimise.Cost.squared_distance([k]) for k in range(4)],
        graphs=["ring:4", "complete:4"],
        domain=vs.minimise.Box(-9, 9, dim=1),
        sigmas=[1.0, 3.0],
        methods=["dgd", "one-shot"],
        seeds=2,
        settings=vs.minimise.Settings(iterations=50),
    )


def compared():
    row = MechanismRow(
        mechanism="ours",
        releases="something",
        noise="some",
        divergence=0.25,
        divergence_if_sum_moves=np.inf,
        promised=0.65,
        measured=0.62,
        low=0.6,
        high=0.64,
        error=0.0,
    )
    return LiteratureTable(0.25, 10, 1, 3.0, (row,))


def audited():
    """Return an audit whose second attack does better than promised."""
    tried = [
        Outcome(
            attack=name,
            coalition=("0", "a long name"),
            about="which input",
            trials=1000,
            successes=right,
            promised=0.6,
        )
        for name, right in (("by the promised law", 590), ("by neighbours alone", 800))
    ]
    chance = np.random.default_rng(0)
    worlds = [chance.normal(mean, size=5000) for mean in (0.0, 0.5)]
    scores = [np.histogram(one, EDGES)[0] for one in worlds]
    who = ("0", "a long name")
    curve = AttackTradeOff(coalition=who, promised=0.6, scores=np.array(scores))
    return Audit(
        seed=0,
        depth="quick",
        distance=1.0,
        executions=1000,
        asked=1000,
        outcomes=tuple(tried),
        controls=(),
        curves=(curve,),
    )


def statistics(**asked):
    columns = asked.pop("columns", ["y", "age"])
    return vs.statistics(ROWS, columns=columns, **asked, **FREE)


SITES = {
    "a": vs.Site.of(200.0),
    "b": vs.Site.of(0, a=[0, 0], b=[10, 30], low=[0, 0], high=[100, 300]),
    **dict.fromkeys("cd", vs.Site.of(0)),
}
UNIT = {"a": [0.1], "b": [10], "low": [0], "high": [99], "ramp": [99]}
ONE_SHOT = {
    "settings": vs.minimise.Settings(method="one-shot"),
    "law": "lattice",
    "sigma": 1e6,
}

FIGURES = {
    "run": lambda: draw(solved(5)),
    "record": lambda: draw(solved(9).record()),
    "one exchange": lambda: draw(solved(4, **ONE_SHOT)),
    "fit": lambda: draw(
        vs.fit("y ~ age + C(arm) + hospitalisations_in_the_last_year", ROWS, **FREE)
    ),
    "cox": lambda: draw(
        vs.cox("Surv(time, event) ~ C(hormone)", gbsg2(4), driver="vectorised")
    ),
    "meta": lambda: draw(
        vs.meta_analysis(
            {name: (1.0 + k, 0.5) for k, name in enumerate("pqrst")},
            few_digits=True,
            effects=(-9, 9),
            errors=(0.1, 9),
            **{key: FREE[key] for key in ("driver", "seed")},
        )
    ),
    "sum": lambda: draw(vs.sum({name: [1.0, -2.0, 1e9] for name in "pqrst"})),
    "mean": lambda: draw(vs.mean(dict.fromkeys("pqrst", 0.25))),
    "boxes": lambda: draw(
        statistics(
            histograms={"age": [20, 40, 50, 60, 80]},
            quantiles={"age": [0.25, 0.5, 0.75]},
            by="arm",
        ),
        of="age",
    ),
    "differences": lambda: draw(statistics(by="arm", tables=[("event",)])),
    "means of groups": lambda: draw(statistics(by="arm"), of="means"),
    "counts": lambda: draw(statistics(tables=[("arm", "event")]), of=("arm", "event")),
    "bins": lambda: draw(statistics(histograms={"age": [30, 40, 60]}), of="age"),
    "means": lambda: draw(statistics(), of="means"),
    "survival": lambda: draw(
        vs.survival(
            "Surv(time, event) ~ C(hormone)", gbsg2(4), times=[365, 1095, 1825], **FREE
        )
    ),
    "survey": lambda: draw(
        vs.survey(
            {k: {"women": [k, None], "men": [-k, 1.0]} for k in range(9)},
            range=(-9, 9),
            driver="vectorised",
            seed=0,
        )
    ),
    "dispatch": lambda: draw(
        vs.dispatch(SITES, prices=(0, 64), price_unit=2, driver="vectorised", seed=0)
    ),
    "periods": lambda: draw(
        vs.dispatch_periods(
            {
                "a": vs.Fleet.of([20, 30], **UNIT),
                "b": vs.Fleet.of([1, 1], **UNIT),
                **dict.fromkeys("cd", vs.Fleet.of([1, 1])),
            },
            prices=(0, 64),
            periods=2,
            driver="vectorised",
            seed=0,
        )
    ),
    "network": lambda: draw(FAMILY("grid:3x4"), corrupted=["0", "5"]),
    "named network": lambda: draw(CLINICS),
    "star": lambda: draw(FAMILY("star:5"), corrupted=["0"]),
    "diagnosis": lambda: draw(vs.privacy.examine(CLINICS, tolerate=1)),
    "guarantee": lambda: draw(vs.worst_case(FAMILY("petersen"), sigma=1.0, tolerate=2)),
    "guarantee and network": lambda: draw(
        vs.worst_case(CLINICS, sigma=1.0, tolerate=1), topology=CLINICS
    ),
    "no guarantee": lambda: draw(vs.worst_case(CLINICS, sigma=1.0, tolerate=1)),
    "no masks": lambda: draw(vs.guarantee(FAMILY("ring:4"), law="none")),
    "nobody honest": lambda: draw(
        vs.guarantee(FAMILY("ring:3"), sigma=1.0, corrupted=["0", "1", "2"])
    ),
    "sums only": lambda: draw(vs.guarantee(FAMILY("ring:4"), law="uniform", grid=20)),
    "arcs": lambda: draw(
        vs.Topology.from_edges([("a", "b"), ("b", "c"), ("c", "a")], directed=True)
    ),
    "plans": lambda: draw(vs.plan(graph="petersen", tolerate=1, epsilon=0.1)),
    "planned network": lambda: draw(
        vs.plan(graph="petersen", tolerate=1, epsilon=0.1), network=True
    ),
    "allocation": lambda: draw(vs.privacy.allocate_noise(FAMILY("circulant:6:1,2"))),
    "leakage": lambda: draw(vs.privacy.Leakage(0.25)),
    "audit": lambda: draw(audited()),
    "literature": lambda: draw(compared()),
    "sweep": lambda: draw(swept()),
    "sweep by bytes": lambda: draw(swept(), x="bytes", y="attacker_success"),
    "path": lambda: draw(
        Path(
            ("age", "arm"),
            np.array([1.0, 0.1]),
            1.0,
            np.array([[0.0, 0.0], [1.0, -1.0]]),
            np.zeros(2),
            np.zeros(2),
        )
    ),
    "components": lambda: draw(
        Components(("age", "arm"), np.array([1.5, 0.5]), np.eye(2))
    ),
    "executions": lambda: draw(
        vs.minimise.simulate(
            FAMILY("complete:3"),
            [1.0, 2.0, 3.0],
            sigma=1.0,
            executions=500,
            stream=np.random.default_rng(0),
            corrupted=["2"],
        )
    ),
}
PLACES = {"network", "named network", "star", "diagnosis", "guarantee and network"}
PLACES |= {"planned network", "arcs"}


@each("kind", FIGURES)
def test_a_figure_can_be_read(kind):
    can_be_read(FIGURES[kind](), is_map=kind in PLACES)


@each(
    ("look", "spoil"),
    [
        (is_not_cut_off, lambda figure: figure.text(0.99, 0.5, "beyond the edge")),
        (is_apart, lambda figure: figure.axes[0].text(0.5, 1.05, "over the title")),
        (is_apart, lambda figure: figure.axes[0].set_xticks([0.5, 0.51], ["ab", "cd"])),
        (is_read_on_a_telephone, lambda figure: figure.text(0.5, 0.5, "x", fontsize=6)),
    ],
)
def test_letters_that_cannot_be_read_are_found(look, spoil):
    figure = draw(vs.privacy.Leakage(0.25))
    spoil(figure)
    canvas = backend_agg.FigureCanvasAgg(figure)
    canvas.draw()
    with pytest.raises(AssertionError):
        look(figure, letters(figure, canvas.get_renderer()))


def test_curves_that_differ_in_colour_only_are_found():
    figure = draw(vs.privacy.Leakage(0.25))
    figure.axes[0].plot([0, 1], [1, 0], ":", color="red", linewidth=1.0, label="two")
    with pytest.raises(AssertionError):
        is_told_apart_in_grey(figure)


def test_no_two_of_many_series_look_alike():
    looks = [figure_series_look(k) for k in range(32)]
    marks = [(one["marker"], one["linestyle"]) for one in looks]
    assert len(set(marks)) == 32


def test_what_has_no_figure_says_what_has():
    with refused("no-figure", vs.InvalidInputError):
        draw({})


def test_an_unknown_option_is_answered_with_those_there_are():
    fit = vs.fit("y ~ age", ROWS, **FREE)
    told = r"FitResult has no option 'exponentate'; did you mean '?exponentiate"
    with pytest.raises(vs.InvalidInputError, match=told):
        fit.plot(exponentate=True)
    with refused("not-a-ratio", vs.InvalidInputError):
        fit.plot(exponentiate=True)


def drawable_kinds(kind):
    """Return the classes below it that have a figure."""
    found = {one for below in kind.__subclasses__() for one in drawable_kinds(below)}
    registered = kind in draw_before_a_run.registry
    return found | ({kind} if registered or hasattr(kind, "draw_with") else set())


def test_every_option_of_a_figure_is_in_the_help_of_plot():
    told = vs.privacy.Leakage.plot.__doc__
    kinds = drawable_kinds(Renderable)
    assert len(kinds) > 25
    for kind in kinds:
        way = getattr(kind, "draw_with", None)
        skipped = 2 if way else 1
        way = way or draw_before_a_run.dispatch(kind)
        for name in [*signature(way).parameters][skipped:]:
            assert f"`{name}`" in told, (kind, name)


def test_a_logistic_fit_is_drawn_as_odds_ratios_without_its_intercept():
    fit = vs.fit("event ~ age + C(arm)", ROWS, family="logistic", **FREE)
    (axis,) = fit.plot().axes
    names = [one.get_text() for one in axis.get_yticklabels()]
    kept = [one for one in fit.params.index if one != "Intercept"]
    assert names == kept
    assert axis.get_xscale() == "log"
    assert axis.get_xlabel() == "odds ratio, 95 % interval"
    ratios = fit.ratios().loc[kept]
    dots = [line.get_xdata()[0] for line in axis.lines[1::2]]
    np.testing.assert_allclose(dots, ratios["odds ratio"], rtol=1e-12)
    lines = [line.get_xdata() for line in axis.lines[:-1:2]]
    np.testing.assert_allclose(lines, ratios[["low", "high"]], rtol=1e-12)
    (axis,) = fit.plot(exponentiate=False, intercept=True, scaled=False).axes
    assert len(axis.get_yticklabels()) == len(fit.params)
    dots = [line.get_xdata()[0] for line in axis.lines[1::2]]
    np.testing.assert_allclose(dots, fit.params, rtol=1e-12)


def test_coefficients_are_drawn_in_their_own_units_if_one_axis_has_room():
    near = vs.fit("y ~ age + hospitalisations_in_the_last_year", ROWS, **FREE)
    (axis,) = near.plot().axes
    assert axis.get_xlabel() == "coefficient, 95 % interval"
    dots = [line.get_xdata()[0] for line in axis.lines[1::2]]
    np.testing.assert_allclose(dots, near.params.iloc[1:], rtol=1e-12)
    rows = {k: {**v, "grams": v["y"] * 0.0 + v["age"] ** 3} for k, v in ROWS.items()}
    far = vs.fit("y ~ grams + C(arm)", rows, **FREE)
    (axis,) = far.plot().axes
    assert "in its standard errors" in axis.get_xlabel()
    dots = [line.get_xdata()[0] for line in axis.lines[1::2]]
    np.testing.assert_allclose(dots, far.tvalues.iloc[1:], rtol=1e-12)
    # With nothing else there is, the intercept is the answer.
    (axis,) = vs.fit("y ~ 1", ROWS, **FREE).plot().axes
    assert [one.get_text() for one in axis.get_yticklabels()] == ["Intercept"]


def test_groups_are_drawn_beside_each_other_and_by_how_far_they_are_apart():
    found = statistics(by="arm", tables=[("event",)])
    frame = pd.concat(map(pd.DataFrame, ROWS.values()))
    cut = frame.groupby("arm")
    for column, place in (("y", 0), ("age", 1)):
        mean, sd = cut[column].mean(), cut[column].std()
        smd = abs(mean["a"] - mean["b"]) / np.sqrt((sd**2).mean())
        (axis,) = found.plot().axes
        at = [one.get_text() for one in axis.get_yticklabels()].index(column)
        assert axis.lines[at].get_xdata()[0] == pytest.approx(smd, rel=1e-9)
        (axis,) = found.plot(of="means").axes
        names = [one.get_text() for one in axis.get_yticklabels()]
        assert names == ["y: a", "y: b", "age: a", "age: b"]
        dots = [line.get_xdata()[0] for line in axis.lines[1::2]]
        drawn_at = dots[2 * place : 2 * place + 2]
        np.testing.assert_allclose(drawn_at, mean / frame[column].std(), rtol=1e-9)


def test_a_histogram_has_every_row_and_areas_of_unequal_bins():
    """From 20 to 30 and from 60 on bins are open, and end where ages do."""
    found = statistics(histograms={"age": [30, 40, 60]})
    (axis,) = found.plot(of="age").axes
    ages = np.concatenate([one["age"] for one in ROWS.values()])
    edges = [ages.min(), 30, 40, 60, ages.max()]
    counts = [(ages < 30).sum(), ((ages >= 30) & (ages < 40)).sum()]
    counts += [((ages >= 40) & (ages <= 60)).sum(), (ages > 60).sum()]
    bars = axis.patches
    np.testing.assert_allclose([one.get_x() for one in bars], edges[:-1])
    areas = [one.get_width() * one.get_height() for one in bars]
    np.testing.assert_allclose(areas, counts)
    assert sum(areas) == pytest.approx(len(ages))
    assert [bool(one.get_hatch()) for one in bars] == [True, False, False, True]
    assert "per unit" in axis.get_ylabel()


def test_the_wrong_column_is_answered_with_those_there_are():
    found = statistics(histograms={"age": [30, 40, 60]})
    with refused("nothing-to-draw", vs.InvalidInputError, mentions=("agee",)):
        draw(found, of="agee")


def test_bytes_a_party_has_sent_come_to_all_bytes():
    """Of masks drawn together first, and of a party with more links than another."""
    for graph, options in (
        ("star:5", {}),
        ("ring:5", {"law": "lattice", "sigma": 100.0}),
    ):
        run = solved(5, graph=graph, **options)
        assert run.trace.sent[-1].sum() == run.bytes
        assert (np.diff(run.trace.sent, axis=0) > 0).all()
    star = solved(5, graph="star:5").trace.sent
    np.testing.assert_array_equal(star[:, 0], 4 * star[:, 1])
    assert solved(4, **ONE_SHOT).trace.sent is None


def test_convergence_shows_every_party_by_iteration_and_by_byte():
    run = solved(4)
    upper, lower = draw(run).axes
    for axis, along in ((upper, None), (lower, run.trace.sent)):
        for k, line in enumerate(axis.lines):
            np.testing.assert_array_equal(line.get_ydata(), run.trace.errors[:, k])
            x = run.trace.iterations if along is None else along[:, k]
            np.testing.assert_array_equal(line.get_xdata(), x)


def test_pieces_that_no_link_joins_are_drawn_too():
    apart = vs.Topology.from_edges([("a", "b"), ("c", "d")])
    (axis,) = draw(apart).axes
    assert {one.get_text() for one in axis.texts} == set("abcd")


def test_a_network_shows_who_colludes_what_is_known_and_what_mends_it():
    (axis,) = draw(vs.privacy.examine(FAMILY("star:4"), tolerate=1)).axes
    labels = [one.get_text() for one in axis.get_legend().get_texts()]
    assert "link that mends it" in labels
    assert "its loss cuts the network" in labels
    (axis,) = draw(FAMILY("star:4"), corrupted=["0"]).axes
    labels = [one.get_text() for one in axis.get_legend().get_texts()]
    assert labels == ["link the coalition knows", "colludes", "known exactly"]


def test_a_network_shows_itself():
    graph = FAMILY("ring:4")
    (axis,) = graph.plot(corrupted=["1"]).axes
    assert {one.get_text() for one in axis.texts} == set("0123")


def test_a_guarantee_is_not_drawn_on_another_network():
    promise = vs.guarantee(FAMILY("ring:5"), sigma=1.0)
    with refused("network-differs", vs.InvalidInputError):
        draw(promise, topology=FAMILY("ring:6"))


def test_what_an_attacker_can_tell_is_the_guarantee_s_own_number():
    graph, far = FAMILY("petersen"), 1.25
    promise = vs.worst_case(graph, sigma=1.0, tolerate=2, distance=far)
    (axis,) = draw(promise).axes
    x, y = axis.lines[0].get_data()
    assert np.interp(far, x, y) == pytest.approx(promise.attacker_success, abs=1e-4)


def test_epsilon_against_sigma_goes_through_the_guarantee():
    plans = vs.plan(graph="petersen", tolerate=1, epsilon=0.1, law="gaussian")
    (axis,) = draw(plans).axes
    for tolerate, line in enumerate(axis.lines[:3]):
        sigma, epsilon = line.get_xdata()[7], line.get_ydata()[7]
        told = vs.worst_case(FAMILY("petersen"), sigma=sigma, tolerate=tolerate)
        assert epsilon == pytest.approx(told.epsilon, rel=1e-9)


def test_a_sweep_s_series_are_medians_of_its_lines():
    found = swept()
    (axis,) = draw(found, x="sigma").axes
    lines = {line.get_label(): line for line in axis.lines}
    assert set(lines) == {
        f"{graph}, {method}"
        for graph in ("ring:4", "complete:4")
        for method in ("dgd", "one-shot")
    }
    frame = found.to_frame()
    kept = frame[(frame.graph == "ring:4") & (frame.method == "dgd")]
    told = kept.groupby("sigma").error.median()
    np.testing.assert_allclose(lines["ring:4, dgd"].get_xdata(), told.index)
    np.testing.assert_allclose(lines["ring:4, dgd"].get_ydata(), told)
    with refused("unknown-numbers", vs.InvalidInputError, mentions=("eps",)):
        draw(found, x="eps")


def test_runs_without_masks_are_a_line_all_along_and_zeros_are_told():
    found = vs.minimise.sweep(
        [vs.minimise.Cost.squared_distance([k]) for k in range(4)],
        graphs="complete:4",
        domain=vs.minimise.Box(-9, 9, dim=1),
        sigmas=[1.0, 3.0],
        laws=["gaussian", "none"],
        methods=["dgd", "one-shot"],
        settings=vs.minimise.Settings(iterations=20),
    )
    figure = draw(found)
    (axis,) = figure.axes
    level = {line.get_label(): line.get_ydata() for line in axis.lines}
    frame = found.to_frame()
    bare = frame[(frame.law == "none") & (frame.method == "dgd")].error.item()
    assert set(level["dgd, no masks"]) == {bare}
    assert set(level["one-shot, no masks"]) == {2.0**-55}
    told = " ".join(text.get_text() for text in figure.texts)
    assert "what is 0 or below 3e-17 is drawn there" in " ".join(told.split())
    assert "not drawn" not in told


def test_the_roc_curve_is_the_best_test_s():
    (axis,) = draw(vs.privacy.Leakage(0.5)).axes
    x, y = axis.lines[0].get_data()
    assert np.interp(0.05, x, y) == pytest.approx(
        vs.privacy.Leakage(0.5).power(0.05), abs=1e-6
    )
    assert np.trapezoid(y, x) == pytest.approx(vs.privacy.Leakage(0.5).auc, abs=1e-4)
