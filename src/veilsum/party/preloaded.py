"""Everything that parties load for some question or other, loaded once for all of them.

The process that the parties of a local run are forked from imports this module: loading
takes a party longer than the whole protocol. Only what belongs to the program may be
filled in here, nothing of any run.
"""

from __future__ import annotations

from contextlib import suppress
from importlib import import_module

from veilsum.consortium.kinds import BUILT_IN, question_section_headings
from veilsum.locale import catalogue

LOADED = (
    *("veilsum.cli.join", "veilsum.party.run", "veilsum.net.amendment"),
    *(one.home.partition(":")[0] for one in BUILT_IN.values()),
    *("veilsum.drivers.arrays", "veilsum.minimise.engines.numpy"),
    *("scipy.special", "scipy.sparse.csgraph", "scipy.sparse.linalg"),
    *("pandas", "formulaic", "encodings.idna", "encodings.utf_8_sig"),
)

for module in LOADED:
    with suppress(ImportError):  # an extra that is not installed
        import_module(module)
for part in ("sums", "consent"):
    catalogue("en", part)
question_section_headings()  # looks up what other distributions offer
