"""Fakes for people who test packs, plugins and the proxy itself: what this project uses for its own tests.

| module | what it gives |
|---|---|
| `upstream` | `FakeUpstream`: an LLM provider on loopback, with scripted answers and faults |
| `script` | `Reply` and the steps it is made of, `Received` (a request as it came in) |
| `questions` | model calls as clients send them, in every dialect |
| `answers` | good answers in every dialect, as the official SDKs accept them, and the ways in which they go wrong |
| `faults` | a catalogue of broken replies by name |
| `proxy` | `running_proxy`: a real mitmproxy in the test process, with our addon |
| `stage` | `stage`: a fake provider, a proxy and connections between them: the scene of most tests |
| `process` | `proxy_process`: a real `mitmdump` as a process of its own |
| `client` | `Client`, `fetch`: record every byte, its time and how the connection ended |
| `connect_proxy` | `ConnectProxy`: an upstream proxy that tunnels and remembers what it was asked for |
| `clock` | `ManualClock`: time under the test's hand |
| `calls` | factories of `ModelCall`, `Target`, `Connection`, `Answer`, … for tests of plugins |
| `pytest_plugin` | fixtures of all these, loaded by pytest wherever the package is installed |

Needs the extra `testing` (trustme); everything else comes with mitmproxy. Nothing is imported here: take what you need.
"""
