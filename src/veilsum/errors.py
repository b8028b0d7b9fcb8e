"""The exception tree: the class says whose fault it is.

    VeilsumError
    ├── InvalidInputError      you gave something that cannot be used: change the input
    │   ├── BudgetError            a charge or a release that policy refuses
    │   ├── InvalidGraphError      the network itself
    │   ├── InvalidPairError       two alternatives that Definition 2 does not compare
    │   ├── InvalidScenarioError   a scenario file: a key, a type, a value
    │   ├── OutputError            a place that cannot be written
    │   ├── RangeError             a private value beyond the range declared for it
    │   └── SchemaError            a party's table that is not what was agreed
    ├── LedgerError            the ledger file cannot be trusted or used
    ├── MissingExtraError      an optional package is missing: the message names it
    ├── ProtocolError          the rules between parties were broken
    │   ├── GivenUpError           or a job ended without an answer: who, and why
    │   ├── LocalProtocolError     by this party's own program: a call out of order
    │   └── PeerProtocolError      by the party it names: a message that cannot be right
    ├── SecretError            somebody tried to copy a secret out of the process
    └── NumericalError         the arithmetic failed on valid input: please report it

Anything else that escapes is a bug in this package.
"""

from __future__ import annotations


class VeilsumError(Exception):
    """Everything this package raises on purpose."""


class InvalidInputError(VeilsumError, ValueError):
    """The caller's input cannot be used; the message says what would be."""


class BudgetError(InvalidInputError):
    """A run would spend more than is left, or show what must not be shown."""


class InvalidGraphError(InvalidInputError):
    """The network is not one the protocol can run on."""


class InvalidPairError(InvalidInputError):
    """Two sets of coefficients break a constraint of Definition 2."""


class InvalidScenarioError(InvalidInputError):
    """A scenario holds a key or a value that means nothing here."""


class OutputError(InvalidInputError):
    """A result has nowhere to go."""


class RangeError(InvalidInputError):
    """A private value is beyond the declared range; shown to its owner only."""


class LedgerError(VeilsumError):
    """The ledger file is missing, damaged, another program's, or cannot be written."""


class MissingExtraError(VeilsumError, ImportError):
    """An optional dependency is needed and not installed."""


class ProtocolError(VeilsumError):
    """A rule of the protocol was broken; what had been received before is kept."""


class LocalProtocolError(ProtocolError):
    """This party's own program called the machine out of order."""


class PeerProtocolError(ProtocolError):
    """Another party sent what no honest party sends.

    Attributes:
        party: who it was, as far as the connection tells.
    """

    def __init__(self, party: str, message: str) -> None:
        super().__init__(f"{party!r}: {message}")
        self.party = party


class SecretError(VeilsumError, TypeError):
    """A secret was about to leave the process by copy, pickle or print."""


class NumericalError(VeilsumError, ArithmeticError):
    """A computation on valid input did not succeed."""
