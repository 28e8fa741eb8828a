"""What does this answer mean? Rules as data, and the book that applies them."""

from __future__ import annotations

from .judge import RuleBook, RuleTrace
from .schema import ClassifyRule, OperatorRule, PackRules, RestateRule, RuleLists

__all__ = ["ClassifyRule", "OperatorRule", "PackRules", "RestateRule", "RuleBook", "RuleLists", "RuleTrace"]
