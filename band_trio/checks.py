"""What an agent is made of, checked before it runs: adapter, preprocessor and callbacks.

A mistake in a signature or a name would else show itself at the first message, or never.
"""

from __future__ import annotations

import inspect
from typing import Final

import trio

from band_trio.errors import BandConfigError
from band_trio.kit.callables import is_async, misfit

HOOKS: Final = {
    "on_message": "msg, tools, history, participants_msg, contacts_msg, *, is_session_bootstrap, room_id",
    "on_event": "inp",
    "on_started": "agent_name, agent_description",
    "on_cleanup": "room_id",
    "on_interrupt": "room_id, mode",
    "cleanup_all": "",
    "try_handle_control": "msg, tools",
    "serve": "*, task_status",
    "apply_effective_features": "features",
}  # fmt: skip
"""How the runtime calls the methods of an adapter (see `misfit`)."""

_AWAITED: Final = ("on_message", "on_event", "on_started", "serve", "try_handle_control")
"""Those that must be async; the others may be sync, and then run in a worker thread."""
_NEEDED: Final = ("on_event", "on_cleanup", "on_started")
_LEAST_LETTERS: Final = 6
"""Shorter hooks have too many neighbours that are names of their own: `server` beside `serve`."""


def check_adapter(adapter: object) -> None:
    """Refuse what is no adapter, and one whose hooks cannot be called.

    Raises:
        BandConfigError: names the method and what to do.
    """
    if isinstance(adapter, type):
        raise BandConfigError(
            f"{adapter.__name__} is a class, not an adapter: pass an instance, {adapter.__name__}()."
        )
    if missing := missing_hooks(adapter):
        raise BandConfigError(
            f"{type(adapter).__name__} is not an adapter: it lacks {', '.join(missing)}. "
            "Subclass SimpleAdapter and write on_message."
        )
    # A bare adapter may have an `on_message` of its own, which nobody calls.
    check_hooks(adapter, *(name for name in HOOKS if name != "on_message"))
    _check_converter(getattr(adapter, "history_converter", None))


def missing_hooks(adapter: object) -> list[str]:
    """Return the hooks that *adapter*, or the class of one, lacks to be called an adapter."""
    return [name for name in _NEEDED if not callable(getattr(adapter, name, None))]


def check_hooks(adapter: object, *names: str) -> None:
    """Refuse hooks that are not async, or that cannot take what they are called with.

    Raises:
        BandConfigError: names the method, how it is called, and what to do.
    """
    kind = type(adapter).__name__
    for name in names:
        hook = getattr(adapter, name, None)
        if hook is None:
            continue
        if name in _AWAITED:
            _check_async(f"{kind}.{name}", hook)
        _check_fit(f"{kind}.{name}", hook, HOOKS[name])


def check_names(cls: type, base: type) -> None:
    """Refuse a method of *cls* whose name is a misspelt hook of *base*.

    Refused is what differs from a hook in case and underscores (`onMessage`, `on_clean_up`), or by
    one letter that is missing, wrong, doubled or swapped (`on_mesage`), where the class does not
    have that hook beside it. A plural is a name of its own, as is all else: `on_message_edited`.

    Raises:
        BandConfigError: names both.
    """
    own = [each for each in cls.__mro__ if not each.__module__.startswith("band_trio.")]
    methods = {
        name for each in own for name, value in vars(each).items() if _is_method(name, value)
    }
    for name in sorted(methods - set(dir(base))):
        for hook in HOOKS.keys() - methods:
            if _is_misspelt(name, hook):
                raise BandConfigError(
                    f"{cls.__name__}.{name} is called by nobody. Did you mean {hook!r}?"
                )


def _is_method(name: str, value: object) -> bool:
    return not name.startswith("_") and inspect.isfunction(value)


def _is_misspelt(name: str, hook: str) -> bool:
    given, meant = (each.replace("_", "").lower() for each in (name, hook))
    if given == meant:
        return True
    if len(meant) < _LEAST_LETTERS or given == f"{meant}s":
        return False
    return _one_edit(given, meant)


def _one_edit(one: str, other: str) -> bool:
    """Tell whether one letter more, less or other, or two swapped, make *one* of *other*."""
    same = next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), None)
    if same is None:
        return abs(len(one) - len(other)) == 1
    left, right = one[same:], other[same:]
    swapped = left[:2] == right[:2][::-1] and left[2:] == right[2:]
    return swapped or left[1:] == right or left == right[1:] or left[1:] == right[1:]


def _check_async(name: str, fn: object) -> None:
    if not is_async(fn):
        raise BandConfigError(
            f"{name} must be `async def`; run blocking code in it with trio.to_thread.run_sync."
        )


def _check_fit(name: str, fn: object, shape: str) -> None:
    told = misfit(fn, shape)
    if told is not None:
        rest = " Write *args and **kwargs for what is not needed." if "," in shape else ""
        raise BandConfigError(f"{name} {told}.{rest}")


def _check_converter(converter: object) -> None:
    if converter is None:
        return
    kind = type(converter).__name__
    if not callable(getattr(converter, "convert", None)):
        raise BandConfigError(f"{kind} is not a history converter: it lacks convert(raw).")
    _check_fit(f"{kind}.convert", getattr(converter, "convert"), "raw")  # noqa: B009 - object


def check_trio() -> None:
    """Refuse to run where trio does not.

    Raises:
        BandConfigError: names the ways out.
    """
    if not trio.lowlevel.in_trio_run():
        raise BandConfigError(
            "An Agent runs on trio, and here is none: start it with band_trio.run(agent) or "
            "trio.run(agent.run); in a program that runs asyncio, with trio's guest mode: "
            "trio.lowlevel.start_guest_run(agent.run, …)."
        )


def check_preprocessor(preprocessor: object) -> None:
    """Refuse what is no preprocessor; None is one.

    Raises:
        BandConfigError: names the method and what to do.
    """
    if preprocessor is None:
        return
    kind, process = type(preprocessor).__name__, getattr(preprocessor, "process", None)
    if not callable(process):
        raise BandConfigError(f"{kind} is not a preprocessor: it lacks process.")
    _check_async(f"{kind}.process", process)
    _check_fit(f"{kind}.process", process, "ctx, event, agent_id")


def check_callbacks(**callbacks: object) -> None:
    """Refuse callbacks on the roster that cannot be called with `(room_id, participant)`.

    Raises:
        BandConfigError: names the callback.
    """
    for name, fn in callbacks.items():
        if fn is None:
            continue
        if not callable(fn):
            raise BandConfigError(f"{name} must be callable, not {type(fn).__name__}.")
        _check_fit(name, fn, "room_id, participant")


def check_kinds(**given: tuple[object, type]) -> None:
    """Refuse options that are no objects of their classes; None leaves them out.

    Raises:
        BandConfigError: names each, and what it must be.
    """
    problems = [
        f"{name} must be {kind.__name__}(…), not {type(value).__name__}"
        for name, (value, kind) in given.items()
        if value is not None and not isinstance(value, kind)
    ]
    if problems:
        raise BandConfigError("; ".join(problems) + ".")
