"""A second implementation of a party's protocol, without its connections.

Written from docs/reference/wire.md and from nothing else: no module of veilsum is
imported here. It goes from phase to phase as the page tells it, and is stricter than a
party may be: what the page does not say is a `WireError`, for a test to see.
"""

from __future__ import annotations

import asyncio
import hmac
import json
import secrets
from contextlib import suppress
from functools import partial

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from net.stranger_wire import (
    RECORDS,
    TOLERANCE,
    Numbers,
    WireError,
    box,
    digest,
    frame,
    law_of,
    parse,
    plan_digest,
)

BYE = '{"bye": true}'
# The phases in which somebody's leaving ends the run at once.
EARLY = ("greeting", "sharing")


class LeftError(Exception):
    """The stranger has left the run without an answer."""


class Party:
    """One party's way through the phases; there is one sum, that of epoch 0.

    Attributes:
        near: its neighbours, and the weights of their links.
        lines: by neighbour: the queue of what is to be sent to it, while connected.
        records: by name, epoch and author: the frame and its fields.
        given, got: by message and neighbour: shares and confirmations.
        heard: by neighbour: its incarnation.
        echoed, byes: neighbours that have echoed this party's, and that said bye.
    """

    def __init__(self, agreed, key_file, target):
        self.agreed = agreed
        self.key = load_pem_private_key(key_file.read_bytes(), None)
        self.me = _owner(agreed.keys, self.key.public_key())
        self.keys, self.policy = agreed.keys, agreed.policy
        self.plan, self.law = plan_digest(agreed), law_of(agreed)
        self.near = agreed.neighbours(self.me)
        self.private = self.law.encode(-2.0 * number for number in target)
        self.incarnation = secrets.token_bytes(16)
        self.lines, self.records, self.given, self.got = {}, {}, {}, {}
        self.heard = dict.fromkeys(self.near, bytes(16))
        self.echoed, self.byes = set(), set()
        self.phase, self.epoch, self.failure = "greeting", 0, None
        self.news = asyncio.Event()
        epoch = _first_epoch(self.incarnation)
        self.join = self._publish("Join", epoch, self.plan)

    # The phases

    async def run(self):
        """Walk through all phases; return the numbers that everybody signed."""
        await self._until("greeting", self._everybody_met)
        self._share()
        await self._until("sharing", partial(self._sent_by_neighbours, "Share"))
        self._confirm()
        opening = (secrets.token_bytes(64), self._masked())
        promise = ([], self._request())
        sealed = self._commitment(self.me, self.incarnation, promise, opening)
        self._publish("Ready", 0, *promise, sealed)
        await self._until("committing", self._everybody_ready)
        self._check_confirmations()
        if any(fields[-2] != self._request() for fields in self._fields_of("Ready")):
            raise self._quit("result", "somebody was asked for something else")
        self._publish("Masked", 0, *opening)
        await self._until("summing", partial(self._sent_by_all, "Masked"))
        self._check_commitments()
        return await self._agree(self._answer())

    async def part(self):
        """Say bye, and answer until everybody has, or a deadline has passed."""
        self.phase = "finished"
        for name in self.near:
            self.send(name, BYE)
        with suppress(TimeoutError):
            async with asyncio.timeout(self.policy["deadline"]):
                await self._wait(lambda: self.byes >= self.near.keys())
        self._go_on()

    async def _until(self, phase, holds):
        """Wait in a phase until something holds; quit after too long a silence."""
        self.phase = phase
        try:
            async with asyncio.timeout(self._longest_silence(phase)):
                await self._wait(holds)
        except TimeoutError:
            raise self._quit("timeout", f"silence while {phase}") from None
        self._go_on()

    def _go_on(self):
        """Raise what has gone wrong in the meantime."""
        if self.failure is not None:
            raise self.failure

    def _longest_silence(self, phase):
        meeting, deadline = self.policy["meeting"], self.policy["deadline"]
        if phase == "greeting" and meeting > deadline:
            return meeting
        return deadline * self.policy["patience"]

    async def _wait(self, holds):
        while self.failure is None and not holds():
            self.news.clear()
            await self.news.wait()

    def _everybody_met(self):
        joined = {party for kind, _, party in self.records if kind == "Join"}
        return joined >= set(self.agreed.names) and self.echoed >= self.near.keys()

    def _sent_by_neighbours(self, kind):
        return all((kind, name) in self.got for name in self.near)

    def _sent_by_all(self, kind):
        return all((kind, 0, name) in self.records for name in self.agreed.names)

    def _everybody_ready(self):
        return self._sent_by_all("Ready") and self._sent_by_neighbours("Confirm")

    def _share(self):
        count = len(self.private.values)
        for name, weight in self.near.items():
            numbers = self.law.draw(count, weight)
            self._give("Share", name, 0, [], secrets.token_bytes(32), numbers)

    def _confirm(self):
        for name in self.near:
            self._give("Confirm", name, 0, self._proof(name))

    def _proof(self, name):
        """What both ends of a link confirm."""
        held = ((self.me, self.given), (name, self.got))
        shares = sorted((end, *there["Share", name][2:]) for end, there in held)
        (first, key, sent), (second, further, received) = shares
        text = f"veilsum edge\0{self.epoch}\0{first}\0{second}\0".encode()
        content = text + sent.digest + received.digest
        return hmac.digest(digest(key + further), content, "sha256")

    def _request(self):
        """The digest of what is summed: a cost's coefficients, once."""
        return digest(b"veilsum request\0" + b'"coefficients"')

    def _check_confirmations(self):
        for name in self.near:
            if self.got["Confirm", name] != self.given["Confirm", name]:
                raise self._quit("peer", f"{name} confirms other shares")

    def _masked(self):
        """The private vector plus what was sent, minus what was received."""
        rows = [self.private.values]
        for name in self.near:
            rows.append(self.given["Share", name][-1].values)
            rows.append(tuple(-v for v in self.got["Share", name][-1].values))
        return self.law.numbers(map(sum, zip(*rows, strict=True)))

    def _commitment(self, party, start, promise, opening):
        """The hash by which a Ready fixes the Masked that follows."""
        ready = frame("Ready", party, 0, b"", start, *promise, bytes(32))
        masked = frame("Masked", party, 0, b"", start, *opening)
        both = digest(ready) + digest(masked)
        return digest(b"veilsum commitment\0" + self.plan + both)

    def _check_commitments(self):
        for name in self.agreed.names:
            _, (*_, start, lost, request, sealed) = self.records["Ready", 0, name]
            _, (*_, nonce, numbers) = self.records["Masked", 0, name]
            promise, opening = (lost, request), (nonce, numbers)
            if self._commitment(name, start, promise, opening) != sealed:
                raise self._quit("proof", f"{name} shows another vector than promised")

    def _answer(self):
        """The minimiser of the summed cost; with it the sum is done."""
        names = self.agreed.names
        rows = [self.records["Masked", 0, name][1][-1].values for name in names]
        total = self.law.decode(map(sum, zip(*rows, strict=True)))
        self.total = Numbers("f", tuple(total))
        free = [-number / (2 * len(names)) for number in total]
        self.epoch = len(names) + 1
        triples = zip(free, *box(self.agreed), strict=True)
        return [min(max(number, low), high) for number, low, high in triples]

    async def _agree(self, answer):
        """Compare answers; return the one of the lowest name, once all have signed."""
        lowest = min(self.agreed.names)
        if self.me == lowest:
            self._publish("Result", 0, Numbers("f", tuple(answer)))
        key = ("Result", 0, lowest)
        await self._until("agreeing", lambda: key in self.records)
        _, _, self.seal, _, proposed = self.records[key][1]
        pairs = zip(proposed.values, answer, strict=True)
        gap = max(abs(one - own) / max(1.0, abs(own)) for one, own in pairs)
        if gap > TOLERANCE:
            raise self._quit("result", f"{lowest} found another answer, {gap} away")
        signed = self._signed(proposed)
        self._publish("Agreed", 0, signed)
        await self._until("agreeing", partial(self._sent_by_all, "Agreed"))
        if any(fields[-1] != signed for fields in self._fields_of("Agreed")):
            raise self._quit("result", "somebody signed another answer")
        return proposed

    def _signed(self, proposed):
        """What an Agreed has: a digest of the answer's digest and of the sum's."""
        return digest(proposed.digest + self.total.digest)

    def _objects(self, party, word):
        """Whether a member quits over the result, which it has not signed."""
        result = self.records.get(("Result", 0, min(self.agreed.names)))
        agreed = self.records.get(("Agreed", 0, party))
        known = result and agreed
        proposed = result[1][-1] if known else None
        signed = agreed[1][-1] == self._signed(proposed) if known else bool(agreed)
        return self.phase == "agreeing" and word == "result" and not signed

    def _fields_of(self, kind):
        """The fields of all records of a kind."""
        return [
            fields for (one, *_), (_, fields) in self.records.items() if one == kind
        ]

    # Sending

    def send(self, name, message):
        if name in self.lines:
            self.lines[name].put_nowait(message)

    def _give(self, kind, name, *fields):
        """Send a neighbour what is for it alone, and keep it for repair."""
        self.given[kind, name] = [*fields]
        self.send(name, frame(kind, *fields))

    def _publish(self, kind, epoch, *fields):
        """Sign a record, keep it, and send it to all neighbours."""
        start = self.incarnation
        signature = self._sign(frame(kind, self.me, epoch, b"", start, *fields))
        fields = [self.me, epoch, signature, start, *fields]
        raw = frame(kind, *fields)
        self.records[kind, epoch, self.me] = (raw, fields)
        for name in self.near:
            self.send(name, raw)
        return raw

    def _sign(self, bare):
        return self.key.sign(b"veilsum record\0" + self.plan + digest(bare))

    def _quit(self, word, why):
        """Leave; return what is to be raised."""
        self._publish("Quit", self.epoch, word)
        self.fail(LeftError(f"{word}: {why}"))
        return self.failure

    def fail(self, error):
        """End the run for this party, for the first reason there is."""
        self.failure = self.failure or error
        self.news.set()

    def status(self, name, reply):
        """Tell a neighbour what is held here."""
        pair = (("Share", name), ("Confirm", name))
        held = [self.got[key][0] if key in self.got else -1 for key in pair]
        known = [[*key, self._mark(*key)] for key in self.records]
        here = (self.incarnation, self.heard[name], self.epoch, known)
        self.send(name, frame("Status", *here, *held, -1, reply))

    def _mark(self, kind, epoch, party):
        """What tells this version of a record from another."""
        _, (_, _, _, *rest) = self.records[kind, epoch, party]
        return digest(frame(kind, party, epoch, b"", *rest))[:16]

    # Receiving

    def up(self, name, queue):
        """A connection with a neighbour has come up."""
        self.lines[name] = queue
        self.send(name, self.join)
        self.status(name, True)
        if self.phase == "finished":
            self.send(name, BYE)

    def down(self, name, queue):
        """It has ended, unless another has taken its place."""
        if self.lines.get(name) is queue:
            del self.lines[name]

    def hear(self, name, message):
        """Take what a neighbour sent."""
        if isinstance(message, str):
            self._on_text(name, message)
        else:
            kind, *fields = parse(message)
            self._on_frame(name, message, kind, fields)
        self.news.set()

    def _on_text(self, name, text):
        if json.dumps(json.loads(text)) != BYE:
            raise WireError(f"a text of {name}: {text}")
        self.byes.add(name)

    def _on_frame(self, name, raw, kind, fields):
        if kind in RECORDS:
            self._on_record(name, raw, kind, fields)
        elif kind == "Status":
            self._on_status(name, *fields)
        else:
            self._on_gift(name, kind, fields)

    def _on_gift(self, name, kind, fields):
        """Keep a share or a confirmation."""
        fits = fields[0] == 0 and (kind == "Confirm" or self._is_share(*fields[1:]))
        if not fits or self.got.setdefault((kind, name), fields) != fields:
            raise WireError(f"an odd or a second {kind} of {name}: {fields}")

    def _is_share(self, lost, key, numbers):
        alike = numbers.head[:2] == self.private.head[:2]
        return alike and (lost, len(key)) == ([], 32)

    def _on_record(self, name, raw, kind, fields):
        """Keep a new record, pass it on, and see what follows from it."""
        party, epoch, signature, start, *rest = fields
        key = (kind, epoch, party)
        if key in self.records:
            return
        self._check(kind, party, epoch, signature, start, *rest)
        if kind != "Join" and self._start_of(party) is None:
            return  # repair brings it again, after the Join
        if self._start_of(party) not in (None, start):
            raise WireError(f"a {kind} of another start of {party}")
        self.records[key] = (raw, fields)
        told = {name, party}
        told |= self.agreed.neighbours(party).keys() if name == party else set()
        for other in self.near.keys() - told:
            self.send(other, raw)
        if kind == "Join" and (epoch, self.plan) != (_first_epoch(start), rest[0]):
            raise WireError(f"a Join of {party} with the plan {rest[0].hex()}")
        if kind == "Quit":
            self._on_quit(raw, party, rest[0])

    def _start_of(self, party):
        """The start that a party joined with, if it has."""
        for fields in self._fields_of("Join"):
            if fields[0] == party:
                return fields[3]
        return None

    def _check(self, kind, party, epoch, signature, *rest):
        bare = frame(kind, party, epoch, b"", *rest)
        try:
            content = b"veilsum record\0" + self.plan + digest(bare)
            self.keys[party].verify(signature, content)
        except InvalidSignature:
            raise WireError(f"a bad signature under {kind} of {party}") from None

    def _on_quit(self, raw, party, word):
        held = {
            kind
            for kind, epoch, who in self.records
            if (epoch, who) == (self.epoch, party)
        }
        unpaid = word == "refused" and "Ready" in held and "Masked" not in held
        early = self.phase in EARLY and word != "timeout"
        if unpaid or early or self._objects(party, word):
            for name in self.near.keys() - {party}:
                self.send(name, raw)
            self._quit("peer", f"{party} left: {word}")

    def _on_status(self, name, incarnation, echo, epoch, records, *rest):
        """Send a neighbour what it lacks."""
        share, confirm, last_round, reply = rest
        if last_round != -1:
            raise WireError(f"{name} knows of rounds, under flooding")
        self.heard[name] = incarnation
        if echo == self.incarnation:
            self.echoed.add(name)
        held = {tuple(one) for one in records}
        for key, (raw, _) in self.records.items():
            over = key[0] in {"Ready", "Masked"} and key[1] < epoch
            if (*key, self._mark(*key)) not in held and not over:
                self.send(name, raw)
        for kind, last in (("Share", share), ("Confirm", confirm)):
            fields = self.given.get((kind, name), [-1])
            if epoch == self.epoch == fields[0] != last:
                self.send(name, frame(kind, *fields))
        if reply or echo != self.incarnation:
            self.status(name, False)


def _first_epoch(incarnation):
    """The epoch of a Join."""
    return int.from_bytes(incarnation[:6], "big")


def _owner(keys, key):
    """Whose public key this is."""
    raw = key.public_bytes_raw()
    return next(name for name, one in keys.items() if one.public_bytes_raw() == raw)
