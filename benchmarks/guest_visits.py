"""Guests a second: what a host takes on one core, over HTTP, with everything on disk.

    python benchmarks/guest_visits.py --cells 1000 --delegates 3 --guests 60

Submissions are made first, by a guest in Python. Then they are posted to a survey's
page one after the other, and processor time of the host's process is counted alone:
the callers are a process of their own.
"""

from __future__ import annotations

import argparse
import json
import os
import secrets
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from hashlib import sha256
from http.client import HTTPConnection
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from clocks import sized
from veilsum.consortium.consortium import Address, Consortium, consortium_from
from veilsum.net.identity import make_certificate
from veilsum.surveys.submission import make_submission
from veilsum.surveys.terms import guest_table_of, survey_terms

HOST = "127.0.0.1"


def key_of(guest: str) -> Ed25519PrivateKey:
    """A guest's key: everybody's here."""
    return Ed25519PrivateKey.from_private_bytes(sha256(guest.encode()).digest())


def certificate(member: str) -> str:
    """A member's certificate."""
    years = [datetime(year, 1, 1, tzinfo=UTC) for year in (2026, 2126)]
    return make_certificate(key_of(member), member, start=years[0], end=years[1])


def survey(cells: int, delegates: int, guests: int) -> Consortium:
    """A survey with so many of each."""
    members = [f"member{k}" for k in range(delegates)]
    rows = [
        {
            "name": f"Firm {k}",
            "key": key_of(f"Firm {k}").public_key().public_bytes_raw().hex(),
            "invited_by": members[k % delegates],
        }
        for k in range(guests)
    ]
    keys = {
        name: X25519PrivateKey.generate().public_key().public_bytes_raw().hex()
        for name in members
    }
    return consortium_from(
        {
            "format": 1,
            "run": "a-benchmark-" + "0" * 32,
            "members": [
                {"name": name, "certificate": certificate(name)} for name in members
            ],
            "graph": {
                "edges": [
                    [a, b] for k, a in enumerate(members) for b in members[k + 1 :]
                ]
            },
            "masks": {"law": "uniform"},
            "policy": {"tolerate": 1},
            "survey": {
                "title": "a benchmark",
                "unit": 1,
                "rows": [str(k) for k in range(cells)],
                "columns": ["a"],
                "range": [0, 1_000_000],
                "guest": rows,
                "delegates": keys,
            },
        }
    )


def post(port: int, lines: list[bytes]) -> None:
    """Send everything, one after the other; run in a process of its own."""
    caller = HTTPConnection(HOST, port, timeout=60)
    headers = {"Origin": f"http://{HOST}:{port}", "Content-Type": "application/json"}
    for line in lines:
        caller.request("POST", "/submissions", line, headers)
        answer = caller.getresponse()
        assert answer.status == 201, answer.read()
        answer.read()


def main() -> None:
    """Measure, and print one JSON document."""
    import asyncio
    import threading
    from dataclasses import replace

    from veilsum.surveys.collection import SurveyGuestCollection
    from veilsum.web.collecting import SurveyWebHost, survey_page_bounds
    from veilsum.web.pages import PageServer, listening_page_socket

    parser = argparse.ArgumentParser(description=__doc__)
    for name, usual in sized(
        (("cells", 1_000), ("delegates", 3), ("guests", 60)),
        (("cells", 4), ("delegates", 3), ("guests", 12)),
    ):
        parser.add_argument(f"--{name}", type=int, default=usual)
    parser.add_argument("--posting", type=int, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.posting is not None:
        post(asked.posting, sys.stdin.buffer.read().splitlines())
        return
    agreed = survey(asked.cells, asked.delegates, asked.guests)
    terms = survey_terms(agreed)
    begun = time.process_time()
    lines = [
        make_submission(
            terms,
            one.name,
            key_of(one.name),
            guest_table_of(terms, [[k] for k in range(asked.cells)]),
            1,
        )
        .to_json()
        .encode()
        for one in terms.guests
    ]
    made = time.process_time() - begun
    with tempfile.TemporaryDirectory() as place:
        store = SurveyGuestCollection.open(Path(place) / "collection.sqlite", terms)
        listener = listening_page_socket(Address(HOST, 0))
        address = Address(HOST, listener.getsockname()[1])
        bounds = replace(survey_page_bounds(terms), burst=1e9, per_second=1e9)
        host = SurveyWebHost(
            agreed,
            store,
            Path(place),
            address=address,
            public=f"http://{address}",
            token=secrets.token_hex(),
            bounds=bounds,
        )
        server = PageServer(host, listener, bounds=bounds)
        thread = threading.Thread(target=lambda: asyncio.run(server.serve()))
        thread.start()
        words = [sys.executable, __file__, "--posting", str(address.port)]
        clock, spent = time.perf_counter(), time.process_time()
        subprocess.run(words, input=b"\n".join(lines), check=True, env=os.environ)
        spent, clock = time.process_time() - spent, time.perf_counter() - clock
        server.stop()
        thread.join()
        begun = time.process_time()
        store.close_survey()
        closed = time.process_time() - begun
        store.close()
    print(
        json.dumps(
            {
                "cells": asked.cells,
                "delegates": asked.delegates,
                "guests": asked.guests,
                "bytes_of_a_submission": len(lines[0]),
                "guests_per_processor_second": round(asked.guests / spent, 1),
                "guests_per_second": round(asked.guests / clock, 1),
                "making_one_ms": round(1000 * made / asked.guests, 2),
                "closing_one_ms": round(1000 * closed / asked.guests, 2),
            },
            indent=2,
        )
    )


if __name__ == "__main__":
    main()
