"""What reads many files: grep, ripgrep, find. None of it makes a version."""

import pytest

from tests.programs.sides import Sides

pytestmark = [pytest.mark.mount, pytest.mark.programs]

FILES = """
    mkdir -p d/e; echo needle > d/e/a; echo hay > d/b; echo needle > .hidden; printf 'no end, naïve' > z
    { for number in {1..200}; do echo "straw $number"; done; echo needle; } > straw
"""


def test_grep(sides: Sides) -> None:
    said = sides.run(
        FILES
        + """
        grep -rn needle . | sort; grep -rl needle | sort; grep -c needle straw; grep -rL needle . | sort
        grep -rh --include='*a' needle; grep -P 'na.ve' z; grep -q absent straw || echo $?
        grep -A1 -B1 'straw 7$' straw
        """
    )
    assert said.startswith("./.hidden:1:needle\n./d/e/a:1:needle\n./straw:201:needle\n")
    assert {step[1] for step in sides.history()} == {"created"}


def test_ripgrep(sides: Sides) -> None:
    said = sides.run(
        FILES
        + """
        rg -n --sort path needle; rg --files --sort path; rg --hidden -l --sort path needle
        rg --mmap -c needle straw; rg -r pin needle d/e/a; rg -U 'needle\\n' d/e/a
        echo d/ > .ignore; rg -l --sort path needle; rg -uu -l --sort path needle
        """
    )
    assert said.startswith("d/e/a:1:needle\nstraw:201:needle\n")
    assert [step[1] for step in sides.history()] == ["created"] * 6


def test_find(sides: Sides) -> None:
    """By age, by size, by kind; it moves and removes as it goes."""
    said = sides.run(
        """
        mkdir -p d/e; echo a > old; touch -d 2020-01-01 old; echo b > new; echo c > d/newer; : > empty
        find . -type f -newer old | sort; find . -type f ! -newermt 2021-01-01
        find . -type f -size -2c -o -empty | sort; find . -type d | sort; find . -type f -mmin +60
        find . -name 'new*' -printf '%p %s %m %y\\n' | sort; find . -type f -print0 | xargs -0 ls | sort
        find . -name old -exec mv {} moved \\;
        find d -type f -delete; find . -mindepth 1 -depth -empty -delete; ls -A
        """
    )
    assert said.startswith("./d/newer\n./empty\n./new\n./old\n")
    assert said.endswith("moved\nnew\n")
    created = [step for step in sides.history() if step[1] == "created"]
    assert [step[2] for step in created] == ["/old", "/new", "/d/newer", "/empty"]
    assert sides.history()[4] == ("a", "modified", "/moved", "a\n")
    assert {step[1:3] for step in sides.history()[5:]} == {("deleted", "/d/newer"), ("deleted", "/empty")}
