"""fio's jobs on a mount, each verifying what it wrote.

Memories are texts, so that fio's checksums, which it writes into each block, cannot be in them: there the whole file is
one pattern, and what is left is compared with what the same job, which writes at the same places, left on a tmpfs.
Files with the name of a temporary hold any bytes: there each block has its checksum and its place.
"""

import json
from dataclasses import dataclass, field
from typing import Any

PATTERN = "a line of a memory, écrite en UTF-8\n"
"""Begins anew in each block. No block that is written ends within its character of two bytes."""

REWRITTEN = "a line that took the place of another\n"
"""Files with this one are as long as those with the other, so that only their bytes tell them apart."""

TEXT_SIZE = 98_304
"""Bytes of a memory: a multiple of all blocks that are written, so that none is over the limit."""


SCRATCH_SIZE = "1m"


def quoted(text: str) -> str:
    """A line as fio wants a pattern."""
    return f'"{text.removesuffix(chr(10))}"0x0a'


_TEXT = {
    "filesize": f"{TEXT_SIZE}",
    "nrfiles": "6",
    "numjobs": "2",
    "filename_format": "$jobname.$jobnum.$filenum.md",
    "buffer_pattern": quoted(PATTERN),
    "verify": "pattern",
    "verify_pattern": quoted(PATTERN),
}

_SCRATCH = {
    "filesize": SCRATCH_SIZE,
    "nrfiles": "6",
    "numjobs": "2",
    "filename_format": "$jobname.$jobnum.$filenum.tmp",
    "verify": "crc32c",
}


@dataclass(frozen=True)
class Job:
    """A job: its name, whether its files are memories, and what fio shall do.

    ``rewritten``: then the same processes write the same memories once more, with another text of the same length.
    """

    name: str
    text: bool
    options: dict[str, str] = field(default_factory=dict)
    rewritten: bool = False

    def file(self, directory: str, seconds: float) -> str:
        """The job file. A job that goes on for as long as it is told does so for ``seconds``."""
        # A colon separates file names for fio.
        lines = {
            "directory": directory.replace(":", "\\:"),
            "fallocate": "none",
            "do_verify": "1",
            "verify_fatal": "1",
            "randrepeat": "1",
            "allrandrepeat": "1",
        }
        lines |= _TEXT if self.text else _SCRATCH
        lines |= self.options
        lines = {key: value.format(seconds=max(1, round(seconds))) for key, value in lines.items()}
        text = _section(self.name, lines)
        if self.rewritten:
            other = quoted(REWRITTEN)
            again = {"stonewall": "1", "buffer_pattern": other, "verify_pattern": other}
            text += _section("again", lines | again)
        return text


def _section(name: str, lines: dict[str, str]) -> str:
    return "\n".join([f"[{name}]", *(f"{key}={value}" for key, value in lines.items() if value)]) + "\n"


def operations(output: str) -> tuple[int, list[str]]:
    """How many reads and writes fio did, and the errors of its processes, from what it wrote as JSON."""
    start = output.find("{")
    if start < 0:
        return 0, ["fio said nothing that can be read"]
    said: dict[str, Any] = json.JSONDecoder().raw_decode(output[start:])[0]
    jobs = said["jobs"]
    done = sum(job[kind]["total_ios"] for job in jobs for kind in ("read", "write"))
    return done, [f"error {job['error']} in {job['jobname']}" for job in jobs if job["error"]]


def _text(name: str, engine: str, **options: str) -> Job:
    return Job(f"text-{name}", True, {"ioengine": engine, **options})


def _scratch(name: str, engine: str, **options: str) -> Job:
    return Job(f"scratch-{name}", False, {"ioengine": engine, **options})


_REWRITE = {
    "ioengine": "psync",
    "rw": "randwrite",
    "bs": "2k",
    "overwrite": "1",  # without it, files that are there are removed first
    "filename_format": "text-rewrite.$jobnum.$filenum.md",  # without the name, which is another the second time
}

_NO_VERIFY = {"verify": "", "verify_pattern": "", "do_verify": "0", "verify_fatal": "0"}

JOBS = (
    _text("psync", "psync", rw="randwrite", bs="512"),
    _text("pvsync", "pvsync", rw="write", bs="4k", fsync="8"),
    _text("sync", "sync", rw="randwrite", bsrange="1k-16k", fdatasync="16"),
    _text("vsync", "vsync", rw="write", bs="1k"),
    _text("mmap", "mmap", rw="randwrite", bs="4k", fsync="4"),
    _text("libaio", "libaio", rw="randwrite", bs="2k", iodepth="16", direct="1"),
    _text("io_uring", "io_uring", rw="randwrite", bs="4k", iodepth="16"),
    _text("posixaio", "posixaio", rw="randwrite", bs="4k", iodepth="8"),
    _text("overwrite", "psync", rw="randwrite", bs="3k", overwrite="1", loops="3"),
    Job("text-rewrite", True, _REWRITE, rewritten=True),
    _text("o_sync", "pvsync2", rw="write", bs="8k", sync="1"),
    _text("posix_fallocate", "psync", rw="write", bs="6k", fallocate="posix"),
    _text(
        "openfiles", "psync", rw="randwrite", bs="4k", create_on_open="1", openfiles="1", file_service_type="sequential"
    ),
    _text("ftruncate", "ftruncate", rw="randwrite", bs="1k", **_NO_VERIFY),
    _text("filecreate", "filecreate", rw="write", nrfiles="200", filesize="4k", bs="4k", **_NO_VERIFY),
    _text("mixed", "psync", rw="randrw", bs="2k", time_based="1", runtime="{seconds}", end_fsync="1", **_NO_VERIFY),
    _scratch("psync", "psync", rw="randrw", bsrange="512-16k", verify="sha256"),
    _scratch("pvsync2", "pvsync2", rw="write", bs="64k", fsync="8"),
    _scratch("mmap", "mmap", rw="randwrite", bs="4k"),
    _scratch("libaio", "libaio", rw="randrw", bs="4k", iodepth="32", direct="1", verify_backlog="64"),
    _scratch("io_uring", "io_uring", rw="randrw", bs="4k", iodepth="32"),
    _scratch("overwrite", "psync", rw="randwrite", bs="8k", overwrite="1", verify="xxhash"),
    _scratch("posix_fallocate", "psync", rw="write", bs="4k", fallocate="posix", verify="md5"),
)
