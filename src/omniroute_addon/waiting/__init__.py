"""Cooldown wait: may this request be held, and for how long (`CW`)? Pure; the mechanism is `plugins/cooldown_wait.py`."""
