"""A record of an audit, to keep: what was audited, how, with what, what came out.

Everything in it is public or made up: the agreed graph and masks, digests of files,
seeds, counts. Whoever has the same file and the same versions repeats it to the last
byte; what a clock said is copied, for no clock says it twice.
"""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from veilsum.agreement.consortium import canonical
from veilsum.errors import InvalidInputError
from veilsum.files.contents import contents
from veilsum.files.output import as_json
from veilsum.net.identity import Identity, public_key

if TYPE_CHECKING:
    from veilsum.audit.attack import Scene
    from veilsum.audit.auditing import Audit

FORMAT = "veilsum audit 1"
# A signature under an audit is for that, and for no other use of the key.
CONTEXT = b"veilsum audit\0"
MOST_BYTES = 64 << 20
# What differs between machines, and is copied when an audit is repeated.
COPIED = ("made_with", "clock")
SIGNED = ("party", "certificate", "signature")
ASKED = ("coalitions", "executions", "depth", "distance", "seed")


@dataclass(frozen=True)
class AuditRecord:
    """One audit as JSON has it, signed or not."""

    content: Mapping[str, Any]

    @classmethod
    def of(
        cls,
        audit: Audit,
        scene: Scene,
        *,
        source: bytes,
        asked: Mapping[str, Any],
    ) -> AuditRecord:
        """Return the record of an audit.

        Args:
            audit: what came out.
            scene: what was audited.
            source: the file that says what was agreed on.
            asked: what was asked of the audit, by `ASKED`.
        """
        topology, law = scene.topology, scene.law
        return cls(
            {
                "format": FORMAT,
                "made_with": made_with(),
                "asked": {key: asked[key] for key in ASKED},
                "agreed": {
                    "file": hashlib.sha256(source).hexdigest(),
                    "parties": list(topology.parties),
                    "edges": topology.edges.tolist(),
                    "weights": topology.weights.tolist(),
                    "law": law.name,
                    "sigma": _plain(law.masks.sigma),
                    "grid": law.masks.grid,
                    "numbers": str(law.dtype),
                    "coefficients": scene.width,
                },
                "audit": audit.to_dict(),
                "clock": list(audit.clock),
            }
        )

    @property
    def asked(self) -> dict[str, Any]:
        """What was asked of the audit."""
        return dict(self.content["asked"])

    @property
    def unsigned(self) -> dict[str, Any]:
        """All of it but who signed."""
        return {key: one for key, one in self.content.items() if key not in SIGNED}

    def signed_by(self, identity: Identity) -> AuditRecord:
        """Return it with a signature of all that it says."""
        own = {"party": identity.name, "certificate": identity.certificate}
        content = {**self.unsigned, **own}
        signature = identity.sign(CONTEXT + canonical(content))
        return AuditRecord({**content, "signature": signature.hex()})

    @property
    def is_signed(self) -> bool:
        """Whether the key of its certificate signed all of it."""
        from cryptography.exceptions import InvalidSignature

        content = dict(self.content)
        if "signature" not in content:
            return False
        signature = bytes.fromhex(content.pop("signature"))
        try:
            public_key(content["certificate"]).verify(
                signature, CONTEXT + canonical(content)
            )
        except InvalidSignature:
            return False
        return True

    def repeated(self, again: AuditRecord) -> AuditRecord:
        """Return a repetition, with what only this one can say copied into it."""
        copied = {
            key: self.content[key] for key in (*COPIED, *SIGNED) if key in self.content
        }
        return AuditRecord({**again.content, **copied})

    def difference(self, other: AuditRecord) -> str | None:
        """Return where two records first differ, in words; None if they do not."""
        return _difference(self.content, other.content, "")

    def to_json(self) -> str:
        """Return it as a file holds it."""
        return as_json(self.content) + "\n"


def read_record(path: Path) -> AuditRecord:
    """Return the record in a file.

    Raises:
        InvalidInputError: it is none, or of another format.
    """
    try:
        found = json.loads(contents(path, MOST_BYTES, InvalidInputError))
    except (ValueError, RecursionError):
        found = None
    keys = {"made_with", "asked", "agreed", "audit", "clock"}
    if (
        not isinstance(found, dict)
        or found.get("format") != FORMAT
        or not keys <= found.keys()
        or not isinstance(found["asked"], dict)
        or set(found["asked"]) != set(ASKED)
    ):
        raise InvalidInputError(
            f"{path} is no record of an audit ({FORMAT}): expected the audit.json that "
            "veilsum audit --out writes"
        )
    return AuditRecord(found)


def made_with() -> dict[str, str]:
    """Return what could make a difference, beside the seed."""
    packages = {name: version(name) for name in ("veilsum", "numpy", "scipy")}
    return {
        **packages,
        "python": platform.python_version(),
        "machine": platform.machine(),
        "system": platform.system(),
    }


def _plain(sigma: Any) -> Any:
    return sigma if sigma is None or isinstance(sigma, float) else list(sigma)


def _difference(one: Any, other: Any, where: str) -> str | None:
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        for key in [*one, *(key for key in other if key not in one)]:
            if key not in one or key not in other:
                return f"{where}{key} is in one of them only"
            found = _difference(one[key], other[key], f"{where}{key}/")
            if found is not None:
                return found
        return None
    if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for k, (a, b) in enumerate(zip(one, other, strict=True)):
            found = _difference(a, b, f"{where}{k}/")
            if found is not None:
                return found
        return None
    return None if one == other else f"{where.rstrip('/')}: {one!r} and {other!r}"
