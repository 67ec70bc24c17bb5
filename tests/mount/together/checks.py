"""Looking back on what many sessions did: the final texts, the history, the mounts and the CLI against their logs."""

import json
import os
import re
import sqlite3
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from typing import Any

from tests.mount.harness import Site
from tests.mount.together import plan as p
from tests.mount.together.mounts import STORE, SharedSite
from tests.mount.together.working import UNREADABLE

Entry = dict[str, Any]

TRY_AGAIN = ("EAGAIN", "ESTALE", UNREADABLE)
"""What an operation may report where others are faster; the last is wrong, and is told as that already."""


@dataclass(frozen=True)
class Version:
    """A row of the history, as the database has it."""

    id: str
    memory_id: str
    operation: str
    path: str
    content: bytes | None
    session_id: str
    created_at: str

    @property
    def text(self) -> str:
        """The content; "" of a deletion."""
        return "" if self.content is None else self.content.decode()


@dataclass
class Done:
    """What all processes logged."""

    entries: list[tuple[int, Entry]]
    """In the order of their ends, with the number of the process."""
    owned: dict[str, str] = field(default_factory=dict)
    """The last acknowledged value of each line that has an owner."""
    files: dict[str, str] = field(default_factory=dict)
    """The files that nobody but their owner touches."""

    def of(self, *kinds: str) -> Iterator[tuple[int, Entry]]:
        """Entries of some kinds."""
        return ((number, entry) for number, entry in self.entries if entry["kind"] in kinds)

    def errors(self) -> Counter[tuple[str, str]]:
        """Operation and errno of what reported an error."""
        return Counter((entry["kind"], entry["errno"]) for _, entry in self.entries if "errno" in entry)


def read_logs(logs: list[Path]) -> Done:
    """Those of processes 0, 1, …"""
    done = Done([])
    for number, log in enumerate(logs):
        for line in log.read_text().splitlines():
            entry = json.loads(line)
            if entry["kind"] == "end":
                done.owned |= entry["owned"]
                done.files |= entry["files"]
            else:
                done.entries.append((number, entry))
    done.entries.sort(key=lambda each: float(each[1]["at"]) + float(each[1]["took"]))
    return done


def conflicts(site: Site) -> set[str] | None:
    """The ids of the versions that were committed over a conflict; None where the CLI cannot tell."""
    done = site.run("version", "list", STORE, "--conflicts", "--format", "json", check=False)
    return {version["id"] for version in json.loads(done.stdout)} if done.returncode == 0 else None


def read_database(database: Path) -> tuple[dict[str, bytes], list[Version]]:
    """By SQL alone: the heads by path, and all versions in their order."""
    with closing(sqlite3.connect(f"{database.absolute().as_uri()}?mode=ro", uri=True)) as connection:
        heads = dict(
            connection.execute("SELECT path, bytes FROM memories JOIN contents ON contents.id = content_id").fetchall()
        )
        rows = connection.execute(
            "SELECT v.id, memory_id, operation, path, bytes, created_by_id, v.created_at FROM memory_versions AS v"
            " LEFT JOIN contents ON contents.id = content_id ORDER BY sequence"
        ).fetchall()
    return heads, [Version(*row) for row in rows]


def tree(directory: Path) -> dict[str, bytes]:
    """Path to bytes of all files in a directory."""
    return {
        f"/{(path := Path(above, name)).relative_to(directory)}": path.read_bytes()
        for above, _, names in os.walk(directory)
        for name in names
    }


def check_all(sites: list[SharedSite], done: Done, sandbox: Path) -> Iterator[str]:
    """Everything; ``sandbox`` is a directory to export to. A text for each thing that is not as it must be."""
    # The mounts first: an open must show everything at once.
    shown = {site.directory.name: tree(site.store_directory) for site in sites}
    heads, versions = read_database(sites[0].db)
    for number, entry in done.entries:
        yield from (f"process {number}, {entry['kind']}: {what}" for what in entry.get("wrong", ()))
        if entry.get("errno", "EAGAIN") not in TRY_AGAIN:
            yield f"process {number}, {entry['kind']}: reported {entry['errno']}"
    yield from check_agreement(sites[0], heads, shown, sandbox)
    yield from check_journals(heads, versions, done, sites)
    yield from check_lines(heads, versions, done, sites)
    yield from check_contested(heads, versions, done, conflicts(sites[0]))
    yield from check_files(heads, versions, done, sites)
    yield from check_shared(versions, done, sites)
    yield from check_chains(versions, heads)


def check_agreement(
    site: Site, heads: dict[str, bytes], shown: dict[str, dict[str, bytes]], sandbox: Path
) -> Iterator[str]:
    """Mounts, CLI and database hold the same bytes."""
    site.run("store", "export", STORE, sandbox / "export")
    shown["memfs store export"] = tree(sandbox / "export")
    for who, found in shown.items():
        for path in sorted(found.keys() | heads.keys()):
            if found.get(path) != heads.get(path):
                there, wanted = (None if each is None else len(each) for each in (found.get(path), heads.get(path)))
                yield f"{who} has {there} bytes at {path}, the database {wanted}, or others of the same number"
    for path in (p.LINES, p.CONTESTED, "/journal-0.md"):
        if site.run("memory", "show", STORE, path).stdout.encode() != heads.get(path):
            yield f"memfs memory show {path} prints something else than the database holds"
    if leftovers := [path for path in heads if ".tmp" in path or re.search(r"/sed\w{6}$", path)]:
        yield f"temporaries became memories: {leftovers}"


def session_ids(sites: list[SharedSite], number: int) -> str:
    """The session of a process."""
    return sites[number % len(sites)].session_id


def check_journals(
    heads: dict[str, bytes], versions: list[Version], done: Done, sites: list[SharedSite]
) -> Iterator[str]:
    """Each append is there exactly once, and a version only ever adds what its session appended."""
    journals = [content.decode() for path, content in heads.items() if path.startswith("/journal-")]
    final = Counter(token for text in journals for token in text.split("\n") if token)
    by_session: defaultdict[str, set[str]] = defaultdict(set)
    uncertain = set()
    for number, entry in done.of("append"):
        if "token" not in entry:
            continue
        token = entry["token"]
        by_session[session_ids(sites, number)].add(token)
        if "errno" in entry:
            uncertain.add(token)
        elif final[token] != 1:
            yield f"the append {token} of process {number} is {final[token]} times in the final text"
    known = set().union(*by_session.values())
    for token, count in final.items():
        if token not in known:
            yield f"nobody appended {token!r}"
        elif token in uncertain and count > 1:
            yield f"the append {token}, which reported an error, is there {count} times"
    for before, after in _steps(versions, "/journal-"):
        if not after.text.startswith(before):
            yield f"{after.id} of {after.path} is no continuation of the version before it"
            continue
        added = after.text[len(before) :].split("\n")
        if strangers := [token for token in added if token and token not in by_session[after.session_id]]:
            yield f"{after.id} of {after.path} adds what its session did not append: {strangers[:3]}"


def check_lines(heads: dict[str, bytes], versions: list[Version], done: Done, sites: list[SharedSite]) -> Iterator[str]:
    """Each line is its owner's last acknowledged edit; a version only ever changes its own session's lines."""
    written: defaultdict[str, set[str]] = defaultdict(set)
    acknowledged = dict.fromkeys(done.owned, "start")
    uncertain: dict[str, set[str]] = {key: set() for key in done.owned}
    session_of = {key: session_ids(sites, number) for number in range(len(done.owned) // 2) for key in p.owned(number)}
    edits = 0
    for _, entry in done.of("edit_by_sed", "edit_by_truncation", "edit_by_replacement"):
        key, value = entry["key"], entry["value"]
        written[key].add(value)
        edits += 1
        if "errno" in entry:
            uncertain[key].add(value)
        else:
            acknowledged[key], uncertain[key] = value, set()
    first = p.first_lines(len(sites) * (len(done.owned) // 2 // len(sites)))
    text = heads.get(p.LINES, b"").decode()
    found = p.values(text)
    if p.frame(text) != p.frame(first):
        yield f"{p.LINES} has other lines than at the beginning: {_difference(p.frame(first), p.frame(text))}"
    for key, value in acknowledged.items():
        if found.get(key) not in {value, *uncertain[key]}:
            yield f"lost: {key} is {found.get(key)!r} in the final text, its last acknowledged edit was {value!r}"
    count = 0
    for before, after in _steps(versions, p.LINES):
        if before == "":
            continue
        count += 1
        was, now = p.values(before), p.values(after.text)
        changed = {key for key in was.keys() | now.keys() if was.get(key) != now.get(key)}
        if p.frame(before) != p.frame(after.text):
            yield f"{after.id} of {p.LINES} changes the lines themselves: {_difference(before, after.text)}"
        elif not changed:
            yield f"phantom: {after.id} of {p.LINES} changes nothing"
        for key in sorted(changed):
            if session_of.get(key) != after.session_id:
                step = f"{key} from {was.get(key)!r} to {now.get(key)!r}"
                yield f"{after.id} of {p.LINES} takes {step}, of another session"
            elif now.get(key) not in written[key]:
                yield f"{after.id} of {p.LINES} holds {key} = {now.get(key)!r}, which nobody wrote"
    if count > edits:
        yield f"phantom: {count} versions of {p.LINES} after {edits} edits"


def check_contested(
    heads: dict[str, bytes], versions: list[Version], done: Done, recorded: set[str] | None
) -> Iterator[str]:
    """Each edit is in the history. Where its line had changed since it was read, the conflict is on record, and only
    there."""
    if recorded is None:
        yield "memfs version list has no --conflicts"
    made: dict[str, tuple[Version, str | None]] = {}
    """Value to the version that brought it, and what it took the place of."""
    changed_in: dict[str, list[str]] = {}
    for before, after in _steps(versions, p.CONTESTED):
        was, now = p.values(before), p.values(after.text)
        changed_in[after.id] = [key for key in now if was.get(key) != now[key]]
        if before == "":
            continue
        if p.frame(after.text) != p.frame(p.first_contested()):
            yield f"{after.id} of {p.CONTESTED} changes fixed lines: {_difference(before, after.text)}"
        if not changed_in[after.id]:
            yield f"phantom: {after.id} of {p.CONTESTED} changes nothing"
        for key in changed_in[after.id]:
            if now[key] in made:
                yield f"{after.id} of {p.CONTESTED} brings {key} = {now[key]!r} back"
            made[now[key]] = after, was.get(key)
    if p.frame(heads.get(p.CONTESTED, b"").decode()) != p.frame(p.first_contested()):
        yield f"{p.CONTESTED} has other lines than at the beginning"
    needed, known = set(), set()
    for number, entry in done.of("contest"):
        if "read" not in entry:
            continue
        known.add(entry["value"])
        if entry["value"] not in made:
            if "errno" not in entry:
                yield f"lost: the edit {entry['key']} = {entry['value']!r} of process {number} is in no version"
            continue
        version, replaced = made[entry["value"]]
        if replaced != entry["read"]:
            needed.add(version.id)
    for value in made.keys() - known:
        yield f"nobody wrote {value!r}, which {made[value][0].id} has"
    if recorded is not None:
        yield from (f"the conflict of {each} is not on record" for each in sorted(needed - recorded))
        needless = sorted(recorded & changed_in.keys() - needed)
        yield from (f"{each} has a conflict on record where there was none" for each in needless)


def check_files(heads: dict[str, bytes], versions: list[Version], done: Done, sites: list[SharedSite]) -> Iterator[str]:
    """What nobody else touches is as it was left, and its history is exactly what was done."""
    exclusive = re.compile(r"/(box|moving)/(?!any-)")
    there = {path: content.decode() for path, content in heads.items() if exclusive.match(path)}
    failed = {path for _, entry in done.entries if "errno" in entry for _, path, _ in entry.get("versions", ())}
    for path in sorted(there.keys() | done.files.keys()):
        if there.get(path) != done.files.get(path) and path not in failed:
            yield f"{path} is {_short(there.get(path))}, was left as {_short(done.files.get(path))}"
    wanted = Counter(
        (session_ids(sites, number), operation, path, text)
        for number, entry in done.entries
        if "errno" not in entry
        for operation, path, text in entry.get("versions", ())
    )
    found = Counter(
        (v.session_id, v.operation, v.path, None if v.operation == "deleted" else v.text)
        for v in versions
        if exclusive.match(v.path)
    )
    yield from (f"lost: {_brief(each)}" for each in (wanted - found).elements() if each[2] not in failed)
    yield from (f"phantom: {_brief(each)}" for each in (found - wanted).elements() if each[2] not in failed)


def check_shared(versions: list[Version], done: Done, sites: list[SharedSite]) -> Iterator[str]:
    """Files that all make, write and delete: each text that was acknowledged is in the history, and each deletion."""
    text = "".join(v.text for v in versions if v.path in p.SHARED_NAMES)
    tokens = set(text.split("\n"))
    deleted = Counter((v.session_id, v.path) for v in versions if v.operation == "deleted" and v.path in p.SHARED_NAMES)
    for number, entry in done.of("share"):
        if "errno" in entry or "late" in entry:
            continue
        if entry["how"] == "unlink":
            deleted[session_ids(sites, number), entry["path"]] -= 1
        elif entry["token"] not in tokens:
            yield f"lost: {entry['token']!r} of process {number}, written to {entry['path']}, is in no version"
    for (who, path), count in deleted.items():
        # Of two sessions that delete at once, both may be told that it is done.
        others = sum(v.operation == "deleted" and v.path == path and v.session_id != who for v in versions)
        if count > 0 or -count > others:
            yield f"{path}: {count:+} deletions by {who} in the history against those that were done"


def check_chains(versions: list[Version], heads: dict[str, bytes]) -> Iterator[str]:
    """Each memory's history follows from itself, and ends where the memory is."""
    last: dict[str, Version] = {}
    for before, after in pairwise(versions):
        if not (before.id < after.id and before.created_at <= after.created_at):
            yield f"{after.id} comes after {before.id} and is older"
    for version in versions:
        former = last.get(version.memory_id)
        former_operation = "nothing" if former is None else former.operation
        live = former_operation not in ("nothing", "deleted")
        if (version.operation == "created") == live:
            yield f"{version.id} of {version.path} is '{version.operation}' after '{former_operation}'"
        what = (version.operation == "deleted", version.path, version.content)
        if former is not None and what == (former_operation == "deleted", former.path, former.content):
            yield f"phantom: {version.id} of {version.path} is the same as the version before it"
        last[version.memory_id] = version
    ends = Counter((v.path, v.content or b"") for v in last.values() if v.operation != "deleted")
    for path, content in (ends - Counter(heads.items())).elements():
        yield f"the history ends with {path}, {sha256(content).hexdigest()[:8]}, which is no head"
    for path, content in (Counter(heads.items()) - ends).elements():
        yield f"the head {path}, {sha256(content).hexdigest()[:8]}, is not the last of its history"


def _steps(versions: list[Version], prefix: str) -> Iterator[tuple[str, Version]]:
    """Each version at a path that begins so, with the text of the one before it at the same path."""
    before: defaultdict[str, str] = defaultdict(str)
    for version in versions:
        if version.path.startswith(prefix):
            yield before[version.path], version
            before[version.path] = version.text


def _difference(before: str, after: str) -> str:
    gone = Counter(before.splitlines()) - Counter(after.splitlines())
    new = Counter(after.splitlines()) - Counter(before.splitlines())
    return f"{len(before)} to {len(after)} characters, without {_short(list(gone)[:3])}, with {_short(list(new)[:3])}"


def _brief(version: tuple[str, str, str, str | None]) -> str:
    session, operation, path, text = version
    return f"{operation} {path} {_short(text)} by {session}"


def _short(what: object) -> str:
    return repr(what)[:100]
