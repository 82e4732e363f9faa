"""The description of the routes, and whether the platform does as it is described."""

from __future__ import annotations

from typing import Final

import httpx  # noqa: ASYNC127 - the transport of the tests

from band_trio.localband import LocalBand
from band_trio.localband.openapi import BODIES, CREATED, MORE
from band_trio.localband.rest import AGENT_ROUTES, USER_ROUTES
from tests.localband.kit import open_rest

ROUTES: Final = {route.name: route for route in (*AGENT_ROUTES, *USER_ROUTES)}


async def test_it_is_served_without_a_key_and_names_every_route(memory_band: LocalBand) -> None:
    transport = memory_band.connection(memory_band.register_agent("A"))["config"].rest_transport
    async with httpx.AsyncClient(base_url=memory_band.rest_url, transport=transport) as http:
        answer = await http.get("/openapi.json")
    document = answer.json()
    named = {
        (method.upper(), path)
        for path, operations in document["paths"].items()
        for method in operations
    }
    assert named == {(route.method, route.path) for route in ROUTES.values()}
    assert len(ROUTES) == len((*AGENT_ROUTES, *USER_ROUTES)), "names are given once"


def test_the_tables_name_routes_only() -> None:
    assert BODIES.keys() == {
        route.name for route in ROUTES.values() if route.reads_body and not route.raw
    }
    assert MORE.keys() | CREATED <= ROUTES.keys()


async def test_a_method_that_is_not_there_is_answered_with_those_that_are(
    memory_band: LocalBand,
) -> None:
    async with open_rest(memory_band) as rest:
        answer = await rest("DELETE", "/me/chats")
        assert (answer.status_code, answer.headers["allow"]) == (405, "GET, POST")
        assert (await rest("GET", "/me/nothing")).status_code == 404
        rest.http.headers["x-api-key"] = "wrong"
        for path in ("/me/nothing", "/me/chats"):
            assert (await rest("DELETE", path)).status_code == 401, "the key comes first"
