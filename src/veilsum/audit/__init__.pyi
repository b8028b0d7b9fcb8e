"""The public names, once: `__init__.py` loads each from its home on first use."""

from .attack import Outcome as Outcome, Scene as Scene
from .auditing import (
    Audit as Audit,
    audit as audit,
    coalitions_of as coalitions_of,
    scene_under as scene_under,
)

__all__: list[str]
