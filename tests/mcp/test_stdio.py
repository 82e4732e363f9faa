"""The server as a program that a client starts, over stdin and stdout."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
import trio
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

from tests.mcp.kit import CHAT

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
HELLO = {"chat_id": "r1", "content": "hello ü", "mentions": ["u1"]}


def program(seconds: float) -> StdioServerParameters:
    return StdioServerParameters(
        command=sys.executable,
        args=["-W", "error", "-m", "tests.mcp.stdio_program", str(seconds)],
        cwd=str(ROOT),
    )


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_a_client_starts_it_and_calls_tools(mode: str) -> None:
    with tempfile.TemporaryFile("w+", encoding="utf-8") as errors, trio.fail_after(30):
        async with Client(stdio_client(program(60), errlog=errors), mode=mode) as client:
            assert len((await client.list_tools()).tools) == len(CHAT)
            assert not (await client.call_tool("band_send_message", HELLO)).is_error
            bad = await client.call_tool("band_send_message", {**HELLO, "mentions": ["x"]})
            assert bad.is_error
        errors.seek(0)
        assert errors.read().splitlines()[-1] == "said: hello ü"


async def test_cancelled_it_ends_although_the_client_is_silent() -> None:
    params, pipe = program(0.1), subprocess.PIPE
    with trio.fail_after(30):
        process = await trio.lowlevel.open_process(
            [params.command, *params.args],
            cwd=ROOT,
            env={key: value for key, value in os.environ.items() if key != "PYTHONUNBUFFERED"},
            stdin=pipe,
            stdout=pipe,
            stderr=pipe,
        )
        assert process.stdin is not None  # stays open
        assert process.stdout is not None
        assert process.stderr is not None
        try:
            told = b"".join([part async for part in process.stderr])
            said = b"".join([part async for part in process.stdout])
            assert await process.wait() == 0
        finally:
            if process.returncode is None:
                process.kill()
        await process.stdin.aclose()
    assert told.split() == [b"printed", b"buffered", b"said:"]
    assert said == b""  # nothing but the protocol
