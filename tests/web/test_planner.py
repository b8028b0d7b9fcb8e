"""The planner page in a browser, and its processes when nobody waits for them."""

import asyncio
import http.client
import json
import re
import signal
import socket
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from click.testing import CliRunner

import veilsum as vs
from browser import chromium, opened_at
from planner_server import planner_page
from veilsum.cli.app import app
from veilsum.graphs.topology import Topology
from veilsum.web import planner
from veilsum.web.planner import LeftError, PlannerProcesses
from veilsum.web.planning import planner_reply

AXE = Path(__file__).parent / "vendor" / "axe.min.js"


def question(spec, tolerate=1):
    topology = Topology.family(spec)
    drawn = {"parties": list(topology.parties), "links": topology.edges.tolist()}
    target = {"success": 0.51, "within": 1.0}
    return json.dumps({**drawn, "tolerate": tolerate, "target": target}).encode()


LONG = question("regular:120:4", 3)  # seconds, however fast the machine


@pytest.fixture(scope="module")
def url():
    with planner_page() as found:
        yield found


@pytest.fixture(scope="module")
def browser():
    """For the tests below: those above have event loops of their own."""
    with chromium() as found:
        yield found


def settled(page, least=1):
    """Wait until everything that was asked, so much at least, is answered and shown."""
    page.wait_for_function(
        "least => Number(document.body.dataset.asked) >= least && "
        "document.body.dataset.answered === document.body.dataset.asked",
        arg=least,
    )


@contextmanager
def answered(page, questions=1):
    """Do something that asks so many questions, then wait for the last answer.

    A click may return before the page has heard of it: the answer to an earlier
    question would pass for the one to this.
    """
    before = page.evaluate("() => Number(document.body.dataset.asked)")
    yield
    settled(page, before + questions)


def rows(page, count):
    """Wait for a list of so many parties."""
    counts = "many => document.querySelectorAll('#rows tr').length === many"
    page.wait_for_function(counts, arg=count)


def last_row(page, text):
    """Wait until the last party in the list is linked to these."""
    cell = page.locator("#rows tr:last-child td:nth-child(2)")
    cell.filter(has_text=re.compile(f"^{text}$")).wait_for()


def says(page, name, text):
    page.locator(f"#{name}").filter(has_text=text).wait_for()


def told(page):
    return {
        name: page.inner_text(f"#{name}")
        for name in ("verdict", "success", "epsilon", "coalition", "repair", "needed")
    }


def call(url, method="POST", path="/plan", body=None, **headers):
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=60)
    connection.request(method, path, body, headers)
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    return answer, text


def own(url):
    """What the page itself would send."""
    parts = urlsplit(url)
    answer, _ = call(url, "GET", f"/?{parts.query}")
    return {
        "Cookie": answer.headers["Set-Cookie"].split(";")[0],
        "Origin": f"http://{parts.netloc}",
        "Content-Type": "application/json",
    }


def test_only_the_page_itself_is_answered(url):
    headers = own(url)
    answer, text = call(url, body=question("ring:5"), **headers)
    assert answer.status == 200
    assert json.loads(text) == planner_reply("plan", question("ring:5"))
    for missing in headers:
        rest = {name: value for name, value in headers.items() if name != missing}
        assert call(url, body=question("ring:5"), **rest)[0].status in (403, 415)
    other = headers | {"Origin": "https://evil.example"}
    assert call(url, body=question("ring:5"), **other)[0].status == 403


def test_hostile_questions_are_refused_over_the_wire(url):
    headers = own(url)
    huge = b'{"parties": "' + b"x" * planner.MOST_QUESTION + b'"}'
    for body, status, word in (
        (huge, 413, "bytes"),
        (b"x" * (planner.PLANNER_BOUNDS.body + 1), 413, "bytes"),
        (b"[" * 100_000, 200, "too deep"),
        (b'{"a":\n1}', 200, "unknown key 'a'"),
        (b"\n\nplan {}\n", 200, "not JSON"),
        (question("star:4").replace(b'"0"', b'"<img src=x>"'), 200, "letters"),
    ):
        answer, text = call(url, body=body, **headers)
        assert answer.status == status
        assert word in json.loads(text)["error"] if status == 200 else word in text
    for path in ("/../planner.py", "/planner.py", "/static/planner.js", "/%2e%2e/x"):
        assert call(url, "GET", path, **headers)[0].status == 404
    assert call(url, "GET", "/plan", **headers)[0].status in (404, 405)


def test_a_question_nobody_waits_for_is_ended():
    async def left():
        async with PlannerProcesses(patience=60.0, grace=0.0) as processes:
            await asyncio.gather(*processes._starting)
            working = [*processes._all]
            gone = asyncio.get_running_loop().create_future()
            asking = asyncio.ensure_future(processes.ask("mend", LONG, gone))
            for _ in range(9):  # turns of the loop: the question is on its way
                await asyncio.sleep(0)
            assert processes._idle.qsize() == planner.PROCESSES - 1
            gone.set_result(None)
            with pytest.raises(LeftError):
                await asking
            ended = [one for one in working if one.returncode is not None]
            stays = asyncio.get_running_loop().create_future()
            found = await processes.ask("plan", question("ring:5"), stays)
            late = asyncio.get_running_loop().create_future()
            late.set_result(None)
            with pytest.raises(LeftError):
                await processes.ask("plan", question("ring:5"), late)
            return len(ended), found, [*processes._all]

    ended, found, everyone = asyncio.run(left())
    assert ended == 1
    assert found == planner_reply("plan", question("ring:5"))
    assert all(one.returncode is not None for one in everyone), "none is left behind"


def test_what_takes_too_long_is_ended_and_others_go_on():
    async def too_long():
        async with PlannerProcesses(patience=0.05) as processes:
            stays = asyncio.get_running_loop().create_future()
            with pytest.raises(TimeoutError):
                await processes.ask("mend", LONG, stays)
            processes._patience = 60.0
            return await processes.ask("plan", question("ring:5"), stays)

    assert asyncio.run(too_long()) == planner_reply("plan", question("ring:5"))


@pytest.mark.parametrize(
    ("width", "scheme"),
    [
        (1280, "light"),
        (390, "dark"),
        pytest.param(1280, "dark", marks=pytest.mark.slow),
        pytest.param(390, "light", marks=pytest.mark.slow),
    ],
)
def test_the_page_opens_everywhere(browser, url, width, scheme):
    with opened_at(browser, url, width=width, scheme=scheme) as seen:
        page = seen.page
        settled(page)
        assert told(page)["verdict"] == "The target is met."
        with answered(page):
            page.select_option("#language", "de")
        assert told(page)["verdict"] == "Das Ziel ist erreicht."
        assert page.get_attribute("html", "lang") == "de"
        silent = "all => all.filter((one) => !one.textContent).length"
        assert page.eval_on_selector_all("[data-say]", silent) == 0
        assert seen.too_wide == 0
        assert seen.errors == []
        assert seen.outside == []
        if AXE.exists():
            page.evaluate(AXE.read_text())
            found = page.evaluate("() => axe.run()")["violations"]
            grave = [one for one in found if one["impact"] in ("serious", "critical")]
            assert [one["id"] for one in grave] == []


def test_a_network_is_drawn_mended_and_taken_along(browser, url, tmp_path):
    """By its fields and lists alone, as who cannot see the drawing would."""
    with opened_at(browser, url) as seen:
        page = seen.page
        settled(page)
        page.fill("#family", "path:6")
        with answered(page):
            page.press("#family", "Enter")
            rows(page, 6)
        found = told(page)
        assert "fall apart" in found["verdict"]
        assert found["success"] == "always"
        assert "0 \u2013 5" in found["repair"]
        with answered(page):
            page.click("#mend")
        found = told(page)
        assert "missed" in found["verdict"], "the noise is still the first network's"
        ring = vs.plan(
            graph="ring:6",
            tolerate=1,
            attacker_success=0.51,
            distance=2**0.5,
            progress=False,
        )
        assert float(found["needed"]) == pytest.approx(ring.best.sigma, rel=1e-3)
        with answered(page):
            page.click("#take")
        assert told(page)["verdict"] == "The target is met."
        page.fill("#party-name", "ward 7")
        with answered(page):
            page.press("#party-name", "Enter")
        assert "in pieces" in told(page)["verdict"]
        page.select_option("#link-from", label="ward 7")
        with answered(page, questions=2):
            for other in ("0", "3"):
                page.select_option("#link-to", label=other)
                page.click("#link-form button")
        assert "fall apart" not in told(page)["verdict"]
        with answered(page):
            page.check("input[name=noise][value=needed]")
        with page.expect_download() as download:
            page.click("#export")
        place = tmp_path / download.value.suggested_filename
        download.value.save_as(place)
        assert "veilsum check network.toml" in page.inner_text("#commands")
        with page.expect_response("**/file"):
            page.set_input_files("#file", place)
        rows(page, 7)
        settled(page)
        assert seen.errors == []
    checked = CliRunner().invoke(app, ["check", str(place), "--json"])
    assert checked.exit_code == 0, checked.output
    assert "ward 7" in place.read_text()


def middle(page):
    """Where the middle of the drawing is, and its upper right corner."""
    page.locator("#drawing").scroll_into_view_if_needed()
    box = page.locator("#drawing").bounding_box()
    right, top = box["x"] + box["width"], box["y"]
    return right - box["width"] / 2, top + box["height"] / 2, right, top


def test_a_network_is_drawn_by_mouse_and_by_keys(browser, url):
    with opened_at(browser, url) as seen:
        page = seen.page
        settled(page)
        page.fill("#family", "ring:4")
        with answered(page):
            page.press("#family", "Enter")
            rows(page, 4)
        across, down, *_ = middle(page)
        page.click("[data-mode=add]")
        with answered(page):
            page.mouse.click(across, down)
            rows(page, 5)
        assert "in pieces" in told(page)["verdict"]
        # The new party is the one that keys are about: links to the two after it.
        page.click("[data-mode=move]")
        page.focus("#drawing")
        with answered(page, questions=2):
            for keys in ("l n l", "p l n n l"):
                for key in keys.split():
                    page.keyboard.press(key)
            last_row(page, "0, 1")
        assert "in pieces" not in told(page)["verdict"]
        with answered(page):
            page.keyboard.press("Control+z")
            last_row(page, "0")
        assert "fall apart" in told(page)["verdict"]
        # Links that follow distance: the party in the middle is dragged far away.
        with answered(page):
            page.check("#near")
            page.locator("#reach").fill("120")
        assert "in pieces" not in told(page)["verdict"]
        across, down, right, top = middle(page)  # it may have been scrolled
        with answered(page):
            page.mouse.move(across, down)
            page.mouse.down()
            page.mouse.move(across + 150, down - 150, steps=5)
            page.mouse.move(right - 8, top + 8, steps=5)
            page.mouse.up()
            last_row(page, "nobody")
        assert seen.errors == []
        assert seen.outside == []


def test_what_the_program_refuses_is_said_and_nothing_is_run(browser, url):
    with opened_at(browser, url) as seen:
        page = seen.page
        settled(page)
        page.fill("#rows tr:first-child input", "<img src=x onerror=alert(1)>")
        page.press("#rows tr:first-child input", "Enter")
        says(page, "verdict", "letters, digits")
        page.fill("#tolerate", "-3")
        page.set_input_files(
            "#file", {"name": "x.graphml", "mimeType": "", "buffer": b"<!DOCTYPE x>"}
        )
        says(page, "trouble", "DOCTYPE")
        assert page.locator("img").count() == 0
        assert seen.errors == []
        assert seen.outside == []


def test_a_page_is_for_this_computer_only():
    found = CliRunner().invoke(app, ["plan", "--page", "192.0.2.1:8472"])
    assert found.exit_code == 2
    assert "this computer only" in found.output
    found = CliRunner().invoke(app, ["plan", "--parties", "5", "--epsilon", "1"])
    assert found.exit_code == 2
    assert "--tolerate" in found.output


def test_the_command_prints_an_address_and_ends_at_a_word():
    with socket.create_server(("127.0.0.1", 0)) as free:
        place = f"127.0.0.1:{free.getsockname()[1]}"
    words = ["plan", "--page", place, "--graph", "petersen", "--tolerate", "2"]
    command = [sys.executable, "-m", "veilsum", *words]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        address = next(
            line.split()[1]
            for line in process.stderr
            if line.strip().startswith("open")
        )
        headers = own(address)
        answer, text = call(address, "GET", "/start", **headers)
        assert answer.status == 200
        start = json.loads(text)
        assert len(start["drawn"]["links"]) == 15
        assert start["tolerate"] == 2
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0
