"""Many quick cases of one claim, as one test."""

import functools
import inspect

import pytest
from _pytest.mark import ParameterSet


def each(names, cases, *, ids=None):
    """Decorate a test as `pytest.mark.parametrize` does, but run all cases in one test.

    Collecting and reporting a case takes pytest several milliseconds, more than many
    cases take to run. Every case runs, and every failure names its case. Fixtures are
    made once for all cases: those that a case changes do not belong here.
    """
    if isinstance(names, str):
        names = [name.strip() for name in names.split(",")]
    rows = [_values(case, len(names)) for case in cases]
    labels = [row if len(row) > 1 else row[0] for row in rows]
    if ids is not None:
        labels = [tuple(map(ids, row)) for row in rows] if callable(ids) else list(ids)

    def decorate(test):
        signature = inspect.signature(test)

        @functools.wraps(test)
        def run(**fixtures):
            failures = []
            for label, row in zip(labels, rows, strict=True):
                try:
                    test(**fixtures, **dict(zip(names, row, strict=True)))
                except (
                    Exception,
                    BaseExceptionGroup,
                    pytest.fail.Exception,
                ) as failure:
                    failure.add_note(f"in the case {label!r}")
                    failures.append(failure)
            assert rows, "no cases"
            if failures:
                count = f"{len(failures)} of {len(rows)} cases failed"
                raise BaseExceptionGroup(count, failures)

        left = [one for name, one in signature.parameters.items() if name not in names]
        run.__signature__ = signature.replace(parameters=left)
        return run

    return decorate


def _values(case, n_names):
    if isinstance(case, ParameterSet):
        if case.marks:
            raise ValueError(f"a case with marks is a test of its own: {case}")
        return case.values
    return tuple(case) if n_names > 1 else (case,)
