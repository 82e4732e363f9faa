"""Everything that band_trio raises on purpose.

BandError
├─ BandConfigError (ValueError)        options, URLs, files; lists all problems at once
│  └─ AgentAlreadyRunningError         this agent runs elsewhere (host lock, or the platform)
├─ BandConnectionError                 not reached within the patience; ends a connection for good
│  ├─ BandAuthError                    the key was refused
│  ├─ BandPolicyError                  closed for a policy violation
│  ├─ BandSupersededError              replaced by a newer connection
│  └─ OutcomeUnknownError              a request may have taken effect; its answer is missing
├─ BandApiError                        the platform answered no
├─ BandToolError                       what a model can act on
│  ├─ InvalidToolArgumentsError (ValueError)
│  ├─ MentionError (ValueError)
│  ├─ MessagePostError                 (kind, detail)
│  ├─ DeliveryFailedError              wraps a send error of deliver_reply and deliver_notice
│  └─ TurnClosedError                  a tool call after the turn was closed
├─ RoomExecutionStoppedError           the platform says that this room is stopped
├─ ProviderRunError                    a model provider returned failure as data
└─ InputNotAccepted                    an adapter started no work: keep the message
   └─ RoomClosingError (RuntimeError)  the adapter's room is going away

Texts are for people: they name what happened, where, and what to do. Whatever they quote, each is
one line of bounded length, without controls and without what looks like a credential.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, Final

from band_trio.kit.hygiene import LINE_CHARS, clean_text

API_ERROR_CHARS: Final = 500
"""The longest text of a `BandApiError`; a model reads it, so it must stay short."""


class BandError(Exception):
    """Root of everything that band_trio raises on purpose."""

    _longest: ClassVar[int] = LINE_CHARS

    def __str__(self) -> str:
        return clean_text(self._words(), self._longest)

    def _words(self) -> str:
        """Return the text as it was put together; it may quote others."""
        return super().__str__()


class BandConfigError(BandError, ValueError):
    """The configuration is unusable. Raised before anything touches the network."""

    @classmethod
    def with_suggestion(
        cls, message: str, bad_name: str, valid_names: Iterable[str], *, max_distance: int = 2
    ) -> BandConfigError:
        """Build the error for an unknown name, with a "did you mean" when one is close.

        *max_distance* is the number of edits up to which a name counts as close.
        """
        return cls(message + did_you_mean(bad_name, valid_names, max_distance=max_distance))


def did_you_mean(bad_name: str, valid_names: Iterable[str], *, max_distance: int = 2) -> str:
    """Return ` Did you mean 'x'?` for the name that is close, or nothing where none is.

    Close is what differs by *max_distance* edits, case and underscores aside, or what lacks words
    at one end: `max_cycle` for `max_cycle_seconds`.
    """
    plain = {_plain(name): name for name in valid_names}
    bad = _plain(bad_name)
    cutoff = max(_LEAST_LIKENESS, 1 - max_distance / max(len(bad), 1))
    close = [plain[each] for each in difflib.get_close_matches(bad, plain, n=1, cutoff=cutoff)]
    word = bad_name.lower()
    cut = [
        name
        for name in plain.values()
        if name.lower().startswith(f"{word}_") or name.lower().endswith(f"_{word}")
    ]
    found = close or sorted(cut, key=len)
    return f" Did you mean {found[0]!r}?" if found else ""


_LEAST_LIKENESS: Final = 0.6
"""Of a short name a few edits leave too little to guess from."""


def _plain(name: str) -> str:
    return name.replace("_", "").casefold()


class AgentAlreadyRunningError(BandConfigError):
    """This agent runs in another process, or on another connection that would not yield."""


class BandConnectionError(BandError):
    """The platform was not reached within the patience. Check the URL and the network."""


class BandAuthError(BandConnectionError):
    """The platform refused the key. Check the agent id and its API key."""


class BandPolicyError(BandConnectionError):
    """The platform closed the connection for a policy violation (close code 1008)."""


class BandSupersededError(BandConnectionError):
    """A newer connection of the same agent took over. Only one may run at a time."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(reason, message)
        self.reason = reason
        """The platform's machine-readable reason, for example `session.already_connected`."""
        self.message = message
        """The platform's words for people."""

    def _words(self) -> str:
        return (
            f"A newer connection of this agent took over: {self.message} ({self.reason}). "
            "Only one may run at a time: stop the other one first."
        )


class OutcomeUnknownError(BandConnectionError):
    """A request that may not be repeated got no definite answer: it may have taken effect."""


class BandApiError(BandError):
    """The platform understood the request and said no."""

    _longest = API_ERROR_CHARS

    def __init__(
        self,
        status: int,
        code: str | None,
        message: str | None,
        *,
        request_id: str | None = None,
        details: Mapping[str, Sequence[str]] | None = None,
        retry_after: float | None = None,
        context: str = "",
    ) -> None:
        self.status = status
        """The HTTP status."""
        self.code = code
        """The platform's `error.code`."""
        self.message = message
        """The platform's `error.message`."""
        self.request_id = request_id
        """The platform's `error.request_id`, to quote in a report."""
        self.details: Mapping[str, Sequence[str]] = details or {}
        """JSON pointer into the request body → what is wrong there."""
        self.retry_after = retry_after
        """Seconds to wait before asking again, if the platform told."""
        self.context = context
        """What was asked for, where, and what to do, in words; begins the text."""
        super().__init__(self._text())

    @property
    def may_have_worked(self) -> bool:
        """Whether the request may have taken effect all the same: 408 and 5xx."""
        return self.status == 408 or self.status >= 500

    @property
    def is_transient(self) -> bool:
        """Whether asking again may help: 408, 429 and 5xx."""
        return self.status == 429 or self.may_have_worked

    def _text(self) -> str:
        text = f"{self.context}: " if self.context else ""
        text += f"{self.status} {self.code or 'error'}: {self.message or 'no message'}"
        if self.details:
            text += " (" + "; ".join(f"{k}: {', '.join(v)}" for k, v in self.details.items()) + ")"
        if len(text) > API_ERROR_CHARS:
            text = text[: API_ERROR_CHARS - 1] + "…"
        return text

    def __reduce__(self) -> tuple[Any, ...]:
        return (_rebuild_api_error, (self.status, self.code, self.message, self.__dict__))


def _rebuild_api_error(
    status: int, code: str | None, message: str | None, state: dict[str, Any]
) -> BandApiError:
    error = BandApiError(status, code, message)
    error.__dict__.update(state)
    error.args = (error._text(),)  # noqa: SLF001 - the module's own class
    return error


class BandToolError(BandError):
    """A tool call failed in a way that a model can act on."""


class InvalidToolArgumentsError(BandToolError, ValueError):
    """The arguments of a tool call do not fit its schema. Nothing was requested."""


class MentionError(BandToolError, ValueError):
    """A mention is missing, unknown or ambiguous. Nothing was sent."""


class MessagePostError(BandToolError):
    """A message could not be posted, or nobody knows whether it was (`outcome_unknown`)."""

    def __init__(self, kind: str, detail: str) -> None:
        super().__init__(kind, detail)
        self.kind = kind
        """`mentioned_participant_not_in_room` or `outcome_unknown`."""
        self.detail = detail

    def _words(self) -> str:
        return self.detail


class DeliveryFailedError(BandToolError):
    """A reply or notice of the adapter could not be delivered; *cause* is the send error."""

    def __init__(self, cause: Exception) -> None:
        super().__init__(cause)
        self.cause = cause

    def _words(self) -> str:
        return str(self.cause) or type(self.cause).__name__


class TurnClosedError(BandToolError):
    """The turn is over; its tools refuse every call, so that nothing late takes effect."""


class RoomExecutionStoppedError(BandError):
    """The platform says that the agent is stopped in this room. Only a play ends that."""

    def __init__(self, room_id: str) -> None:
        super().__init__(room_id)
        self.room_id = room_id

    def _words(self) -> str:
        return f"The agent is stopped in room {self.room_id}."


class ProviderRunError(BandError):
    """A model provider returned failure as data instead of raising it."""

    def __init__(self, code: str | None, detail: str | None) -> None:
        super().__init__(code, detail)
        self.code = code
        self.detail = detail

    def _words(self) -> str:
        return ": ".join(part for part in (self.code, self.detail) if part) or "provider failure"


class InputNotAccepted(BandError):
    """Raised by an adapter that started no work: keep the message and try it again later."""


class RoomClosingError(InputNotAccepted, RuntimeError):
    """Raised by an adapter whose room is going away: nothing was started."""
