"""The documentation is true of the code: commands, options, tables and links. Nothing is run or mounted here."""

import errno
import re
import shlex
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from memfs.api.answers import ANSWERS
from memfs.api.metrics import Metrics
from memfs.cli import exits
from memfs.cli.main import main
from memfs.engine.invariants import INVARIANTS
from memfs.model import contract
from memfs.model.errors import MemfsError, all_errors
from memfs.model.findings import Finding, Violation
from memfs.model.records import Actor, ApiKey, Attachment, Memory, MemoryVersion, Session, Store
from memfs.mount.control import MountStatus
from memfs.mount.errnos import ERRNO
from memfs.vfs import temporaries
from tests.processes import environment

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
DOCUMENTS = {str(path.relative_to(ROOT)): path.read_text() for path in [ROOT / "README.md", *PAGES]}

_FENCED = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_HEADING = re.compile(r"^(#{1,6}) (.+)$", re.MULTILINE)
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")


def prose(text: str) -> str:
    """A page without its fenced blocks, in which ``#`` and brackets mean other things."""
    return _FENCED.sub("", text)


def page(name: str) -> str:
    return DOCUMENTS[f"docs/{name}.md"]


# Pages and links


def test_there_are_enough_pages_in_nested_directories_for_the_demo() -> None:
    assert len(PAGES) >= 20
    assert any(len(path.relative_to(DOCS).parts) >= 3 for path in PAGES)


@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_page_begins_with_its_only_title(name: str) -> None:
    headings = _HEADING.findall(prose(DOCUMENTS[name]))
    assert [level for level, _ in headings].count("#") == 1
    assert DOCUMENTS[name].startswith(f"# {headings[0][1]}\n")


def anchors(text: str) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    seen: Counter[str] = Counter()
    found = set()
    for _, title in _HEADING.findall(prose(text)):
        anchor = re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")
        found.add(f"{anchor}-{seen[anchor]}" if seen[anchor] else anchor)
        seen[anchor] += 1
    return found


def links(name: str) -> Iterator[tuple[Path, str]]:
    """The internal links of a page: file or directory, and anchor."""
    for target in _LINK.findall(prose(DOCUMENTS[name])):
        if "://" not in target:
            path, _, anchor = target.partition("#")
            yield ((ROOT / name).parent / path).resolve() if path else ROOT / name, anchor


@pytest.mark.parametrize("name", DOCUMENTS)
def test_internal_links_lead_somewhere(name: str) -> None:
    for path, anchor in links(name):
        assert path.is_relative_to(ROOT), path
        assert path.exists(), path
        if anchor:
            assert anchor in anchors(path.read_text()), f"{path}#{anchor}"


def test_every_page_can_be_reached_from_the_readme() -> None:
    reached: set[Path] = set()
    pending = [ROOT / "README.md"]
    while pending:
        path = pending.pop()
        if path in reached:
            continue
        reached.add(path)
        if path.is_dir():
            pending += path.glob("*.md")
        elif path.suffix == ".md":
            pending += [target for target, _ in links(str(path.relative_to(ROOT)))]
    assert [path for path in PAGES if path not in reached] == []


@pytest.mark.parametrize("contents", ["README.md", "docs/index.md"])
def test_every_page_of_the_guide_and_of_the_design_is_in_the_contents(contents: str) -> None:
    named = {path for path, _ in links(contents)}
    assert [path for path in PAGES if path.parent.name in ("guide", "design") and path not in named] == []


# Working on it


def test_the_targets_of_make_are_listed() -> None:
    targets = re.findall(r"^([a-z-]+):.*## ", (ROOT / "Makefile").read_text(), re.MULTILINE)
    listed = re.findall(r"^\| `make ([a-z-]+)` \|", page("contributing"), re.MULTILINE)
    assert sorted(listed) == sorted(set(targets) - {"help"})


def test_every_script_is_in_the_layout() -> None:
    scripts = {f"scripts/{path.name}" for path in (ROOT / "scripts").iterdir() if path.is_file()}
    assert scripts == set(re.findall(r"`(scripts/[\w.-]+)`", page("contributing")))


# Commands and options


def commands(group: click.Group, above: str = "memfs") -> Iterator[tuple[str, click.Command]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from commands(command, f"{above} {name}")
        else:
            yield f"{above} {name}", command


COMMANDS = dict(commands(main))


def section(title: str) -> str:
    """The section with this heading on some page of the reference, up to the next heading of its level or above."""
    for path in sorted((DOCS / "reference").glob("*.md")):
        if path.name == "commands.md":
            continue  # generated: the pages that people write are held to the code
        text = path.read_text()
        found = re.search(rf"^(#+) {re.escape(title)}$", text, re.MULTILINE)
        if found:
            rest = text[found.end() :]
            end = re.search(rf"^#{{1,{len(found[1])}}} ", rest, re.MULTILINE)
            return rest[: end.start()] if end else rest
    raise AssertionError(f"no page of docs/reference has the heading {title!r}")


def options(command: click.Command) -> list[str]:
    """A command's own options; the program's --db, which each takes too, is described with the program."""
    return [
        name
        for parameter in command.params
        if isinstance(parameter, click.Option) and not (parameter.hidden and parameter.opts == ["--db"])
        for name in (*parameter.opts, *parameter.secondary_opts)
    ]


def documents(text: str, option: str) -> bool:
    """Whether an option has a definition: a line that is one or more options in code, and then what they do."""
    return re.search(rf"^`[^\n]*(?<![\w-]){re.escape(option)}(?![\w-])[^\n]*`\n: ", text, re.MULTILINE) is not None


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_is_in_the_reference_with_its_options_and_no_others(name: str) -> None:
    text = section(name)
    for option in options(COMMANDS[name]):
        assert documents(text, option), option
    defined = re.findall(r"^(`-[^\n]*)\n: ", text, re.MULTILINE)
    named = {option for line in defined for option in re.findall(r"`(--?[a-z][a-z0-9-]*)", line)}
    assert named <= set(options(COMMANDS[name]))


def test_the_options_of_every_command_are_in_the_reference() -> None:
    for option in [*options(main), "--help", "-h"]:
        assert documents(page("reference/cli"), option), option


def test_the_table_of_commands_is_complete() -> None:
    listed = set(re.findall(r"^\| `(memfs [a-z]+(?: [a-z]+)?)", page("reference/cli"), re.MULTILINE))
    assert listed == set(COMMANDS)


def test_the_generated_reference_is_up_to_date() -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "scripts" / "reference", "--check"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env=environment(),
    )
    assert (done.returncode, done.stderr) == (0, "")


# Command lines

_BETWEEN = set(";()|&\n")


def command_lines(script: str) -> Iterator[list[str]]:
    """The simple commands of a shell script without its comments and redirections, those in ``$(…)`` too."""
    lexer = shlex.shlex(script.replace("\\\n", " "), posix=True, punctuation_chars=";()|&<>\n")
    lexer.whitespace = " \t"
    lexer.whitespace_split = True
    lexer.commenters = ""
    words: list[str] = []
    redirected = commented = False
    for token in [*lexer, "\n"]:
        if _BETWEEN & set(token) and set(token) <= _BETWEEN | set("<>"):
            if words:
                yield words
            words = []
            redirected = False
            commented = commented and "\n" not in token
        elif set(token) <= set("<>"):
            redirected = True
        elif redirected or commented:
            redirected = False
        elif token == "#":
            commented = True
        else:
            for inner in re.findall(r"\$\((.+?)\)", token, re.DOTALL):
                yield from command_lines(inner)
            words.append(token)


VERSION = "memver_01M8NMQFRQEHGZHQHXSA2763V0"


def memfs_lines() -> Iterator[tuple[str, tuple[str, ...]]]:
    for name, text in DOCUMENTS.items():
        for language, block in _FENCED.findall(text):
            if language == "sh":
                for words in command_lines(block):
                    if words[0] == "memfs":
                        # A variable of the shell stands for an id, most often a version's.
                        yield name, tuple(VERSION if word.startswith("$") else word for word in words[1:])


MEMFS_LINES = sorted(set(memfs_lines()))


def test_command_lines_are_found_in_shell_scripts() -> None:
    script = """memfs a "b c" > out  # no memfs here
id=$(memfs d -q); eval "$(memfs e)" | memfs f \\
  --g 2>&1
echo memfs"""
    assert [words[1:] for words in command_lines(script) if words[0] == "memfs"] == [
        ["a", "b c"],
        ["d", "-q"],
        ["e"],
        ["f", "--g", "2"],
    ]


def test_every_command_is_shown_in_an_example() -> None:
    shown = {" ".join(["memfs", *words[:count]]) for _, words in MEMFS_LINES for count in (1, 2)}
    assert set(COMMANDS) <= shown


@pytest.mark.parametrize("name,words", MEMFS_LINES, ids=[f"{name}: {shlex.join(w)}" for name, w in MEMFS_LINES])
def test_command_lines_parse(monkeypatch: pytest.MonkeyPatch, name: str, words: tuple[str, ...]) -> None:
    # Groups still find and parse their commands; only the commands' own work is left out.
    monkeypatch.setattr(click.Command, "invoke", lambda command, context: None)
    assert main.main(list(words), prog_name="memfs", standalone_mode=False) in (None, 0)


def test_a_wrong_command_line_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(click.Command, "invoke", lambda command, context: None)
    for words in (["store", "mak"], ["store", "create", "x", "--colour", "red"], ["memory", "show", "x"]):
        with pytest.raises(click.UsageError):
            main.main(words, prog_name="memfs", standalone_mode=False)


# Tables


def test_the_table_of_errors_is_that_of_the_code() -> None:
    rows = re.findall(r"^\| `(\w+)` \| .+ \| (\d+) \| (E\w+) \|$", page("design/errors"), re.MULTILINE)
    assert sorted(rows) == sorted(
        (error.__name__, str(exits.EXIT_CODES[error]), errno.errorcode[ERRNO[error]])
        for error in all_errors() - {MemfsError}
        if error.__module__ == MemfsError.__module__
    )


def test_the_table_of_answers_is_that_of_the_api() -> None:
    rows = re.findall(r"^\| `(\w+)` \| (\d+) \| `(\w+)` \|$", page("reference/http-api"), re.MULTILINE)
    assert sorted(rows) == sorted((error.__name__, str(status), kind) for error, (status, kind) in ANSWERS.items())


def test_the_figures_of_the_api_are_listed() -> None:
    table = section("Metrics")
    listed = set(re.findall(r"^\| `(memfs_\w+)`", table, re.MULTILINE))
    told = re.findall(r"^# TYPE (\w+) ", Metrics().text().decode(), re.MULTILINE)
    assert listed == {name for name in told if not name.startswith("process_")}


def test_the_table_of_exit_codes_is_complete() -> None:
    listed = {int(code) for code in re.findall(r"^\| (\d+) \|", page("reference/exit-codes"), re.MULTILINE)}
    assert listed == {
        0,
        *exits.EXIT_CODES.values(),
        exits.INTERNAL,
        exits.INTERRUPTED,
        exits.PIPE_CLOSED,
    }


def test_the_patterns_of_temporaries_are_listed() -> None:
    text = page("reference/limits")
    assert [pattern for pattern in temporaries.PATTERNS if f"`{pattern}`" not in text] == []
    rows = re.findall(r"^\| .+ \| .+ \| (.+) \|$", text.partition("These always count")[2], re.MULTILINE)
    listed = {row for row in rows if row != "whose"}
    assert listed == {shape.whose for shape in (*temporaries.SHAPES, *temporaries.COMPANIONS)}


@pytest.mark.parametrize("name", ["reference/check", "design/database"])
def test_every_invariant_is_listed(name: str) -> None:
    table = re.split(r"^\|[^|]* \| [^|]*holds \| .*$", page(name), flags=re.MULTILINE)[1].partition("\n\n")[0]
    listed = re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)
    assert listed == ["journal", *(each.name for each in INVARIANTS)]


def test_the_fields_of_json_are_listed() -> None:
    actor = Actor("user_actor", "ada")
    for title, fields in (
        ("A store", contract.store_object(Store("", "", "", {}, "", "")).keys()),
        ("A memory", contract.memory_object(Memory("", "", "", "", 0, "", "", "")).keys()),
        ("A version", contract.version_object(MemoryVersion("", "", "", 0, "created", "", 0, "", "", actor)).keys()),
        ("A session", contract.session_object(Session("", "")).keys()),
        ("A store of a session", contract.attachment_object(Attachment("", "read_write", "", "", "")).keys()),
        ("An API key", contract.api_key_object(ApiKey("", "", "read_write", None, "")).keys()),
        ("A mount", MountStatus.__dataclass_fields__.keys()),
        ("A check", Finding.__dataclass_fields__.keys()),
        ("A violation", Violation.__dataclass_fields__.keys()),
    ):
        rows = re.findall(r"^\| (`[^|]+) \|", section(title), re.MULTILINE)
        assert sorted(re.findall(r"`(\w+)`", " ".join(rows))) == sorted(fields), title


def test_the_table_of_faults_names_every_test_of_one() -> None:
    """And none that there is not."""
    there = [
        name
        for path in (ROOT / "tests" / "faults").glob("test_*.py")
        for name in re.findall(r"^def (test_\w+)\(", path.read_text(), re.MULTILINE)
    ]
    named = re.findall(r"`(test_\w+)`", page("design/faults"))
    assert Counter(named) == Counter(there)
