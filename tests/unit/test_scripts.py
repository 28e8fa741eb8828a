"""The shell scripts: which Python they choose, and what they say when there is none (issue 2, point 2)."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = ["scripts/setup", "scripts/run", "scripts/test", "scripts/demo", ".ci/run"]
USABLE = "echo ok"
"""What a candidate answers to the script's question when it will do."""

FakePython = Callable[[str, str], Path]


@pytest.mark.parametrize("script", SCRIPTS)
def test_script_is_executable_and_its_syntax_is_right(script: str) -> None:
    path = ROOT / script
    shell = "bash" if "bash" in path.read_text(encoding="utf-8").splitlines()[0] else "sh"
    assert path.stat().st_mode & stat.S_IXUSR
    assert subprocess.run([shell, "-n", path], check=False).returncode == 0


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout with a space in its path that holds nothing but the script."""
    root = tmp_path / "my checkout"
    (root / "scripts").mkdir(parents=True)
    shutil.copy(ROOT / "scripts" / "setup", root / "scripts" / "setup")
    shutil.copy(ROOT / "pyproject.toml", root)
    return root


@pytest.fixture
def python(tmp_path: Path) -> FakePython:
    """`python(path, shell_line)`: a program under the temporary folder that does only that."""

    def make(path: str, line: str) -> Path:
        file = tmp_path / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"#!/bin/sh\n{line}\n", encoding="utf-8")
        file.chmod(0o755)
        return file

    return make


@pytest.fixture
def setup(checkout: Path, tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run `scripts/setup` in an empty home, on a PATH that holds no Python but those of the test."""
    tools = tmp_path / "tools"
    tools.mkdir()
    for tool in ("sh", "dirname", "grep", "tail", "cksum", "cat"):
        found = shutil.which(tool)
        assert found
        (tools / tool).symlink_to(found)
    # The folders of the machine itself cannot be hidden, so the test's copy does not look there.
    script = checkout / "scripts" / "setup"
    text = script.read_text(encoding="utf-8")
    for folder in ("/usr/local/", "/usr/bin", "/opt/", "/home/", "/Library/"):
        text = text.replace(f" {folder}", f" /nonexistent{folder}")
    script.write_text(text, encoding="utf-8")

    def run(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        environment = {"HOME": str(tmp_path / "home"), "PATH": f"{tmp_path / 'bin'}{os.pathsep}{tools}"} | variables
        return subprocess.run(
            [str(script), *arguments], capture_output=True, text=True, check=False, env=environment, cwd=tmp_path
        )

    return run


def test_newest_python_on_the_path_is_chosen(setup, python) -> None:
    python("bin/python3.12", USABLE)
    wanted = python("bin/python3.13", USABLE)
    python("bin/python3", USABLE)
    assert setup("--which").stdout == f"{wanted}\n"


def test_shim_that_does_not_run_is_passed_by_for_the_version_managers_folder(setup, python) -> None:
    python("bin/python3.13", "echo 'pyenv: python3.13: command not found' >&2; exit 127")
    wanted = python("home/.pyenv/versions/3.13.0/bin/python3.13", USABLE)
    assert setup("--which").stdout == f"{wanted}\n"


def test_python_without_venv_is_passed_by(setup, python) -> None:
    python("bin/python3.13", "echo 'has no venv'")
    wanted = python("bin/python3", USABLE)
    assert setup("--which").stdout == f"{wanted}\n"


@pytest.mark.parametrize(
    "folder",
    [
        "home/.pyenv/versions/3.12.1/bin",
        "home/.asdf/installs/python/3.12.1/bin",
        "home/.local/share/mise/installs/python/3.12.1/bin",
        "home/.local/share/uv/python/cpython-3.12.1/bin",
        "home/.local/bin",
    ],
)
def test_folders_of_version_managers_are_searched(setup, python, folder: str) -> None:
    wanted = python(f"{folder}/python3.12", USABLE)
    assert setup("--which").stdout == f"{wanted}\n"


def test_named_python_is_taken_without_a_search(setup, python) -> None:
    python("bin/python3.13", USABLE)
    wanted = python("elsewhere/my python", USABLE)
    assert setup("--which", OMNIROUTE_PYTHON=str(wanted)).stdout == f"{wanted}\n"


def test_named_python_that_is_too_old_is_refused(setup, python) -> None:
    old = python("old/python", "echo 'is Python 3.9'")
    result = setup("--which", OMNIROUTE_PYTHON=str(old))
    assert result.returncode == 1
    assert result.stderr == f"setup: OMNIROUTE_PYTHON={old} is Python 3.9; it must name a Python >= 3.12 with venv.\n"


def test_without_any_python_one_sentence_says_what_to_install_and_what_was_seen(setup, python) -> None:
    old = python("bin/python3", "echo 'is Python 3.9'")
    result = setup()
    assert result.returncode == 1
    assert result.stdout == ""
    assert result.stderr == (
        "setup: no usable Python 3.12 or newer was found; install one (python.org, 'brew install python', "
        "'apt install python3 python3-venv', 'uv python install 3.13' or 'pyenv install 3.13') and run this again. "
        f"Looked at:\n  {old} is Python 3.9\n"
    )


def test_unknown_argument_is_refused(setup) -> None:
    result = setup("--fast")
    assert result.returncode == 1
    assert result.stderr == "setup: unknown argument '--fast'; known are --dev and --which.\n"


# A stand-in for a whole Python: `-m venv` makes a .venv whose python is the same stand-in, `-m pip` writes a diary.
STAND_IN = """
for last; do :; done
case "$*" in
    *"-m venv --clear"*)
        rm -rf "$last"
        mkdir -p "$last/bin"
        cp "$0" "$last/bin/python"
        echo "command = $last" > "$last/pyvenv.cfg"
        echo venv >> "$DIARY"
        ;;
    *"-m pip"*)
        echo "pip ${*#*install }" >> "$DIARY"
        echo "Collecting a"
        echo "Requirement already satisfied: b"
        if [ -n "${PIP_SAYS:-}" ]; then echo "$PIP_SAYS"; exit 1; fi
        ;;
    *"import sys, pip"*) echo 3.13.0 ;;
    *) echo ok ;;
esac
"""


@pytest.fixture
def diary(setup, python, tmp_path: Path) -> Callable[..., list[str]]:
    """Run set-up with the stand-in and return what it did this time."""
    for tool in ("mkdir", "cp", "touch", "rm"):
        (tmp_path / "tools" / tool).symlink_to(str(shutil.which(tool)))
    python("bin/python3.13", STAND_IN)
    file = tmp_path / "diary"

    def run(*arguments: str, fails: str = "", script: Path | None = None) -> list[str]:
        file.unlink(missing_ok=True)
        result = setup(*arguments, DIARY=str(file), PIP_SAYS=fails)
        assert (result.returncode != 0) == bool(fails), result.stderr
        done = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
        return [*done, result.stderr.splitlines()[-1]] if fails else done

    return run


def test_first_time_makes_a_venv_and_installs_and_second_time_does_nothing(diary) -> None:
    assert diary() == ["venv", "pip --editable ."]
    assert diary() == []


def test_dev_installs_the_group_and_is_enough_for_a_plain_setup(diary) -> None:
    assert diary("--dev") == ["venv", "pip pip>=25.1", "pip --editable . --group dev"]
    assert diary("--dev") == []
    assert diary() == []


def test_installing_shows_what_for_and_a_dot_for_every_package(setup, diary, tmp_path: Path) -> None:
    """`diary` puts the stand-in in place."""
    variables = {"DIARY": str(tmp_path / "diary"), "PIP_SAYS": ""}
    first = setup(**variables).stderr.splitlines()
    assert first[0].startswith("setup: making .venv with ")
    assert first[1:] == ["setup: installing into .venv; the first time takes about a minute ."]
    assert setup("--dev", **variables).stderr == "setup: installing what the tests and the demo need ..\n"
    assert setup("--dev", **variables).stderr == ""


def test_plain_setup_is_not_enough_for_dev(diary) -> None:
    diary()
    assert diary("--dev") == ["pip pip>=25.1", "pip --editable . --group dev"]


def test_changed_project_file_installs_again_into_the_same_venv(diary, checkout: Path) -> None:
    diary()
    with (checkout / "pyproject.toml").open("a", encoding="utf-8") as file:
        file.write("# changed\n")
    assert diary() == ["pip --editable ."]


def test_venv_that_was_moved_with_its_checkout_is_made_again(diary, checkout: Path) -> None:
    diary()
    (checkout / ".venv" / "pyvenv.cfg").write_text("command = python -m venv /somewhere/else/.venv\n", encoding="utf-8")
    assert diary() == ["venv", "pip --editable ."]


def test_venv_that_lost_its_python_is_made_again(diary, checkout: Path) -> None:
    diary()
    (checkout / ".venv" / "bin" / "python").unlink()
    assert diary() == ["venv", "pip --editable ."]


def test_unreachable_index_is_told_in_one_sentence_and_the_next_run_tries_again(diary, checkout: Path) -> None:
    fault = "ERROR: Max retries exceeded with url: /simple/"
    assert diary(fails=fault)[-1] == (
        "setup: the package index cannot be reached; check the network, or pip's proxy and index settings. "
        f"pip says: {fault} (all of it: {checkout}/.venv/setup.log)"
    )
    assert diary() == ["pip --editable ."]


def test_other_fault_of_pip_is_told_with_its_first_error(diary, checkout: Path) -> None:
    fault = "ERROR: No space left on device"
    assert diary(fails=fault)[-1] == (
        f"setup: pip could not install the packages. pip says: {fault} (all of it: {checkout}/.venv/setup.log)"
    )
