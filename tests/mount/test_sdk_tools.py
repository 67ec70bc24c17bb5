"""The SDK's own agent tools (bash, read, write, edit, glob, grep) as a client of a mount."""

import anyio
import pytest
from anthropic.lib.tools import ToolError

from tests.mount.agent_tools import Tools
from tests.mount.harness import Site

pytestmark = pytest.mark.mount


def test_an_agent_works_on_its_memory(at: Site) -> None:
    at.store("standards", style_md="Use tabs.\n")
    notes, standards = at.mount("notes", "standards:read_only")

    async def session() -> None:
        tools = Tools(at.root)
        try:
            await tools.call("write", file_path="notes/user.md", content="name: Ada\nlikes: tea\n")
            assert "likes: tea" in await tools.call("read", file_path="notes/user.md")
            await tools.call("edit", file_path="notes/user.md", old_string="tea", new_string="coffee")
            assert await tools.call("read", file_path=str(notes / "user.md")) == "name: Ada\nlikes: coffee\n"
            await tools.call("write", file_path="notes/projects/memfs.md", content="coffee break at four\n")
            assert "notes/projects/memfs.md" in await tools.call("glob", pattern="notes/**/*.md")
            found = await tools.call("grep", pattern="coffee", path="notes")
            assert "user.md" in found
            assert "memfs.md" in found
            said = await tools.call("bash", command="cd notes && sed -i s/Ada/Grace/ user.md && cat user.md && ls -R")
            assert "name: Grace" in said
            assert "Use tabs." in await tools.call("read", file_path="standards/style.md")
            with pytest.raises(ToolError, match=r"(?i)read-only"):
                await tools.call("write", file_path="standards/style.md", content="Use spaces.\n")
            with pytest.raises(ToolError, match=r"(?i)read-only"):
                await tools.call("edit", file_path="standards/style.md", old_string="tabs", new_string="spaces")
            with pytest.raises(ToolError, match=r"(?i)read-only"):
                await tools.call("bash", command="cd .. && echo no > standards/x")
            await tools.call("write", file_path="scratch.txt", content="thinking aloud")
        finally:
            await tools.close()

    anyio.run(session, backend="trio")
    assert at.operations("notes", "/user.md") == [
        ("created", "/user.md", b"name: Ada\nlikes: tea\n"),
        ("modified", "/user.md", b"name: Ada\nlikes: coffee\n"),
        ("modified", "/user.md", b"name: Grace\nlikes: coffee\n"),
    ]
    assert at.operations("notes", "/projects/memfs.md") == [
        ("created", "/projects/memfs.md", b"coffee break at four\n")
    ]
    assert at.operations("standards") == [("created", "/style.md", b"Use tabs.\n")]
    assert standards.is_dir()
    session_id = at.status()[0]["session_id"]
    assert {v.created_by.id for v in at.history("notes")} == {session_id}
