"""Many attempts inside one client stream: the only user of mitmproxy's internals.

`AttemptStream` replaces mitmproxy's `HttpStream`, the state machine of one HTTP exchange. For what is not a model call
it is `HttpStream`. For a model call it stops being one where the request would go out, and runs the engine's steps
instead: each attempt is sent on mitmproxy's own connections under a fresh upstream stream id, and its answer goes to a
`Watch`. When the watch says that an answer is good, the held events are played into `HttpStream`'s own states, as if they
had just come: hooks, streaming, trailers and every mitmproxy feature behind that point work as without us.

| module | what it holds |
|---|---|
| `patience` | what mitmproxy does not expect of a stream: ids of attempts, waiting, deadlines, giving up |
| `attempts` | the attempt loop itself |
| `copies` | requests and answers between mitmproxy's objects and ours |
| `http1_repair` | answers over HTTP/1 that mitmproxy's reader does not survive |
| `install` | puts it into mitmproxy and takes it out again |
"""

from __future__ import annotations

from .attempts import AttemptStream
from .install import SUPPORTED, install, missing
from .patience import OmniroutePauseHook, Waiting

__all__ = ["SUPPORTED", "AttemptStream", "OmniroutePauseHook", "Waiting", "install", "missing"]
