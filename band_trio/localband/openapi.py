"""The description of the platform's REST routes, made from their tables: `GET /openapi.json`.

What a route takes stands in its line: path, query, caller, room. What its body holds, and which
statuses beside the usual ones it answers with, stands here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final

from band_trio.localband.routes import Route
from band_trio.localband.validate import ACTIVITY_KINDS, ATTACHMENTS, EVENT_TYPES
from band_trio.protocol.holdings import TYPES_OF_SYSTEM
from band_trio.protocol.rest import EVENT_CHARS
from band_trio.stores.contacts import MESSAGE_CHARS
from band_trio.stores.memories import SCOPES, SEGMENTS, TYPES
from band_trio.stores.tasks import STATUSES

_ID: Final = {"type": "string", "format": "uuid"}
_TEXT: Final = {"type": "string"}
_WORDS: Final = {"type": "string", "minLength": 1, "pattern": r"\S"}
Schema = dict[str, Any]


def _object(needed: str = "", /, **properties: Schema) -> Schema:
    found: Schema = {"type": "object", "properties": properties}
    if needed:
        found["required"] = needed.split()
    return found


def _maybe(schema: Schema) -> Schema:
    return {"anyOf": [schema, {"type": "null"}]}


def _enum(*values: str) -> Schema:
    return {"type": "string", "enum": list(values)}


_MENTION: Final = _object(id=_TEXT, handle=_TEXT, name=_TEXT, kind=_enum("mention", "reference"))
_MESSAGE: Final = _object(
    "message",
    message=_object(
        "content mentions",
        content=_WORDS,
        mentions={"type": "array", "minItems": 1, "items": _MENTION},
        attachment_ids={"type": "array", "maxItems": ATTACHMENTS, "items": _TEXT},
    ),
)
_TITLE: Final = {"type": "string", "maxLength": 120, "pattern": r"^[^\n\r]*$"}
_CHAT: Final = _object("chat", chat=_object(title=_maybe(_TITLE), task_id=_maybe(_ID)))
_RENAME: Final = _object("chat", chat=_object("title", title=_TITLE))
_PARTICIPANT: Final = _object(
    "participant",
    participant=_object(
        "participant_id", participant_id=_ID, role=_enum("owner", "admin", "member")
    ),
)
_NAMED_CONTACT: Final = _object(handle=_TEXT, contact_id=_ID)

BODIES: Final[dict[str, Schema]] = {
    "post_message": _MESSAGE,
    "user_post_message": _MESSAGE,
    "post_event": _object(
        "event",
        event=_object(
            "content message_type",
            content={**_WORDS, "maxLength": EVENT_CHARS},
            message_type=_enum(*EVENT_TYPES),
            metadata=_maybe({"type": "object"}),
        ),
    ),
    "failed": _object("error", error=_WORDS),
    "activity": _object(
        "working",
        working={"type": "boolean"},
        activity=_maybe(_object("kind", kind=_enum(*ACTIVITY_KINDS), name=_maybe(_TEXT))),
    ),
    "create_chat": _CHAT,
    "user_create_chat": _CHAT,
    "rename_chat": _RENAME,
    "user_rename_chat": _RENAME,
    "add_participant": _PARTICIPANT,
    "user_add_participant": _PARTICIPANT,
    "add_contact": _object(
        "handle", handle=_TEXT, message=_maybe({"type": "string", "maxLength": MESSAGE_CHARS})
    ),
    "remove_contact": _NAMED_CONTACT,
    "user_remove_contact": _NAMED_CONTACT,
    "resolve_handle": _object("handle", handle=_TEXT),
    "respond_contact": _object(
        "action", action=_enum("approve", "reject", "cancel"), handle=_TEXT, request_id=_ID
    ),
    "user_ask": _object(
        "contact_request",
        contact_request=_object(
            "recipient_handle",
            recipient_handle=_TEXT,
            message=_maybe({"type": "string", "maxLength": MESSAGE_CHARS}),
        ),
    ),
    "store_memory": _object(
        "memory",
        memory=_object(
            "content system type segment thought",
            content=_WORDS,
            system=_enum(*TYPES_OF_SYSTEM),
            type=_enum(*TYPES),
            segment=_enum(*SEGMENTS),
            thought=_WORDS,
            scope=_enum(*SCOPES),
            subject_id=_maybe(_ID),
            metadata=_maybe({"type": "object"}),
        ),
    ),
    "create_task": _object(
        "subject", subject=_WORDS, detail=_maybe(_TEXT), supersedes_id=_maybe(_TEXT)
    ),
    "update_task": _object(
        status=_enum(*STATUSES),
        active_form=_TEXT,
        comment=_WORDS,
        subject=_WORDS,
        detail=_TEXT,
        state=_enum("active", "cancelled", "archived"),
        linked_native_id=_TEXT,
    ),
    "set_board": _object(goal_title=_TEXT, goal_summary=_TEXT),
    "register_agent": _object(
        "agent", agent=_object("name description", name=_WORDS, description=_WORDS)
    ),
    "update_profile": _object(
        "user", user=_object(first_name=_maybe(_WORDS), last_name=_maybe(_WORDS))
    ),
    "create_user": _object("user", user=_object("name", name=_WORDS, role=_enum("user", "admin"))),
}
"""Route → its body. Members that are not named are ignored."""

MORE: Final[dict[str, tuple[int, ...]]] = {
    "next": (204,),
    "processing": (204,),
    "processed": (204, 422),
    "failed": (204,),
    "add_participant": (409,),
    "user_add_participant": (409,),
    "remove_participant": (422,),
    "user_remove_participant": (422,),
    "add_contact": (404, 409),
    "remove_contact": (404,),
    "user_remove_contact": (404,),
    "resolve_handle": (404,),
    "respond_contact": (404, 409),
    "user_ask": (404, 409),
    "user_approve": (404, 409, 422),
    "user_reject": (404, 409, 422),
    "user_cancel": (404, 409, 422),
    "delete_memory": (204,),
    "user_restore_memory": (422,),
    "put_file": (400, 413, 422),
    "user_put_file": (400, 413, 422),
    "get_file": (206, 416),
}
"""Route → statuses beside those that follow from its line."""
CREATED: Final = frozenset(
    {
        "post_message", "user_post_message", "post_event", "create_chat", "user_create_chat",
        "add_participant", "user_add_participant", "add_contact", "user_ask", "store_memory",
        "create_task", "register_agent", "create_user",
    }
)  # fmt: skip
"""Routes whose success is 201."""
_TEXTS: Final = {
    201: "Created", 204: "Nothing to say", 206: "A part", 400: "Cannot be read",
    401: "Missing or unknown key", 403: "Not allowed", 404: "Unknown, or hidden",
    405: "No such method", 409: "It is so already, or not so any more", 413: "Too large",
    416: "No such part", 422: "Does not fit",
}  # fmt: skip
_ERROR: Final = _object(
    "error",
    error=_object("code message request_id", code=_TEXT, message=_TEXT, request_id=_TEXT),
)


def describe(routes: Iterable[Route], *, server: str = "/") -> Schema:
    """Return the OpenAPI 3.1 document of some routes."""
    paths: dict[str, Schema] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Band, the embedded platform", "version": "1"},
        "servers": [{"url": server}],
        "paths": paths,
        "components": {
            "schemas": {"Error": _ERROR},
            "securitySchemes": {"key": {"type": "apiKey", "in": "header", "name": "X-API-Key"}},
        },
        "security": [{"key": []}],
    }


def statuses(route: Route) -> list[int]:
    """Return every status that a route may answer with, once the key is known to be good."""
    found = {201 if route.name in CREATED else 200, 401, 403, *MORE.get(route.name, ())}
    if 204 in found and route.name == "delete_memory":
        found.remove(200)
    if "{" in route.path:
        found.add(404)
    if route.room is not None or re.search(
        r"\{(id|participant_id|memory_id|file_id|task)\}", route.path
    ):
        found.add(422)
    if route.reads_body or route.raw:
        found |= {400, 413, 422}
    if route.query:
        found.add(422)
    return sorted(found)


def _operation(route: Route) -> Schema:
    doc = (getattr(route.handle, "func", route.handle).__doc__ or "").strip().splitlines()
    operation: Schema = {
        "operationId": route.name,
        "summary": doc[0] if doc else route.name,
        "tags": [f"{route.caller} API"],
        "parameters": [*_path(route), *_query(route), *_headers(route)],
        "responses": {str(status): _response(route, status) for status in statuses(route)},
    }
    if route.reads_body and not route.raw:
        schema = BODIES[route.name]
        operation["requestBody"] = {
            "required": True, "content": {"application/json": {"schema": schema}}
        }  # fmt: skip
    elif route.raw and route.method == "PUT":
        content = {"schema": {"type": "string", "format": "binary"}}
        operation["requestBody"] = {
            "required": True, "content": {"application/octet-stream": content}
        }  # fmt: skip
    return operation


def _path(route: Route) -> list[Schema]:
    return [
        {"name": name, "in": "path", "required": True, "schema": _TEXT}
        for name in re.findall(r"\{(\w+)\}", route.path)
    ]


def _query(route: Route) -> list[Schema]:
    return [
        {"name": name, "in": "query", "schema": getattr(parse, "schema", _TEXT)}
        for name, parse in route.query.items()
    ]


def _headers(route: Route) -> list[Schema]:
    if not route.raw:
        return []
    if route.method == "GET":
        return [{"name": "Range", "in": "header", "schema": _TEXT}]
    digest = {"type": "string", "pattern": "^[0-9a-f]{64}$"}
    name = {"type": "string", "pattern": r"^[\x21-\x7e]{1,255}$"}
    return [
        {"name": "X-File-Name", "in": "header", "required": True, "schema": name},
        {"name": "X-File-SHA256", "in": "header", "required": True, "schema": digest},
    ]


def _response(route: Route, status: int) -> Schema:
    response: Schema = {"description": _TEXTS.get(status, "Success")}
    if status == 204:
        return response
    if status == 416:
        response["content"] = {"text/plain": {"schema": _TEXT}}
    elif status >= 400:
        schema = {"$ref": "#/components/schemas/Error"}
        response["content"] = {"application/json": {"schema": schema}}
    elif route.raw and route.method == "GET":
        response["content"] = {"*/*": {"schema": {"type": "string", "format": "binary"}}}
    else:
        schema = _object("data", data={}, metadata={"type": "object"})
        response["content"] = {"application/json": {"schema": schema}}
    return response
