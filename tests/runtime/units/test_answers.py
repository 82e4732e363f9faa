"""What the platform's answers to claims and marks mean."""

from __future__ import annotations

from typing import Any

from band_trio.link.rest.api import Answer
from band_trio.runtime.journal.answers import (
    FINAL,
    ClaimOutcome,
    ClaimResult,
    MarkResult,
    claim_outcome,
    mark_result,
)
from tests.marks import guarantee
from tests.support.for_each import for_each


def error(code: str = "", message: str = "") -> dict[str, Any]:
    return {"error": {"code": code, "message": message}}


def details(**where: str) -> dict[str, Any]:
    by_pointer = {f"/{name}": [text] for name, text in where.items()}
    return {"error": {"code": "validation_error", "message": "", "details": by_pointer}}


@guarantee(9)
@for_each(
    ("status", "body", "result"),
    [
        (200, {"data": {"id": "m", "attempt_number": 2}}, ClaimResult.CLAIMED),
        (200, None, ClaimResult.CLAIMED),
        (200, {"data": []}, ClaimResult.CLAIMED),
        (200, {"data": {"attempt_number": "many"}}, ClaimResult.CLAIMED),
        (201, {"data": {"id": "m"}}, ClaimResult.UNKNOWN),
        (202, None, ClaimResult.UNKNOWN),
        (204, None, ClaimResult.STOPPED),
        (302, None, ClaimResult.UNKNOWN),
        (401, error("unauthorized"), ClaimResult.DENIED),
        (403, error("execution_stopped"), ClaimResult.STOPPED),
        (403, error("forbidden", "Agent execution is STOPPED here"), ClaimResult.STOPPED),
        (403, error("forbidden", "no such right"), ClaimResult.REFUSED),
        (403, None, ClaimResult.REFUSED),
        (404, error("not_found"), ClaimResult.GONE),
        (408, None, ClaimResult.UNKNOWN),
        (409, None, ClaimResult.REFUSED),
        (422, error("validation_error"), ClaimResult.REFUSED),
        (429, None, ClaimResult.LATER),
        (500, error("internal_error"), ClaimResult.UNKNOWN),
        (503, "<html>", ClaimResult.UNKNOWN),
    ],
)
def test_only_a_200_is_a_claim(status: int, body: Any, result: ClaimResult) -> None:
    assert claim_outcome(Answer(status, body)).result is result


@guarantee(84)
def test_a_claim_carries_the_told_wait_and_no_number() -> None:
    claimed = Answer(200, {"data": {"id": "m", "success": True, "attempt_number": 30}})
    assert claim_outcome(claimed, 1.5) == ClaimOutcome(ClaimResult.CLAIMED, took=1.5)
    told = ClaimOutcome(ClaimResult.LATER, retry_after=7.5)
    assert claim_outcome(Answer(429, None, 7.5)) == told


@guarantee(11, 15)
@for_each(
    ("status", "body", "result"),
    [
        (200, {"data": {"id": "m", "success": True}}, MarkResult.ACCEPTED),
        (200, None, MarkResult.ACCEPTED),
        (200, "odd", MarkResult.ACCEPTED),
        (200, {"data": {"success": False}}, MarkResult.UNCONFIRMED),
        (202, None, MarkResult.UNCONFIRMED),
        (204, None, MarkResult.STOPPED),
        (401, None, MarkResult.UNCONFIRMED),
        (403, error("forbidden"), MarkResult.UNCONFIRMED),
        (404, error("not_found"), MarkResult.NOT_FOUND),
        (408, None, MarkResult.UNCONFIRMED),
        (409, None, MarkResult.REJECTED),
        (422, details(processing_attempt="no live attempt"), MarkResult.REJECTED),
        (422, details(error="is too long"), MarkResult.BAD_TEXT),
        (422, details(error="bad", processing_attempt="none"), MarkResult.REJECTED),
        (422, details(status="odd"), MarkResult.UNCONFIRMED),
        (422, None, MarkResult.UNCONFIRMED),
        (429, None, MarkResult.UNCONFIRMED),
        (500, None, MarkResult.UNCONFIRMED),
    ],
)
def test_what_an_answer_to_a_mark_means(status: int, body: Any, result: MarkResult) -> None:
    assert mark_result(Answer(status, body)) is result


@guarantee(15)
def test_three_results_end_the_matter() -> None:
    assert set(FINAL) == {MarkResult.ACCEPTED, MarkResult.REJECTED, MarkResult.NOT_FOUND}
