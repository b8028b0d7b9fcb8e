"""Processor time of tests: `pytest -p costs` lists the costly ones in costly.txt.

`make test` leaves those out (`--quick`), so that it ends in minutes; CI runs all. A
test is costly if its cases take `SECONDS` together. Measure the whole suite at once.
"""

import resource
import time
from collections import Counter
from pathlib import Path

import pytest

SECONDS = 0.8
COSTLY = Path(__file__).with_name("costly.txt")
START = pytest.StashKey[float]()
spent = Counter()


def processor_time():
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def function_of(nodeid):
    return nodeid.partition("[")[0]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item):
    item.stash[START] = processor_time()
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item):
    try:
        return (yield)
    finally:
        seconds = processor_time() - item.stash[START]
        item.user_properties.append(("seconds", seconds))


def pytest_runtest_logreport(report):
    if report.when == "teardown":
        spent[function_of(report.nodeid)] += dict(report.user_properties)["seconds"]


def pytest_sessionfinish(session):
    if not hasattr(session.config, "workerinput"):
        costly = sorted(name for name, seconds in spent.items() if seconds >= SECONDS)
        COSTLY.write_text("".join(f"{name}\n" for name in costly))
