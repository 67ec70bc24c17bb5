"""The SDK's reference tool and ours do the same, or differ where the table here says why.

The same random calls go to ``BetaLocalFilesystemMemoryTool`` in a temporary directory and to our commands, with the
seed's words and with the SDK's. After each, files and directories are compared and so are the answers. A directory
exists in both where it was made on the way to a file, and stays when it is emptied: so directories are compared too,
ours being those that are kept and those that something lies in. Where the trees may differ, the SDK's is made like ours
before the next call.

Every entry of the table must come up in the run, else it explains nothing; with the SDK's words fewer do.
"""

import os
import random
import re
import shutil
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path
from typing import Any

import pytest
from anthropic.lib.tools import ToolError
from anthropic.tools.memory import BetaLocalFilesystemMemoryTool

from memfs.model.paths import ancestors
from memfs.model.records import MAX_CONTENT_BYTES
from memfs.tool import SDK, SEED, Wording
from memfs.workspace import Workspace
from tests.tool.handling import Tool
from tests.tool.oracle import leads_away, possible

SEQUENCES = 80
CALLS = 40

Call = dict[str, Any]


@dataclass(frozen=True)
class Difference:
    """Why answers or trees may differ, and whether also with the SDK's words."""

    why: str
    with_its_words: bool = True


TABLE = {
    # words: CONTRACT.md takes the seed's
    "prefix": Difference("the seed begins most errors with 'Error: '", with_its_words=False),
    "insert missing": Difference("the seed's insert does not ask for a valid path", with_its_words=False),
    "insert range": Difference("the seed's words for a line that is not there", with_its_words=False),
    "edited": Difference("the seed's str_replace ends its sentence sooner", with_its_words=False),
    "header": Difference("the seed's listing names node_modules", with_its_words=False),
    "decimals": Difference("the seed shows 1.0K, the SDK 1K", with_its_words=False),
    "not a file": Difference("a directory where a file is wanted does not exist as a file (CONTRACT.md)"),
    "root": Difference("the root is refused in other words"),
    "refusal": Difference("paths that lead elsewhere are refused in other words"),
    "both wrong": Difference("a rename with no source and a destination: which of the two is told"),
    # listings and texts
    "directory slash": Difference("directories are listed without a '/' at their end (CONTRACT.md)"),
    "asked slash": Difference("nor with the one at the end of what was asked for"),
    "directory size": Difference("a directory's size is the sum of what is below, not that of its inode"),
    "order": Difference("listings are in the order of whole paths, not of names"),
    "node_modules": Difference("is left out"),
    "last newline": Difference("does not make another line (CONTRACT.md)"),
    "cut": Difference("long texts are cut"),
    "snippet": Difference("shows all edited lines with two on each side, the SDK the first with two"),
    "many occurrences": Difference("a list of lines ends after 100"),
    "occurrences": Difference("are counted without overlap, each line once"),
    # what the SDK does and we refuse
    "odd path": Difference("it resolves paths first, takes /memoriesX for the root, and has any name"),
    "file slash": Difference("a '/' at the end of a file's path"),
    "range": Difference("a view_range that is none is an error, not an empty or whole text"),
    "size": Difference("a memory has at most 102,400 bytes"),
    "empty old_str": Difference("is an error, not an insertion"),
    "no number": Difference("neither true nor text is the number of a line"),
    # what the SDK fails at
    "raw new_str": Difference("a TypeError where new_str is left out"),
    "raw below a file": Difference("a path below a file"),
    "raw into itself": Difference("a directory into itself"),
    "raw NUL": Difference("a NUL in a path"),
    "surrogate": Difference("half of a character"),
    "raw type": Difference("something of another type"),
    # trees
    "bytes of insert": Difference("insert changes no other byte, and takes insert_text as it is (CONTRACT.md)"),
    "left behind": Difference("what failed leaves nothing behind (CONTRACT.md)"),
}


@dataclass(frozen=True)
class Answer:
    text: str
    is_error: bool = False
    raw: type[Exception] | None = None
    """An exception that is no answer."""


# ---- both tools ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Tree:
    files: Mapping[str, bytes]
    directories: frozenset[str]


def all_above(paths: list[str]) -> frozenset[str]:
    return frozenset(above for path in paths for above in ancestors(path))


class Ours:
    def __init__(self, workspace: Workspace, wording: Wording) -> None:
        self.tool = Tool(workspace, workspace.stores.create("ours"), wording=wording)

    def call(self, call: Call) -> Answer:
        result = self.tool.handle(call)
        return Answer(result.content, result.is_error)

    def tree(self) -> Tree:
        files = {path: text.encode() for path, text in self.tool.files.items()}
        kept = self.tool.kept
        return Tree(files, all_above([*files, *kept]) | set(kept))


class Theirs:
    def __init__(self, base: Path) -> None:
        self.root = base / "memories"
        self.tool = BetaLocalFilesystemMemoryTool(str(base))

    def call(self, call: Call) -> Answer:
        try:
            return Answer(str(self.tool.call(dict(call))))
        except ToolError as error:
            return Answer(str(error), is_error=True)
        except Exception as error:
            return Answer(repr(error), is_error=True, raw=type(error))

    def tree(self) -> Tree:
        found = {f"/{path.relative_to(self.root)}": path for path in self.root.rglob("*")}
        return Tree(
            {path: file.read_bytes() for path, file in found.items() if file.is_file()},
            frozenset(path for path, file in found.items() if file.is_dir()),
        )

    def become(self, tree: Tree) -> None:
        """Make the tree like another."""
        shutil.rmtree(self.root)
        self.root.mkdir()
        for path in tree.directories:
            (self.root / path[1:]).mkdir(parents=True, exist_ok=True)
        for path, content in tree.files.items():
            (self.root / path[1:]).write_bytes(content)


# ---- calls -----------------------------------------------------------------------------------------------------------

NAMES = ["a", "a.md", "d", "a-b", ".h", "node_modules", "e", "é"]
TEXTS = [
    "",
    "\n",
    "a",
    "a\n",
    "a\nb\nc\nd\ne\nf\ng\n",
    "a\nb\nc\nd\ne\nf\ng",
    "a a\r\nb\r\n",
    "\ufeffa\0\u2028b\rc\n",
    "aaaa\n\n\n\n",
    "x" * 1024,
    "".join(f"line {number}\n" for number in range(1_700)),
    "".join(f"{number}," for number in range(4_000)),
    "0123456789abcdefghijklmnopqrstuvwxyz\n".ljust(MAX_CONTENT_BYTES, "."),
]
PIECES = ["a", "b\n", "\n", "a\nb", "\r\n", "aa", "zz", "g", "x", "$& \\1 {path}", "line\nline\n", "n\nm\no\np\nq\nr"]
ODD = [
    *["/memories"] * 4,
    "/memories/",
    "/memories//a",
    "/memories/./a",
    "/memories/d/../a",
    "/memories/..",
    "/memories/../a",
    "/memories/%2e%2e/a",
    "/memories/e\u0301",
    "/memories/a\tb",
    "/memoriesX",
    "/memoriesX/a",
    "/memories..",
    "/etc/passwd",
    "memories/a",
    "/memories/a\0b",
    "/memories/a/",
    *["/memories/d/"] * 3,
    "/memories/d/a.md/",
    "/memories/\ud800",
]


class Calls:
    """Random calls, the same ones for each seed, many of them on what is there."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.tree = Tree({}, frozenset())

    def path(self, *, there: float = 0.3) -> str:
        if self.chance.random() < 0.05:
            return self.chance.choice(ODD)
        if self.tree.files and self.chance.random() < there:
            return f"/memories{self.chance.choice(sorted(self.tree.files))}"
        # few names and mostly short paths, so that calls meet one another's files
        count = self.chance.choice([1, 1, 1, 2, 2, 3, 4])
        return "/memories/" + "/".join(self.chance.choice(NAMES[: 4 if count < 3 else None]) for _ in range(count))

    def text(self) -> str:
        if self.chance.random() < 0.02:
            return self.chance.choice(["x\ud83d", "x" * (MAX_CONTENT_BYTES + 1)])
        return self.chance.choice(TEXTS)

    def piece(self, path: str = "") -> str:
        """A text to write; or for a file that is there one to look for."""
        text = self.tree.files.get(path.removeprefix("/memories"), b"").decode()
        if not text or self.chance.random() < 0.3:
            return self.chance.choice(PIECES)
        start = self.chance.randrange(min(len(text), 20))
        return text[start : start + self.chance.choice([1, 2, 3, 5, 8])]

    def view_range(self) -> object:
        if self.chance.random() < 0.2:
            return self.chance.choice([[], [1], [1, 2, 3], ["1", "2"], [1.5, 2]])
        return [self.chance.randrange(-2, 9), self.chance.choice([-2, -1, 0, *range(9), 5_000])]

    def line(self) -> object:
        return self.chance.choice([0, 0, 1, 1, 2, 3, 7, 8, -1, True, "1", 1.5])

    def next(self, tree: Tree) -> Call:
        self.tree = tree
        match self.chance.choices(
            ["create", "view", "view_range", "str_replace", "insert", "delete", "rename"], [8, 4, 3, 10, 5, 2, 5]
        ):
            case ["create"]:
                return {"command": "create", "path": self.path(), "file_text": self.text()}
            case ["view"]:
                directory = self.chance.choice(["", *sorted(tree.directories)])
                slash = self.chance.choice(["", "", "/"]) if directory else ""
                return {"command": "view", "path": self.chance.choice([self.path(), f"/memories{directory}{slash}"])}
            case ["view_range"]:
                return {"command": "view", "path": self.path(there=0.8), "view_range": self.view_range()}
            case ["str_replace"]:
                path = self.path(there=0.8)
                call: Call = {"command": "str_replace", "path": path, "old_str": self.piece(path)}
                if self.chance.random() < 0.05:
                    call["old_str"] = ""
                if self.chance.random() < 0.85:
                    call["new_str"] = self.piece()
                return call
            case ["insert"]:
                text = self.piece() + self.chance.choice(["", "\n", "\n\n"])
                path = self.path(there=0.8)
                return {"command": "insert", "path": path, "insert_line": self.line(), "insert_text": text}
            case ["delete"]:
                return {"command": "delete", "path": self.path(there=0.5)}
            case _:
                return {"command": "rename", "old_path": self.path(there=0.5), "new_path": self.path(there=0.1)}


# ---- which differences are in the table ------------------------------------------------------------------------------


@dataclass
class Case:
    """One call with both answers, and the tree before it."""

    call: Call
    theirs: Answer
    ours: Answer
    before: Tree
    found: set[str] = field(default_factory=set)

    @property
    def command(self) -> str:
        return str(self.call["command"])

    @property
    def paths(self) -> list[str]:
        return [self.call[name] for name in ("path", "old_path", "new_path") if name in self.call]

    @property
    def inside(self) -> str:
        """The path in the store, of one that is plain."""
        return str(self.call["path"]).removeprefix("/memories")

    @property
    def text(self) -> str:
        """What the file held."""
        return self.before.files[self.inside].decode()

    def odd(self) -> bool:
        """Whether a path is none that a memory has."""
        for path in self.paths:
            if not path.startswith("/memories/") and path != "/memories":
                return True
            if leads_away(path) or not possible(path.rstrip("/").removeprefix("/memories") or "/x"):
                return True
        return any(re.search("//|/memories/$", path) for path in self.paths)

    def broken(self) -> bool:
        """Whether a text holds half of a character."""
        return any(re.search("[\ud800-\udfff]", value) for value in self.call.values() if isinstance(value, str))

    def into_itself(self) -> bool:
        return self.command == "rename" and f"{self.paths[1]}/".startswith(f"{self.paths[0]}/")

    def below_a_file(self) -> bool:
        return any(
            above in self.before.files
            for path in self.paths
            for above in ancestors(path.rstrip("/").removeprefix("/memories"))
        )


REFUSAL = "is not valid: |already exists|does not exist|memory directory itself|half of a character"
"""What we say of odd paths; that nothing is done there is what counts."""


def explained(case: Case) -> bool:
    """Whether the answers are equal, or as different as the table says; ``case.found`` are the entries used."""
    theirs, ours = case.theirs, case.ours
    if theirs.raw is not None:
        return raw(case)
    if theirs.is_error and ours.is_error:
        return errors(case)
    if ours.is_error:
        return refused(case)
    if theirs.is_error:
        return False
    if case.command == "view":
        return listings(case) if theirs.text.startswith("Here're") else texts(case)
    if case.command == "str_replace":
        return snippets(case)
    return theirs.text == ours.text


def plain_error(case: Case, text: str) -> bool:
    """Whether our error is this text, with or without the seed's prefix."""
    if case.ours.text == f"Error: {text}":
        case.found.add("prefix")
        return True
    return case.ours.text == text


def errors(case: Case) -> bool:
    """Two errors."""
    theirs, path = case.theirs.text, case.paths[0]
    if plain_error(case, theirs):
        return True
    if "half of a character" in case.ours.text:
        case.found.add("surrogate")
        return case.broken()
    if case.odd():
        case.found.add("refusal")
        return bool(re.search(REFUSAL, case.ours.text))
    missing = f"The path {path} does not exist"
    if theirs == f"The path {path} is not a file.":
        case.found.add("not a file")
        theirs = f"{missing}. Please provide a valid path."
        if plain_error(case, theirs):
            return True
    if case.command == "insert" and theirs == f"{missing}. Please provide a valid path.":
        case.found.add("insert missing")
        return case.ours.text == f"Error: {missing}"
    if case.command == "insert" and (found := re.fullmatch(r"(Invalid .*: )(\S+)(\. It .*) the range (.*)\.", theirs)):
        number = repr(case.call["insert_line"])
        if number != found[2]:
            case.found.add("no number")
        if case.ours.text == f"{found[1]}{number}{found[3]} the range {found[4]}.":
            return True
        case.found.add("insert range")
        return case.ours.text == f"Error: {found[1]}{number}{found[3]} the range of lines of the file: {found[4]}"
    if theirs.startswith("Cannot "):
        case.found.add("root")
        return case.ours.text.endswith("/memories is the memory directory itself: name something below it")
    if case.command == "str_replace" and not case.call["old_str"]:
        case.found.add("empty old_str")
        return "old_str is empty" in case.ours.text
    if case.command == "rename" and theirs == f"The destination {case.call['new_path']} already exists":
        case.found.add("both wrong")
        return plain_error(case, missing)
    if "Multiple occurrences" in theirs:
        case.found.add("occurrences")
        pattern = re.compile(r"(.*) in lines: ([\d, ]+)(… \([\d,]+ lines\))?(\. Please.*)", re.DOTALL)
        one, other = pattern.fullmatch(theirs), pattern.fullmatch(case.ours.text)
        assert one is not None
        if other is None or (one[1], one[4]) != (other[1], other[4]):
            return False
        lines = occurrences(case.text, case.call["old_str"])
        if len(lines) > 100:
            case.found.add("many occurrences")
        more = f", … ({len(lines):,} lines)" if len(lines) > 100 else ""
        return ", ".join(map(str, lines[:100])) + more == other[2] + (other[3] or "")
    if any(path.endswith("/") for path in case.paths):
        case.found.add("file slash")
        return True
    return False


def occurrences(text: str, part: str) -> list[int]:
    """The lines that a text is in, counted without overlap."""
    pieces = text.split(part)
    starts = accumulate(
        pieces[:-1], lambda so_far, piece: so_far + part.count("\n") + piece.count("\n"), initial=-part.count("\n")
    )
    return sorted({1 + start for start in list(starts)[1:]})


def refused(case: Case) -> bool:
    """What the SDK does and we refuse."""
    reasons: list[tuple[str, bool, str]] = [
        ("odd path", case.odd(), REFUSAL),
        ("file slash", any(path.endswith("/") for path in case.paths), r"does not exist|ends with '/'"),
        ("range", "view_range" in case.call, r"Invalid `view_range` parameter"),
        ("size", case.command in ("create", "insert", "str_replace"), r"the content has \d+ bytes"),
        ("empty old_str", case.call.get("old_str") == "", r"old_str is empty"),
        ("no number", type(case.call.get("insert_line")) is not int, r"Invalid `insert_line` parameter: (True|'1')\."),
    ]
    for name, applies, pattern in reasons:
        if applies and re.search(pattern, case.ours.text):
            case.found.add(name)
            return True
    return False


def raw(case: Case) -> bool:
    """What the SDK fails at with an exception that is no answer."""
    ours = case.ours.text
    reasons: list[tuple[str, bool, object]] = [
        ("raw NUL", any("\0" in path for path in case.paths), case.ours.is_error),
        ("surrogate", case.broken(), case.ours.is_error),
        ("raw new_str", case.command == "str_replace" and case.call.get("new_str") is None, True),
        ("raw type", type(case.call.get("insert_line", 0)) is not int, case.ours.is_error),
        ("raw type", case.command == "view" and "view_range" in case.call, "`view_range`" in ours),
        ("raw below a file", case.below_a_file(), case.ours.is_error),
        ("raw into itself", case.into_itself(), re.search(" cannot be moved into itself| does not exist", ours)),
        ("file slash", any(path.endswith("/") for path in case.paths), case.ours.is_error),
        ("odd path", case.odd(), case.ours.is_error),
    ]
    for name, applies, right in reasons:
        if applies:
            case.found.add(name)
            return bool(right)
    return False


def numbers(lines: list[str]) -> dict[int, str]:
    """Numbered lines by their numbers."""
    return {int(line[:6]): line[7:] for line in lines}


def texts(case: Case) -> bool:
    """Two views of a file."""
    header, *theirs = case.theirs.text.split("\n")
    ours_header, *ours = case.ours.text.split("\n")
    if header != ours_header:
        return False
    if theirs and theirs != ours and theirs[-1].endswith("\t") and case.text[-1:] in ("", "\n"):
        case.found.add("last newline")
        theirs.pop()
    if ours and ours[-1].startswith("[Cut at 16,000 characters: "):
        case.found.add("cut")
        *ours, _ = ours
        return len("\n".join(theirs)) > 16_000 and "\n".join(theirs).startswith("\n".join(ours))
    return theirs == ours


def snippets(case: Case) -> bool:
    """Two answers of str_replace."""
    sentence, *theirs = case.theirs.text.split("\n")
    ours_sentence, *ours = case.ours.text.split("\n")
    if sentence != ours_sentence:
        case.found.add("edited")
        if (sentence, ours_sentence) != (SDK.replaced, SEED.replaced):
            return False
    if theirs == ours:
        return True
    start = case.text.index(case.call["old_str"])
    new = case.text[:start] + case.call["new_str"] + case.text[start + len(case.call["old_str"]) :]
    cut = bool(ours) and ours[-1].startswith("[Cut at 16,000 characters: ")
    if cut:
        case.found.add("cut")
        ours.pop()
    shown, wanted = numbers(theirs), numbers(ours)
    count = new.count("\n") + 1
    if count in shown and count not in wanted and shown[count] == "":
        case.found.add("last newline")
        del shown[count]
    end = max(wanted, default=0)
    if cut:
        shown = {
            number: text[: len(wanted[end])] if number == end else text
            for number, text in shown.items()
            if number <= end
        }
    if shown != wanted:
        case.found.add("snippet")
        if "\n" not in case.call["new_str"]:
            return False
    return all(wanted.get(number) == text for number, text in shown.items())


def listings(case: Case) -> bool:
    """Two views of a directory."""
    path, text = case.paths[0], case.theirs.text
    if path.endswith("/"):
        case.found.add("asked slash")
        text = text.replace(path, path.rstrip("/"))
    header, *theirs = text.split("\n")
    ours_header, *ours = case.ours.text.split("\n")
    if header != ours_header:
        case.found.add("header")
        if header[:-1] + " and node_modules:" != ours_header:
            return False
    pairs = [(size, path) for size, _, path in (line.partition("\t") for line in theirs)]
    kept = [(size, path) for size, path in pairs[:1] + [p for p in pairs[1:] if not hidden(p[1], pairs[0][1])]]
    if kept != pairs:
        case.found.add("node_modules")
    top = kept[0][1]
    translated: list[tuple[str | None, str]] = []
    for size, path in kept:
        if path.endswith("/") or path == top:
            case.found.add("directory size")
            if path != top:
                case.found.add("directory slash")
            translated.append((None, path.rstrip("/")))
        else:
            translated.append((size, path))
    if translated != sorted(translated, key=lambda pair: pair[1]):
        case.found.add("order")
        translated.sort(key=lambda pair: pair[1])
    lines = [(size, path) for size, _, path in (line.partition("\t") for line in ours)]
    if [path for _, path in translated] != [path for _, path in lines]:
        return False
    for (their_size, _), (our_size, _) in zip(translated, lines, strict=True):
        if their_size is not None and their_size != our_size:
            case.found.add("decimals")
            if our_size != f"{their_size[:-1]}.0{their_size[-1]}":
                return False
    return True


def hidden(path: str, top: str) -> bool:
    return "node_modules" in path.removeprefix(top).split("/")


def trees(case: Case, theirs: Tree, ours: Tree) -> bool:
    """Whether the trees after a call are equal, or as different as the table says."""
    if theirs == ours:
        return True
    if case.ours.is_error:
        if ours != case.before:
            return False  # whatever they did
        if case.theirs.is_error:
            case.found.add("left behind")
        return True
    if case.command == "str_replace" and case.theirs.raw is TypeError:
        return theirs == case.before and case.call.get("new_str") is None
    if case.command == "insert":
        case.found.add("bytes of insert")
        one, other = theirs.files[case.inside], ours.files[case.inside]
        assert {**theirs.files, case.inside: other} == ours.files
        # It adds a last newline, loses one after an empty last line, and takes those of insert_text for one.
        newline = not re.search(r"[^\n]\n\Z", case.text) or case.call["insert_text"].endswith("\n\n")
        return newline and one.replace(b"\n", b"") == other.replace(b"\n", b"")
    return False


# ---- the run ---------------------------------------------------------------------------------------------------------


def brief(text: str) -> str:
    """Without the middle of long texts."""
    return re.sub(r"'((?:[^'\\]|\\.){60})(?:[^'\\]|\\.){200,}'", r"'\1…'", text)


def run(ours: Ours, theirs: Theirs, calls: Calls, each: Callable[[Case], None]) -> None:
    log: list[Call] = []
    before = ours.tree()
    assert theirs.tree() == before
    for _ in range(CALLS):
        call = calls.next(before)
        log.append(call)
        case = Case(call, theirs.call(call), ours.call(call), before)
        if not explained(case):
            pytest.fail(brief(f"not in the table: {case}\nafter {log}"))
        before, their_tree = ours.tree(), theirs.tree()
        if not trees(case, their_tree, before):
            pytest.fail(brief(f"not in the table: {case}\ntheirs {their_tree}\nours {before}\nafter {log}"))
        if their_tree != before:
            theirs.become(before)
        each(case)


@pytest.mark.parametrize("wording", [SEED, SDK], ids=["seed", "sdk"])
def test_both_do_the_same(
    workspace: Workspace,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    wording: Wording,
) -> None:
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)  # only to be fast: no loss of power is tested
    found = dict.fromkeys(TABLE, 0)
    done: Counter[str] = Counter()

    def count(case: Case) -> None:
        for name in case.found:
            found[name] += 1
        if not case.ours.is_error:
            done[case.command] += 1
        done["equal" if case.theirs == case.ours else "different"] += 1
        assert case.found or case.theirs == case.ours, case

    for seed in range(SEQUENCES):
        run(Ours(workspace, wording), Theirs(tmp_path / str(seed)), Calls(seed), count)
    expected = {name for name, entry in TABLE.items() if wording is SEED or entry.with_its_words}
    assert {name for name, times in found.items() if times} == expected, found
    assert min(done.values()) > 20, done
    assert caplog.records == [], "an exception that nobody expected is logged"
