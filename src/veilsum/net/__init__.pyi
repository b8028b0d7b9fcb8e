"""The public names, once: `__init__.py` loads each from its home on first use."""

from .evidence import Evidence as Evidence
from .transcript_file import read_transcript as read_transcript

__all__: list[str]
