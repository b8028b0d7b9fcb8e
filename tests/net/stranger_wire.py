"""What a stranger puts on the wire: frames, numbers, digests, the plan.

Written from docs/reference/wire.md and from nothing else: no module of veilsum is
imported here, so that page and code cannot drift apart unseen. What the page does not
say may not arrive either: any other frame is a `WireError`.
"""

from __future__ import annotations

import base64
import json
import math
import secrets
import ssl
import struct
import tomllib
from dataclasses import dataclass
from fractions import Fraction
from hashlib import sha256
from pathlib import Path

import msgspec
from cryptography import x509

MAGIC = b"VS\x03"
# How many fields each message has that a run by flooding needs, its name aside.
RECORDS = {"Join": 5, "Ready": 7, "Masked": 6, "Result": 5, "Agreed": 5, "Quit": 5}
FIELDS = {"Status": 8, "Share": 4, "Confirm": 2, **RECORDS}
NUMBERED = {"Share", "Masked", "Result"}
# The limbs of a number with a `[cost]`, by code.
LIMBS = {"i": 1, "u": 1, "l": 4}
# What a [policy] is where the file is silent.
POLICY = {
    "resend": 1.0,
    "meeting": 0.0,
    "deadline": 30.0,
    "patience": 4,
    "drop": False,
    "tolerate": 1,
    "minimum_honest": 3,
}
# How far two answers may be apart, without a [stopping].
TOLERANCE = 1e-6
# The terms of a [method] of which only the name is given, without a [stopping].
SILENT = {
    "iterations": 10000,
    "byte_budget": None,
    "tolerance": None,
    "start": 0.0,
    "step": None,
    "power": 1.0,
    "smooth": None,
    "mean_smooth": None,
    "mean_convex": None,
    "gradient_at": "mixed",
    "mixing": None,
    "rounds": None,
    "recentre": None,
    "convex_locals": True,
}


class WireError(Exception):
    """Something arrived, or was asked for, that the page does not know."""


def digest(data):
    return sha256(data).digest()


# Numbers and frames


@dataclass(frozen=True)
class Numbers:
    """Numbers as they travel: `[code, count, 8]` in a header, words in a payload.

    Attributes:
        code: "f", "i", "u" or "l".
        values: floats for "f", whole numbers for all others.
    """

    code: str
    values: tuple

    @classmethod
    def read(cls, head, body):
        code, count, width = head
        if width != 8 or len(body) != count * width:
            raise WireError(f"{head} with {len(body)} bytes")
        if code == "f":
            return cls(code, struct.unpack(f"<{count}d", body))
        size = LIMBS[code] * 8
        cut = (body[at : at + size] for at in range(0, len(body), size))
        signed = code != "u"
        values = (int.from_bytes(one, "little", signed=signed) for one in cut)
        return cls(code, tuple(values))

    @property
    def head(self):
        return [self.code, len(self.body) // 8, 8]

    @property
    def body(self):
        if self.code == "f":
            return struct.pack(f"<{len(self.values)}d", *self.values)
        size, signed = LIMBS[self.code] * 8, self.code != "u"
        return b"".join(v.to_bytes(size, "little", signed=signed) for v in self.values)

    @property
    def digest(self):
        return digest(msgspec.msgpack.encode(self.head) + self.body)


def frame(*fields):
    """The bytes of a message: its name and its fields, numbers last."""
    numbers = fields[-1] if isinstance(fields[-1], Numbers) else None
    plain = fields if numbers is None else (*fields[:-1], numbers.head)
    header = msgspec.msgpack.encode(plain)
    body = b"" if numbers is None else numbers.body
    return MAGIC + len(header).to_bytes(4, "little") + header + body


def parse(raw):
    """The name and the fields of a frame; there is one encoding of each message."""
    end = 7 + int.from_bytes(raw[3:7], "little")
    fields = msgspec.msgpack.decode(raw[7:end])
    if FIELDS.get(fields[0]) != len(fields) - 1:
        raise WireError(f"a message that is not expected here: {fields}")
    if fields[0] in NUMBERED:
        fields[-1] = Numbers.read(fields[-1], raw[end:])
    if frame(*fields) != raw:
        raise WireError(f"another encoding of {fields}: {raw.hex()}")
    return fields


# The consortium


def canonical(value):
    """Canonical JSON."""
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def _one_block(certificate):
    """A certificate's PEM as digests have it."""
    text = base64.b64encode(ssl.PEM_cert_to_DER_cert(certificate.strip())).decode()
    lines = [text[start : start + 64] for start in range(0, len(text), 64)]
    marks = [f"-----{word} CERTIFICATE-----" for word in ("BEGIN", "END")]
    return "\n".join([marks[0], *lines, marks[1], ""])


@dataclass(frozen=True)
class Consortium:
    """What everybody agreed on.

    Attributes:
        table: the file, certificates spelt as digests have them.
    """

    table: dict

    @classmethod
    def read(cls, path):
        table = tomllib.loads(Path(path).read_text("utf-8"))
        for member in table["members"]:
            member["certificate"] = _one_block(member["certificate"])
        return cls(table)

    def __getitem__(self, section):
        return self.table.get(section, {})

    @property
    def names(self):
        return [one["name"] for one in self["members"]]

    @property
    def certificates(self):
        return {one["name"]: one["certificate"] for one in self["members"]}

    @property
    def addresses(self):
        return {one["name"]: one["address"] for one in self["members"]}

    @property
    def keys(self):
        read = x509.load_pem_x509_certificate
        pems = self.certificates.items()
        return {name: read(pem.encode()).public_key() for name, pem in pems}

    @property
    def digest(self):
        return digest(b"veilsum consortium\0" + canonical(self.table)).hex()

    @property
    def sections(self):
        """The sections' digests, as a hello has them."""
        items = self.table.items()
        return {key: digest(canonical(value)).hex()[:16] for key, value in items}

    @property
    def links(self):
        """Pairs of positions and their weights, in the plan's order."""
        graph, place = self["graph"], self.names.index
        weights = graph.get("weights", [1.0] * len(graph["edges"]))
        pairs = [sorted(map(place, edge)) for edge in graph["edges"]]
        return sorted(
            (*pair, float(weight)) for pair, weight in zip(pairs, weights, strict=True)
        )

    @property
    def policy(self):
        found = {key: self["policy"].get(key, value) for key, value in POLICY.items()}
        fewest = min(3, found["minimum_honest"] + found["tolerate"])
        return {**found, "minimum_parties": fewest, "stand_in": True}

    def neighbours(self, name):
        """Whom a party is linked with, and each link's weight."""
        at, names = self.names.index(name), self.names
        return {names[a + b - at]: w for a, b, w in self.links if at in (a, b)}


# Masks


@dataclass(frozen=True)
class Law:
    """How reals become whole numbers, and how shares are drawn, with a `[cost]`.

    Attributes:
        links: of the consortium.
        parties: how many there are.
        masks: the section of the file.
        unit: of the costs, a decimal as it was written; None without one.
    """

    links: list
    parties: int
    masks: dict
    unit: Fraction | None = None

    @property
    def uniform(self):
        return self.masks["law"] == "uniform"

    @property
    def sigma(self):
        return 0.0 if self.uniform else float(self.masks["sigma"])

    @property
    def largest(self):
        found = self.masks.get("largest")
        return None if found is None else float(found)

    @property
    def bits(self):
        """The grid."""
        if "grid" in self.masks:
            return self.masks["grid"]
        return self._uniform_bits() if self.uniform else self._lattice_bits()

    def _uniform_bits(self):
        if self.unit is not None:
            return 0
        if self.largest is None:
            return 50
        most = math.floor(62 - math.log2(self.parties * self.largest))
        return min(50 + max(0, math.ceil(-math.log2(self.largest))), most)

    def _lattice_bits(self):
        weights = [1.0, *(weight for *_, weight in self.links)]
        sigma = self.sigma / float(self.unit or 1)
        least, most = (sigma * math.sqrt(f(weights)) for f in (min, max))
        fine = max(50, math.ceil(10 - math.log2(most)))
        room = math.floor(62 - math.log2(self._reach))
        if self.unit is not None:
            enough = math.ceil(10 - math.log2(least))
            return max(0, enough, min(enough + 10, room, fine))
        return max(30, math.ceil(10 - math.log2(least)), min(room, fine))

    @property
    def _reach(self):
        """The page's M, in units if there is one."""
        ends = [end for a, b, _ in self.links for end in (a, b)]
        most = max(ends.count(end) for end in ends)
        weight = max(1.0, *(weight for *_, weight in self.links))
        unit = float(self.unit or 1)
        largest = (self.largest or 0.0) / unit
        noise = 64 * self.sigma / unit * math.sqrt(2 * most * weight)
        return max(noise + largest, self.parties * largest)

    @property
    def kind(self):
        """The numbers' type, as the plan has it."""
        if self.uniform:
            return "uint64"
        return "int64" if math.log2(self._reach) + self.bits <= 62 else "4 limbs"

    def numbers(self, values):
        """Whole numbers in the range of the law, ready to be sent."""
        code = {"uint64": "u", "int64": "i", "4 limbs": "l"}[self.kind]
        return Numbers(code, tuple(v % 2**64 if self.uniform else v for v in values))

    def encode(self, reals):
        scale = 2**self.bits
        if self.unit is not None:
            p, q = self.unit.numerator, self.unit.denominator
            return self.numbers(round(float(v) * q / p) * scale for v in reals)
        return self.numbers(round(Fraction(float(real)) * scale) for real in reals)

    def decode(self, total):
        """The reals that a total stands for."""
        if self.uniform:
            total = ((one + 2**63) % 2**64 - 2**63 for one in total)
        found = [math.ldexp(float(one), -self.bits) for one in total]
        if self.unit is None:
            return found
        return [one * self.unit.numerator / self.unit.denominator for one in found]

    def draw(self, count, weight):
        """A share for a link."""
        if self.uniform:
            return self.numbers(secrets.randbits(64) for _ in range(count))
        steps = self.sigma * 2.0**self.bits / float(self.unit or 1)
        scale = math.ceil(steps * math.sqrt(weight))
        return self.numbers(_discrete_gaussian(scale) for _ in range(count))


def _happens(share):
    """True with the chance exp(-share), exactly."""
    while share > 1:
        if not _happens(Fraction(1)):
            return False
        share -= 1
    count = 1
    while secrets.randbelow(share.denominator * count) < share.numerator:
        count += 1
    return count % 2 == 1


def _discrete_gaussian(scale):
    """A draw with chances as exp(-k^2 / (2 scale^2)): from Laplace, by rejection."""
    while True:
        low, high = secrets.randbelow(scale), 0
        if not _happens(Fraction(low, scale)):
            continue
        while _happens(Fraction(1)):
            high += 1
        size, minus = low + scale * high, secrets.randbelow(2)
        if minus and size == 0:
            continue
        if _happens(Fraction((size - scale) ** 2, 2 * scale**2)):
            return -size if minus else size


# The plan


def law_of(agreed):
    unit = agreed["cost"].get("unit")
    counted = None if unit is None else Fraction(repr(unit))
    return Law(agreed.links, len(agreed.names), agreed["masks"], counted)


def box(agreed):
    """The domain's lower and upper ends, a float for each variable."""
    dim, domain = agreed["cost"]["dim"], agreed["domain"]
    ends = (domain["lower"], domain["upper"])
    spread = (end if isinstance(end, list) else [end] * dim for end in ends)
    return tuple([float(number) for number in end] for end in spread)


def plan(agreed):
    """What the plan's JSON has."""
    law, dim = law_of(agreed), agreed["cost"]["dim"]
    return {
        "parties": agreed.names,
        "edges": [[a, b] for a, b, _ in agreed.links],
        "weights": [weight for *_, weight in agreed.links],
        "law": [agreed["masks"]["law"], law.kind, law.largest],
        "sigma": law.sigma,
        "grid": law.bits,
        **({} if law.unit is None else {"unit": str(law.unit)}),
        "sizes": [dim, dim, 0],
        "tolerance": TOLERANCE,
        "spread": "flooding",
        "policy": agreed.policy,
    }


def terms(agreed):
    """What the terms' JSON has, for a cost of kind squared-distance on a box."""
    dim, (lower, upper) = agreed["cost"]["dim"], box(agreed)
    return {
        "run": agreed["run"],
        "basis": ["Affine", {"dim": dim}],
        "remainder": ["SquaredNorm", {"kind": "shared", "scale": 1.0}],
        "domain": ["Box", {"dim": dim, "lower": lower, "upper": upper}],
        "method": agreed["method"]["name"],
        **SILENT,
    }


def plan_digest(agreed):
    texts = (json.dumps(one(agreed), sort_keys=True).encode() for one in (plan, terms))
    return digest(b"veilsum plan\0" + b"\0".join(texts))
