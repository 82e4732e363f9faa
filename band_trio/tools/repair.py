"""JSON text where a schema wants an object or a list: read before a foreign class validates it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from band_trio.tools.mentions import split_mentions

Schema = Mapping[str, Any]


def repaired(value: Any, schema: Schema) -> Any:
    """Return *value* with what can only mean one thing put right, at every level of *schema*.

    Objects and lists may be given as their JSON text, lists of texts as `a, b`; a null for
    something optional is left out. *schema* is complete in itself: it has no references.
    """
    branches = _branches(schema)
    if isinstance(value, str):
        value = _read(value, branches)
    if isinstance(value, Mapping):
        objects = [each for each in branches if each.get("type") == "object"]
        return _object(value, objects[0]) if len(objects) == 1 else value
    lists = [each for each in branches if each.get("type") == "array"]
    if isinstance(value, list) and len(lists) == 1:
        return [repaired(item, lists[0].get("items") or {}) for item in value]
    return value


def parsed_json(text: str, kind: type) -> Any:
    """Return the *kind* that *text* holds as JSON, or None."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, kind) else None


def _branches(schema: Schema) -> list[Schema]:
    """Return the alternatives that *schema* leaves."""
    inner = [*schema.get("anyOf", ()), *schema.get("oneOf", ())]
    return [leaf for each in inner for leaf in _branches(each)] if inner else [schema]


def _read(text: str, branches: list[Schema]) -> Any:
    if any(each.get("type") not in ("object", "array", "null") for each in branches):
        return text  # it may be meant as it is
    for each in branches:
        value = parsed_json(text, {"object": dict, "array": list}.get(str(each["type"]), tuple))
        if value is not None:
            return value
    if [each.get("items", {}).get("type") for each in branches] == ["string"]:
        return split_mentions(text) if text.strip() else []
    return text


def _object(value: Mapping[Any, Any], schema: Schema) -> dict[Any, Any]:
    known, required = schema.get("properties", {}), schema.get("required", ())
    others = schema.get("additionalProperties")
    kinds = {key: known.get(key, others if isinstance(others, Mapping) else {}) for key in value}
    return {
        key: repaired(item, kinds[key])
        for key, item in value.items()
        if item is not None or key in required or _may_be_null(kinds[key])
    }


def _may_be_null(schema: Schema) -> bool:
    return any(each.get("type", "null") == "null" for each in _branches(schema))
