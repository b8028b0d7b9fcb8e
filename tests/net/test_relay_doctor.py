"""The doctor tells whether a link is direct or over a relay, and why."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from idle_clock import patiently
from net.relays import TOKEN, deployment, relay_at
from net.village import HOST, Village, all_connected, free_port
from veilsum.consortium.addresses import Address
from veilsum.net.doctor import LIMITS, check_network_health

# Nobody waits for a proxy or a far machine here.
PROMPT = replace(LIMITS, open_timeout=3.0)


def doctor(village, name, agreed, *, wait=1.0, token=TOKEN, **options):
    key = village.identities[name].key_file
    given = {"wait": wait, "token": token, "limits": PROMPT, **options}
    return check_network_health(key, agreed, **given)


def lines(found, about, check):
    return [
        (one.state.value, one.detail)
        for one in found.checks
        if (one.about, one.check) == (about, check)
    ]


def test_two_doctors_meet_at_a_relay(tmp_path):
    port = free_port()
    village = Village(tmp_path, silent=("a", "b"))
    agreed = village.consortium(deployment=deployment(port))

    async def main():
        async with relay_at(port):
            looks = (doctor(village, name, agreed) for name in "ab")
            return await asyncio.gather(*looks)

    for found, other in zip(patiently(main()), "ba", strict=True):
        assert found.good, found
        over = f"over the relay ws://{HOST}:{port}: neither has an address"
        assert lines(found, other, "way") == [("good", over)]
        assert lines(found, other, "agreement")[0][0] == "good"
        assert lines(found, found.party, "relay")[0][0] == "good"


def test_a_doctor_meets_a_party_and_disturbs_no_run(tmp_path):
    port = free_port()
    village = Village(tmp_path, silent=("a", "b"))
    agreed = village.consortium(deployment=deployment(port))

    async def main():
        async with relay_at(port) as relay:
            async with village.stations("b", consortium=agreed, token=TOKEN):
                alone = await doctor(village, "a", agreed)
            async with village.stations(consortium=agreed, token=TOKEN) as both:
                await all_connected(both)
                beside = await doctor(village, "a", agreed, wait=1.0)
                assert relay.n_links == 1
                assert all(len(one.met) == 1 for one in both)
            return alone, beside

    alone, beside = patiently(main())
    assert lines(alone, "b", "way")[0][0] == "good"
    said = "this party's own veilsum is there already"
    assert lines(beside, "a", "relay")[0] == (
        "good",
        f"the relay ws://{HOST}:{port}: {said}",
    )


def test_it_says_why_a_link_is_not_direct(tmp_path):
    port, elsewhere = free_port(), Address(HOST, free_port())
    village = Village(tmp_path, silent=("a",))
    agreed = village.consortium(deployment=deployment(port))

    async def main():
        async with relay_at(port):
            return await asyncio.gather(
                doctor(village, "a", agreed),
                doctor(village, "b", agreed, listen=elsewhere),
            )

    a, b = patiently(main())
    why = f"calling it fails (connection refused at {village.addresses['b']})"
    over = f"over the relay ws://{HOST}:{port}"
    assert lines(a, "b", "way") == [("good", f"{over}: {why}")]
    assert lines(b, "a", "way") == [("good", f"{over}: it has not called")]


def test_a_direct_link_is_told_as_such(tmp_path):
    port = free_port()
    village = Village(tmp_path, silent=("a",))
    agreed = village.consortium(deployment=deployment(port))

    async def main():
        async with relay_at(port):
            return await asyncio.gather(*(doctor(village, n, agreed) for n in "ab"))

    for found, other in zip(patiently(main()), "ba", strict=True):
        assert lines(found, other, "way") == [("good", "direct: no relay is needed")]
        assert "relay" not in lines(found, other, "TCP")[0][1]


def test_relays_that_do_not_answer_or_admit(tmp_path):
    dead, strict, good = free_port(), free_port(), free_port()
    village = Village(tmp_path, silent=("a", "b"))

    async def main(*ports):
        agreed = village.consortium(deployment=deployment(*ports))
        async with relay_at(strict, token="0" * 64), relay_at(good):
            found = await doctor(village, "a", agreed, wait=0.5)
            return [(one.state.value, one.detail) for one in found.checks]

    checks = patiently(main(dead, strict, good))
    assert ("good", f"ws://{HOST}:{good} answers, and admits this party") in checks
    refused = f"the relay ws://{HOST}:{dead}: connection refused at {HOST}:{dead}"
    assert ("open", refused) in checks
    away = f"b has not come to the relay ws://{HOST}:{good}"
    assert ("open", away) in checks
    checks = patiently(main(strict))
    told = f"the relay ws://{HOST}:{strict}: it does not admit this party's token"
    assert ("bad", told) in checks
    assert ("open", "no relay could be used") in checks


def test_who_was_met_neither_by_a_call_nor_at_the_relay(tmp_path):
    """Where a call was tried, or waited for, the relay is the second way."""
    port = free_port()
    village = Village(tmp_path, silent=("a",))
    agreed = village.consortium(deployment=deployment(port))

    async def main(name):
        async with relay_at(port):
            return await doctor(village, name, agreed, wait=0.5)

    for name, other in ("ab", "ba"):
        told = [one.detail for one in patiently(main(name)).checks]
        away = f"{other} has not come to the relay ws://{HOST}:{port} either"
        assert any(one.endswith(away) for one in told), told


def test_without_a_token_it_says_so(tmp_path):
    for silent, state in ((("a", "b"), "bad"), (("a",), "open")):
        village = Village(tmp_path / state, silent=silent)
        agreed = village.consortium(deployment=deployment(free_port()))
        found = patiently(doctor(village, "a", agreed, wait=0.2, token=None))
        ((said, words),) = lines(found, "a", "relay")
        assert (said, words[:24]) == (state, "there is no token here t")
