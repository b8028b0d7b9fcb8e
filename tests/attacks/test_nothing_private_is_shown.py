"""Results on a screen, in a notebook, in a traceback: nobody's own number is there.

Every party holds numbers that nobody else has and no sum comes to; what is shown of
every public class is searched for them, however they are rounded. And names come from
other parties: what could steer a terminal or a browser is shown, not obeyed.
"""

import inspect
import re
from functools import cache
from types import SimpleNamespace

import numpy as np
import pytest

import veilsum as vs
from cases import each
from public_names import public_names
from veilsum.audit.literature import LiteratureTable, MechanismRow
from veilsum.consortium.consortium import ConsortiumMember
from veilsum.consortium.study import StudyEdition
from veilsum.errors import is_seen
from veilsum.net.receipt import ReceiptFinding
from veilsum.party.audit_record import ASKED
from veilsum.party.consent import ConsentPart
from veilsum.showing import Renderable, Rendering, terminal_width

pytestmark = pytest.mark.usefixtures("unchecked_shapes")

PARTIES = ("a", "b", "c", "d", "e")
# What each party holds, and nobody else.
OWN = dict(
    zip(PARTIES, (271828.25, 161803.5, 141421.75, 173205.125, 223606.5), strict=True)
)
SCRIPT = "<script>alert(1)</script>"
ORDER = "red\x1b[31m\u202e"
QUICK = {"driver": "vectorised", "seed": 1}
OPEN = vs.Rules(
    release_fraction=1.0, minimum_count=1, effective_count=1, site_terms=True
)
FREE = {"rules": OPEN, **QUICK}
TIMES = [5.0, 10.0, 20.0, 41.0]


@cache
def tables():
    """Five parties' rows; the first of each has the number of its own."""
    made = {}
    for k, party in enumerate(PARTIES):
        drawn = np.random.default_rng(k)
        x = drawn.integers(100_000, 300_000, 60) + 0.0
        x[0] = OWN[party]
        chance = drawn.random(60)
        made[party] = {
            "x": x,
            "y": 2.0 * x + drawn.integers(-9999, 9999, 60),
            "z": drawn.integers(0, 50, 60) + 0.0,
            "ill": (chance < 0.4) * 1.0,
            "arm": [SCRIPT if one < 0.5 else "usual" for one in drawn.random(60)],
            "time": 1.0 + np.floor(40 * drawn.random(60)),
        }
    return made


@cache
def network():
    names = [(SCRIPT, "b"), ("b", "c"), ("c", "d"), ("d", SCRIPT), (SCRIPT, ORDER)]
    return vs.Topology.from_edges([*names, (ORDER, "c")])


@cache
def run():
    return vs.solve(
        [vs.minimise.Cost.squared_distance([one]) for one in OWN.values()],
        topology=vs.Topology.family("ring:5"),
        domain=vs.minimise.Box(0, 1e6, dim=1),
        sigma=1.0,
        corrupted=["1"],
        settings=vs.minimise.Settings(iterations=30),
        seed=1,
    )


@cache
def masks():
    law = vs.masks.Masks("lattice", sigma=1.0, grid=20).on(network())
    return vs.audit.scene_under(network(), law, width=2)


@cache
def audited():
    few = {"executions": 200, "depth": "quick", "seed": 1, "progress": False}
    return vs.audit.audit(masks(), [("b",), (SCRIPT,)], **few)


@cache
def described(**more):
    wish = {"columns": ["x", "y", "z"], "tables": [["arm"]]}
    return vs.statistics(tables(), **wish, **more, **FREE)


@cache
def fitted():
    return vs.fit("y ~ x + C(arm)", tables(), compare=True, **FREE)


@cache
def summed():
    return vs.sum(OWN, what=f"{SCRIPT}{ORDER}", **QUICK)


def site(demand):
    one = np.array([1.0])
    return vs.Site(np.array([demand]), one, one, 0.0 * one, 4e5 * one)


def receipt():
    digests = dict.fromkeys(("plan", "consortium", "consent", "result"), "00")
    return vs.Receipt(
        **digests,
        run=SCRIPT,
        party=ORDER,
        certificate="",
        parties=("a", SCRIPT),
        lost=(ORDER,),
        epochs=(0,),
        confirmed=(SCRIPT,),
        released=(
            {"key": SCRIPT, "parties": [ORDER]},
            {"round": 1, "parties": [SCRIPT], "statistics": {ORDER: 1}},
        ),
        guarantee={},
        started=SCRIPT,
        finished=ORDER,
        version="1",
        signature="00",
    )


def consortium():
    """An agreement whose names nobody has checked."""
    members = [ConsortiumMember(one, SCRIPT, None) for one in network().parties]
    return vs.Consortium(
        run=SCRIPT,
        title=f"{SCRIPT}{ORDER}",
        members=tuple(members),
        topology=network(),
        masks=vs.masks.Masks("uniform"),
        rules=None,
        schema=None,
        question=SimpleNamespace(heading=SCRIPT),
        written=b"",
    )


def evaluated(formula, **more):
    return vs.evaluate(formula, tables(), **more, **FREE)


# One of each public class, made of numbers and names that must not come through.
MADE = {
    "SumResult": summed,
    "StatisticsResult": described,
    "FitResult": fitted,
    "SurvivalResult": lambda: vs.survival(
        "Surv(time, ill) ~ C(arm)", tables(), times=TIMES, compare=True, **FREE
    ),
    "BinnedCoxResult": lambda: vs.cox(
        "Surv(time, ill) ~ z", tables(), times=TIMES, strata="none", **FREE
    ),
    "CoxResult": lambda: vs.cox("Surv(time, ill) ~ z", tables(), **FREE),
    "MixedResult": lambda: vs.mixed("y ~ z", tables(), **FREE),
    "MetaResult": lambda: vs.meta("y ~ z", tables(), coefficient="z", **FREE),
    "PooledResult": lambda: vs.meta_analysis(
        {p: (v, 1e5 + v / 10) for p, v in OWN.items()},
        effects=(0, 1e6),
        errors=(1e4, 1e6),
        few_digits=True,
        **QUICK,
    ),
    "NumberEvaluation": lambda: evaluated(
        "y ~ x + C(arm)", coefficients=dict.fromkeys(fitted().coefficients, 0.5)
    ),
    "ChanceEvaluation": lambda: evaluated(
        "ill ~ z",
        coefficients={"Intercept": 0.1, "z": 0.01},
        family="logistic",
        edges=[0.6],
    ),
    "FoldsEvaluation": lambda: evaluated(
        "ill ~ z", family="logistic", folds=3, split=1
    ),
    "ConcordanceEvaluation": lambda: evaluated(
        "Surv(time, ill) ~ z",
        coefficients={"z": 0.01},
        times=TIMES,
        edges=[0.0, 0.3, 0.5],
    ),
    "Components": lambda: vs.principal_components(described()),
    "Path": lambda: vs.elastic_net(described(), "y"),
    "TwoStageFit": lambda: vs.two_stage(described(), "y", on=["x"], instruments=["z"]),
    "QuadraticResult": lambda: vs.quadratic_program(
        {p: ([[1.0]], [v]) for p, v in OWN.items()}, **QUICK
    ),
    "SurveyResult": lambda: vs.survey(
        {
            **{p: {"x": [v]} for p, v in OWN.items()},
            **{f"guest {k}": {"x": [100.0 * k]} for k in range(10)},
        },
        range=(0, 1e6),
        unit=0.125,
        **QUICK,
    ),
    "DispatchResult": lambda: vs.dispatch(
        {p: site(v) for p, v in OWN.items()}, prices=(0.0, 1e6), **QUICK
    ),
    "PeriodsResult": lambda: vs.dispatch_periods(
        {
            p: vs.Fleet.of([v, v / 2], a=0.5, b=1, low=0, high=4e5, ramp=4e5)
            for p, v in OWN.items()
        },
        prices=(0, 1e6),
        periods=2,
        **QUICK,
    ),
    "Audit": audited,
    "AuditRecord": lambda: audited().record(
        masks(), source=b"", asked=dict.fromkeys(ASKED)
    ),
    "GradientFit": lambda: vs.minimise.fit_by_gradients(
        {p: vs.Rows.of(np.ones((4, 1)), [v] * 4) for p, v in OWN.items()},
        topology="complete:5",
        law="gaussian",
        sigma=1.0,
        domain=vs.minimise.Box(0, 1e6, dim=1),
        iterations=20,
        seed=1,
    ),
    "Run": run,
    "RunRecord": lambda: run().record(),
    "View": lambda: run().view(["1"]),
    "Transcript": lambda: run().transcript(["1"]),
    "Guarantee": lambda: vs.guarantee(network(), sigma=1.0, corrupted=["c", SCRIPT]),
    "Plans": lambda: vs.plan(graph=network(), tolerate=1, epsilon=0.1),
    "NetworkPlan": lambda: vs.plan(graph=network(), tolerate=1, epsilon=0.1).best,
    "Diagnosis": lambda: vs.privacy.examine(network(), tolerate=2),
    "Allocation": lambda: vs.privacy.allocate_noise(network()),
    "Leakage": lambda: vs.privacy.Leakage(0.25),
    "Executions": lambda: vs.minimise.simulate(
        vs.Topology.family("ring:5"),
        [*OWN.values()],
        sigma=1.0,
        executions=7,
        stream=np.random.default_rng(1),
    ),
    "Sweep": lambda: vs.minimise.sweep(
        [vs.minimise.Cost.squared_distance([one]) for one in OWN.values()],
        graphs={SCRIPT: vs.Topology.family("ring:5")},
        domain=vs.minimise.Box(0, 1e6, dim=1),
        sigmas=[1.0],
        settings=vs.minimise.Settings(iterations=30),
    ),
    "Topology": network,
    "Consortium": lambda: consortium(),
    "AgreedStudy": lambda: vs.consortium.AgreedStudy(
        run=SCRIPT,
        title=ORDER,
        organiser=SCRIPT,
        questions={SCRIPT: consortium()},
        editions=(StudyEdition(questions=1, digest="00"),),
        written=b"",
    ),
    "JoinedStudy": lambda: vs.party.JoinedStudy(
        status=vs.party.StudyStatus(
            run=SCRIPT,
            study="00",
            title=ORDER,
            party="a",
            questions=({"name": SCRIPT, "run": ORDER},),
        ),
        answers={SCRIPT: MADE["Joined"]()},
    ),
    "Receipt": receipt,
    "Verdict": lambda: vs.Verdict(
        (ReceiptFinding(SCRIPT, False, ORDER),), ((ORDER, SCRIPT),)
    ),
    "Joined": lambda: vs.Joined(
        result=summed(),
        receipt=receipt(),
        evidence=(),
        seal=str(OWN["a"]).encode(),
        signed_by=(SCRIPT, ORDER),
        was_over=False,
    ),
    "Consent": lambda: vs.Consent(
        shared=(
            ConsentPart(
                "question", (ORDER, "- an item"), {"place": 1, "n": 1, "name": SCRIPT}
            ),
            ConsentPart("asked", (SCRIPT,)),
        ),
        facts={"run": SCRIPT},
        own=(ConsentPart("your_data", (f"one row has {OWN['a']}",)),),
    ),
    "LargeRun": lambda: vs.minimise.large(
        f"complete:{len(OWN)}",
        targets=[[v] for v in OWN.values()],
        iterations=3,
        engine="numpy",
    ),
    "Evidence": lambda: vs.net.Evidence(
        run=SCRIPT,
        plan="00",
        consortium="00",
        party=ORDER,
        certificate="",
        records=tuple(map(str, OWN.values())),
    ),
}
# Beside them: what is no public name, and what is a party's own.
FURTHER = {
    "GroupedStatistics": lambda: (
        vs.statistics(
            tables(),
            columns=["x"],
            by="arm",
            quantiles={"x": [0.5]},
            histograms={"x": [150_000, 200_000, 250_000]},
            **FREE,
        ).groups
    ),
    "SolveTrace": lambda: run().trace,
    "TestOfFit": lambda: fitted().wald_test("x = 2"),
    "FittedCombinations": lambda: fitted().t_test("x = 2"),
    "MarginalMeans": lambda: fitted().marginal_means("C(arm)"),
    "LiteratureTable": lambda: LiteratureTable(
        0.25,
        10,
        1,
        3.0,
        (
            MechanismRow(
                mechanism="a mechanism",
                releases="all of it",
                noise="none",
                divergence=0.25,
                divergence_if_sum_moves=0.5,
                promised=0.6,
                measured=0.6,
                low=0.5,
                high=0.7,
                error=0.1,
            ),
        ),
    ),
}
HELD = {
    "Rows": lambda: vs.Rows.of([[1.0, OWN["a"]]], [OWN["b"]]),
    "Cost": lambda: vs.minimise.Cost.squared_distance([OWN["a"]]),
    "Site": lambda: site(OWN["a"]),
}
TAGS = {
    *("p", "div", "table", "thead", "tbody", "tr", "th", "td", "strong", "br"),
    *("details", "summary", "ul", "li", "pre"),
}


def leaks(text):
    """Whose numbers a text has, however they are rounded."""
    plain = text.replace(",", "").replace("_", "")
    ways = ("{:g}", "{:.0f}", "{:.5g}", "{:.4e}", "{:.3e}", "{!r}")
    return [
        party
        for party, own in OWN.items()
        if any(way.format(own) in plain for way in ways)
    ]


def test_a_number_that_is_there_would_be_found():
    class Leaky(Renderable):
        def showing(self):
            return Rendering(f"The largest is {OWN['a']:.5g}")

    assert leaks(repr(Leaky())) == ["a"]
    # What its owner asks for is there, and is what the others are searched for.
    (own,) = MADE["Consent"]().own
    assert leaks(" ".join(own.lines)) == ["a"]


def test_every_public_class_that_shows_itself_is_looked_at():
    named = {
        name.rpartition(".")[2]
        for name, one in public_names().items()
        if inspect.isclass(one) and issubclass(one, Renderable)
    }
    assert named == {*MADE}


def kinds(base=Renderable):
    for one in base.__subclasses__():
        if one.__module__.startswith("veilsum."):
            yield one
        yield from kinds(one)


def test_nothing_that_shows_itself_prints_in_another_way():
    """A dataclass makes a `__repr__` of its own, with every field, if it is let."""
    found = {*kinds()}
    assert len(found) > 40
    for name in ("__repr__", "__str__", "_repr_html_", "plot"):
        assert {
            one for one in found if getattr(one, name) is not getattr(Renderable, name)
        } == set()


@each("name", [*MADE, *FURTHER])
def test_no_party_s_number_is_shown_and_no_name_is_obeyed(name):
    one = (MADE | FURTHER)[name]()
    html = one._repr_html_()
    for text in (repr(one), str(one), html):
        assert leaks(text) == []
        assert all(map(is_seen, text.split("\n")))
    assert {*re.findall(r"<\s*/?\s*(\w+)", html)} <= TAGS
    assert not re.search(r"(src|href|on\w+)\s*=|url\(|https?:", html.replace("&", ""))
    assert max(map(terminal_width, repr(one).split("\n"))) <= 80
    assert max(map(terminal_width, str(one).split("\n"))) <= 80


@each("name", HELD)
def test_what_a_party_holds_does_not_print(name):
    one = HELD[name]()
    assert leaks(repr(one)) == leaks(f"{one}") == []
    assert "private" in repr(one)
