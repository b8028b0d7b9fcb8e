"""A survey's page over real sockets: guests, members, and who means harm."""

import asyncio
import base64
import http.client
import json
import os
import re
import socket
import sqlite3
import stat
import subprocess
import sys
import threading
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from html.parser import HTMLParser
from ipaddress import ip_address
from itertools import product
from pathlib import Path
from urllib.parse import quote

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.x509.oid import NameOID

from browser import SCHEMES, WIDTHS, chromium, visited
from cases import each
from guest_scene import code_of
from refusals import refused
from survey_members import identity_of, signing_survey
from surveys import MEMBERS, RUN, World, guest_row, opened, seed_of, survey_table
from veilsum.consortium.consortium import Address, consortium_from
from veilsum.errors import InvalidInputError, StoreError, WaitingError
from veilsum.files.consortiums import read_consortium, toml_text_of_table
from veilsum.surveys import collection as collected
from veilsum.surveys.collection import SurveyGuestCollection
from veilsum.surveys.submission import (
    guest_submission,
    longest_submission,
    make_submission,
    submission_sha256,
    survey_guest_key,
)
from veilsum.surveys.survey_set import write_submissions
from veilsum.surveys.terms import guest_table_of, survey_closing_entries, survey_terms
from veilsum.web.collecting import (
    FETCHED,
    GUEST_SCHEME,
    OWN,
    SurveyWebHost,
    survey_page_bounds,
)
from veilsum.web.fetching import fetch_closed, read_fetched_survey, survey_page_address
from veilsum.web.guest_page import guest_page_as_single_file, page_survey
from veilsum.web.pages import PageServer, listening_page_socket

HOST = "127.0.0.1"
PUBLIC = "https://survey.example.org"
TOKEN = "a-token"
TABLE = [[1, 2.5], [None, -3]]


def submission(terms, guest="Firm 1", number=1, table=TABLE, signs=None):
    key = Ed25519PrivateKey.from_private_bytes(seed_of(signs or guest))
    return make_submission(terms, guest, key, guest_table_of(terms, table), number)


def asking(terms, guest):
    """How a guest asks for what the host has from it."""
    key = Ed25519PrivateKey.from_private_bytes(seed_of(guest))
    (found,) = (one for one in terms.guests if one.name == guest)
    proof = key.sign(f"veilsum newest 1\n{terms.digest}\n".encode())
    shown = f"{GUEST_SCHEME} {proof.hex()}"
    return {"path": f"/submissions/{found.key.hex()}", "Authorization": shown}


@pytest.fixture(scope="module")
def agreed():
    return signing_survey()


@pytest.fixture(scope="module")
def ann(tmp_path_factory):
    return identity_of("ann", tmp_path_factory.mktemp("ann"))


@pytest.fixture(scope="module")
def terms(agreed):
    return survey_terms(agreed)


@pytest.fixture
def store(terms, tmp_path):
    found = SurveyGuestCollection.open(tmp_path / "collection.sqlite", terms)
    yield found
    found.close()


class Caller:
    """Whoever asks the page."""

    def __init__(self, port):
        self.port = port

    def ask(self, method="GET", path="/", body=None, **headers):
        caller = http.client.HTTPConnection(HOST, self.port, timeout=20)
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        caller.request(method, path, body=body, headers=named)
        answer = caller.getresponse()
        text = answer.read().decode()
        caller.close()
        return answer, text

    def post(self, body, **headers):
        own = {"Origin": f"http://{HOST}:{self.port}"}
        own |= {"Content_Type": "application/json", **headers}
        answer, text = self.ask("POST", "/submissions", body, **own)
        try:
            return answer.status, json.loads(text)
        except ValueError:
            return answer.status, text


@contextmanager
def served(agreed, store, public=None, tls=None, **fewer):
    listener = listening_page_socket(Address(HOST, 0))
    address = Address(HOST, listener.getsockname()[1])
    terms = survey_terms(agreed)
    host = SurveyWebHost(
        agreed,
        store,
        store.path.parent,
        address=address,
        public=public or f"http{'s' if tls else ''}://{address}",
        token=TOKEN,
        bounds=replace(
            survey_page_bounds(terms), **{"burst": 1e6, "per_second": 1e6, **fewer}
        ),
    )
    server = PageServer(host, listener, bounds=host.bounds, tls=tls)
    thread = threading.Thread(target=lambda: asyncio.run(server.serve()))
    thread.start()
    try:
        yield Caller(address.port)
    finally:
        server.stop()
        thread.join()


@pytest.fixture
def caller(agreed, store):
    with served(agreed, store) as found:
        yield found


def test_a_guest_has_the_page_its_files_and_the_survey(terms, caller):
    answer, page = caller.ask()
    assert answer.status == 200
    assert answer.headers["Content-Type"] == "text/html; charset=utf-8"
    for path in re.findall(r'(?:src|href)="(static/[^"]+)"', page):
        assert caller.ask(path=f"/{path}")[0].status == 200
    _, written = caller.ask(path="/survey.json")
    survey = json.loads(written)
    assert survey["digest"] == terms.digest
    assert float(survey["unit"]) == 0.01
    assert survey["guests"][0]["key"] == terms.guests[0].key.hex()
    assert survey == embedded(page)
    answer, single = caller.ask(path="/page.html")
    assert not [text for text in (page, written, single) if RUN in text]
    assert "attachment" in answer.headers["Content-Disposition"]
    assert f"http://{HOST}:{caller.port}/submissions" in single


class Scripts(HTMLParser):
    """What a browser would take for scripts."""

    def __init__(self, page):
        super().__init__()
        self.found, self.inside = [], None
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        if tag == "script":
            self.inside = [dict(attrs), ""]
            self.found.append(self.inside)

    def handle_endtag(self, tag):
        if tag == "script":
            self.inside = None

    def handle_data(self, data):
        if self.inside is not None:
            self.inside[1] += data


def embedded(page):
    (data,) = [
        text for attrs, text in Scripts(page).found if attrs.get("id") == "survey"
    ]
    return json.loads(data)


def test_a_submission_is_taken_once_and_answered_alike(terms, caller, store):
    line = submission(terms).to_json()
    status, receipt = caller.post(line)
    assert status == 201
    assert receipt == {
        "survey": terms.digest,
        "guest": "Firm 1",
        "number": 1,
        "digest": submission_digest(terms, line),
    }
    assert caller.post(line) == (200, receipt)
    own, other = (asking(terms, name) for name in ("Firm 1", "Firm 2"))
    assert json.loads(caller.ask(**own)[1]) == receipt
    assert store.came() == ("Firm 1",)
    assert caller.ask(**other)[0].status == 204
    # Of another nobody hears anything, not even that it has not come.
    path, proof = own["path"], own["Authorization"].split()[1]
    for asked in (
        {**own, "Authorization": other["Authorization"]},
        {**own, "Authorization": f"{GUEST_SCHEME} {'0' * 128}"},
        {**own, "Authorization": f"{GUEST_SCHEME} x"},
        {**own, "Authorization": proof},
        {"path": path},
        {"path": f"{path}/{proof}"},  # proxies would log it
    ):
        assert caller.ask(**asked)[0].status == 404


def submission_digest(terms, line):
    return collected.read_submission(line, terms).digest(terms.names)


def test_a_correction_has_the_next_number_and_nothing_else(terms, caller):
    first = submission(terms)
    assert caller.post(first.to_json())[0] == 201
    for number in (1, 3, 2_000):
        other = submission(terms, number=number, table=[[9, 9], [9, 9]])
        status, why = caller.post(other.to_json())
        assert status == 409
        assert (why["number"], why["digest"]) == (1, first.digest(terms.names))
        assert why["error"]
    assert caller.post(submission(terms, number=2).to_json())[0] == 201
    assert caller.post(first.to_json())[0] == 200, "an old one once more"


def changed(line, **keys):
    return json.dumps({**json.loads(line), **keys})


def test_what_is_no_submission_of_a_guest_to_this_survey_is_refused(
    terms, caller, store
):
    other = opened(title="Another survey")
    line = submission(terms).to_json()
    replayed = changed(line, guest="Firm 2")
    sealed = json.loads(line)["sealed"]
    for body in (
        submission(other).to_json(),
        submission(terms, signs="Firm 2").to_json(),
        replayed,
        changed(line, guest="Nobody"),
        changed(line, number=0),
        changed(line, number=2),
        changed(line, number=True),
        changed(line, sealed=sealed[:2]),
        changed(line, sealed=[sealed[0]] * 3),
        changed(line, masked=base64.b64encode(bytes(64)).decode()),
        changed(line, more=1),
        line[:-10],
        "[]",
        "null",
        "",
        "[" * 3_000,
        b"\xff\xfe",
    ):
        status, why = caller.post(body)
        assert status in (400, 409), body
        assert why["error"]
    assert store.came() == ()


def test_a_copied_share_is_refused_before_it_can_spoil_the_closing(
    terms, caller, store
):
    """Two guests that work together send one sealed share under two names."""
    mine = submission(terms, "Firm 1")
    theirs = submission(terms, "Firm 2")
    copied = type(mine)(
        survey=theirs.survey,
        guest="Firm 2",
        number=1,
        filled=theirs.filled,
        masked=theirs.masked,
        sealed=(mine.sealed[0], *theirs.sealed[1:]),
        signature=b"",
    )
    key = Ed25519PrivateKey.from_private_bytes(seed_of("Firm 2"))
    signature = key.sign(copied.statement(terms.names))
    copied = type(mine)(**{**vars(copied), "signature": signature})
    assert caller.post(mine.to_json())[0] == 201
    status, why = caller.post(copied.to_json())
    assert (status, "drawn anew" in why["error"]) == (400, True)
    # The twin: without the check, nobody could close the survey.
    with refused("duplicate-submission"):
        collected.survey_set_of(terms, [mine, copied])


def test_paths_lead_to_what_is_listed_and_nowhere_else(terms, caller, store):
    (store.path.parent / "secret.txt").write_text("secret")
    steps = ("../", "..%2f", "%2e%2e/", "....//", "..\\", "..%5c", "%252e%252e%252f")
    names = ("collection.sqlite", "secret.txt", "pyproject.toml", "etc/passwd")
    before = ("/", "/static/", "/vendor/", "/submissions/", "/host/", "//")
    tried = [f"{a}{b * 3}{c}" for a, b, c in product(before, steps, names)]
    tried += ["/collection.sqlite", "/collection.sqlite-wal", "/secret.txt"]
    tried += ["/static", "/static/", "/veilsum/web/pages.py", "/%00", "/static/%00"]
    tried += [f"/{quote(str(store.path), safe='')}", f"/{store.path}"]
    tried += ["/closed.toml", "/submissions.jsonl", "/result.json", "/submissions"]
    for path in tried:
        answer, text = caller.ask(path=path)
        assert answer.status in (400, 403, 404, 405), path
        assert "secret" not in text


EVIL = "<script>alert(1)</script>"
BREAK = "</script><script>alert(2)</script><!--"


def test_names_and_titles_are_text_wherever_they_are_shown(tmp_path):
    guests = [guest_row(name, MEMBERS[k % 3]) for k, name in enumerate([EVIL, BREAK])]
    rest = [guest_row(f"Firm {k}", MEMBERS[k % 3]) for k in range(10)]
    evil = survey_table(
        title=f"{EVIL}{BREAK}",
        rows=[EVIL, "a"],
        columns=["b", BREAK],
        guest=guests + rest,
    )
    agreed = signing_survey(evil)
    terms = survey_terms(agreed)
    store = SurveyGuestCollection.open(tmp_path / "collection.sqlite", terms)
    with served(agreed, store) as caller:
        _, page = caller.ask()
        assert embedded(page)["title"] == terms.title
        assert [one["name"] for one in embedded(page)["guests"]][:2] == [EVIL, BREAK]
        assert len(Scripts(page).found) == 2
        assert "<script>" not in page
        _, single = caller.ask(path="/page.html")
        assert "alert(2)</script>" not in single
        assert embedded(single)["title"] == terms.title
        assert caller.post(submission(terms, EVIL).to_json())[0] == 201
        line = changed(submission(terms).to_json(), guest=EVIL * 2)
        assert caller.post(line)[0] == 400
        answer, own = admitted(caller)
        assert answer.status == 200
        assert "alert(1)" in own
        assert not Scripts(own).found
        assert "<script" not in own
        # A result is the host's file, and text all the same.
        shown = {
            "title": EVIL,
            "rows": [EVIL],
            "columns": [BREAK],
            "totals": [[EVIL]],
            "given": [[BREAK]],
            "guests": EVIL,
            "beyond": [EVIL],
            "near": [[EVIL, BREAK]],
            "promise": EVIL,
            "submissions": [EVIL, BREAK],
            "receipts": [{"party": EVIL}],
        }
        (tmp_path / "result.json").write_text(json.dumps(shown))
        for language in ("en", "de-DE"):
            answer, page = caller.ask(path="/result", Accept_Language=language)
            assert answer.status == 200
            assert not Scripts(page).found
            assert "<script" not in page
            assert page.count("&lt;script&gt;alert(1)") >= 8
        answer, _ = caller.ask()
        assert (answer.status, answer.headers["Location"]) == (303, "/result")
    store.close()


def test_cells_that_are_near_and_cells_without_a_total_are_said(
    agreed, store, tmp_path
):
    (tmp_path / "result.json").write_text(json.dumps(SHOWN))
    said = {
        "en": ("managers x women and clerks x women were filled by", "too few"),
        "de": ("managers x women und clerks x women haben fast", "zu wenige"),
    }
    with served(agreed, store) as caller:
        for language, words in said.items():
            _, page = caller.ask(path="/result", Accept_Language=language)
            assert all(one in page for one in words)
            assert submission_sha256(f"{'ab' * 32}\n".encode() * 7) in page
            assert "veilsum collect set" in page


def test_large_bodies_are_refused_unread_and_large_tables_have_time(terms, caller):
    assert caller.post("x" * (longest_submission(terms) + 1))[0] == 413
    small, large = (
        survey_page_bounds(terms),
        survey_page_bounds(opened(rows=[str(k) for k in range(18_000)])),
    )
    assert large.seconds > small.seconds + 10
    assert large.connections < small.connections
    for one in (small, large):
        assert one.connections * one.body <= 256 << 20


def test_a_guest_that_stops_half_way_keeps_nobody_out(agreed, terms, store):
    line = submission(terms).to_json()
    with served(agreed, store, seconds=0.3) as caller:
        name = f"{HOST}:{caller.port}"
        head = (
            f"POST /submissions HTTP/1.1\r\nHost: {name}\r\nOrigin: http://{name}\r\n"
            "Content-Type: application/json\r\n"
            f"Content-Length: {len(line)}\r\n\r\n{line[:-1]}"
        )
        with socket.create_connection((HOST, caller.port)) as slow:
            slow.sendall(head.encode())
            assert caller.post(submission(terms, "Firm 2").to_json())[0] == 201
            with slow.makefile("rb") as answer, suppress(ConnectionResetError):
                assert answer.readline() in (b"", b"HTTP/1.1 408 Request Timeout\r\n")
    assert store.came() == ("Firm 2",)


def test_other_sites_cannot_send_and_the_saved_page_can(terms, caller, store):
    line = submission(terms).to_json()
    for headers in (
        {"Origin": "https://evil.example"},
        {"Sec_Fetch_Site": "cross-site"},
        {"Host": "evil.example"},
        {"Content_Type": "text/plain"},
        {"Content_Type": "application/x-www-form-urlencoded"},
    ):
        assert caller.post(line, **headers)[0] in (403, 415, 421)
    assert store.came() == ()
    key = terms.guests[0].key.hex()
    for path in ("/submissions", f"/submissions/{key}"):
        answer, _ = caller.ask("OPTIONS", path, Origin="null")
        assert answer.headers["Access-Control-Allow-Origin"] == "null"
    assert caller.post(line, Origin="null")[0] == 201
    answer, _ = caller.ask("OPTIONS", "/host/", Origin="null")
    assert "Access-Control-Allow-Origin" not in answer.headers


def test_corrections_are_bounded(terms, caller, store):
    for number in range(1, collected.MOST_SUBMISSIONS + 1):
        assert caller.post(submission(terms, number=number).to_json())[0] == 201
    status, why = caller.post(submission(terms, number=number + 1).to_json())
    assert (status, "the most" in why["error"]) == (409, True)
    assert why["number"] == number


def rows_in(store):
    with sqlite3.connect(store.path) as looked:
        return [
            looked.execute(f"SELECT COUNT(*) FROM {table}").fetchone()[0]
            for table in ("submission", "part")
        ]


def test_a_full_disk_half_way_keeps_nothing_of_it(terms, caller, store):
    live = store._live()
    pages = live.execute("PRAGMA page_count").fetchone()[0]
    live.execute(f"PRAGMA max_page_count = {pages}")
    taken = 0
    for k in range(12):  # until no page is left
        status, why = caller.post(submission(terms, f"Firm {k + 1}").to_json())
        if status == 507:
            break
        taken += 1
    assert status == 507
    assert "later" in why["error"]
    assert str(store.path) not in json.dumps(why)
    assert rows_in(store) == [taken, 4 * taken]
    live.execute("PRAGMA max_page_count = 1000000")
    again = submission(terms, f"Firm {taken + 1}").to_json()
    assert caller.post(again)[0] == 201


KILLED = """
import os, sys
from pathlib import Path
from surveys import opened
from veilsum.surveys import collection
terms = opened()
store = collection.SurveyGuestCollection.open(Path(sys.argv[1]), terms)
put = store._put
def killed(*given):
    put(*given)
    os._exit(9)
store._put = killed
store.take(sys.stdin.buffer.read())
"""


def test_a_host_that_is_killed_half_way_has_nothing_of_it(tmp_path):
    terms, path = opened(), tmp_path / "collection.sqlite"
    line = submission(terms).to_json().encode()
    run = [sys.executable, "-c", KILLED, str(path)]
    places = [str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
    beside = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, places))}
    ended = subprocess.run(run, input=line, env=beside, check=False)
    assert ended.returncode == 9
    again = SurveyGuestCollection.open(path, terms)
    assert rows_in(again) == [0, 0]
    assert again.take(line)[1]
    again.close()


def test_nothing_is_taken_into_a_file_that_somebody_has_removed(terms, caller, store):
    assert caller.post(submission(terms).to_json())[0] == 201
    store.path.rename(store.path.with_name("elsewhere"))
    assert caller.post(submission(terms, "Firm 2").to_json())[0] == 507
    store.path.with_name("elsewhere").rename(store.path)
    assert caller.post(submission(terms, "Firm 2").to_json())[0] == 201
    assert store.came() == ("Firm 1", "Firm 2")


def test_a_host_may_start_again_at_every_step(terms, tmp_path):
    def restarted():
        return SurveyGuestCollection.open(tmp_path / "collection.sqlite", terms)

    line = submission(terms).to_json().encode()
    for step in range(3):
        store = restarted()
        receipt, is_new = store.take(line)
        assert is_new is (step == 0)
        store.close()
    for k in range(1, 12):
        store = restarted()
        store.take(submission(terms, f"Firm {k + 1}").to_json().encode())
        store.close()
    store = restarted()
    first, used = store.close_survey()
    assert len(used) == 12
    assert first.entries[0] == ("Firm 1", 1, receipt.digest)
    store.close()
    store = restarted()
    assert store.is_closed
    assert store.close_survey()[0] == first
    with pytest.raises(collected.ClosedError):
        store.take(submission(terms, number=2).to_json().encode())
    store.close()
    with refused("folder-of-other-survey", StoreError):
        SurveyGuestCollection.open(
            tmp_path / "collection.sqlite", opened(title="Another")
        )


def test_too_few_cannot_be_closed_and_say_how_many_are_missing(terms, caller, store):
    for k in range(3):
        caller.post(submission(terms, f"Firm {k + 1}").to_json())
    with refused("cannot-close", mentions=("4",)):
        store.close_survey()
    assert not store.is_closed
    assert caller.post(submission(terms, "Firm 4").to_json())[0] == 201


def test_a_closed_survey_takes_nothing_and_the_newest_of_each_is_added(
    terms, caller, store
):
    for k in range(8):
        caller.post(submission(terms, f"Firm {k + 1}").to_json())
    newest = submission(terms, number=2)
    caller.post(newest.to_json())
    found, used = store.close_survey()
    assert (len(used), used[0]) == (8, newest)
    late = submission(terms, "Firm 9").to_json()
    assert caller.post(late)[0] == 410
    assert caller.post(submission(terms, number=3).to_json())[0] == 410
    assert caller.post(newest.to_json())[0] == 200, "it is in, and is told so"
    fewer, _ = store.close_survey(["Firm 3"])
    assert fewer.digest != found.digest
    assert "Firm 3" not in fewer.guests
    with refused("not-a-submission", mentions=("9",)):
        store.close_survey(["Firm 9"])


def test_of_two_that_come_at_once_with_one_number_one_is_taken(terms, caller, store):
    lines = [submission(terms, table=[[k, 1], [1, 1]]).to_json() for k in range(6)]
    found = []
    threads = [
        threading.Thread(target=lambda one=one: found.append(caller.post(one)[0]))
        for one in lines
    ]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert sorted(found) == [201] + [409] * 5


def close(agreed, store, folder, without=()):
    found, used = store.close_survey(without)
    table = agreed.to_table()
    table["survey"] |= survey_closing_entries(
        survey_terms(agreed), found.digest, found.tally
    )
    (folder / "closed.toml").write_text(
        toml_text_of_table(consortium_from(table).to_table())
    )
    (folder / "submissions.jsonl").write_bytes(write_submissions(used))
    return found


def test_a_survey_of_which_nothing_would_come_out_stays_open(terms, store):
    """Enough have come, and no cell has enough of them: more may fill one yet."""
    rare = [[1, None], [None, None]]
    for k in range(8):
        table = rare if k % 3 == 0 else [[None, None], [None, None]]
        store.take(submission(terms, f"Firm {k + 1}", table=table).to_json().encode())
    assert terms.refusal(store.came()) is None
    with refused("cannot-close", mentions=("5",)):
        store.close_survey()
    assert not store.is_closed
    # The host is told the same before it tries.
    assert "no cell was filled by 5 guests" in store.progress()["missing"]
    for k in (2, 3, 5, 6):
        found = submission(terms, f"Firm {k}", 2, table=rare)
        store.take(found.to_json().encode())
    assert store.progress()["missing"] is None
    found, _ = store.close_survey()
    assert found.tally.given == (7, 0, 0, 0)


def test_members_fetch_the_closed_survey_and_check_it(
    agreed, terms, store, ann, tmp_path
):
    for k in range(8):
        store.take(submission(terms, f"Firm {k + 1}").to_json().encode())
    with served(agreed, store) as caller:
        page, out = f"http://{HOST}:{caller.port}", tmp_path / "mine"
        with refused("survey-files-missing", WaitingError):
            fetch_closed(agreed, page, out, identity=ann)
        found = close(agreed, store, tmp_path)
        assert fetch_closed(agreed, page, out, identity=ann) == found
        closed = survey_terms(read_consortium(out / "closed.toml"))
        assert (closed.digest, closed.set) == (terms.digest, found.digest)
        assert read_fetched_survey(closed, out) == found
        # Guests, and whoever else has the page, do not get them.
        for name in ("closed.toml", "submissions.jsonl"):
            assert caller.ask(path=f"/{name}")[0].status == 403
            assert stat.S_IMODE((out / name).stat().st_mode) == 0o600
        other = signing_survey({**survey_table(), "title": "another run"})
        with refused("other-survey"):
            fetch_closed(other, page, tmp_path / "other", identity=ann)
        kept = (tmp_path / "submissions.jsonl").read_bytes()
        for changed_, why in (
            (b"\n".join(kept.split(b"\n")[1:]), "are not those"),
            (kept.replace(b'"number":1', b'"number":2', 1), "signature"),
            (kept + kept, "16 submissions of 12|in the set twice"),
            (kept + b" " * 10_000_000, "has more than"),
        ):
            (tmp_path / "submissions.jsonl").write_bytes(changed_)
            with pytest.raises(InvalidInputError, match=why):
                fetch_closed(agreed, page, tmp_path / "odd", identity=ann)
    assert not (tmp_path / "other").exists()
    assert not (tmp_path / "odd").exists()
    with refused("cannot-fetch"):
        fetch_closed(agreed, page, tmp_path / "gone", identity=ann)


def test_what_is_fetched_overwrites_no_other_survey(
    agreed, terms, store, ann, tmp_path
):
    for k in range(8):
        store.take(submission(terms, f"Firm {k + 1}").to_json().encode())
    found = close(agreed, store, tmp_path)
    mine = tmp_path / "mine"
    mine.mkdir()
    closing = survey_closing_entries(terms, found.digest, found.tally)
    other = signing_survey({**survey_table(**closing), "title": "last year"})
    before = {
        "closed.toml": toml_text_of_table(other.to_table()).encode(),
        "submissions.jsonl": b"last year's\n",
    }
    with served(agreed, store) as caller:
        page = f"http://{HOST}:{caller.port}"
        for names in (["closed.toml"], ["submissions.jsonl"], [*before]):
            for name in names:
                (mine / name).write_bytes(before[name])
            with refused("other-survey"):
                fetch_closed(agreed, page, mine, identity=ann)
            for name in names:
                assert (mine / name).read_bytes() == before[name]
                (mine / name).unlink()
        (mine / "closed.toml").write_text("no survey at all")
        with refused("other-survey"):
            fetch_closed(agreed, page, mine, identity=ann)
        (mine / "closed.toml").unlink()
        # The same once more, for it may have been closed again.
        for _ in range(2):
            assert fetch_closed(agreed, page, mine, identity=ann) == found


def test_what_was_added_up_is_not_replaced(ann, tmp_path):
    """A host closes once more without a guest, when members have added all."""
    world, mine = World(tmp_path), tmp_path / "mine"
    agreed = signing_survey(survey_table(**world.said))
    terms = survey_terms(agreed)
    store = SurveyGuestCollection.open(tmp_path / "collection.sqlite", terms)
    sent = [guest_submission(terms, code, TABLE) for code in world.codes.values()]
    for one in sent:
        store.take(one.to_json().encode())
    found = close(agreed, store, tmp_path)
    with served(agreed, store) as caller:
        page = f"http://{HOST}:{caller.port}"
        fetch_closed(agreed, page, mine, identity=ann)
        closed = survey_terms(read_consortium(mine / "closed.toml"))
        world.stores["ann"].commit(closed, "ann", sent)
        world.close()
        world.stores["ann"].path.rename(mine / "surveys.store")
        assert fetch_closed(agreed, page, mine, identity=ann) == found
        before = [(mine / name).read_bytes() for name in FETCHED]
        fewer = close(agreed, store, tmp_path, ["Firm 12"])
        with refused("closed-again"):
            fetch_closed(agreed, page, mine, identity=ann)
        assert [(mine / name).read_bytes() for name in FETCHED] == before
        # The twin: a member that has added nothing takes what the host has now.
        (mine / "surveys.store").unlink()
        assert fetch_closed(agreed, page, mine, identity=ann) == fewer
    store.close()


def certificate(folder):
    """One for 127.0.0.1, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "survey")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), 1)
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ip_address(HOST))]), False
        )
        .sign(key, hashes.SHA256())
    )
    files = str(folder / "page.crt"), str(folder / "page.key")
    Path(files[0]).write_bytes(made.public_bytes(serialization.Encoding.PEM))
    Path(files[1]).write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return files


def test_with_tls_of_its_own_the_host_is_known_by_its_certificate(
    agreed, store, ann, tmp_path
):
    files = certificate(tmp_path)
    with served(agreed, store, tls=files) as caller:
        page = f"https://{HOST}:{caller.port}"
        with refused("survey-files-missing", WaitingError):
            fetch_closed(
                agreed, page, tmp_path / "out", identity=ann, ca=Path(files[0])
            )
        with refused("cannot-fetch"):
            fetch_closed(agreed, page, tmp_path / "out", identity=ann)


@each(
    "text",
    [
        *("survey.example.org", "http://survey.example.org", "file:///etc/passwd"),
        *("https://", "https://a/b", "https://a?b", "https://u:p@a", "ftp://a"),
        *("https://a:99999", "https://[::1", ""),
    ],
)
def test_addresses_of_pages_are_plain(text):
    with pytest.raises(InvalidInputError, match=r"survey's page|without TLS"):
        survey_page_address(text)


def admitted(caller, path=f"{OWN}/"):
    answer, _ = caller.ask(path=f"{path}?token={TOKEN}")
    assert answer.status == 303
    return caller.ask(path=path, Cookie=answer.headers["Set-Cookie"].split(";")[0])


def test_how_many_have_come_is_for_the_host_alone(terms, caller):
    caller.post(submission(terms).to_json())
    for path in (f"{OWN}/", f"{OWN}/progress"):
        assert caller.ask(path=path)[0].status == 403
        assert caller.ask(path=f"{path}?token=wrong")[0].status == 403
    answer, text = admitted(caller, f"{OWN}/progress")
    assert answer.status == 200
    found = json.loads(text)
    assert (found["came"], found["invited"]) == (1, 12)
    assert found["by_member"] == {"ann": [1, 4], "bob": [0, 4], "cem": [0, 4]}
    assert "4 are needed" in found["missing"]
    assert "Firm" not in text
    assert "1 of 12" in admitted(caller)[1]
    assert caller.ask(path="/progress")[0].status == 404


def test_behind_a_proxy_callers_are_told_apart(agreed, terms, store):
    few = {"burst": 3, "per_second": 1e-9}
    with served(agreed, store, PUBLIC, **few) as caller:
        known = {"Host": "survey.example.org"}
        assert caller.ask(**known, X_Forwarded_For="192.0.2.1")[0].status == 200
        found = [
            caller.ask(**known, X_Forwarded_For="192.0.2.9, 192.0.2.2")[0].status
            for _ in range(4)
        ]
        assert found == [200, 200, 200, 429]
        assert caller.ask(**known, X_Forwarded_For="192.0.2.9")[0].status == 200
        own = {"Host": "survey.example.org", "X_Forwarded_For": "192.0.2.3"}
        answer, _ = caller.ask(path=f"{OWN}/?token={TOKEN}", **own)
        assert answer.status == 421, "under the public name there is no such page"
        line = submission(terms).to_json()
        own |= {"Origin": PUBLIC}
        assert caller.post(line, **own)[0] == 201


AXE = (Path(__file__).parent / "vendor" / "axe.min.js").read_text()
SHOWN = {
    "title": "Wages",
    "rows": ["managers", "clerks"],
    "columns": ["women", "men"],
    "totals": [["1234567.25", "-12.5"], ["0", None]],
    "given": [[7, 6], [5, 2]],
    "guests": 7,
    "beyond": ["managers x men"],
    "near": [["managers x women", "clerks x women"]],
    "promise": "Nobody learns more.",
    "submissions": ["ab" * 32] * 7,
    "receipts": [{"party": name} for name in MEMBERS],
}


@pytest.mark.slow
def test_the_hosts_pages_open_at_every_width_and_scheme(agreed, store, tmp_path):
    (tmp_path / "result.json").write_text(json.dumps(SHOWN))
    with served(agreed, store) as caller, chromium() as browser:
        address = f"http://{HOST}:{caller.port}"
        for width, scheme in product(WIDTHS, SCHEMES):
            looks = {"viewport": {"width": width, "height": 700}, "locale": "de-DE"}
            for path in ("/", f"{OWN}/?token={TOKEN}"):
                seen = visited(
                    browser, address + path, address, color_scheme=scheme, **looks
                )
                if path == "/":
                    assert "1.234.567,25" in seen.page.text_content("table")
                seen.page.evaluate(AXE)
                found = seen.page.evaluate("() => axe.run()")["violations"]
                bad = [one for one in found if one["impact"] in ("serious", "critical")]
                assert (bad, seen.errors, seen.outside) == ([], [], [])
                assert seen.too_wide == 0
                seen.page.context.close()


@pytest.mark.slow
def test_the_page_that_was_saved_sends_to_the_host_and_is_what_letters_say(tmp_path):
    names = [f"Firm {k + 1}" for k in range(12)]
    rows = [
        {
            "name": name,
            "key": survey_guest_key(code_of(name))
            .public_key()
            .public_bytes_raw()
            .hex(),
            "invited_by": MEMBERS[k % 3],
        }
        for k, name in enumerate(names)
    ]
    agreed = signing_survey(survey_table(guest=rows))
    terms = survey_terms(agreed)
    store = SurveyGuestCollection.open(tmp_path / "collection.sqlite", terms)
    with served(agreed, store) as caller, chromium() as browser:
        address = f"http://{HOST}:{caller.port}"
        answer, text = caller.ask(path="/page.html")
        single = guest_page_as_single_file(page_survey(terms), f"{address}/submissions")
        assert text == single, "what a member works out for its letters"
        assert answer.headers["X-Content-SHA256"] == submission_sha256(single.encode())
        (tmp_path / "survey.html").write_bytes(single.encode())
        seen = visited(browser, (tmp_path / "survey.html").as_uri(), address)
        page = seen.page
        for number in (1, 2):
            if number == 1:
                page.fill("#code", code_of("Firm 5"))
                page.press("#code", "Enter")
            else:
                page.click("#correct")
            page.wait_for_selector("#numbers-step:not([hidden])")
            for at, typed in enumerate(("1", "", str(number), "4,5")):
                page.fill(f"#cell-{at}", typed)
            page.click("#check")
            page.click("#send")
            page.wait_for_selector("#sent-step:not([hidden])")
            said = page.text_content("#set-line").split("\t")
            found = store.newest("Firm 5")
            assert said == ["Firm 5", str(number), found.digest]
        assert (seen.errors, seen.outside) == ([], [])
    assert store.came() == ("Firm 5",)
    store.close()
