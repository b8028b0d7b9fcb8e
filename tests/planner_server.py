"""The planner page on loopback, for as long as a test lasts."""

import asyncio
import threading
from contextlib import contextmanager

from veilsum.consortium.consortium import Address
from veilsum.web.planner import serve_planner


@contextmanager
def planner_page(**options):
    """Serve it; what to open."""
    told = {}
    ready = threading.Event()

    def opened(url):
        told["url"] = url
        ready.set()

    async def serve():
        told["loop"], told["over"] = asyncio.get_running_loop(), asyncio.Event()
        try:
            await serve_planner(
                Address("127.0.0.1", 0), opened=opened, over=told["over"], **options
            )
        finally:
            ready.set()

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    ready.wait()
    try:
        yield told["url"]
    finally:
        told["loop"].call_soon_threadsafe(told["over"].set)
        thread.join()
