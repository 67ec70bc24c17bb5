"""The bounds that docs/reference/limits.md states are those that attacks are held to."""

from memfs.mount.supervisor import RateLimit
from memfs.vfs.handles import MAX_LISTED, MAX_OPEN
from memfs.vfs.scratch import MAX_SCRATCH_BYTES, MAX_SCRATCH_FILES
from memfs.vfs.working import MAX_WORKING_BYTES
from memfs.workspace.accesses import MAX_NOTED
from tests.hostile.attacks import ATTACKS
from tests.hostile.ground import MAX_BYTES_A_VERSION, MAX_PEAK_MIB, MAX_SUPERVISOR_MIB, MAX_THREADS, MAX_WAL_BYTES
from tests.processes import ROOT


def test_the_bounds_are_those_of_the_page() -> None:
    rows = [
        f"| temporaries in one store's mount | {MAX_SCRATCH_BYTES >> 20} MiB together, in memory; "
        f"{MAX_SCRATCH_FILES:,} files |",
        f"files that are still open, in one store's mount | {MAX_WORKING_BYTES >> 20} MiB together, in memory |",
        f"| open files and directories of one store's mount | {MAX_OPEN:,} |",
        f"| names that open directories hold which have changed since | {MAX_LISTED:,} |",
        f"| resident memory of a store's worker | {MAX_PEAK_MIB} MiB:",
        f"| of the supervisor | {MAX_SUPERVISOR_MIB} MiB |",
        f"| threads of a worker | {MAX_THREADS} |",
        f"| the database's log (`-wal`) | {MAX_WAL_BYTES >> 20} MiB,",
        f"| a version in the database, beside a text that was not there before | {MAX_BYTES_A_VERSION:,} bytes |",
        f"| the log of a mount | {RateLimit.FREELY >> 20} MiB of what clients provoke, then a line a minute",
        f"| reads that are not on record yet | those of {MAX_NOTED:,} memories |",
    ]
    page = (ROOT / "docs/reference/limits.md").read_text()
    assert [row for row in rows if row not in page] == []


def test_every_attack_is_on_its_page() -> None:
    page = (ROOT / "docs/design/hostile-input.md").read_text()
    assert [name for name in ATTACKS if f"| `{name}`: " not in page] == []
