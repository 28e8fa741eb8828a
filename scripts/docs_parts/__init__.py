"""Parts of `scripts/docs.py`."""
