"""The scaling curves: the same work with more memories, more versions, more sessions, and larger texts."""

import subprocess
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from memfs.model.records import MAX_MEMORIES
from tests.bench.bars import PASSTHROUGH, TMPFS
from tests.bench.contestants import SECONDS, CannotMeasure, Place, contestants
from tests.bench.measuring import CREATED, HEAD_OPERATIONS, STATTED, Measuring
from tests.bench.rows import Curve

COMPARED = ("memfs", PASSTHROUGH, TMPFS)

CALLS = {"stat": "stat", "read": "open-read-close", "list": "list and stat, an entry", "create": "create-write-close"}


def curves(measuring: Measuring) -> list[Curve]:
    """All of them. Raises CannotMeasure."""
    return [*by_memories(measuring), by_versions(measuring), *by_sessions(measuring), *by_bytes(measuring)]


def _calls(measuring: Measuring, place: Place, kinds: Sequence[str]) -> dict[tuple[str, str], list[float]]:
    """Single calls by contestants in turns: µs by kind and contestant."""
    files = place.in_a_directory
    counts = {"stat": min(STATTED, files), "read": min(STATTED, files), "list": files, "create": CREATED}
    times: dict[tuple[str, str], list[float]] = {}
    with contestants(place, bindfs=False) as found:
        for _ in range(measuring.plan.curve_rounds):
            for kind in kinds:
                for each in found:
                    directory = each.new if kind == "create" else each.full / "d0"
                    if each.name in COMPARED and directory is not None:
                        seconds = measuring.work(kind, directory, counts[kind], place.size) / 1_000
                        times.setdefault((kind, each.name), []).append(seconds / files if kind == "list" else seconds)
    return times


def by_memories(measuring: Measuring) -> list[Curve]:
    """Stores of different sizes: single calls, a mount's start, and its worker's memory."""
    found = {kind: Curve(name, "memories in a store", "µs") for kind, name in CALLS.items()}
    started = Curve("mounting", "memories in a store", "s")
    memory = Curve("a worker's memory", "memories in a store", "MB")
    for wanted in measuring.plan.curve_memories:
        number = min(wanted, MAX_MEMORIES)
        measuring.say(f"curve: {number:,} memories in a store")
        place = measuring.place.beside(f"memories-{number}", memories=number, size=measuring.plan.size)
        for (kind, name), values in _calls(measuring, place, tuple(CALLS)).items():
            found[kind].add(name, number, values)
        seconds, resident = measuring.start(place, ["full"], -(-measuring.plan.curve_rounds // 2))
        started.add("memfs", number, seconds)
        memory.add("memfs, all read: RSS", number, resident["read"]["rss"])
        memory.add("memfs, all read: PSS", number, resident["read"]["pss"])
    return [*found.values(), started, memory]


def by_versions(measuring: Measuring) -> Curve:
    """What the history costs the operations that must not depend on it: the ratio to a store with as many versions as
    memories, which is the first point."""
    curve = Curve("head operations", "versions in the history", "× an empty history")
    longest = measuring.longest
    if longest is None:
        raise CannotMeasure("the table must be measured before its curves")
    documents = [*map(measuring.compare_history, measuring.plan.curve_versions), longest]
    for operation in HEAD_OPERATIONS:
        curve.add(operation, longest["versions"]["short"], [1.0])
        for document in documents:
            ratios = [each["ratio"] for each in document["operations"] if each["operation"] == operation]
            curve.add(operation, document["versions"]["long"], ratios)
    return curve


def by_sessions(measuring: Measuring) -> list[Curve]:
    """Sessions that work at once, each in its own directory: with memfs each by its own mount of one store, on the
    others all on one filesystem. All of them together, in operations a second."""
    read = Curve("reading, all sessions together", "sessions", "open-read-close a second")
    create = Curve("saving, all sessions together", "sessions", "create-write-close a second")
    most = max(measuring.plan.curve_sessions)
    files = 20
    place = measuring.place.beside("sessions", memories=files * most, size=measuring.plan.size)
    contents = {
        f"/s{n}/note-{k:04}.md": b"%040d" % (n * files + k) * (place.size // 40)
        for n in range(most)
        for k in range(files)
    }
    size = place.size // 40 * 40
    place.fill_store("sessions", contents)
    plain = {TMPFS: place.memory, "disk": place.directory / "below"}
    for directory in plain.values():
        for path, text in contents.items():
            file = directory / path[1:]
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(text)
    for number in measuring.plan.curve_sessions:
        measuring.say(f"curve: {number} sessions")
        with ExitStack() as stack:
            mounts = [stack.enter_context(place.mounted("sessions"))[0] for _ in range(number)]
            passthrough = stack.enter_context(place.passthrough(plain["disk"]))
            tops = {"memfs": mounts, PASSTHROUGH: [passthrough] * number, TMPFS: [plain[TMPFS]] * number}
            together: dict[tuple[str, str], list[float]] = {}
            for _ in range(measuring.plan.curve_rounds):
                for name, directories in tops.items():
                    for kind, count in (("read", files), ("create", CREATED)):
                        own = [directory / f"s{n}" for n, directory in enumerate(directories)]
                        together.setdefault((kind, name), []).append(_at_once(measuring, kind, own, count, size))
            for (kind, name), values in together.items():
                (read if kind == "read" else create).add(name, number, values)
    return [read, create]


def _at_once(measuring: Measuring, kind: str, directories: Sequence[Path], files: int, size: int) -> float:
    """Operations a second of all processes together, one in each directory."""
    program = measuring.place.programs.work
    # Long enough that the moments at which they begin and end, which differ, do not matter.
    milliseconds = str(4 * measuring.plan.sample)
    running: list[subprocess.Popen[str]] = []
    try:
        for directory in directories:
            words = [str(program), kind, str(directory), str(files), str(size), milliseconds]
            running.append(subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
        rate = 0.0
        for process in running:
            output, errors = process.communicate(timeout=SECONDS)
            if process.returncode:
                raise CannotMeasure(f"a session failed: {errors.strip()}")
            rate += 1e9 / float(output.split()[1])
        return rate
    finally:
        for process in running:
            with process:
                process.kill()


def by_bytes(measuring: Measuring) -> list[Curve]:
    """Texts of different sizes."""
    found = {kind: Curve(f"{CALLS[kind]} by size", "bytes in a memory", "µs") for kind in ("read", "create")}
    for size in measuring.plan.curve_bytes:
        measuring.say(f"curve: {size:,} bytes in a memory")
        place = measuring.place.beside(f"bytes-{size}", memories=40, size=size)
        for (kind, name), values in _calls(measuring, place, tuple(found)).items():
            found[kind].add(name, size, values)
    return list(found.values())
