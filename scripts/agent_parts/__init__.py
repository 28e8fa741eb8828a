"""The parts of `scripts/agents.py`, which runs real agents behind the proxy."""
