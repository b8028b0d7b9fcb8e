"""The keys of every section that a file may have."""

from typing import get_args

from msgspec.structs import fields

from veilsum.reading import Section


def section_keys(kind):
    """Return the keys of each section by its heading."""
    found = {}
    for field in fields(kind.for_keys(kind.known_keys())):
        for one in (field.type, *get_args(field.type)):
            if isinstance(one, type) and issubclass(one, Section):
                found[field.name] = one.__struct_fields__
    return found
