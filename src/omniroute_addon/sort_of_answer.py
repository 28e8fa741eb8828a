"""What sort of answer is this? By its head, and where that lies by its first bytes. Pure."""

from __future__ import annotations

from typing import Literal

from .wire import Headers, as_mapping

Sort = Literal["error", "stream", "sniff", "body"]
"""`sniff`: only the first bytes can tell a stream from a body."""

_SSE_STARTS = (b"data:", b"event:", b"id:", b"retry:", b":")
_BLANK = b"\xef\xbb\xbf\r\n\t "


def by_head(status: int, headers: Headers, *, wants_stream: bool) -> tuple[Sort, str]:
    """The sort, and the content coding (empty for none)."""
    fields = as_mapping(headers)
    coding = fields.get("content-encoding", "").strip()
    coding = "" if coding.lower() == "identity" else coding
    if status >= 400:
        return "error", coding
    if status == 200 and "event-stream" in fields.get("content-type", "").lower():
        return "stream", coding
    # Gateways mislabel streams and answer errors as bare JSON: the first bytes tell which it is.
    return ("sniff" if status == 200 and wants_stream else "body"), coding


def by_start(seen: bytes, *, may_be_array: bool, coded: bool) -> Sort:
    """`stream` or `body` once the first bytes tell, `sniff` until then. A coded body is never taken for a stream."""
    start = seen.lstrip(_BLANK)
    if not start:
        return "sniff"
    if not coded and ((may_be_array and start.startswith(b"[")) or start.startswith(_SSE_STARTS)):
        return "stream"
    return "sniff" if any(s.startswith(start[:6]) for s in _SSE_STARTS) else "body"
