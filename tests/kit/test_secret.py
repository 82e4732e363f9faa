"""A key shows itself to nobody who prints what holds it."""

from __future__ import annotations

import copy
import pickle
import traceback
from pathlib import Path
from urllib.parse import quote

import h11
import httpx  # noqa: ASYNC127 - whose headers hold the key
import pytest

from band_trio.config.credentials import Credentials, load_agent_config
from band_trio.errors import BandConfigError, BandConnectionError
from band_trio.kit.hygiene import REDACTED
from band_trio.kit.secret import Secret, SecretBytes, silent
from tests.marks import case, guarantee
from tests.test_config import config_file

KEY = "k/ey+with&odd=chars%"


def shown(error: BaseException) -> str:
    """Return what a tool that shows tracebacks with locals would show."""
    told = traceback.TracebackException.from_exception(error, capture_locals=True)
    return "".join(told.format(chain=True))


def assert_no_key(text: str) -> None:
    assert KEY not in text
    assert quote(KEY, safe="") not in text


@case("C60")
def test_a_secret_is_itself_and_shows_nothing() -> None:
    secret = Secret(KEY)

    assert secret == KEY
    assert hash(secret) == hash(KEY)
    assert f"{secret}" == KEY
    assert pickle.loads(pickle.dumps(secret)) == copy.copy(secret) == KEY
    for holder in (secret, [secret], {"k": (secret,)}, secret.encode(), secret.encode().decode()):
        assert_no_key(repr(holder))
        assert REDACTED in repr(holder)
    assert silent(5) == 5


@case("C60")
def test_headers_of_other_libraries_stay_silent_and_send_the_key() -> None:
    headers = httpx.Headers({"X-API-Key": Secret(KEY), "Accept": "x"})
    request = httpx.Request("GET", "http://h", headers=headers.copy())
    event = h11.Request(method="GET", target="/", headers=request.headers.raw)

    for holder in (headers, request.headers, request.headers.raw, event):
        assert_no_key(repr(holder))
    assert headers["x-api-key"] == KEY
    sent = h11.Connection(h11.CLIENT).send(event)
    assert sent is not None
    assert f"X-API-Key: {KEY}".encode() in sent
    assert isinstance(bytes(SecretBytes(b"x")), SecretBytes)


@guarantee(87)
@case("C60")
def test_a_request_that_cannot_be_built_does_not_show_the_key() -> None:
    """Its headers are locals of the frames in which it is built."""
    credentials = Credentials("a", KEY)

    def build(secret: str) -> None:
        headers = httpx.Headers({"X-API-Key": secret})
        raw, copied, secrets = headers.raw, headers.copy(), (secret,)
        raise BandConnectionError(f"nothing can be sent: {len(raw) + len(copied) + len(secrets)}")

    with pytest.raises(BandConnectionError) as caught:
        build(credentials.api_key)
    assert "copied = Headers(" in shown(caught.value)
    assert_no_key(shown(caught.value))


@guarantee(87)
@case("C60")
@pytest.mark.parametrize(
    "text",
    [
        f"me: {{agent_id: a, api_key: {KEY!r}",
        f"you: {{agent_id: a, api_key: {KEY!r}}}",
        f"me: {{api_key: {KEY!r}}}",
        f"me: [{KEY!r}]",
    ],
)
def test_a_file_that_is_refused_does_not_show_its_keys(tmp_path: Path, text: str) -> None:
    path = config_file(tmp_path, text)
    with pytest.raises(BandConfigError) as caught:
        load_agent_config("me", config_path=path)
    frames = caught.value.__traceback__
    assert frames is not None
    told = traceback.TracebackException(
        BandConfigError, caught.value, frames.tb_next, capture_locals=True
    )
    assert_no_key("".join(told.format()))
