"""Modules that are imported when a test first uses them."""

import importlib.util

import pytest


class Later:
    """Stand for a module, such as a reference tool that takes a second to import.

    Every worker collects every file: what a file imports for one test, all wait for.
    """

    def __init__(self, name):
        self._name = name

    def __getattr__(self, attribute):
        if attribute.startswith(("_", "pytest")):  # collection looks for its own
            raise AttributeError(attribute)
        return getattr(importlib.import_module(self._name), attribute)


def optional(name):
    """Return `Later(name)`, or skip the file where that package is not installed."""
    if importlib.util.find_spec(name) is None:
        pytest.skip(f"could not import {name!r}", allow_module_level=True)
    return Later(name)
