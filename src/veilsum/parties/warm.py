"""Tables that parties fill on first use, filled once for all parties of a local run.

Only constants of the program belong here, nothing of any run.
"""

from __future__ import annotations

from veilsum.locale import catalogue

catalogue("en")
