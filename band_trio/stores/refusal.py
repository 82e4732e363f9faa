"""The platform says no: statuses, codes and texts in one place (platform docs, Errors)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from band_trio.errors import BandApiError

INVALID: Final = "Request validation failed"
STOPPED: Final = "Agent execution is stopped"


class Refusal(Exception):
    """A request that is answered with an error body."""

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        *,
        details: Mapping[str, list[str]] | None = None,
        retry_after: int | None = None,
    ) -> None:
        super().__init__(f"{status} {code}: {message}")
        self.status = status
        self.code = code
        self.message = message
        self.details = details
        """JSON pointer into the request body → what is wrong there."""
        self.retry_after = retry_after
        """Whole seconds; sent in the body and as a header."""

    def body(self, request_id: str) -> dict[str, Any]:
        """Return the JSON body; code, message and request id are never null."""
        error: dict[str, Any] = {
            "code": self.code,
            "message": self.message,
            "request_id": request_id,
        }
        if self.details is not None:
            error["details"] = dict(self.details)
        if self.retry_after is not None:
            error["retry_after"] = self.retry_after
        return {"error": error}


def unauthorized() -> Refusal:
    """Return the answer to a missing or unknown key."""
    return Refusal(401, "unauthorized", "Missing or unknown API key")


def forbidden(message: str) -> Refusal:
    """Return the answer to something the caller may not do."""
    return Refusal(403, "forbidden", message)


def stopped() -> Refusal:
    """Return the answer to a post of an agent that is stopped; only its text tells it apart."""
    return forbidden(STOPPED)


def not_found(what: str = "Resource") -> Refusal:
    """Return the answer to what does not exist, or is hidden from the caller."""
    return Refusal(404, "not_found", f"{what} not found")


def conflict(message: str) -> Refusal:
    """Return the answer to what is so already."""
    return Refusal(409, "conflict", message)


def bad_request(message: str) -> Refusal:
    """Return the answer to a body that cannot be read."""
    return Refusal(400, "bad_request", message)


def too_large(limit: int) -> Refusal:
    """Return the answer to a body above its limit."""
    return Refusal(413, "payload_too_large", f"The body is larger than {limit} bytes")


def invalid(pointer: str, *problems: str, message: str = INVALID) -> Refusal:
    """Return the answer to a value that does not fit."""
    return Refusal(422, "validation_error", message, details={pointer: list(problems)})


def word(code: str, pointer: str) -> Refusal:
    """Return a 422 whose *code* is its message too; clients compare either."""
    return Refusal(422, code, code, details={pointer: [code]})


def no_live_attempt() -> Refusal:
    """Return the answer to a mark without an attempt to settle."""
    return invalid(
        "/processing_attempt", "must be started first", message="No active processing attempt"
    )


@contextmanager
def api_errors() -> Iterator[None]:
    """Raise the platform's refusals as the error that a client of it would see."""
    try:
        yield
    except Refusal as refusal:
        raise BandApiError(
            refusal.status, refusal.code, refusal.message, details=refusal.details
        ) from None
