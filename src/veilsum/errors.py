"""The exception tree: the class says whose fault it is.

    VeilsumError
    ├── InvalidInputError      you gave something that cannot be used: change the input
    │   ├── BadGradientError       a cost's gradient is no number: whose, when, where
    │   ├── BudgetError            a charge or a release that policy refuses
    │   ├── ConsentError           nobody has agreed to take part
    │   ├── DisclosureError        a question that shows too much of one's own table
    │   ├── InvalidGraphError      the network itself
    │   ├── InvalidPairError       two alternatives that Definition 2 does not compare
    │   ├── InvalidScenarioError   a scenario file: a key, a type, a value
    │   ├── NotReadyError          this computer: an address in use, a token missing
    │   ├── OutputError            a place that cannot be written
    │   ├── RangeError             a private value beyond the range declared for it
    │   └── SchemaError            a party's table that is not what was agreed
    ├── LedgerError            the ledger file cannot be trusted or used
    ├── MissingExtraError      an optional package is missing: the message names it
    ├── ProtocolError          the rules between parties were broken
    │   ├── GivenUpError           or a job ended without an answer: who, and why
    │   ├── LocalProtocolError     by this party's own program: a call out of order
    │   └── PeerProtocolError      by the party it names: a message that cannot be right
    │       └── UntimelyError          or not now: a slow network brings such, too
    ├── SecretError            somebody tried to copy a secret out of the process
    ├── StoreError             a run's state cannot be kept: stop before sending
    ├── WaitingError           others' files have to come first: nothing is wrong
    └── NumericalError         the arithmetic failed on valid input: please report it
        └── DivergedError          or estimates ran away: who, when, which bound

Anything else that escapes is a bug in this package.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from typing import Any

# Letters to Unicode, and nothing on a screen: fillers, joiners, selectors of variants.
_BLANK = frozenset(
    "\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u2800\u3164\uffa0"
    + "".join(map(chr, [*range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0)]))
)


def install_advice(extra: str) -> str:
    """Say how to install an extra: veilsum's name is on no package index.

    >>> install_advice("net")
    "pip install '.[net]' in the checkout of veilsum"
    """
    return f"pip install '.[{extra}]' in the checkout of veilsum"


def is_seen(text: str) -> bool:
    r"""Say whether every character of a text shows, and none gives orders.

    >>> is_seen("dose (mg)"), is_seen("dose\n"), is_seen("dose\u3164")
    (True, False, False)
    """
    return text.isprintable() and _BLANK.isdisjoint(text)


def printable(text: str) -> str:
    r"""Return text on one line; what cannot be seen is written as its code.

    >>> print(printable("dose\x1b[31m\n(mg)"))
    dose\x1b[31m\n(mg)
    """
    if is_seen(text):
        return text
    return "".join(c if is_seen(c) else ascii(c)[1:-1] for c in text)


class VeilsumError(Exception):
    """Everything this package raises on purpose.

    Attributes:
        code: a stable name of the problem, such as "unknown-family", for programs and
            tests; sentences may change in every version. Empty if the error was
            raised by other code.
    """

    def __init__(self, *args: object, code: str = "") -> None:
        super().__init__(*args)
        self.code = code

    @property
    def plain(self) -> str:
        """The message as a log may have it: without a private value."""
        return str(self)


class InvalidInputError(VeilsumError, ValueError):
    """The caller's input cannot be used; the message says what would be."""

    def __init__(
        self, message: str, *, plain: str | None = None, code: str = ""
    ) -> None:
        super().__init__(message, code=code)
        self._plain = plain

    @property
    def plain(self) -> str:
        """The message without a private value that it names."""
        return str(self) if self._plain is None else self._plain


@contextmanager
def naming_party_in_error(party: str) -> Iterator[None]:
    """Put a party's name before an error about its data."""
    try:
        yield
    except InvalidInputError as error:
        raise type(error)(
            f"{party}: {error}", plain=error.plain, code=error.code
        ) from None


class BadGradientError(InvalidInputError):
    """A cost's gradient has the wrong shape, is not finite, or raised an exception.

    Attributes:
        reason: what was found.
        party: whose cost, by row or by name; None if only its owner looked.
        iteration: when, if it was on the way.
        estimates: everybody's last good ones, if it was on the way.
    """

    def __init__(
        self,
        reason: str,
        party: int | str | None = None,
        iteration: int | None = None,
        estimates: object = None,
        advice: str = "",
        *,
        code: str = "",
    ) -> None:
        where = "" if party is None else f"the cost of {party!r}: "
        when = "" if iteration is None else f" in iteration {iteration:,}"
        super().__init__(f"{where}{reason}{when}{advice and f'; {advice}'}", code=code)
        self.reason, self.party = reason, party
        self.iteration, self.estimates = iteration, estimates


class BudgetError(InvalidInputError):
    """A run would spend more than is left, or show what must not be shown."""


class InvalidGraphError(InvalidInputError):
    """The network is not one the protocol can run on."""


class InvalidPairError(InvalidInputError):
    """Two sets of coefficients break a constraint of Definition 2."""


class InvalidScenarioError(InvalidInputError):
    """A scenario holds a key or a value that means nothing here."""


class MemoryShortError(InvalidInputError):
    """The requested work needs more memory than is available."""


class NotReadyError(InvalidInputError):
    """This computer is in the way, and not what is asked: mend it, and try again."""


class OutputError(InvalidInputError):
    """A result has nowhere to go."""


class RangeError(InvalidInputError):
    """A private value is beyond the declared range; shown to its owner only."""


class LedgerError(VeilsumError):
    """The ledger file is missing, damaged, another program's, or cannot be written."""


class MissingExtraError(VeilsumError, ImportError):
    """An optional dependency is needed and not installed."""


def load_extra_package(package: str, *, extra: str, what: str) -> Any:
    """Return an optional package; without it say which extra has it."""
    if (loaded := sys.modules.get(package)) is not None:
        return loaded
    try:
        return import_module(package)
    except ImportError:
        raise MissingExtraError(
            f"{what} need the package {package}: {install_advice(extra)}",
            code="missing-extra",
        ) from None


class ProtocolError(VeilsumError):
    """A rule of the protocol was broken; what had been received before is kept."""


class LocalProtocolError(ProtocolError):
    """This party's own program called the machine out of order."""


class PeerProtocolError(ProtocolError):
    """Another party sent what no honest party sends.

    Attributes:
        party: who it was, as far as the connection tells.
    """

    def __init__(self, party: str, message: str, *, code: str = "") -> None:
        super().__init__(f"{party!r}: {message}", code=code)
        self.party = party


class UntimelyError(PeerProtocolError):
    """A message came too late or too early, which is not a fault of the sender."""


class SecretError(VeilsumError, TypeError):
    """A secret was about to leave the process by copy, pickle or print."""


class StoreError(VeilsumError):
    """A run's state is damaged, another's, in use, or cannot be written."""


class WaitingError(VeilsumError):
    """A run cannot go on before files of others come; the message names them.

    Attributes:
        names: from whom.
        sums: released sums so far.
        members: parties whose data are in these sums.
        answers: unsigned results by question, once no further sum is needed. The key
            is "" for a file with one question.
    """

    def __init__(
        self,
        message: str,
        names: tuple[str, ...] = (),
        *,
        sums: tuple[Any, ...] = (),
        members: tuple[str, ...] = (),
        answers: Mapping[str, Any] | None = None,
        code: str = "",
    ) -> None:
        super().__init__(message, code=code)
        self.names = names
        self.sums = sums
        self.members = members
        self.answers = answers or {}

    def with_known(self, **known: Any) -> WaitingError:
        """Return the same error with further attributes."""
        own = {"sums": self.sums, "members": self.members, "answers": self.answers}
        return WaitingError(str(self), self.names, code=self.code, **(own | known))


class NumericalError(VeilsumError, ArithmeticError):
    """A computation on valid input did not succeed."""


class DivergedError(NumericalError):
    """Estimates ran away, or a gradient was no number.

    Attributes:
        party: whose.
        iteration: when.
        estimates: everybody's, the last that were good.
    """

    def __init__(
        self,
        party: str,
        iteration: int,
        estimates: object,
        reason: str,
        *,
        code: str = "",
    ) -> None:
        super().__init__(
            f"the estimates of {party!r} ran away at iteration {iteration:,}; {reason}",
            code=code,
        )
        self.party, self.iteration, self.estimates = party, iteration, estimates
