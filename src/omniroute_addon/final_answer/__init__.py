"""What the client is told when every target is used up: the most useful upstream error, or an honest one of our own.

`design.md` §8: the upstream's own bytes where its status was true; the client's dialect and a stable `code` where we
speak ourselves; `Retry-After` of the earliest way out. A rejected key of a pool never reaches a client as 401: agents
take it for their own login and refresh or drop that (`clients.md`, "What the addon must do", 4).

Then it is put so that this client does the sensible thing (`form.py`): come back while the way out is near, end with the
reason when it is not. With nothing but the client's own credential nothing of that happens: the upstream's answer is
passed as it is.
"""

from __future__ import annotations

from .codes import CODES
from .reply import broken_engine, final_reply, marks

__all__ = ["CODES", "broken_engine", "final_reply", "marks"]
