"""Variables in the words of every shell, whatever is in them."""

from __future__ import annotations

import json
import shutil
import subprocess

import pytest

from omniroute_addon.bringup.shells import SHELLS, rendered, shell_of, unset

ODD = {"A": "/plain/path", "B": 'it\'s "here" \\ $HOME `ls` %PATH% ; & | * ünï', "C": "", "D": "trailing\\"}
WITHOUT_QUOTE = {name: value.replace('"', "") for name, value in ODD.items()}


@pytest.mark.parametrize("shell", ["sh", "bash", "zsh", "fish"])
def test_shell_reads_back_what_was_meant(shell: str) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    script = rendered(ODD, shell, command="omniroute env") + "\nenv -0\n"
    done = subprocess.run([shell, "-c", script], capture_output=True, check=True)
    seen = dict(entry.partition("=")[::2] for entry in done.stdout.decode().split("\0"))
    assert {name: seen[name] for name in ODD} == ODD


def test_fish_is_quoted_by_its_own_rules() -> None:
    assert rendered({"A": "it's \\ $x"}, "fish") == "set -gx A 'it\\'s \\\\ $x'"


def test_powershell_doubles_every_sort_of_quote() -> None:
    assert rendered({"A": "it's \u2019q\u2018 $x"}, "powershell") == "$Env:A = 'it''s \u2019\u2019q\u2018\u2018 $x'"


def test_cmd_doubles_percent_signs_and_refuses_quotes() -> None:
    assert rendered({"A": "C:\\a b & c%d"}, "cmd") == 'set "A=C:\\a b & c%%d"'
    with pytest.raises(ValueError, match=r"^A holds a double quote, which cmd cannot carry. Use --shell powershell.$"):
        rendered({"A": '"'}, "cmd")


@pytest.mark.parametrize(
    ("value", "line"),
    [("/a/b", "A=/a/b"), ("a b", "A='a b'"), ("", "A=''"), ("it's $x", 'A="it\'s \\$x"')],
)
def test_dotenv_is_quoted_where_it_must_be(value: str, line: str) -> None:
    assert rendered({"A": value}, "dotenv") == line


def test_json_is_one_object() -> None:
    assert json.loads(rendered(ODD, "json", command="omniroute env")) == ODD


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("evil", ["a\nrm -rf ~", "a\0", "a\x1b[2J", "a\r"])
def test_no_shell_gets_a_line_that_was_not_meant(shell: str, evil: str) -> None:
    with pytest.raises(ValueError, match="A holds a line break or control character"):
        rendered({"A": evil}, shell)


def test_last_line_says_how_to_use_it() -> None:
    assert rendered({"A": "b"}, "bash", command="omniroute env").endswith('# To set them here: eval "$(omniroute env)"')
    assert rendered({"A": "b"}, "fish", command="omniroute env").endswith("omniroute env | source")


def test_variables_can_be_taken_away_again() -> None:
    assert unset(ODD, "sh").splitlines() == ["unset A", "unset B", "unset C", "unset D"]
    assert unset({"A": ""}, "fish") == "set -e A"
    with pytest.raises(ValueError, match=r"--unset cannot be said in json\. Use one of: sh, bash"):
        unset(ODD, "json")


@pytest.mark.parametrize(
    ("environ", "windows", "shell"),
    [
        ({"SHELL": "/usr/bin/fish"}, False, "fish"),
        ({"SHELL": "/bin/tcsh"}, False, "sh"),
        ({}, False, "sh"),
        ({}, True, "powershell"),
        ({"SHELL": "/usr/bin/bash"}, True, "bash"),
    ],
)
def test_shell_is_guessed_from_the_environment(environ: dict[str, str], windows: bool, shell: str) -> None:
    assert shell_of(environ, windows=windows) == shell
