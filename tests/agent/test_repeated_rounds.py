"""A party that comes back repeats the rounds since its state was written last."""

import pytest

from veilsum.agent.messages import Round
from veilsum.agent.party import codec_for
from veilsum.agent.steps import CHECKPOINT
from veilsum.sim.faults import Crash, Faults
from worlds import Setting, replayed

SETTING = Setting("ring:8", work="nids")


def said(world):
    """Every round's frame, by party and number, as often as it was sent."""
    codec, found = codec_for(world.plan), {}
    for event in world.history:
        if event.what == "send":
            message = codec.decode(event.detail)
            if isinstance(message, Round):
                found.setdefault((event.party, message.index), []).append(event.detail)
    return found


def effects_until_round(index):
    """How many effects party 3 carries out before it says a round."""
    world, count = SETTING.world().run(), 0
    codec = codec_for(world.plan)
    for event in world.history:
        if event.party != "3" or event.what in {"boot", "receive"}:
            continue
        if event.what == "send":
            message = codec.decode(event.detail)
            if isinstance(message, Round) and message.index == index:
                return count
        count += 1
    raise AssertionError(f"there is no round {index}")


@pytest.mark.parametrize("index", [0, 1, CHECKPOINT - 1, CHECKPOINT, CHECKPOINT + 5])
def test_repeated_rounds_are_the_same_bits_and_the_run_ends_alike(index):
    after = effects_until_round(index) + 1
    world = replayed(SETTING, Faults(crashes=(Crash("3", after=after, back=2.0),)))
    assert len(world.finished) == 8
    rounds = said(world)
    again = [frames for (who, _), frames in rounds.items() if who == "3"]
    assert any(len(frames) > 2 for frames in again)  # two neighbours hear each once
    assert all(len(set(frames)) == 1 for frames in rounds.values())


def test_neighbours_that_die_together_catch_up_from_different_places():
    """One died just after its state was written, the other just before."""
    after = effects_until_round(CHECKPOINT)
    crashes = (
        Crash("3", after=after + 2, back=1.0),
        Crash("4", after=after - 4, back=1.5),
    )
    world = replayed(SETTING, Faults(crashes=crashes))
    assert len(world.finished) == 8
    assert all(len(set(frames)) == 1 for frames in said(world).values())


def test_everybody_dies_and_comes_back():
    after = effects_until_round(CHECKPOINT)
    crashes = tuple(
        Crash(str(k), after=after - 8 + 3 * k, back=1.0 + k / 8) for k in range(8)
    )
    world = replayed(SETTING, Faults(crashes=crashes))
    assert len(world.finished) == 8
    assert max(index for _, index in said(world)) > CHECKPOINT
