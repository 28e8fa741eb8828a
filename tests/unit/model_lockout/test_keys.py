"""Which locks concern a model, and which one a failure sets."""

from __future__ import annotations

import pytest

from omniroute_addon.model_lockout.keys import family_of, keys_of, scope_for
from omniroute_addon.packs import PackFolder, bundled_rules, load_packs

PACKS, _ = load_packs([PackFolder(path=bundled_rules())])
CODEX, ANTIGRAVITY = PACKS.quota_families["codex"], PACKS.quota_families["antigravity"]


@pytest.mark.parametrize(
    ("model", "family"),
    [
        ("gpt-5.3-codex-spark", "spark"),
        ("GPT-Bengalfox", "spark"),
        ("gpt-5.6-luna", "codex"),
        ("whatever", "codex"),
    ],
)
def test_the_families_of_codex(model: str, family: str) -> None:
    """ML-9, edge case 2"""
    assert family_of(model, CODEX) == family


@pytest.mark.parametrize(
    ("model", "family"),
    [
        ("antigravity/gemini-3-pro", "gemini"),
        ("claude-opus-5", "claude"),
        ("antigravity/claude-opus-5", "claude"),
        ("cloud-sonnet", "claude"),
        ("vendor/anthropic-x", "claude"),
        ("gpt-oss-120b", None),
    ],
)
def test_the_families_of_antigravity(model: str, family: str | None) -> None:
    """ML-10"""
    assert family_of(model, ANTIGRAVITY) == family


def test_elsewhere_a_model_is_its_own_family() -> None:
    """ML-11"""
    keys = keys_of("openai", "c#1", "Acme/X:free", {})
    assert (keys.family, keys.bare, keys.exact) == (
        "openai:c#1:Acme/X:free",
        "openai:c#1:Acme/X:free",
        "openai:c#1:exact:acme/x:free",
    )
    assert len(list(keys)) == 2


def test_a_family_and_a_model_of_the_same_name_are_told_apart() -> None:
    keys = keys_of("codex", "c", "codex", CODEX)
    assert len(set(keys)) == 3


@pytest.mark.parametrize(
    ("status", "reason", "provider", "scope"),
    [
        (429, "rate_limited", "codex", "quota_family"),
        (403, "forbidden", "codex", "quota_family"),
        (402, "credits", "codex", "quota_family"),
        (404, "not_found", "codex", "bare"),
        (400, "not_found", "codex", "bare"),
        (404, "model_capacity", "codex", "bare"),
        (502, "server_error", "codex", "exact"),
        (529, "server_error", "codex", "exact"),
        (429, "rate_limited", "antigravity", "exact"),
        (404, "not_found", "antigravity", "exact"),
    ],
)
def test_the_key_that_a_status_locks(status: int, reason: str, provider: str, scope: str) -> None:
    """ML-3, ML-4, ML-5, ML-6, ML-7"""
    assert scope_for(status, reason, provider) == scope  # type: ignore[arg-type]
    assert keys_of(provider, "c", "m", {}).of(scope)  # type: ignore[arg-type]
