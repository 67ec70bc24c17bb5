"""When memories were read. Noted in memory and recorded now and then, so that reading is no write to the database."""

import logging

from memfs.engine import Engine
from memfs.model.errors import Busy, MemfsError
from memfs.model.records import now

log = logging.getLogger(__name__)

RECORD_SECONDS = 600.0
"""How often whoever serves reads for long should record them. A crash loses what was noted since."""

MAX_NOTED = 65_536
"""Memories of which it is noted that they were read, the latest: some 15 MB. Whoever makes, reads and deletes memories
all the time would have one noted for each."""


class Accesses:
    """The reads of this process that are not on record yet."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._noted: dict[str, str] = {}

    def note(self, memory_id: str) -> None:
        """A memory's text was read just now."""
        self._noted.pop(memory_id, None)
        self._noted[memory_id] = now()
        if len(self._noted) > MAX_NOTED:
            self._noted.pop(next(iter(self._noted)), None)

    def noted(self, memory_id: str) -> str | None:
        """When a memory was last read, where that is not on record yet."""
        return self._noted.get(memory_id)

    def record(self) -> None:
        """Put what was noted on record. Where the database is busy or cannot be written, it stays noted."""
        noted, self._noted = self._noted, {}
        if not noted:
            return
        try:
            self._engine.record_accesses(noted)
        except MemfsError as error:
            # Reading a database that cannot be written is no fault, and a busy one will have a quieter moment.
            level = logging.DEBUG if isinstance(error, Busy) else logging.INFO
            log.log(level, "reads are not on record yet: %s", error)
            self._noted = {**noted, **self._noted}
