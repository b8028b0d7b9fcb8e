"""What a job releases is listed, limited, and the only thing that leaves a party."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from cases import each
from refusals import refused
from veilsum.drivers.loopback import LoopbackWorld
from veilsum.errors import BudgetError, InvalidInputError
from veilsum.files.ledger import open_ledger
from veilsum.fits.model import FitModel
from veilsum.masks.masking import ShareStreams
from veilsum.models.families import Binomial, GaussianFamily
from veilsum.models.rows import RowMeasures, Rows
from veilsum.numbers.limbs import limbs_to_integers
from veilsum.privacy.accountant import Budget
from veilsum.privacy.guarantee import (
    NEAR_VIEWS_LIMIT,
    SAME_VIEWS_LIMIT,
    UNITS_LIMIT,
)
from veilsum.protocol.codec import Codec
from veilsum.protocol.messages import Quit
from veilsum.questions.regression import fit, fit_arrays
from veilsum.questions.statistics import statistics
from veilsum.questions.sums import sum as masked_sum
from veilsum.sums.recipes import SumContribution, SumPartyWork
from veilsum.sums.releases import EXACT, SumRelease, SumReleaseLimit, condensed_releases
from veilsum.sums.terms import SumTerms
from veilsum.tables.rules import DisclosureError, Rules

PARTIES = ("north", "east", "south", "west", "centre")


def rows_of(family, seed=0):
    stream = np.random.default_rng(seed)
    found = {}
    for name in PARTIES:
        x = np.column_stack([np.ones(60), stream.normal(size=(60, 2))])
        eta = x @ [0.2, 0.5, -0.4]
        y = eta + stream.normal(size=60)
        found[name] = Rows.of(x, (y > 0).astype(float) if family == "logistic" else y)
    return found


class NoChance(ShareStreams):
    """Streams whose words are all zero: masks that hide nothing."""

    def stream(self, *, epoch, sender, receiver):
        return self

    def words(self, count):
        return np.zeros(count, dtype=np.uint64)

    def normals(self, count):
        return np.zeros(count)


def model_of(family, rows):
    return FitModel(
        response="y",
        names=("a", "b", "c"),
        intercept=0,
        family=family,
        measures=RowMeasures.inferred(rows, 0),
    )


def world_of(family, law, kind_of_streams=ShareStreams):
    """The machines of a regression, every frame recorded."""
    kind = Binomial() if family == "logistic" else GaussianFamily()
    rows = rows_of(family)
    model = model_of(kind, rows)
    recipe = model.recipe()
    terms = SumTerms.of(PARTIES, counts=recipe.counts, options={"law": law, "seed": 3})
    works = {
        name: SumPartyWork(
            recipe, SumContribution(partial(model.strategy.vector, part, 0), ())
        )
        for name, part in rows.items()
    }
    plan = terms.plan(size=recipe.size, answer_size=3, terms={})
    world = LoopbackWorld(plan, works, kind_of_streams(3), seed=3, record=True)
    return world.run()


def contributions(world):
    """Every vector that some party put under masks, with the law's numbers."""
    sums = max(
        (
            [
                e.detail.total
                for e in world.history
                if (e.party, e.what) == (p, "deliver")
            ]
            for p in PARTIES
        ),
        key=len,
    )
    for work in world.works.values():
        for k in range(len(sums)):
            vector = work.vector(sums[:k])
            yield vector, world.plan.law.encode(vector)


def traces(vector, numbers):
    """Bytes that would betray a number: as float64, and as the codec writes it.

    Of a long integer the seven lowest bytes that count: they do not depend on how many
    bytes the codec takes for all of it.
    """
    for value in vector:
        if abs(value) > 1e-6 and value != round(value):
            yield np.float64(value).tobytes()
    for number in limbs_to_integers(numbers).tolist():
        if isinstance(number, int) and number.bit_count() > 16:
            start = ((number & -number).bit_length() - 1) // 8
            yield number.to_bytes(40, "little", signed=True)[start : start + 7]


@each("family", ["gaussian", "logistic"])
@each("law", ["uniform", "none"])
def test_no_contribution_appears_in_any_message(family, law):
    """With law none the same search finds them: it can fail."""
    world = world_of(family, law)
    assert len(world.finished) == 5
    wire = b"\0\0".join(e.detail for e in world.history if e.what == "send")
    looked_for = {t for pair in contributions(world) for t in traces(*pair)}
    assert len(looked_for) > 40
    found = [trace for trace in looked_for if trace in wire]
    assert bool(found) == (law == "none")


@pytest.mark.parametrize("family", ["gaussian", "logistic"])
def test_the_search_finds_contributions_under_masks_of_zero(family):
    world = world_of(family, "uniform", NoChance)
    wire = b"\0\0".join(e.detail for e in world.history if e.what == "send")
    looked_for = {t for pair in contributions(world) for t in traces(*pair)}
    found = [trace for trace in looked_for if trace in wire]
    assert len(found) > len(looked_for) / 3


def test_a_party_that_refuses_tells_one_word():
    rows = rows_of("logistic")
    rows["south"] = Rows.of(rows["south"].design, np.full(60, 0.123456789))
    model = model_of(Binomial(), rows)
    recipe = model.recipe()
    terms = SumTerms.of(PARTIES, counts=recipe.counts, options={"seed": 3})

    def checked(name, request):
        model.check(name, rows[name])
        return model.strategy.vector(rows[name], 0, request)

    works = {
        name: SumPartyWork(recipe, SumContribution(partial(checked, name), ()))
        for name in rows
    }
    plan = terms.plan(size=recipe.size, answer_size=3, terms={})
    world = LoopbackWorld(plan, works, ShareStreams(3), record=True).run()
    assert not world.finished
    codec = Codec(plan.size)
    sent = [codec.decode(e.detail) for e in world.history if e.what == "send"]
    quits = {m.reason for m in sent if isinstance(m, Quit) and m.party == "south"}
    assert quits == {"refused"}
    assert "logistic regression" in world.aborted["south"].detail
    wire = b"".join(e.detail for e in world.history if e.what == "send")
    assert world.aborted["south"].detail.encode() not in wire


# What is listed


@pytest.mark.parametrize("driver", ["loopback", "vectorised"])
def test_every_round_is_listed_for_every_piece(driver):
    rows = {p: (r.design, r.response) for p, r in rows_of("logistic").items()}
    result = fit_arrays(
        rows,
        family="logistic",
        intercept=0,
        driver=driver,
        rules=Rules(minimum_rows=60),
    )
    listed = result.guarantee.released
    assert len(listed) == len(result.released.sums)
    honest = result.guarantee.components[0].parties
    assert len(honest) == 4
    for number, line in enumerate(listed, start=1):
        assert line.startswith(f"round {number}, summed over {', '.join(honest)}")
    # Every number of a sum is listed, but for those that only fill it up.
    for release in result.releases:
        assert 0 < np.sum(list(release.statistics.values())) <= result.recipe.size
    assert any("identical views" in line for line in result.guarantee.limits)
    lines = condensed_releases(result.releases)
    assert lines[0].startswith("round 1, summed over honest parties: parties that hold")
    # Rounds that show the same are one line: two with an information, one without.
    starts = [line.partition(", ")[0] for line in lines]
    assert starts == ["round 1", "round 2", "rounds 3 to 4", "round 5", "round 6"]


@pytest.mark.parametrize(
    ("options", "claim", "other"),
    [
        ({}, SAME_VIEWS_LIMIT, NEAR_VIEWS_LIMIT),
        ({"law": "lattice", "sigma": 1e6}, NEAR_VIEWS_LIMIT, SAME_VIEWS_LIMIT),
    ],
)
def test_a_guarantee_of_whole_numbers_says_what_is_proved_of_rows(
    options, claim, other
):
    """Once: who has which row, what that is worth, and that sums are known."""
    rows = {p: (r.design, r.response) for p, r in rows_of("gaussian").items()}
    limits = fit_arrays(rows, intercept=0, **options).guarantee.limits
    for line in (UNITS_LIMIT, claim, EXACT):
        assert limits.count(line) == 1
    assert other not in limits
    assert not any("on the grid" in line for line in limits)
    assert any("timing, refusals, and who is absent" in line for line in limits)


def test_in_the_open_nothing_is_claimed_of_rows():
    limits = masked_sum(
        dict.fromkeys("abcd", 1.25), unit=0.01, law="none"
    ).guarantee.limits
    assert not {UNITS_LIMIT, SAME_VIEWS_LIMIT, NEAR_VIEWS_LIMIT, EXACT} & {*limits}


def test_places_are_named_once_each():
    rounds = [SumRelease("d", {"s": 1}, (k,), f"the price {k}") for k in range(3)]
    assert condensed_releases(rounds) == (
        "rounds 1 to 3, each, summed over honest parties: s (1); at the price 0; the "
        "price 1; the price 2",
    )


# What is limited

LIMIT = SumReleaseLimit(honest=4, columns=5, minimum_rows=10)


def test_a_limit_counts_what_honest_rows_hold():
    LIMIT.check(99)  # half of 4 x 10 x 5 numbers
    with refused("releases-too-much", DisclosureError, mentions=("100",)) as told:
        LIMIT.check(100)
    assert told.value.rule == "release_fraction"
    assert "[policy] release_fraction" in str(told.value)
    # Whoever called from Python has no file with sections.
    assert "vs.Rules(release_fraction=0.51)" in str(told.value)
    assert "vs.Schema(..., minimum_rows=" in str(told.value)


def test_the_advice_in_the_refusal_is_enough():
    with refused("releases-too-much", mentions=("minimum_rows",)) as caught:
        LIMIT.check(100, 7)
    enough = int(str(caught.value).split("minimum_rows = ")[1].split(" ")[0])
    replace(LIMIT, minimum_rows=enough).check(100, 7)
    with pytest.raises(InvalidInputError):
        replace(LIMIT, minimum_rows=enough - 1).check(100, 7)


@each("size", [1, 6, 7, 10, 11, 99, 100, 1000])
def test_as_many_rounds_as_there_is_room_for(size):
    rounds = LIMIT.rounds(size)
    assert rounds <= LIMIT.most_rounds
    if rounds:
        LIMIT.check(size, rounds)
    if rounds < LIMIT.most_rounds:
        with pytest.raises(DisclosureError):
            LIMIT.check(size, rounds + 1)


def test_four_rows_under_six_rounds_are_refused():
    stream = np.random.default_rng(1)
    few = {
        p: (stream.normal(size=(1, 3)), np.array([float(k % 2)]))
        for k, p in enumerate(PARTIES)
    }
    rules = Rules.none(release_fraction=0.5)
    with refused("releases-too-much"):
        fit_arrays(few, family="logistic", rules=rules)


def logistic(minimum_rows, **options):
    rows = {p: (r.design, r.response) for p, r in rows_of("logistic").items()}
    rules = Rules(minimum_rows=minimum_rows, **options.pop("rules", {}))
    return fit_arrays(rows, family="logistic", intercept=0, rules=rules, **options)


def test_a_fit_without_room_for_its_rounds_shows_nothing(tmp_path):
    """Seven sums of 13 numbers, after 3, are below 4 x 17 x 3 / 2, eight are not."""
    shown, books = [], ledgers(tmp_path)

    def told(done, total):
        shown.append((done, total))

    with refused("releases-too-much", DisclosureError, mentions=("8",)):
        logistic(
            17,
            progress=told,
            driver="vectorised",
            ledgers=books,
        )
    assert not shown
    assert not any(one.history().charges for one in books.values())
    found = logistic(18, progress=told, driver="vectorised")
    assert found.inner[0].most_rounds == 8
    assert shown


def test_no_more_is_released_than_was_reserved():
    result = logistic(60)
    assert result.inner[0].most_rounds == 15
    used = np.sum([one.numbers for one in result.releases])
    # Parties, the first sum, two rounds with an information, one without, the last.
    assert used == 3 + 11 + 2 * 10 + 4 + 11 < result.recipe.most_numbers
    assert result.recipe.most_numbers == 15 * 13 + 3


def test_a_fit_that_takes_more_rounds_than_agreed_ends(tmp_path):
    books = ledgers(tmp_path)
    with refused("not-converged", mentions=("3",)) as told:
        logistic(60, rules={"most_rounds": 3}, ledgers=books)
    assert "[policy] most_rounds" in str(told.value)
    assert {len(one.history().charges) for one in books.values()} == {1 + 3}


def test_powers_of_a_number_are_no_further_numbers():
    """Sums of x^1 to x^20 are equations that give all x away: they are refused."""
    stream = np.random.default_rng(4)
    data = {
        p: {"x": stream.normal(size=5), "y": stream.normal(size=5)} for p in PARTIES
    }
    derived = {f"x{k}": {"of": "x", "as": "power", "exponent": k} for k in range(2, 11)}
    rules = Rules.none(release_fraction=0.5)
    with refused("releases-too-much", mentions=("2",)):
        fit(f"y ~ x + {' + '.join(derived)}", data, rules=rules, derived=derived)


# Terms


@each(
    ("options", "why"),
    [
        ({"topology": "ring:5", "tolerate": 2}, "could separate"),
        ({"tolerate": 3}, "too few"),
        ({"topology": "ring:4"}, "4 parties, and there are data of 5"),
        ({"topology": "star:5"}, "could separate"),
    ],
)
def test_terms_that_cannot_hold_are_refused(options, why):
    with pytest.raises(InvalidInputError, match=why):
        masked_sum(dict.fromkeys(PARTIES, 1.0), **options)


def test_three_parties_need_their_terms_changed_openly():
    three = {"a": 1, "b": 2, "c": 3}
    with refused("terms-not-met", mentions=("Add a party", "minimum_honest = 2")):
        masked_sum(three)
    with refused("terms-not-met", mentions=("2 parties are too few", "Add 2 parties")):
        masked_sum({"a": 1, "b": 2})
    assert masked_sum(three, minimum_honest=2).value == 6


# The ledger


def ledgers(folder):
    return {
        name: open_ledger(folder / f"{name}.ledger", create=Budget())
        for name in PARTIES
    }


@pytest.mark.parametrize("driver", ["loopback", "vectorised"])
def test_the_ledger_refuses_the_differencing_pair(tmp_path, driver):
    """All parties, then all but one: the difference would be that one's vector."""
    books = ledgers(tmp_path)
    data = {name: [k, 2 * k] for k, name in enumerate(PARTIES)}
    masked_sum(data, ledgers=books, driver=driver)
    fewer = {name: data[name] for name in PARTIES[:-1]}
    some = {name: books[name] for name in fewer}
    with refused("budget-exceeded", BudgetError):
        masked_sum(fewer, ledgers=some, driver=driver, seed=2)


def test_rounds_under_a_lattice_add_up():
    rows = {p: (r.design, r.response) for p, r in rows_of("logistic").items()}
    options = {"law": "lattice", "sigma": 1e3, "driver": "vectorised"}
    result = fit_arrays(
        rows, family="logistic", intercept=0, rules=Rules(minimum_rows=60), **options
    )
    once, rounds = result.terms.guarantee, len(result.released.sums)
    assert rounds > 2
    assert result.guarantee.epsilon == pytest.approx(rounds * once.epsilon)
    assert result.guarantee.worst.epsilon_upper == result.guarantee.epsilon
    assert any(f"{rounds} rounds together" in line for line in result.guarantee.limits)


def test_a_misspelt_option_is_refused():
    with refused("unknown-option", mentions=("tolerate",)):
        masked_sum(dict.fromkeys(PARTIES, 1.0), tolerat=2)


def test_a_second_question_is_about_the_same_data_set(tmp_path):
    """Other columns, over all parties but one: refused by those who remain."""
    stream = np.random.default_rng(0)
    data = {p: {c: stream.normal(size=40) for c in "abc"} for p in PARTIES}
    books = ledgers(tmp_path)
    statistics(data, columns=["a"], ledgers=books)
    fewer = {p: data[p] for p in PARTIES[:-1]}
    some = {p: books[p] for p in fewer}
    with refused("budget-exceeded", BudgetError):
        statistics(fewer, columns=["a", "b"], ledgers=some, seed=3)
    fit("a ~ b + c", data, ledgers=books, seed=4)
    assert len(books["north"].totals()) == 1


def test_a_ledger_of_a_stranger_is_refused(tmp_path):
    books = {"nord": open_ledger(tmp_path / "l.ledger", create=Budget())}
    with refused("ledger-of-stranger"):
        masked_sum(dict.fromkeys(PARTIES, 1.0), ledgers=books)


def test_two_parties_of_one_name_are_refused():
    with refused("duplicate-party", mentions=("1",)):
        masked_sum({1: 1, "1": 5, 2: 1, 3: 1, 4: 1})


@each("bad", [1.5, -1, True, "two"])
def test_a_number_of_colluders_is_a_whole_number(bad):
    with refused("not-a-count"):
        masked_sum(dict.fromkeys(PARTIES, 1.0), tolerate=bad)
