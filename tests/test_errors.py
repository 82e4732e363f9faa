"""The error tree: what is caught by what, and what the texts say."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from band_trio import errors
from band_trio.errors import (
    API_ERROR_CHARS,
    AgentAlreadyRunningError,
    BandApiError,
    BandConfigError,
    BandError,
    BandSupersededError,
    DeliveryFailedError,
    MessagePostError,
    ProviderRunError,
    RoomClosingError,
    RoomExecutionStoppedError,
)
from band_trio.kit.hygiene import LINE_CHARS
from tests.marks import case, guarantee
from tests.support.for_each import for_each

TREE = {
    "BandError": ("Exception",),
    "BandConfigError": ("BandError", "ValueError"),
    "AgentAlreadyRunningError": ("BandConfigError",),
    "BandConnectionError": ("BandError",),
    "BandAuthError": ("BandConnectionError",),
    "BandPolicyError": ("BandConnectionError",),
    "BandSupersededError": ("BandConnectionError",),
    "OutcomeUnknownError": ("BandConnectionError",),
    "BandApiError": ("BandError",),
    "BandToolError": ("BandError",),
    "InvalidToolArgumentsError": ("BandToolError", "ValueError"),
    "MentionError": ("BandToolError", "ValueError"),
    "MessagePostError": ("BandToolError",),
    "DeliveryFailedError": ("BandToolError",),
    "TurnClosedError": ("BandToolError",),
    "RoomExecutionStoppedError": ("BandError",),
    "ProviderRunError": ("BandError",),
    "InputNotAccepted": ("BandError",),
    "RoomClosingError": ("InputNotAccepted", "RuntimeError"),
}


def classes() -> dict[str, type[Exception]]:
    return {
        name: cls
        for name, cls in vars(errors).items()
        if isinstance(cls, type)
        and issubclass(cls, Exception)
        and cls.__module__ == errors.__name__
    }


def test_the_tree_is_what_the_documentation_draws() -> None:
    assert {
        name: tuple(base.__name__ for base in cls.__bases__) for name, cls in classes().items()
    } == TREE
    assert errors.__doc__ is not None
    for name in classes():
        assert name in errors.__doc__


def test_every_error_says_what_it_means() -> None:
    for cls in classes().values():
        assert (cls.__doc__ or "").rstrip().endswith("."), cls


# --------------------------------------------------------------------------- answers of the platform


def test_an_answer_keeps_its_parts() -> None:
    error = BandApiError(
        422,
        "validation_error",
        "Request validation failed",
        request_id="F9xk",
        details={"/message/content": ["can't be blank"], "/x": ["a", "b"]},
        retry_after=1.5,
    )

    assert str(error) == (
        "422 validation_error: Request validation failed (/message/content: can't be blank; /x: a, b)"
    )
    assert (error.status, error.code, error.request_id) == (422, "validation_error", "F9xk")
    assert error.retry_after == 1.5
    assert str(BandApiError(500, None, None)) == "500 error: no message"
    assert BandApiError(500, None, None).details == {}
    assert str(BandApiError(404, "gone", "no", context="asking X")) == "asking X: 404 gone: no"


@given(
    st.integers(100, 599),
    st.none() | st.text(),
    st.none() | st.text(max_size=2_000),
    st.none() | st.dictionaries(st.text(), st.lists(st.text(max_size=300))),
)
def test_an_answer_is_short_enough_for_a_model(
    status: int, code: str | None, message: str | None, details: dict[str, list[str]] | None
) -> None:
    text = str(BandApiError(status, code, message, details=details))

    assert len(text) <= API_ERROR_CHARS
    assert text.startswith(f"{status} ")


def test_a_long_answer_is_cut_at_the_limit() -> None:
    text = str(BandApiError(500, "c", "x" * 1_000))

    assert len(text) == API_ERROR_CHARS
    assert text.endswith("x…")
    assert str(BandApiError(500, "c", "x" * 492)) == "500 c: " + "x" * 492


@for_each("again", [copy.copy, lambda e: pickle.loads(pickle.dumps(e))])
def test_an_answer_can_be_copied(again: Any) -> None:
    error = BandApiError(
        429, "slow", "wait", request_id="r", details={"a": ["b"]}, retry_after=3, context="there"
    )
    error.add_note("note")
    twin = again(error)

    assert str(twin) == str(error)
    assert vars(twin) == vars(error)


# --------------------------------------------------------------------------- the other texts


def test_errors_with_parts_keep_them() -> None:
    superseded = BandSupersededError("session.already_connected", "taken over")
    assert superseded.reason == "session.already_connected"
    assert "taken over (session.already_connected)" in str(superseded)

    post = MessagePostError("outcome_unknown", "it may have been delivered")
    assert (post.kind, post.detail, str(post)) == ("outcome_unknown", post.detail, post.detail)

    stopped = RoomExecutionStoppedError("r1")
    assert stopped.room_id == "r1"
    assert "r1" in str(stopped)

    cause = KeyError("x")
    assert DeliveryFailedError(cause).cause is cause
    assert str(DeliveryFailedError(KeyError())) == "KeyError"


@for_each(
    ("code", "detail", "text"),
    [
        ("429", "slow down", "429: slow down"),
        (None, "slow down", "slow down"),
        ("429", None, "429"),
        (None, "", "provider failure"),
    ],
)
def test_a_provider_failure_is_never_blank(code: str | None, detail: str | None, text: str) -> None:
    assert str(ProviderRunError(code, detail)) == text


def test_what_applications_catch() -> None:
    with pytest.raises(ValueError, match="option"):
        raise BandConfigError("option")
    with pytest.raises(BandConfigError):
        raise AgentAlreadyRunningError("runs")
    with pytest.raises(RuntimeError):
        raise RoomClosingError("r")
    assert not issubclass(BandError, ValueError)


NASTY = "no\nCRITICAL forged\x1b[2J\u2028\u202e\ud800 http://user:pw@h:1"


@guarantee(79)
@case("C72")
def test_every_error_is_one_line_without_credentials_whatever_it_quotes() -> None:
    special: dict[str, BandError] = {
        "BandSupersededError": BandSupersededError(NASTY, NASTY),
        "BandApiError": BandApiError(422, NASTY, NASTY, details={NASTY: [NASTY]}, context=NASTY),
        "MessagePostError": MessagePostError(NASTY, NASTY),
        "DeliveryFailedError": DeliveryFailedError(ValueError(NASTY)),
        "RoomExecutionStoppedError": RoomExecutionStoppedError(NASTY),
        "ProviderRunError": ProviderRunError(NASTY, NASTY),
    }
    for name, cls in classes().items():
        error = special.get(name) or cls(NASTY)
        text = str(error)
        assert "no\\nCRITICAL forged\\x1b[2J\\u2028\\u202e\\ud800" in text, name
        assert len(text.splitlines()) == 1, name
        assert ":pw@" not in text, name
    assert len(str(BandConfigError("x" * 1_000_000))) == LINE_CHARS


# --------------------------------------------------------------------------- suggestions


@for_each(
    ("bad", "suggestion"),
    [
        ("resercher", "researcher"),
        ("Researcher", "researcher"),
        ("researcher2", "researcher"),
        ("writers", "writer"),
        ("planner", None),
        ("", None),
    ],
)
def test_a_close_name_is_suggested(bad: str, suggestion: str | None) -> None:
    error = BandConfigError.with_suggestion("No such agent.", bad, ["researcher", "writer", "me"])

    expected = f"No such agent. Did you mean {suggestion!r}?" if suggestion else "No such agent."
    assert str(error) == expected


def test_a_suggestion_keeps_the_class() -> None:
    error = AgentAlreadyRunningError.with_suggestion("m", "ab", [])

    assert type(error) is AgentAlreadyRunningError
    assert str(error) == "m"


@for_each(
    "error",
    [
        BandSupersededError("session.already_connected", "A newer connection took over."),
        MessagePostError("outcome_unknown", "It may have been delivered."),
        RoomExecutionStoppedError("room-1"),
        ProviderRunError("overloaded", None),
        BandApiError(422, "validation_error", "no", details={"/x": ["bad"]}, retry_after=3),
    ],
    ids=lambda error: type(error).__name__,
)
def test_errors_survive_a_process_boundary(error: BandError) -> None:
    again = pickle.loads(pickle.dumps(error))

    assert type(again) is type(error)
    assert str(again) == str(error)
    assert vars(again) == vars(error)
