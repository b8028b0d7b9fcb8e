"""Measure how soon the planner page answers a drag of twenty parties.

    python benchmarks/planner_page.py                # tolerate 1 and 2
    python benchmarks/planner_page.py --drags 40 --no-browser

Twenty parties stand at random; who is near is linked, and one after the other is moved,
so that every network is a new one: nothing that was remembered helps. `server` is what
the package takes for one answer, `round trip` adds HTTP over loopback and the process
that answers, `page` is what a drag of the mouse in Chromium waits for an answer. The
condition is on the round trip: 50 milliseconds for what holds (`plan`); the repair
(`mend`) is another question, asked at the same time. Processor time is what an idle
machine would take; the load says how many others wanted the cores.
"""

from __future__ import annotations

import argparse
import asyncio
import http.client
import json
import os
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter, process_time
from urllib.parse import urlsplit

import numpy as np

from clocks import sized
from veilsum.consortium.consortium import Address
from veilsum.scale import ONE_THREAD
from veilsum.web.planner import serve_planner
from veilsum.web.planning import planner_reply

PARTIES = 20


def drags(count: int, tolerate: int, *, seed: int) -> list[bytes]:
    """Return what a page would ask while parties are moved."""
    draw = np.random.default_rng(seed)
    places = draw.random((PARTIES, 2))
    asked = []
    while len(asked) < count:
        places[draw.integers(PARTIES)] = draw.random(2)
        apart = np.linalg.norm(places[:, None] - places[None], axis=2)
        links = np.argwhere(np.triu(apart < 0.45, k=1)).tolist()
        question = {
            "parties": [str(k) for k in range(PARTIES)],
            "links": links,
            "tolerate": tolerate,
            "target": {"success": 0.51, "within": 1.0},
            "sigma": 20.0,
        }
        asked.append(json.dumps(question).encode())
    return asked


def in_process(what: str, asked: list[bytes]) -> dict[str, float]:
    wall, processor = [], []
    for body in asked:
        clocks = perf_counter(), process_time()
        assert "answer" in planner_reply(what, body)
        wall.append(perf_counter() - clocks[0])
        processor.append(process_time() - clocks[1])
    return {**told("wall", wall), **told("processor", processor)}


def told(name: str, seconds: list[float]) -> dict[str, float]:
    low, high = np.percentile(seconds, [50, 95])
    return {f"{name}_ms": round(1e3 * low, 1), f"{name}_95%_ms": round(1e3 * high, 1)}


@contextmanager
def served() -> Iterator[str]:
    """Serve the page; its address."""
    box: dict = {}
    ready = threading.Event()

    def opened(url: str) -> None:
        box["url"] = url
        ready.set()

    async def serve() -> None:
        box["loop"], box["over"] = asyncio.get_running_loop(), asyncio.Event()
        place = Address("127.0.0.1", 0)
        await serve_planner(place, opened=opened, over=box["over"])

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    ready.wait()
    try:
        yield box["url"]
    finally:
        box["loop"].call_soon_threadsafe(box["over"].set)
        thread.join()


def over_loopback(url: str, what: str, asked: list[bytes]) -> dict[str, float]:
    parts = urlsplit(url)
    line = http.client.HTTPConnection(parts.hostname or "", parts.port)
    line.request("GET", f"/?{parts.query}")
    answer = line.getresponse()
    answer.read()
    headers = {
        "Cookie": str(answer.headers["Set-Cookie"]).split(";")[0],
        "Origin": f"http://{parts.netloc}",
        "Content-Type": "application/json",
    }
    wall, beside = [], []
    for body in asked:
        start, spent = perf_counter(), process_time()
        line.request("POST", f"/{what}", body, headers)
        found = json.loads(line.getresponse().read())
        wall.append(perf_counter() - start)
        beside.append(process_time() - spent)
        assert "answer" in found
    line.close()
    # The first may have waited for a process to start. Client and server are here, who
    # answers is another process.
    return {**told("wall", wall[1:]), **told("processor beside it", beside[1:])}


WATCHED = """() => {
  window.seen = { plan: [], mend: [] };
  const look = (changes) => changes.forEach(({ attributeName: name }) => {
    const what = name.slice(5), ms = Number(document.body.dataset[what]);
    if (what in window.seen) window.seen[what].push(ms);
  });
  new MutationObserver(look).observe(document.body, { attributes: true });
}"""

# Every question so far is answered, and there was one.
ANSWERED = """() => {
  const { asked, answered } = document.body.dataset;
  return asked !== undefined && asked === answered;
}"""


def in_browser(url: str, chromium: str, tolerate: int) -> dict[str, object]:
    """Drag a party across a network whose links follow distance."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        page.goto(url)
        page.wait_for_function(ANSWERED)
        page.fill("#tolerate", str(tolerate))
        page.fill("#family", f"circulant:{PARTIES}:1,2")
        page.press("#family", "Enter")
        rows = "many => document.querySelectorAll('#rows tr').length === many"
        page.wait_for_function(rows, arg=PARTIES)
        page.check("#near")
        page.locator("#reach").fill("75")
        page.wait_for_function(ANSWERED)
        page.evaluate("() => document.getElementById('drawing').scrollIntoView()")
        box = page.locator("#drawing").bounding_box()
        assert box is not None
        # The first party of a ring is at the top of the picture.
        x, y = box["x"] + box["width"] / 2, box["y"] + 32
        page.evaluate(WATCHED)
        page.mouse.move(x, y)
        page.mouse.down()
        for step in range(120):
            across = 250 * np.sin(step / 12)
            page.mouse.move(x + across, y + 1.5 * step)
        page.mouse.up()
        page.wait_for_function(ANSWERED)
        seen = page.evaluate("() => window.seen")
        browser.close()
    return {
        what: {"answers": len(ms), **told("wall", [one / 1e3 for one in ms])}
        for what, ms in seen.items()
        if ms
    }


def main() -> None:
    """Print milliseconds as JSON, a line for each number of colluders."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--drags", type=int, default=sized(60, 2))
    parser.add_argument("--no-browser", action="store_true")
    chosen = parser.parse_args()
    paths = map(shutil.which, ("chromium", "chromium-browser"))
    chromium = None if chosen.no_browser else next(filter(None, paths), None)
    for name in ONE_THREAD:  # as in the processes that answer
        if os.environ.get(name) != "1":
            print(f"set {name}=1 to measure as the processes do")
    with served() as url:
        for tolerate in (1, 2):
            found: dict[str, object] = {"tolerate": tolerate}
            for what in ("plan", "mend"):
                seed = 10 * tolerate + len(found)
                in_process(what, drags(3, tolerate, seed=9))  # a warm start
                found[what] = {
                    "server": in_process(
                        what, drags(chosen.drags, tolerate, seed=seed)
                    ),
                    "round trip": over_loopback(
                        url, what, drags(chosen.drags, tolerate, seed=seed + 5)
                    ),
                }
            if chromium is not None:
                found["page"] = in_browser(url, chromium, tolerate)
            found |= {"condition": "plan within 50 ms", "load": os.getloadavg()[0]}
            print(json.dumps({"planner page, 20 parties": found}), flush=True)


if __name__ == "__main__":
    main()
