"""Real parties: studies, own rules and events, beside `veilsum.join`.

Use it to read a study before taking part, to state a party's own limits in Python, to
follow the events of a run, or to read its transcript.

Example:
    >>> from veilsum.party import OwnRules
    >>> rules = OwnRules(columns=("age", "dose"), floors={"minimum_rows": 50})
    >>> rules.floors["minimum_rows"]
    50
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
