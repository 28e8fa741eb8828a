"""Reads profile folders: every file becomes a checked value, or problems with their place."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from omniroute_addon.input_problems import validate
from omniroute_addon.pack_files import PackFolder
from omniroute_addon.yaml_source import read_yaml

from .profile_schema import ProfileFile

FOLDER = "clients"
"""Below every folder of packs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileSource:
    """One file as it was read."""

    file: str
    """As it is shown to people."""
    line: int
    """Where its `id:` stands."""
    profile: ProfileFile


def client_folder(folder: PackFolder) -> PackFolder:
    """Where the profiles that belong to a folder of packs are."""
    return PackFolder(path=folder.path / FOLDER, label=f"{folder.label}/{FOLDER}" if folder.label else "")


def read_profile(raw: bytes, *, file: str) -> tuple[ProfileSource | None, list[str]]:
    """One file's content as a value, and what is wrong with it. A value comes back only when nothing is."""
    document = read_yaml(raw, file=file)
    problems = list(document.problems)
    if not document.readable:
        return None, problems
    if document.data is None:
        return None, [*problems, f"{file}:1:1: the file is empty. Write at least `id:`, or delete the file."]
    profile, found = validate(ProfileFile, document)
    problems += found
    if profile is None or problems:
        return None, problems
    return ProfileSource(file=file, line=document.line(("id",)), profile=profile), []


def read_profile_file(folder: PackFolder, path: Path) -> tuple[ProfileSource | None, list[str]]:
    """As `read_profile`, from disk."""
    file = folder.shown(path)
    try:
        raw = path.read_bytes()
    except OSError as error:
        return None, [f"{file}:1:1: the file cannot be read ({error.strerror}). Check its permissions."]
    return read_profile(raw, file=file)
