"""The control endpoint of a running proxy: a small HTTP API on loopback, found through a run file (`design.md` §7.6).

`run_file` is what both sides share; `server` opens and closes; `guard` decides who may ask; `routes` answer. Starlette and
uvicorn are imported when the endpoint opens, after the proxy has begun to serve: start-up matters.
"""
