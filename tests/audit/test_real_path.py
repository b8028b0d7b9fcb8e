"""Leaks that an outsider planted, and more of their kind: the audit finds each.

Each is planted in the package's own code, in one place; the audit is not told. Its twin
is the audit of the same question with nothing planted.
"""

import hashlib
import logging
import secrets
from functools import cache
from itertools import cycle

import msgspec
import numpy as np
import pytest
from scipy.stats import binom

from audit.questions import COLUMNS, COST, question
from cases import each
from refusals import refused
from surveys import opened
from veilsum.audit import (
    auditing,
    real_parties,
    reassignment,
    share_law,
    unlisted,
    visits as audited_visits,
)
from veilsum.audit.auditing import audit, scene_of_audit
from veilsum.audit.question import SkippedAttack
from veilsum.drivers import driver
from veilsum.fits.fitting import FitStrategy
from veilsum.fits.wrappers import FitWrapper
from veilsum.masks import masking
from veilsum.masks.laws import (
    LatticeCountMasks,
    LatticeMasks,
    UniformCountMasks,
    UniformMasks,
)
from veilsum.masks.masking import ShareStreams
from veilsum.models.sandwich import MeatRequest
from veilsum.net import runner
from veilsum.net.drop import DropFolder
from veilsum.net.receipt import Receipt
from veilsum.numbers.limbs import subtract_wide_integers
from veilsum.party import networked
from veilsum.party.run_status import EventFeed
from veilsum.protocol.epoch import Epoch
from veilsum.questions.statistics import StatisticsRecipe
from veilsum.sums import presence
from veilsum.sums.presence import PresenceScreenedRecipe
from veilsum.sums.recipes import SumPartyWork
from veilsum.surveys import delegate, submission

pytestmark = pytest.mark.usefixtures("unchecked_shapes")


AGES = {"age": COLUMNS["age"], "smoker": COLUMNS["smoker"], "bmi": COLUMNS["bmi"]}
# A first round that counts parties and is filled up; rows may be left out; bmi is not
# asked about.
FIT = {
    "columns": AGES,
    "schema": {"missing": "drop"},
    "model": {"formula": "smoker ~ age", "family": "logistic"},
}
MEANS = {"columns": AGES, "statistics": {"columns": ["age"], "by": "smoker"}}
ROBUST = {**FIT, "model": {**FIT["model"], "errors": "HC1"}}
# Under these masks totals are released whole.
WHOLE = {**FIT, "masks": {"law": "lattice", "sigma": 1e9}}
OLD = {"seed": 2, "trials": 1}


@cache
def agreed(kind):
    kinds = {"fit": FIT, "means": MEANS, "robust": ROBUST, "whole": WHOLE}
    return question(**kinds[kind])


def told(kind, **changes):
    """What the comparison with the list says."""
    asked = agreed(kind)
    outcome, *words = unlisted.play(asked, coalition=asked.parties, **OLD | changes)
    assert bool(words) == bool(outcome.successes)
    return outcome


# Numbers beside the list


def adding(patch, more):
    """Plant something that a party's vector has more."""
    vector = SumPartyWork.vector

    def telling(self, answers):
        found = vector(self, answers)
        return found if found is None else more(self, answers, found.copy())

    patch.setattr(SumPartyWork, "vector", telling)


def squares_in_the_padding(patch):
    """The outsider's: squares of a party's totals in the padding of the first round."""

    def more(self, answers, found):
        if not answers:
            found[-1] += int(self.contribution.data.frame["age"].sum()) ** 2
        return found

    adding(patch, more)


def a_total_in_the_padding(patch):
    """The same, and no square: who has which row does not change it."""
    made = PresenceScreenedRecipe.contribution

    def telling(self, own, holds):
        return made(self, own, np.append(holds, int(own.data.frame["age"].sum())))

    patch.setattr(PresenceScreenedRecipe, "contribution", telling)


def a_total_for_rows_left_out(patch):
    """What should count rows left out is a sum of something else."""
    vector = FitStrategy.vector

    def telling(self, rows, dropped, request):
        return vector(self, rows, dropped + int(rows.response.sum()), request)

    patch.setattr(FitStrategy, "vector", telling)


def contents_of_rows_left_out(patch):
    """Rows left out are counted by an answer of theirs."""

    def more(self, answers, found):
        rows = self.contribution.data.frame
        lacking = rows[rows["age"].isna()]
        place = self.recipe.inner.inner.size - 1  # before objections
        found[place] += int(lacking["smoker"].sum()) if len(answers) == 1 else 0
        return found

    adding(patch, more)


def rows_instead_of_parties(patch):
    """The first round counts rows."""

    def counts(groups, look, enough):
        del enough
        flags = [one.count(look) for one in groups]
        several = [np.count_nonzero(one) > 1 for one in flags]
        return np.concatenate([*flags, several]).astype(np.int64).astype(object)

    patch.setattr(presence, "places_with_rows", counts)


def a_column_nobody_asked_about(patch):
    """A listed number has a sum of another column in it."""

    def more(self, answers, found):
        if len(answers) == 1:
            # So little that the total stays possible.
            found[1] += int(self.contribution.data.frame["bmi"].sum()) % 7
        return found

    adding(patch, more)


def a_column_in_a_residue(patch):
    """A listed residue is another one by a unit, by a sum of another column."""

    def more(self, answers, found):
        if len(answers) > 1:
            odd = int(self.contribution.data.frame["bmi"].sum()) % 2
            found[PLACE] += odd << below_residue(self.recipe, answers)
        return found

    adding(patch, more)


def a_column_below_a_residue(patch):
    """A number has a sum of another column in bits that a residue does not need."""

    def more(self, answers, found):
        if len(answers) > 1:
            found[PLACE] += int(self.contribution.data.frame["bmi"].sum())
        return found

    adding(patch, more)


# Of a column's fitted means.
PLACE = 3


def below_residue(recipe, answers):
    guarded = recipe.inner
    own = guarded.within(recipe.within(answers))
    bits = guarded.inner.residues(own)[PLACE]
    return 64 * guarded.inner.counts.words - bits if bits else 0


def a_round_more(patch):
    """A question with one sum asks for it twice."""
    request = StatisticsRecipe.request
    patch.setattr(
        StatisticsRecipe,
        "request",
        lambda self, sums: request(self, sums[: len(sums) // 2]),
    )


def a_number_in_a_closing_round(patch):
    """The round for robust errors has sums of responses where it should be filled."""
    vector = FitWrapper.vector

    def telling(self, rows, dropped, request):
        found = vector(self, rows, dropped, request)
        if isinstance(request, MeatRequest):
            found[-6:] += int(rows.response.sum())
        return found

    patch.setattr(FitWrapper, "vector", telling)


UNLISTED = {
    squares_in_the_padding: "fit",
    a_total_in_the_padding: "fit",
    a_total_for_rows_left_out: "fit",
    contents_of_rows_left_out: "fit",
    a_column_nobody_asked_about: "fit",
    a_column_in_a_residue: "fit",
    a_round_more: "means",
    a_number_in_a_closing_round: "robust",
}


@each("kind", ["fit", "means", "robust", "whole"])
def test_a_list_that_is_kept_to_is_not_accused(kind):
    assert told(kind, trials=2).successes == 0


@pytest.mark.parametrize("leak", [rows_instead_of_parties, a_column_below_a_residue])
def test_impossible_totals_end_every_run(leak, monkeypatch):
    """More holders than parties, or bits below a residue."""
    asked = agreed("fit")
    asked.size  # noqa: B018 - found before anything is planted
    leak(monkeypatch)
    with refused("rows-refused-often"):
        list(unlisted.play(asked, coalition=asked.parties, **OLD))


@pytest.mark.parametrize("leak", UNLISTED, ids=lambda one: one.__name__)
def test_a_number_beside_the_list_is_found(leak, monkeypatch):
    agreed(UNLISTED[leak]).size  # noqa: B018 - found before anything is planted
    leak(monkeypatch)
    assert told(UNLISTED[leak]).successes == 1


def test_what_is_in_the_padding_does_not_keep_rows_from_being_dealt_anew(monkeypatch):
    """The first round's counts decide whether dealings are compared: those alone."""
    squares_in_the_padding(monkeypatch)
    asked = agreed("fit")
    (found,) = reassignment.play(asked, coalition=("ann",), seed=2, trials=1)
    assert not isinstance(found, SkippedAttack)
    assert found.successes == 1


# One number of all

LATTICE = {**MEANS, "masks": {"law": "lattice", "sigma": 1e6}}


def weakened(numbers, weaken):
    found = numbers.copy()
    found[0] = weaken(found[0])
    return found


def an_eighth_of_sigma(patch):
    """The outsider's: one coordinate of a share, as long as a share is."""
    for law in (LatticeMasks, LatticeCountMasks):

        def drawn(self, stream, size, weight=1.0, *, draw=law.draw):
            return weakened(draw(self, stream, size, weight), lambda one: one // 8)

        patch.setattr(law, "draw", drawn)


def an_even_number(patch):
    """The first residue of every share has no lowest bit."""
    for law in (UniformMasks, UniformCountMasks):

        def drawn(self, stream, size, weight=1.0, *, draw=law.draw):
            return weakened(draw(self, stream, size, weight), lambda one: one // 2 * 2)

        patch.setattr(law, "draw", drawn)


def an_eighth_on_one_link(patch):
    """The same as the first, in what one party sends to another one."""
    share = masking.MaskStreams.share

    def drawn(self, law, size, weight=1.0, **whose):
        found = share(self, law, size, weight, **whose)
        if (whose["sender"], whose["receiver"]) != (3, 1):
            return found
        return weakened(found, lambda one: one // 8)

    patch.setattr(masking.MaskStreams, "share", drawn)


ONE_NUMBER = {
    an_eighth_of_sigma: LATTICE,
    an_eighth_on_one_link: LATTICE,
    an_even_number: MEANS,
}


@each("asked", [LATTICE, MEANS, COST], ids=["lattice", "", "cost"])
def test_numbers_as_agreed_are_not_accused(asked):
    scene = scene_of_audit(question(**asked))
    for one in share_law.shares_by_number(scene, 5):
        outcome = one.outcome()
        assert (outcome.successes, outcome.trials) == (0, scene.plan_width)


@pytest.mark.parametrize("leak", ONE_NUMBER, ids=lambda one: one.__name__)
def test_what_is_wrong_with_one_number_is_found(leak, monkeypatch):
    scene = scene_of_audit(question(**ONE_NUMBER[leak]))
    leak(monkeypatch)
    seeded, of_the_system = share_law.shares_by_number(scene, 5)
    for one in (seeded, of_the_system):
        assert one.outcome().successes == 1
        assert one.outcome().exceeds(0.05 / 1000)


@pytest.mark.statistical
def test_one_number_is_found_as_often_as_is_said():
    """At the width that is said, 9 of 10: of 40, fewer than 27 in 1 of 10,000 seeds.

    At the agreed width never: one false alarm is less likely than 1e-6.
    """
    scene = scene_of_audit(question(**LATTICE))
    (one, *_) = share_law.shares_by_number(scene, 0)
    for count, where in ((one.shares, "all links"), (one.on_a_link, "a single link")):
        part = one._least_width(count)
        assert f"{part:.2g} of the agreed deviation" in one.power
        chance, found, sound = np.random.default_rng(count), 0, 0
        for _ in range(40):
            reals = chance.standard_normal((count, 2)) * np.array([part, 1.0])
            narrow, usual = one._narrow(reals).tolist()
            found, sound = found + narrow, sound + usual
        assert found >= 27, where
        assert sound == 0, where


def test_bits_of_one_number_are_found_as_often_as_is_said():
    """The same of bits; counts are binomial, so that thresholds are exact."""
    scene = scene_of_audit(question(**MEANS))
    one = share_law.shares_by_number(scene, 0)[0]
    low, high = share_law._usual_share_counts(one.shares, 0.5, one.luck)
    assert high == one.shares - low
    assert binom.cdf(low - 1, one.shares, 0.5) <= one.luck / 2
    assert binom.cdf(low, one.shares, 0.5) > one.luck / 2
    part = one._least_bit(one.shares)
    assert binom.cdf(low - 1, one.shares, part) == pytest.approx(0.9, abs=1e-6)
    assert f"{100 * part:.2g}% of shares over all links together" in one.power


def test_the_power_of_each_number_is_on_the_screen():
    scene = scene_of_audit(question(**LATTICE))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(auditing, "PLANTED", {})
        found = audit(scene, [("ann",)], executions=500, depth="quick")
    (line,) = [one for one in found.said if one.startswith(share_law.BY_NUMBER)]
    assert line in " ".join(str(found).split())
    assert "in all numbers together" in found.power or "so few" in found.power
    control = next(one for one in found.controls if "an eighth of sigma" in one.name)
    assert control.holds


# Machines that come back


def one_link_less_after_a_crash(patch):
    """A machine that was started again sends what it had masked without one share."""
    restore = Epoch.restore

    def less(self, stored, masked):
        restore(self, stored, masked)
        if masked is not None and self.sent:
            name = next(iter(self.sent))
            numbers = subtract_wide_integers(masked.numbers, self.sent[name].numbers)
            self.masked = msgspec.structs.replace(masked, numbers=numbers)

    patch.setattr(Epoch, "restore", less)


def bare_after_a_crash(patch):
    """A machine that was started again shows its numbers as they are."""
    restore, mask = Epoch.restore, Epoch.mask

    def marked(self, stored, masked):
        restore(self, stored, masked)
        self.came_back = True

    def bare(self):
        return mask(self) * (0 if getattr(self, "came_back", False) else 1)

    patch.setattr(Epoch, "restore", marked)
    patch.setattr(Epoch, "mask", bare)


def a_seed_where_nobody_gave_one(patch):
    """Masks without a seed are those of seed 0."""
    patch.setattr(driver, "SystemStreams", lambda: ShareStreams(0))


COMING_BACK = (
    one_link_less_after_a_crash,
    bare_after_a_crash,
    a_seed_where_nobody_gave_one,
)


def come_back():
    asked = question(**COST)
    (found,) = auditing._attack_restarted_machines(
        asked, coalition=asked.parties, seed=4, trials=12
    )
    return found.successes


def test_machines_that_come_back_are_not_accused():
    assert come_back() == 0


@pytest.mark.parametrize("leak", COMING_BACK, ids=lambda one: one.__name__)
def test_what_machines_do_wrong_when_they_come_back_is_found(leak, monkeypatch):
    leak(monkeypatch)
    assert come_back() > 0


# Guests


def constant_without_a_source(patch):
    """The outsider's: guests' shares are constant where no source is handed in."""
    make = submission.make_submission

    def constant(*given, draw=None):
        return make(*given, draw or (lambda size: bytes([7]) * size))

    patch.setattr(submission, "make_submission", constant)


def the_last_one_of_no_chance(patch):
    """Only the last delegate's share is a constant: the others see nothing of it."""
    make = submission.make_submission

    def constant(survey, *given):
        left = len(survey.delegates)

        def draw(size):
            nonlocal left
            left -= 1
            return secrets.token_bytes(size) if left else bytes([7]) * size

        return make(survey, *given, draw)

    patch.setattr(submission, "make_submission", constant)


def one_invitation_for_all(patch):
    """Codes of guests have few letters that change."""
    code = delegate.new_invitation_code()
    same = code.replace("-", "")[:20]

    def alike():
        return submission._shown_guest_code(same + secrets.token_hex(3).upper())

    patch.setattr(delegate, "new_invitation_code", alike)


def the_same_keys_in_every_store(patch):
    """Delegates' keys come from a list."""
    few = [delegate.X25519PrivateKey.generate() for _ in range(3)]
    keys = cycle(few)

    class Listed:
        generate = staticmethod(lambda: next(keys))

    patch.setattr(delegate, "X25519PrivateKey", Listed)


@pytest.fixture(scope="module")
def made():
    return audited_visits.AuditedVisits.like(opened())


def weak_shares(made):
    aim = audited_visits.VisitsAttack(
        visits=made,
        coalition=("ann", "bob"),
        pair=tuple(made.codes)[:2],
        seed=1,
        trials=70,
    )
    return audited_visits.attack_weak_shares(aim)


def test_guests_and_delegates_are_not_accused(made):
    assert weak_shares(made).successes == 0
    assert audited_visits.attack_keys_and_codes().successes == 0


@pytest.mark.parametrize("leak", [constant_without_a_source, the_last_one_of_no_chance])
def test_what_guests_draw_by_themselves_is_looked_at(leak, made, monkeypatch):
    leak(monkeypatch)
    assert weak_shares(made).exceeds(0.05 / 100)


@pytest.mark.parametrize("leak", [one_invitation_for_all, the_same_keys_in_every_store])
def test_what_delegates_make_is_looked_at(leak, monkeypatch):
    leak(monkeypatch)
    assert audited_visits.attack_keys_and_codes().exceeds(0.05 / 100)


# Real parties

FOUR = {**COST, "names": ("ann", "bob", "cem", "dee")}
LAST = {}


def remembered(patch):
    """Keep what a party is about to mask, for a leak somewhere else."""

    def more(self, answers, found):
        del self, answers
        LAST["vector"] = found
        return found

    adding(patch, more)


def a_seed_for_real_parties(patch):
    """Real parties draw their shares from a seed."""
    patch.setattr(networked, "SystemStreams", lambda: ShareStreams(11))


def a_number_in_an_event(patch):
    """Events say something of the vector, and so do statuses."""
    remembered(patch)
    tell = EventFeed.tell

    def telling(self, what, **about):
        more = {"reason": str(int(LAST["vector"][0]) % 1000)} if LAST else {}
        tell(self, what, **{**more, **about})

    patch.setattr(EventFeed, "tell", telling)


def a_number_in_a_log(patch):
    """Whoever has logs on in full finds the vector there."""

    def more(self, answers, found):
        logging.getLogger("veilsum.net").debug("masking %s", found.tolist())
        return found

    adding(patch, more)


def a_number_on_the_screen(patch):
    """A line that somebody forgot."""

    def more(self, answers, found):
        print(found[0])
        return found

    adding(patch, more)


def a_digest_in_a_receipt(patch):
    """A receipt has a digest of the vector, without any salt."""
    remembered(patch)
    content = Receipt._content

    def telling(self):
        digest = hashlib.sha256(str(LAST["vector"].tolist()).encode()).hexdigest()
        return {**content(self), "vector": digest}

    patch.setattr(Receipt, "_content", telling)


def a_length_beside_the_letters(patch):
    """Whoever carries letters sees a file as long as a number of the vector says."""
    remembered(patch)
    put = DropFolder.put

    def more(self, letters):
        put(self, letters)
        length = int(LAST["vector"][0]) % 1000 if LAST else 0
        (self.path / "letters.tmp").write_bytes(bytes(length))

    patch.setattr(DropFolder, "put", more)


def shares_that_stay(patch):
    """When a run is over its shares are still on the disk."""
    patch.setattr(runner, "erase_secrets_of_run_store", lambda store: None)
    patch.setattr(networked, "erase_secrets_of_run_store", lambda store: None)
    patch.setattr(Epoch, "wipe", lambda self: [])


def another_vector_for_real_parties(patch):
    """Where others are far away a party masks something else."""
    carry_out = networked.NetworkedParty.carry_out

    def telling(self, assignment):
        with pytest.MonkeyPatch.context() as patched:
            adding(patched, lambda work, answers, found: found + found % 5)
            return carry_out(self, assignment)

    patch.setattr(networked.NetworkedParty, "carry_out", telling)


REAL = (
    a_seed_for_real_parties,
    a_number_in_an_event,
    a_number_in_a_log,
    a_number_on_the_screen,
    a_digest_in_a_receipt,
    a_length_beside_the_letters,
    shares_that_stay,
    another_vector_for_real_parties,
)


def left_behind():
    LAST.clear()
    asked = question(**FOUR)
    outcome, *words = real_parties.play(asked, coalition=asked.parties, **OLD)
    assert bool(words) == bool(outcome.successes)
    return outcome.successes, words


def test_real_parties_are_not_accused():
    assert left_behind() == (0, [])


@pytest.mark.parametrize(
    "leak",
    [
        pytest.param(one, marks=[] if one in REAL[:1] else pytest.mark.slow)
        for one in REAL
    ],
    ids=lambda one: one.__name__,
)
def test_what_real_parties_leave_behind_is_found(leak, monkeypatch):
    leak(monkeypatch)
    found, words = left_behind()
    assert found == 1, words


@pytest.mark.slow
@pytest.mark.parametrize("asked", [MEANS, FIT], ids=["means", "fit"])
def test_real_parties_with_tables_are_not_accused(asked):
    asked = question(**{**asked, "names": FOUR["names"]})
    outcome, *words = real_parties.play(asked, coalition=asked.parties, **OLD)
    assert (outcome.successes, words) == (0, [])


def test_parties_that_are_too_many_are_not_played_and_it_is_said():
    many = question(**{**COST, "names": tuple("abcdefghi")})
    (found,) = real_parties.play(many, coalition=many.parties, **OLD)
    assert isinstance(found, SkippedAttack)
    assert "more than 8 parties" in found.why
