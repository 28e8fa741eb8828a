"""Recorded flows (`mitmdump -w FILE`) as answers that rules can be asked about."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from omniroute_addon.errors import InputError
from omniroute_addon.model import DialectName
from omniroute_addon.packs import Packs
from omniroute_addon.verdicts.from_wire import Heard, answer_from_wire, dialect_of_door
from omniroute_addon.wire import as_mapping


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """One flow that asked a model."""

    index: int
    """Position among all flows of the file, from 0."""
    name: str
    """`POST host/path`, without the query: it may hold a key."""
    provider: str | None
    dialect: DialectName | None
    heard: Heard
    ours: bool = False
    """The proxy that recorded it wrote the answer itself: no provider said it, so no rule is about it."""


def read_flows(path: Path, packs: Packs) -> Iterator[Recorded]:
    """The HTTP flows of a dump that have an answer or a network fault. Raises InputError when it cannot be read."""
    from mitmproxy.exceptions import FlowReadException
    from mitmproxy.http import HTTPFlow
    from mitmproxy.io import FlowReader

    try:
        with path.open("rb") as file:
            for index, flow in enumerate(FlowReader(file).stream()):
                if isinstance(flow, HTTPFlow) and (flow.response or flow.error):
                    yield _recorded(index, flow, packs)
    except (OSError, FlowReadException) as error:
        raise InputError(
            [f"{path}: cannot read the flows: {str(error).rstrip('.')}. Record them with `mitmdump -w FILE`."]
        ) from error


def _recorded(index: int, flow: object, packs: Packs) -> Recorded:
    from mitmproxy.http import HTTPFlow

    assert isinstance(flow, HTTPFlow)
    request, response = flow.request, flow.response
    door = packs.match_call(request.pretty_host, request.port, request.path)
    provider = door[0] if door else packs.for_host(request.pretty_host, request.port)
    dialect = door[1].dialect if door else dialect_of_door(packs, "", request.path)
    if response is None:
        status, body = 0, (flow.error.msg if flow.error else "").encode()
        headers: dict[str, str] = {}
    else:
        status = response.status_code
        headers = as_mapping(response.headers.fields)
        body = response.raw_content or b""
    heard = answer_from_wire(
        status=status,
        headers=headers,
        body=body,
        stream="event-stream" in headers.get("content-type", "") or b'"stream":true' in _compact(request.raw_content),
        dialect=dialect,
    )
    return Recorded(
        index=index,
        name=f"{request.method} {request.pretty_host}{request.path.partition('?')[0]}",
        provider=provider.id if provider else None,
        dialect=dialect,
        heard=heard,
        ours=_written_by_us(headers, body),
    )


def _written_by_us(headers: Mapping[str, str], body: bytes) -> bool:
    """Our mark, and either nobody whose answer it would be or one of our sentences (the codes are others' words too)."""
    from omniroute_addon.final_answer import CODES

    if "x-omniroute-attempts" not in headers:
        return False
    return "x-omniroute-connection" not in headers or any(sentence.encode() in body for sentence in CODES.values())


def _compact(body: bytes | None) -> bytes:
    return (body or b"")[-65536:].replace(b" ", b"")
