"""The examples for models, as programs: on localband, with scripted models for providers."""

from __future__ import annotations

import os
import signal
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio

from band_trio.localband import open_local_band
from band_trio.testing.scripted_anthropic import open_scripted_anthropic
from band_trio.testing.scripted_http import ScriptedServer
from band_trio.testing.scripted_model import ErrorTurn, ScriptedModel, ScriptTurn, ToolTurn
from band_trio.testing.scripted_openai import open_scripted_openai
from band_trio.tools.conversation import strip_leading_mentions

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]


async def answers(
    name: str,
    agent: str,
    question: str,
    server: ScriptedServer,
    tmp_path: Path,
    *command: str,
    **environ: str,
) -> tuple[str, str]:
    """Run an example, ask it something, and return what it says in the room and on its output."""
    async with open_local_band(user_name="Your Name") as band:
        account = band.register_agent(agent)
        key = agent.lower()
        (tmp_path / "agent_config.yaml").write_text(
            f"{key}: {{agent_id: {account.id}, api_key: {account.api_key}}}"
        )
        (tmp_path / f"{name}.py").write_text((ROOT / "examples" / f"{name}.py").read_text())
        env = {
            **{each: value for each, value in os.environ.items() if not each.startswith("BAND_")},
            "PYTHONPATH": str(ROOT),
            "TMPDIR": str(tmp_path),
            "BAND_REST_URL": band.rest_url,
            "OPENAI_API_KEY": server.api_key,
            "OPENAI_BASE_URL": server.base_url,
            "ANTHROPIC_API_KEY": server.api_key,
            "ANTHROPIC_BASE_URL": server.base_url,
            **environ,
        }
        room = await band.user.create_room(members=[account])
        output = tmp_path / "output"
        with output.open("wb") as written:
            run = partial(
                trio.run_process, [sys.executable, *(command or (f"{name}.py",))],
                env=env, cwd=tmp_path, check=False, stdout=written,
            )  # fmt: skip
            # Until its end: when the time is over, trio ends the program, and kills it if need be.
            with trio.fail_after(40):
                async with trio.open_nursery() as nursery:
                    process = await nursery.start(run)
                    message = await band.user.send(room, question, mentions=[account])
                    await band.until(lambda: band.state(message, account) == "processed")
                    texts = [
                        row["content"]
                        for row in await band.user.messages(room)
                        if row["sender_id"] == account.id and row["message_type"] == "text"
                    ]
                    process.send_signal(signal.SIGINT)
        return strip_leading_mentions("\n".join(texts)), output.read_text()


def _answer(request: dict[str, Any]) -> ScriptTurn:
    """Greet whoever owns the agent, once."""
    done = "Good day." in str(request["messages"])
    if done:
        return ToolTurn("band_no_reply")
    return ToolTurn("band_send_message", {"content": "Good day.", "mentions": ["@your-name"]})


async def test_10_anthropic(tmp_path: Path) -> None:
    model = ScriptedModel(_answer)
    async with open_scripted_anthropic(model) as server:
        said, _ = await answers("10_anthropic", "Claude", "hello", server, tmp_path)

    assert said == "Good day."
    assert model.violations == []
    assert "Be brief." in model.requests[0]["system"][0]["text"]


async def test_11_openai(tmp_path: Path) -> None:
    def script(request: dict[str, Any]) -> ScriptTurn:
        if request["messages"][-1]["role"] == "user":
            return ToolTurn("stock", {"item": "bolts"})
        return _answer(request)

    model = ScriptedModel(script)
    async with open_scripted_openai(model) as server:
        command = ("-m", "band_trio", "run", "11_openai:helper")
        said, _ = await answers(
            "11_openai", "Helper", "how many are left?", server, tmp_path, *command, MODEL="m"
        )

    assert said == "Good day."
    assert model.violations == []
    assert '"left": 3' in str(model.requests[1]["messages"][-1])


async def test_12_model(tmp_path: Path) -> None:
    first = [ErrorTurn(status=503)]
    model = ScriptedModel(lambda request: first.pop() if first else _answer(request))
    async with open_scripted_openai(model) as server:
        said, output = await answers(
            "12_model", "Any", "hello", server, tmp_path, MODEL="openai-chat:m", PATIENCE="0.1"
        )

    assert said == "Good day."
    assert "the provider failed: " in output
    assert model.violations == []
