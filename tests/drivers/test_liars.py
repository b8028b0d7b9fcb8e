"""Whatever a member sends, nobody is blamed for it but the member itself.

Each script is one way to lie. Honest parties finish with the right answer, or end and
name the liar, or nobody. Nothing is released for fewer than were agreed on, and nothing
grows without a bound.
"""

from contextlib import suppress
from random import Random

import msgspec
import numpy as np
import pytest

from cases import each
from liars import LIAR, lying, wrongs
from machines import picture, sealed, stopped_at
from veilsum.drivers.faults import Crash, Faults
from veilsum.drivers.loopback import SimulatedKeys
from veilsum.errors import PeerProtocolError
from veilsum.protocol.machine import Machine
from veilsum.protocol.messages import (
    Agreed,
    Confirm,
    Deposit,
    Down,
    Join,
    Lost,
    Masked,
    Quit,
    Ready,
    Record,
    Result,
    Round,
    Share,
    Status,
    Up,
)
from veilsum.protocol.peers import MOST_REFUSED, MOST_WASTED
from veilsum.protocol.plan import ProtocolPolicy
from worlds import Setting, effects_until

pytestmark = pytest.mark.usefixtures("unchecked_shapes")

GRAPHS = ("complete:5", "ring:5", "wheel:6")
STRICT = ProtocolPolicy(drop=False)
replaced = msgspec.structs.replace


def ends(world):
    """How honest parties ended: finished, or a reason."""
    return {
        "finished" if name in world.finished else world.aborted[name].reason
        for name in world.others
    }


def accusers(world):
    return {name for name, one in world.honest.items() if LIAR in one.accused}


def told(world):
    """What the owners of honest parties that gave up are told."""
    return [world.aborted[n].detail for n in world.others if n in world.aborted]


def ended_at(world):
    """When the last honest party ended."""
    over = (e for e in world.history if e.what in {"finish", "abort"})
    return max(event.time for event in over if event.party in world.others)


def neighbours_of(world, name=LIAR):
    return set(world.plan.topology.neighbours(name))


# The policy is checked on what is received


def gives_others_up(world, to, message):
    if isinstance(message, Share) and world.first(to):
        yield to, world.lost(["0", "1"])
    yield to, message


@each("graph", GRAPHS)
def test_a_notice_of_loss_changes_nothing_where_nobody_may_be_lost(graph):
    world = lying(Setting(graph, policy=STRICT), gives_others_up)
    assert wrongs(world) == []
    assert ends(world) == {"finished"}
    assert accusers(world) == neighbours_of(world)
    assert all(one.lost == () for one in world.honest.values())


class Ruthless(Machine):
    """Party 3 gives two others up as soon as it may, though they are not silent."""

    def _enter(self, phase):
        super()._enter(phase)
        if self.me == LIAR and phase == "sharing" and not self.lost:
            self._give_up_on(["0", "1"])


@pytest.mark.parametrize(
    "policy", [STRICT, ProtocolPolicy(tolerate=1)], ids=["strict", "few"]
)
def test_a_notice_that_leaves_too_few_is_refused(policy):
    world = lying(Setting(policy=policy), gives_others_up)
    assert wrongs(world) == []
    assert ends(world) == {"finished"}
    assert {one.parties for one in world.finished.values()} == {world.plan.parties}
    assert accusers(world) == set(world.others)


def test_one_that_leaves_enough_is_followed():
    """The twin: with `drop` the same words count, as far as the plan allows."""
    world = Setting().world(make=Ruthless).run()
    assert {world.finished[name].parties for name in "24"} == {("2", "3", "4")}
    assert {world.aborted[name].reason for name in "01"} == {"dropped"}
    assert "'3' gave it up" in world.aborted["0"].detail


def is_ready_without(world, to, message):
    if isinstance(message, Ready):
        message = world.sign(replaced(message, epoch=1, lost=("0",)))
    yield to, message


def test_who_is_ready_without_others_is_refused_where_nobody_may_be_lost():
    world = lying(Setting(policy=STRICT), is_ready_without)
    assert wrongs(world) == []
    assert ends(world) == {"timeout"}
    assert accusers(world) == set(world.others)
    assert all("against the plan" in one for one in told(world))


# Nothing grows


def flood_of_losses(count):
    def script(world, to, message):
        if isinstance(message, Share) and world.first(to):
            for k in range(count):
                names = sorted(Random(k).sample(world.others, 1 + k % 3))
                yield to, world.lost(names, epoch=k)
        yield to, message

    return script


@pytest.mark.parametrize("drop", [True, False])
def test_a_flood_of_losses_is_not_kept_nor_passed_on(drop):
    setting = Setting("complete:7", policy=ProtocolPolicy(drop=drop))
    world = lying(setting, flood_of_losses(400))
    assert wrongs(world) == []
    assert all(one.is_deaf_to(LIAR) for one in world.honest.values())
    passed = [
        event
        for event in world.history
        if event.what == "send" and event.party != LIAR and b"Lost" in event.detail
    ]
    assert len(passed) < 7 * 7 * 4
    if not drop:
        assert ends(world) <= {"timeout", "peer"}


def kept_bytes(machine):
    """How long the frames are that a machine holds, proofs included."""
    book = machine._book
    frames = [book.frame(one) for one in book.ids()]
    return sum(
        map(len, (*frames, *(f for e in book.evidence.values() for f in e.frames)))
    )


@each("by_another_start", [False, True])
@each("drop", [True, False])
def test_a_machine_keeps_no_more_of_many_losses_than_of_few(drop, by_another_start):
    setting = Setting("complete:7", policy=ProtocolPolicy(drop=drop))
    world = stopped_at(setting, "0", "sharing")
    machine, liar = (world.nodes[name].machine for name in ("0", LIAR))
    start = b"o" * 16 if by_another_start else liar._book.start
    before, checked, held = kept_bytes(machine), [], []
    verify = SimulatedKeys.verify

    def counted(keys, *given):
        checked.append(given)
        return verify(keys, *given)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SimulatedKeys, "verify", counted)
        for k in range(2 * MOST_WASTED + 1):
            lost = tuple(sorted(Random(k).sample("12456", 1 + k % 2)))
            epoch = 0 if by_another_start else k
            said = Lost(party=LIAR, epoch=epoch, incarnation=start, lost=lost)
            frame = world.plan.codec.encode(sealed(world, said))
            with suppress(PeerProtocolError):
                machine.receive(LIAR, frame)
            if k % MOST_WASTED == 0 and k:
                held.append((picture(machine), machine.accused))
    # One of them, a proof that is two, and the own Quit over it: no more than that.
    assert kept_bytes(machine) <= before + 4 * len(frame)
    assert held[0] == held[1]
    assert len(checked) <= MOST_WASTED


def test_who_is_heard_no_more_is_one_that_sends_what_nobody_honest_sends():
    """The twin: as many good frames do not silence anybody."""

    def repeats(world, to, message):
        for _ in range(2 * MOST_REFUSED):
            yield to, message

    world = lying(Setting(), repeats)
    assert wrongs(world) == []
    assert ends(world) == {"finished"}


# A word about another's state


def claims(**more):
    def script(world, to, message):
        if isinstance(message, Status):
            mark = bytes(16)
            made_up = (("Ready", 99, to, mark), ("Join", 7, to, mark))
            held = (*message.records, *made_up)
            message = replaced(message, records=held, **more)
        yield to, message

    return script


LATER = {"share": 10**6, "round": 10**6, "confirm": 10**6}


@each("more", [{}, LATER, {"epoch": 10**9}], ids=str)
@each("work", ["one-shot", "sums", "nids"])
def test_a_false_word_about_a_partys_records_makes_nobody_stale(work, more):
    world = lying(Setting(work=work, policy=STRICT), claims(**more))
    assert wrongs(world) == []
    # Its echo does not count: everybody waits for the liar, and for nobody else.
    assert ends(world) == {"timeout"}
    assert all("waited for 3 while greeting" in one for one in told(world))


def claims_later(world, to, message):
    if world.own.phase == "greeting":
        yield to, message
    else:
        yield from claims(**LATER)(world, to, message)


@each("work", ["one-shot", "sums", "nids"])
def test_once_its_echo_has_counted_such_a_word_changes_nothing(work):
    faults = Faults(delay=(0.4, 0.4))
    world = lying(Setting(work=work), claims_later, faults=faults)
    assert wrongs(world) == []
    assert ends(world) == {"finished"}


def old_frames():
    """Everything that everybody sent in another run."""
    done = Setting(seed=77).world().run()
    return [e.detail for e in done.history if e.what == "send"]


def replays(world, to, message):
    if world.first(to):
        for frame in OLD[: MOST_REFUSED * 4]:
            yield to, frame
    yield to, message


OLD = old_frames()


@pytest.mark.parametrize("graph", ["complete:5", "ring:5"])
def test_frames_of_another_run_are_the_fault_of_who_sends_them(graph):
    world = lying(Setting(graph, policy=STRICT), replays)
    assert wrongs(world) == []
    assert accusers(world) == neighbours_of(world)


# An earlier start of a party, which has come back since


def before_the_crash(world, what, **of):
    """Frames of a party's first start."""
    crash = next(k for k, e in enumerate(world.history) if e.what == "crash")
    return [
        event.detail
        for event in world.history[:crash]
        if event.what == what and all(getattr(event, k) == v for k, v in of.items())
    ]


def sends_all_again(world, to, message):
    """Party 1's own links bring what they brought before."""
    if world.nodes["1"].start == 2 and world.first(to):
        yield from (
            (to, f) for f in before_the_crash(world, "send", party="1", peer=to)
        )
    yield to, message


def passes_on_what_was(world, to, message):
    """Party 3 plays every record that party 1 ever gave it, to party 1 as well."""
    if world.nodes["1"].start == 2 and world.first(to):
        for frame in before_the_crash(world, "receive", party=LIAR, peer="1"):
            if isinstance(world.plan.codec.decode(frame), Record):
                yield to, frame
    yield to, message


def came_back(script, liar, *, until, stale=0):
    setting = Setting(policy=STRICT, work="sums")
    after = effects_until(setting, "1", until)
    crash = Crash("1", after=after, back=2.0, stale=stale)
    return lying(setting, script, liar=liar, faults=Faults(crashes=(crash,)))


@each("until", ["Join", "Share", "Ready", "Masked", "Agreed"])
@each(("script", "by"), [(sends_all_again, "1"), (passes_on_what_was, LIAR)])
def test_frames_of_an_earlier_start_end_nothing_and_name_nobody(script, by, until):
    world = came_back(script, by, until=until)
    assert world.once, "they were played"
    assert wrongs(world) == []
    assert world.finished.keys() == set(world.plan.parties)
    assert all(world.nodes[n].machine.accused == {} for n in world.plan.parties)


def test_a_start_that_has_forgotten_an_earlier_one_leaves_and_is_no_liar():
    """The twin: what is signed and not known any more does end a party's run."""
    world = came_back(passes_on_what_was, LIAR, until="Ready", stale=10**6)
    assert world.aborted["1"].reason == "stale"
    assert all(one.accused == {} for one in world.honest.values())


def second_attempt(kind, *, when, to_all):
    """All come again with empty disks, and what a party said before is played.

    Args:
        kind: of the record that the liar has kept of party 1.
        when: the phase in which it plays it.
        to_all: whether to party 1 as well.
    """
    setting = Setting(policy=STRICT)
    # After its Ready: whoever waits for it has committed, and says so when it leaves.
    gone = Faults(crashes=(Crash("4", after=44, back=None),))
    first = setting.world(gone if kind is Quit else None).run()
    sent = {e.detail for e in first.history if e.what == "send" and e.party == "1"}
    told = [(first.plan.codec.decode(frame), frame) for frame in sorted(sent)]
    own = [f for one, f in told if isinstance(one, kind) and one.party == "1"]
    assert len(own) == 1

    def plays(world, to, message):
        yield to, message
        if world.own.phase == when and (to_all or to != "1") and world.first(to):
            yield to, own[0]

    return lying(setting, plays, start=1)


@each("kind", [Join, Ready, Masked, Agreed, Quit])
@each("when", ["greeting", "committing", "agreeing"])
def test_words_of_a_start_whose_disk_is_gone_make_nobody_a_liar(kind, when):
    """Party 1 itself leaves over them, where it has not finished yet."""
    world = second_attempt(kind, when=when, to_all=True)
    assert all(one.accused == {} for one in world.honest.values())
    found = [one._book.evidence for one in world.honest.values()]
    assert all(pair.anew for one in found for pair in one.values())
    assert {*ends(world)} <= {"finished", "stale", "peer", "timeout"}
    if when == "greeting":
        assert world.aborted["1"].reason == "stale"


@each("kind", [Join, Ready, Masked, Agreed])
def test_words_of_an_earlier_start_are_refused_and_name_who_started_anew(kind):
    """The others go on with the start that joined, and finish with the right answer."""
    world = second_attempt(kind, when="committing", to_all=False)
    assert wrongs(world) == []
    assert ends(world) == {"finished"}
    found = [one._book.evidence for one in world.honest.values()]
    assert sum("1" in one for one in found) == 3, "all but party 1 itself"
    words = {pair.words for one in found for pair in one.values()}
    assert [one.startswith("'1' started anew") for one in words] == [True]


# Two stories


def tells_two(kind):
    """Every other party gets another version of the liar's own records of a kind."""

    def script(world, to, message):
        own = isinstance(message, kind) and message.party == world.liar
        if own and world.others.index(to) % 2:
            if isinstance(message, Ready):
                message = world.sign(replaced(message, request=bytes(32)))
            elif isinstance(message, Agreed):
                message = world.sign(replaced(message, digest=bytes(32)))
            else:
                message = world.moved(message)
        yield to, message

    return script


@each("work", ["one-shot", "sums"])
@each("graph", GRAPHS)
def test_two_masked_vectors_are_proven(graph, work):
    world = lying(Setting(graph, work=work), tells_two(Masked))
    assert wrongs(world, tells_two=True) == []
    # Who hears first that somebody left with a proof leaves with it.
    assert {"proof"} <= ends(world) <= {"proof", "peer"}
    proven = {n for n in world.others if world.aborted[n].reason == "proof"}
    assert proven <= accusers(world)
    assert all(told_two(one, "Masked") or "left: proof" in one for one in told(world))
    assert ended_at(world) < Setting().policy.deadline


def told_two(words, kind):
    """Say whether a record is proven to be one of two, or not the promised one."""
    two = f"'3' signed two different {kind} records" in words
    return two or "'3' signed a Masked of epoch 0 that does not open" in words


@each("graph", GRAPHS)
def test_two_requests_are_proven(graph):
    world = lying(Setting(graph), tells_two(Ready))
    assert wrongs(world) == []
    assert ends(world) == {"proof"}
    assert all(told_two(one, "Ready") for one in told(world))


@each("graph", GRAPHS)
def test_two_proposed_answers_are_proven(graph):
    world = lying(Setting(graph), tells_two(Result), liar="0")
    assert wrongs(world) == []
    assert ends(world) <= {"proof", "peer"}
    for name in world.others:
        assert "'0'" in world.aborted[name].detail


@each("graph", GRAPHS)
def test_two_signatures_are_the_signers_fault(graph):
    world = lying(Setting(graph), tells_two(Agreed))
    assert wrongs(world) == []
    assert ends(world) <= {"finished", "proof"}
    assert all("'3' signed two different Agreed records" in one for one in told(world))


def ready_and_not(world, to, message):
    own = isinstance(message, Ready) and message.party == world.liar
    if own and world.others.index(to) % 2:
        message = world.lost(["0"])
    yield to, message


@each("graph", GRAPHS)
def test_who_is_ready_and_gives_up_is_proven_to(graph):
    world = lying(Setting(graph), ready_and_not)
    assert wrongs(world) == []


# Records of others, and records that nobody signed


def unsigned(world, to, message):
    if isinstance(message, Record) and message.party == world.liar:
        message = replaced(message, signature=bytes(64))
    yield to, message


@each("graph", GRAPHS)
def test_who_does_not_sign_is_not_passed_on(graph):
    world = lying(Setting(graph), unsigned)
    assert wrongs(world) == []
    assert accusers(world) == neighbours_of(world)


def speaks_for_others(world, to, message):
    if world.first(to):
        for party in world.others:
            yield to, world.sign(Quit(party=party, epoch=0, reason="stopped"))
            plan = bytes(32)
            start = bytes(16)
            yield (
                to,
                world.sign(Join(party=party, epoch=0, incarnation=start, plan=plan)),
            )
    yield to, message


@each("graph", GRAPHS)
def test_nobody_speaks_for_another(graph):
    world = lying(Setting(graph), speaks_for_others)
    assert wrongs(world) == []
    assert ends(world) == {"finished"}
    assert accusers(world) == neighbours_of(world)


# What cannot be proven ends all the same


def is_done_early(world, to, message):
    yield to, message
    if isinstance(message, Masked) and world.first(to):
        yield to, world.sign(Agreed(party=LIAR, epoch=0, digest=bytes(32)))


def asks_for_more(world, to, message):
    yield to, message
    if isinstance(message, Agreed) and world.first(to):
        yield to, Confirm(world.own.epoch, bytes(32))


@pytest.mark.parametrize(
    ("script", "words"),
    [
        (is_done_early, "3 signed an answer, and this party was asked for another sum"),
        (asks_for_more, "'3' was asked for another sum, and this party holds the run"),
    ],
    ids=["done", "more"],
)
def test_who_thinks_the_run_over_and_who_does_not_end_soon(script, words):
    faults = Faults(delay=(0.1, 0.1))
    world = lying(Setting(work="sums"), script, faults=faults)
    assert wrongs(world) == []
    assert ends(world) <= {"result", "peer", "finished"}
    assert any(words in one for one in told(world))
    assert ended_at(world) < Setting().policy.deadline


def confirms_otherwise(world, to, message):
    if isinstance(message, Confirm) and to == "2":
        message = replaced(message, digest=bytes(32))
    yield to, message


def test_a_false_confirmation_ends_the_run_before_its_neighbour_shows_anything():
    world = lying(Setting(), confirms_otherwise)
    assert wrongs(world) == []
    assert world.finished == {}
    assert ends(world) == {"timeout"}
    assert accusers(world) == {"2"}
    shown = {
        message.party
        for event in world.history
        if event.what == "send"
        and isinstance(message := world.plan.codec.decode(event.detail), Masked)
    }
    assert shown >= {"0", "1", "4"}, "the twin"
    assert "2" not in shown


def lies_in(kind):
    def script(world, to, message):
        if isinstance(message, kind) and world.others.index(to) % 2:
            numbers = np.array(message.numbers)
            numbers[0] += 1 if numbers.dtype == np.float64 else 2**25
            message = replaced(message, numbers=numbers)
        yield to, message

    return script


@each("kind", [Up, Down])
@each("liar", ["0", "1"])
def test_other_sums_along_a_tree_end_without_blaming_anybody(kind, liar):
    world = lying(Setting("path:5", spread="tree"), lies_in(kind), liar=liar)
    assert wrongs(world, tells_two=True) == []


def test_other_numbers_in_a_round_end_without_blaming_anybody():
    world = lying(Setting(work="nids", policy=STRICT), lies_in(Round))
    assert wrongs(world, tells_two=True) == []


def leaves_bad_deposits(world, to, message):
    if isinstance(message, Deposit):
        masked = replaced(message.masked, signature=bytes(64))
        message = Deposit(masked)
    elif isinstance(message, Up | Down | Masked | Round):
        return
    yield to, message


@pytest.mark.parametrize("work", ["one-shot", "nids"])
def test_a_deposit_that_nobody_would_believe_is_not_shown(work):
    setting = Setting("complete:5", work=work, spread="tree")
    world = lying(setting, leaves_bad_deposits)
    assert wrongs(world) == []
    assert ends(world) <= {"timeout", "peer"}


# Anything at all


class Whim:
    """A liar without a plan: each frame is sent, kept back, or told otherwise."""

    def __init__(self, seed):
        self.chance = Random(f"whim {seed}")
        self.kept = []

    def __call__(self, world, to, message):
        chance = self.chance
        self.kept.append(message)
        way = chance.randrange(12)
        if way == 0:
            return
        if way == 1 and self.kept:
            yield chance.choice(world.others), chance.choice(self.kept)
        if way == 2 and getattr(message, "party", None) == world.liar:
            message = self.otherwise(world, message)
        if way == 3:
            names = chance.sample(world.others, chance.randrange(1, 3))
            yield to, world.lost(names, chance.choice([0, 0, 1, 10**6]))
        if way == 4:
            reason = chance.choice(Quit.reasons)
            yield to, world.sign(Quit(party=world.liar, epoch=0, reason=reason))
        if way == 5:
            yield from claims(**chance.choice([{}, LATER]))(world, to, message)
            return
        if way == 6:
            yield to, chance.choice(OLD)
        if to in world.plan.topology.neighbours(world.liar):
            yield to, message

    def otherwise(self, world, message):
        match message:
            case Masked() | Result():
                return world.moved(message)
            case Ready():
                return world.sign(replaced(message, request=bytes(32)))
            case Agreed():
                return world.sign(replaced(message, digest=bytes(32)))
            case Lost():
                return world.lost(world.others[:1], message.epoch)
        return message


def check_whims(seeds):
    for seed in seeds:
        chance = Random(f"liar {seed}")
        setting = Setting(
            chance.choice([*GRAPHS, "grid:2x3"]),
            chance.choice(["lattice", "uniform"]),
            work=chance.choice(["one-shot", "sums"]),
            spread=chance.choice(["flooding", "flooding", "tree"]),
            seed=seed,
            policy=ProtocolPolicy(
                drop=chance.random() < 0.5, tolerate=chance.choice([0, 1])
            ),
        )
        delay = chance.choice([(0.01, 0.01), (0.01, 1.0)])
        liar = chance.choice("03")
        world = lying(setting, Whim(seed), liar=liar, faults=Faults(delay=delay))
        assert wrongs(world, tells_two=True) == [], f"seed {seed}: {setting} {liar}"


@pytest.mark.parametrize("first", range(0, 24, 12))
def test_no_whim_of_a_liar_hurts_the_innocent(first):
    check_whims(range(first, first + 12))


@pytest.mark.slow
@pytest.mark.parametrize("first", range(1000, 2000, 25))
def test_no_whim_of_very_many_hurts_the_innocent(first):
    check_whims(range(first, first + 25))
