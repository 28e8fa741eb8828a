"""Bringing a program behind the proxy: which variables it needs, whom it trusts, what is missing.

The commands `exec`, `env`, `init` and `doctor` are thin shells around these modules.
"""
