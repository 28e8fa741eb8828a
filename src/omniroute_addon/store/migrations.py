"""How the state's file came to its form. Never edit a step after its release; add one.

Two tables serve all mechanisms: what they hold is theirs alone, so that a new mechanism needs no migration.
"""

from __future__ import annotations

from sqlite_utils import Database, Migrations

migrations = Migrations("omniroute")


def unknown_steps(db: Database) -> list[str]:
    """Steps that the file has and we do not know: a newer version wrote it. Reads only."""
    ours = {step.name for step in migrations.pending(Database(memory=True))}  # an empty database lacks all of them
    return [step.name for step in migrations.applied(db) if step.name not in ours]


@migrations()
def state_by_table_and_key(db: Database) -> None:
    """`changed_at` is for people who look into the file; nothing depends on it."""
    db.table("state").create(
        {"table_name": str, "key": str, "value": str, "changed_at": float},
        pk=("table_name", "key"),
        not_null={"value", "changed_at"},
    )


@migrations()
def journals_in_order_of_rowid(db: Database) -> None:
    db.table("journal").create(
        {"journal_name": str, "id": str, "at": float, "value": str},
        pk=("journal_name", "id"),
        not_null={"at", "value"},
    )
