"""The clock of these tests: silence is measured, and nothing but silence."""

import asyncio
import time

import pytest

from idle_clock import patiently


def test_work_takes_no_time():
    async def main():
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(0.02):
            for _ in range(5):
                time.sleep(0.01)  # noqa: ASYNC251 - the loop is kept from waiting
                await asyncio.sleep(0)
        assert loop.time() == 0.0

    patiently(main())


def test_waiting_in_vain_does():
    async def main():
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.02):
                await asyncio.Event().wait()
        assert asyncio.get_running_loop().time() == pytest.approx(0.02, abs=1e-6)

    patiently(main())


def test_who_works_in_a_thread_is_not_silent():
    async def main():
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(0.1):
            with loop.elsewhere():
                await loop.run_in_executor(None, time.sleep, 0.2)

    patiently(main())


def test_but_is_when_it_waits_in_the_loop():
    async def main():
        loop = asyncio.get_running_loop()
        with loop.elsewhere(), loop.back():
            await asyncio.sleep(0.02)
        assert loop.time() == pytest.approx(0.02, abs=1e-6)

    patiently(main())
