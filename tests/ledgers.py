"""Charges and releases for tests: short to write, with stand-ins for fingerprints."""

from hashlib import sha256

from veilsum.privacy.accountant import AccountReservation, AccountTableVersion, KnownSum
from veilsum.privacy.composition import Charge, Exposure

PARTIES = ("a", "b", "c", "d", "e")


def mark(text):
    """A stand-in for a keyed fingerprint."""
    return sha256(text.encode()).hexdigest()


def private(epsilon, *coalition, **more):
    return Exposure(coalition=coalition, status="private", epsilon=epsilon, **more)


def fields_of(epoch, *exposures):
    """All that a charge needs; masks and masked costs are the epoch's own."""
    return {
        "epoch": epoch,
        "data": mark("data"),
        "effective": mark(f"effective {epoch}"),
        "masks": mark(f"masks {epoch}"),
        "law": "gaussian",
        "parties": PARTIES,
        "exposures": exposures or (private(0.125, "a"),),
    }


def run(epoch, *exposures, **changes):
    return Charge(**{**fields_of(epoch, *exposures), **changes})


def aggregate(statistic="sum of income", parties=PARTIES, **changes):
    values = {"statistic": statistic, "parties": parties, "data": mark("data")}
    return KnownSum(**{**values, **changes})


def reservation(run="study", **changes):
    """What a run may need of the usual data set."""
    values = {"statistic": "a fit", "parties": PARTIES, "data": mark("data")}
    return AccountReservation(run=run, **{**values, "numbers": 1, **changes})


def version(name, *, same=()):
    """A version of a table, known by its name, of the data set of earlier ones."""
    return AccountTableVersion(
        data=mark(name),
        columns=("x",),
        n_rows=1,
        rows="",
        sketches=(),
        is_whole=True,
        same=tuple(map(mark, same)),
    )
