"""A request through a real proxy, to a fake provider on this machine: the answer must come, and by the second connection.

Everything is real but the provider: CONNECT, TLS with our certificate, the bundle, recognising the call, and going on to
the next connection after a rate limit. Nothing leaves the machine. Blocks; seconds are bounded by `WITHIN_S`.
"""

from __future__ import annotations

import http.client
import json
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

WITHIN_S = 20.0
HOST = "api.openai.com"
PATH = "/v1/chat/completions"
MODEL = "omniroute-self-test"
WORDS = "The proxy works."
KEYS = ("OMNIROUTE_SELF_TEST_A", "OMNIROUTE_SELF_TEST_B")
"""Variables with the keys of the two connections; their values are made up and go to the fake only."""


class _FakeProvider(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("content-length") or 0))
        limited = self.headers.get("authorization", "").endswith(KEYS[0])
        message: dict[str, Any] = {"role": "assistant", "content": WORDS}
        body: dict[str, Any] = (
            {"error": {"message": "Rate limit reached.", "type": "requests", "code": "rate_limit_exceeded"}}
            if limited
            else {
                "id": "chatcmpl-1",
                "object": "chat.completion",
                "created": 1,
                "model": MODEL,
                "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
                "usage": {"prompt_tokens": 1, "completion_tokens": 4, "total_tokens": 5},
            }
        )
        data = json.dumps(body).encode()
        self.send_response(429 if limited else 200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:
        """Nothing: the terminal belongs to the doctor."""


@contextmanager
def fake_provider() -> Iterator[str]:
    """A provider whose first key is limited; gives its base URL."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _FakeProvider)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join(5)


def config(base_url: str) -> str:
    """An `omniroute.yaml` with two connections to the fake."""
    lines = [
        f"  - {{id: {name}, provider: openai, key: env:{key}, base_url: '{base_url}', priority: {number}}}"
        for number, (name, key) in enumerate(zip("ab", KEYS, strict=True))
    ]
    return "connections:\n" + "\n".join(lines) + "\n"


def ask(port: int, bundle: Path) -> None:
    """Ask as a client would. Raises OSError (also for TLS), HTTPException, or ValueError with what was wrong."""
    context = ssl.create_default_context(cafile=str(bundle))
    connection = http.client.HTTPSConnection("127.0.0.1", port, timeout=WITHIN_S, context=context)
    try:
        connection.set_tunnel(HOST, 443)
        body = json.dumps({"model": MODEL, "messages": [{"role": "user", "content": "Are you there?"}]})
        headers = {"content-type": "application/json", "authorization": "Bearer sk-self-test-client"}
        connection.request("POST", PATH, body, headers)
        answer = connection.getresponse()
        text = answer.read()
        if answer.status != 200 or WORDS.encode() not in text:
            raise ValueError(f"the answer has status {answer.status}: {text[:200].decode('utf-8', 'replace')}")
        if answer.getheader("x-omniroute-connection") != "b":
            raise ValueError("the answer did not come by the second connection")
    finally:
        connection.close()
