"""The import directions of DESIGN.md ("Layers"), read from the source of every module in memfs/.

The source is parsed and never run, so an import counts wherever it stands: in a function, under
TYPE_CHECKING, behind a try. The second half of this file plants violations in a temporary tree, because a
checker that finds nothing looks the same as a clean package.
"""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parent.parent / "memfs"

# Which layers of memfs each layer may import, besides itself.
MAY_IMPORT: dict[str, frozenset[str]] = {
    "model": frozenset(),
    "engine": frozenset({"model"}),
    "workspace": frozenset({"engine", "model"}),
    "vfs": frozenset({"workspace", "model"}),
    "mount": frozenset({"vfs", "workspace", "model"}),
    "tool": frozenset({"workspace", "model"}),
    "api": frozenset({"workspace", "model"}),
    "testing": frozenset({"mount", "workspace", "model"}),
    "cli": frozenset({"api", "tool", "mount", "vfs", "workspace", "engine", "model"}),
}

# Modules that one layer alone may import.
OWNERS: dict[str, str] = {
    "pyfuse3": "mount",
    "pytest": "testing",
    "click": "cli",
    "rich": "cli",
    "anthropic": "tool",
    "mcp": "tool",
    "mcp_types": "tool",
    "fastapi": "api",
    "starlette": "api",
    "uvicorn": "api",
    "pydantic": "api",
    "prometheus_client": "api",
    "sqlite3": "engine",
    "sqlite_utils": "engine",
    "inotify_simple": "engine",
}

# Modules that a layer may not import although anyone else may. `model` is pure: no errno, no HTTP status, no
# event loop.
FORBIDDEN: dict[str, frozenset[str]] = {"model": frozenset({"errno", "http", "trio"})}

# Layers that must have been found, or the walk looked in the wrong place.
PRESENT = frozenset({"model", "engine", "workspace", "vfs", "mount", "tool", "api", "testing", "cli"})


@dataclass(frozen=True, order=True)
class Violation:
    """One line of one module that breaks a rule."""

    file: str
    line: int
    reason: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.reason}"


@dataclass(frozen=True)
class Reference:
    """What a module names: `memfs.engine.sqlite`, `click`. An empty target could not be worked out."""

    line: int
    target: str


def layers(package: Path) -> set[str]:
    """Return the directories of `package` that hold Python source; one of leftover bytecode is no layer."""
    return {child.name for child in package.iterdir() if child.is_dir() and any(sources(child))}


def sources(directory: Path) -> Iterator[Path]:
    """Yield every Python source file below `directory`."""
    for path in sorted(directory.rglob("*")):
        if path.suffix in {".py", ".pyi"} and path.is_file():
            yield path


def check(package: Path) -> list[Violation]:
    """Return every violation in `package`, a directory named memfs.

    Raises SyntaxError for a module that does not parse: one that cannot be read is not one that is clean.
    """
    found: list[Violation] = []
    for layer in sorted(layers(package) - MAY_IMPORT.keys()):
        found.append(Violation(f"memfs/{layer}", 1, "a layer without a rule in tests/test_layering.py"))
    for path in sources(package):
        relative = path.relative_to(package)
        file = f"memfs/{relative.as_posix()}"
        tree = ast.parse(path.read_bytes(), filename=file)
        if len(relative.parts) == 1:
            found += check_top(file, tree)
        elif relative.parts[0] in MAY_IMPORT:
            found += check_module(relative, file, tree)
    return sorted(found)


def check_top(file: str, tree: ast.Module) -> Iterator[Violation]:
    """Yield what a file directly in memfs/ may not hold: all but __init__.py's docstring and __version__."""
    if file != "memfs/__init__.py":
        yield Violation(file, 1, "belongs to no layer: move it into one")
        return
    for statement in tree.body:
        match statement:
            case ast.Expr(value=ast.Constant(value=str())):
                pass
            case ast.Assign(targets=[ast.Name(id="__version__")], value=ast.Constant(value=str())):
                pass
            case _:
                yield Violation(file, statement.lineno, "may hold a docstring and __version__ only")


def check_module(relative: Path, file: str, tree: ast.Module) -> Iterator[Violation]:
    """Yield what the module at `relative` (below memfs/) imports or calls and may not."""
    layer = relative.parts[0]
    for reference in references(relative, tree):
        reason = judge(layer, reference.target)
        if reason is not None:
            yield Violation(file, reference.line, f"{layer} {reason}")
    if layer != "cli":
        for node in ast.walk(tree):
            match node:
                case ast.Name(id="print") | ast.Attribute(value=ast.Name(id="builtins"), attr="print"):
                    yield Violation(file, node.lineno, f"{layer} uses print, which is for cli alone")


def judge(layer: str, target: str) -> str | None:
    """Return why `layer` may not name `target`, or None where it may."""
    if not target:
        return "imports what this test cannot follow: write a plain import"
    top, *rest = target.split(".")
    if top != "memfs":
        owner = OWNERS.get(top, layer)
        if owner != layer:
            return f"imports {top}, which is for {owner} alone"
        if top in FORBIDDEN.get(layer, ()):
            return f"imports {top}, which it must do without"
        return None
    other = rest[0] if rest else ""
    if other == layer:
        return None
    if other == "__version__":
        return "imports memfs.__version__, which is not model's" if layer == "model" else None
    if other not in MAY_IMPORT:
        # `import memfs` and `from memfs import *` give every layer that somebody has loaded.
        return f"imports {target}, which is no layer: name the module"
    if other not in MAY_IMPORT[layer]:
        allowed = ", ".join(sorted(MAY_IMPORT[layer])) or "none"
        return f"imports memfs.{other} (of the other layers it may import: {allowed})"
    return None


def references(relative: Path, tree: ast.Module) -> Iterator[Reference]:
    """Yield every module that the module at `relative` (below memfs/) imports or reaches through `memfs`."""
    package = ("memfs", *relative.parent.parts)  # of a module and of an __init__ alike
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                for alias in names:
                    yield Reference(node.lineno, alias.name)
            case ast.ImportFrom(module=module, names=names, level=level):
                for target in from_targets(package, module, level, [alias.name for alias in names]):
                    yield Reference(node.lineno, target)
            case ast.Attribute(value=ast.Name(id="memfs"), attr=attribute):
                # After `import memfs.model.ids`, memfs.engine is there too if anybody imported it.
                yield Reference(node.lineno, f"memfs.{attribute}")
            case ast.Call(
                func=ast.Name(id="__import__" | "import_module") | ast.Attribute(attr="import_module"),
                args=arguments,
            ):
                match arguments:
                    case [ast.Constant(value=str(name))] if not name.startswith("."):
                        yield Reference(node.lineno, name)
                    case _:
                        yield Reference(node.lineno, "")


def from_targets(package: tuple[str, ...], module: str | None, level: int, names: list[str]) -> list[str]:
    """Return what `from <level dots><module> import <names>` in `package` names; "" where it leaves memfs."""
    if level > len(package):
        return [""]
    parts = [*package[: len(package) - level + 1]] if level else []
    if module is not None:
        parts += module.split(".")
    if parts == ["memfs"]:  # `from memfs import engine`: the name imported is the layer
        return [f"memfs.{name}" for name in names]
    return [".".join(parts)]


def test_memfs_keeps_its_import_directions() -> None:
    violations = check(PACKAGE)
    assert not violations, "\n".join(["", *map(str, violations)])


def test_the_package_was_really_read() -> None:
    assert layers(PACKAGE) >= PRESENT
    assert (PACKAGE / "__init__.py").is_file()


# ---- the checker itself, on planted trees ------------------------------------------------------------------

CLEAN = {
    "__init__.py": '"""Docstring."""\n\n__version__ = "0.0.0"\n',
    "model/__init__.py": "",
    "model/ids.py": "import os\nfrom . import errors\nfrom .errors import E\nfrom memfs.model import x\n",
    "model/errors.py": "class E(Exception): ...\n",
    "engine/sqlite.py": "import errno, sqlite3, sqlite_utils.db\nfrom ..model.ids import new\nimport trio\n",
    "workspace/stores.py": "from memfs.engine import sqlite\nfrom ..model import ids\nimport errno\n",
    "vfs/tree.py": "from memfs import workspace\nimport memfs.model.ids\nx = memfs.model.ids\n",
    "mount/operations.py": "import pyfuse3\nfrom memfs import __version__\nfrom memfs.vfs import tree\n",
    "mount/deep/er.py": "from ...vfs import tree\nfrom ..operations import x\nself.print('a method')\n",
    "tool/sdk.py": "from memfs.workspace import stores\nimport importlib\nimportlib.import_module('json')\n",
    "tool/mcp.py": "import mcp.types\nfrom anthropic.lib import tools\nfrom memfs import __version__\n",
    "testing/plugin.py": "import pytest\nfrom memfs.mount import system\n",
    "api/app.py": "from memfs.model import ids\nimport http\n",
    "cli/main.py": "import click, rich.table\nfrom memfs import api, tool, mount, vfs, engine\nprint('x')\n",
    "model/__pycache__/stray.txt": "not source",
    "gone/__pycache__/stray.pyc": "bytecode of a layer that was removed",
}


def plant(root: Path, files: dict[str, str]) -> Path:
    """Write `files` (path below memfs/ to source) under `root` and return the package directory."""
    package = root / "memfs"
    for name, source in files.items():
        path = package / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source, encoding="utf-8")
    return package


def test_a_clean_tree_has_no_violation(tmp_path: Path) -> None:
    assert check(plant(tmp_path, CLEAN)) == []


@pytest.mark.parametrize(
    "file, source, line, reason",
    [
        # every way of writing an import
        ("vfs/x.py", "import memfs.engine", 1, "imports memfs.engine"),
        ("vfs/x.py", "import memfs.engine.sqlite as s", 1, "imports memfs.engine"),
        ("vfs/x.py", "import os, memfs.engine", 1, "imports memfs.engine"),
        ("vfs/x.py", "from memfs import engine", 1, "imports memfs.engine"),
        ("vfs/x.py", "from memfs import model, engine as e", 1, "imports memfs.engine"),
        ("vfs/x.py", "from memfs.engine import sqlite", 1, "imports memfs.engine"),
        ("vfs/x.py", "from memfs.engine.sqlite import Sqlite", 1, "imports memfs.engine"),
        ("vfs/x.py", "from ..engine import sqlite", 1, "imports memfs.engine"),
        ("vfs/x.py", "from .. import engine", 1, "imports memfs.engine"),
        ("vfs/__init__.py", "from ..engine import sqlite", 1, "imports memfs.engine"),
        ("vfs/__init__.py", "from .. import engine", 1, "imports memfs.engine"),
        ("vfs/deep/er.py", "from ...engine.sqlite import x", 1, "imports memfs.engine"),
        ("vfs/deep/__init__.py", "from ... import engine", 1, "imports memfs.engine"),
        ("vfs/x.pyi", "import memfs.engine", 1, "imports memfs.engine"),
        ("vfs/x.py", "import memfs.model\nmemfs.engine.sqlite.connect()", 2, "imports memfs.engine"),
        ("vfs/x.py", "import importlib\nimportlib.import_module('memfs.engine')", 2, "imports memfs.engine"),
        ("vfs/x.py", "__import__('memfs.engine')", 1, "imports memfs.engine"),
        # anywhere in a module
        ("vfs/x.py", "def f():\n    import memfs.engine", 2, "imports memfs.engine"),
        ("vfs/x.py", "async def f():\n    from ..engine import x", 2, "imports memfs.engine"),
        ("vfs/x.py", "class C:\n    from ..engine import x", 2, "imports memfs.engine"),
        (
            "vfs/x.py",
            "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from ..engine import x",
            3,
            "imports memfs.engine",
        ),
        ("vfs/x.py", "try:\n    import memfs.engine\nfinally:\n    pass", 2, "imports memfs.engine"),
        # the adapters among themselves, and the floor below
        ("mount/x.py", "from memfs.api import app", 1, "imports memfs.api"),
        ("mount/x.py", "from memfs.tool import sdk", 1, "imports memfs.tool"),
        ("api/x.py", "from memfs.mount import worker", 1, "imports memfs.mount"),
        ("api/x.py", "from memfs.tool import sdk", 1, "imports memfs.tool"),
        ("tool/x.py", "from memfs.mount import worker", 1, "imports memfs.mount"),
        ("tool/x.py", "from memfs.api import app", 1, "imports memfs.api"),
        ("mount/x.py", "from memfs.cli import main", 1, "imports memfs.cli"),
        ("mount/x.py", "from memfs.engine import sqlite", 1, "imports memfs.engine"),
        ("testing/x.py", "from memfs.cli import main", 1, "imports memfs.cli"),
        ("testing/x.py", "from memfs.engine import sqlite", 1, "imports memfs.engine"),
        ("cli/x.py", "from memfs.testing import plugin", 1, "imports memfs.testing"),
        ("mount/x.py", "import pytest", 1, "imports pytest"),
        ("tool/x.py", "from memfs.vfs import tree", 1, "imports memfs.vfs"),
        ("tool/x.py", "from memfs.engine import sqlite", 1, "imports memfs.engine"),
        ("tool/x.py", "def f():\n    from memfs.cli import main", 2, "imports memfs.cli"),
        ("workspace/x.py", "from memfs.vfs import tree", 1, "imports memfs.vfs"),
        ("engine/x.py", "from memfs.workspace import stores", 1, "imports memfs.workspace"),
        ("model/x.py", "from memfs.engine import sqlite", 1, "imports memfs.engine"),
        ("model/x.py", "from memfs import __version__", 1, "imports memfs.__version__"),
        # other people's packages
        ("vfs/x.py", "import pyfuse3", 1, "imports pyfuse3"),
        ("cli/x.py", "import pyfuse3", 1, "imports pyfuse3"),
        ("mount/x.py", "from click import echo", 1, "imports click"),
        ("api/x.py", "from rich.console import Console", 1, "imports rich"),
        ("workspace/x.py", "import sqlite3", 1, "imports sqlite3"),
        ("tool/x.py", "import click", 1, "imports click"),
        ("cli/x.py", "from mcp.server import Server", 1, "imports mcp"),
        ("cli/x.py", "import mcp_types", 1, "imports mcp_types"),
        ("workspace/x.py", "import anthropic", 1, "imports anthropic"),
        ("cli/x.py", "from sqlite_utils.db import Table", 1, "imports sqlite_utils"),
        ("mount/x.py", "from inotify_simple import INotify", 1, "imports inotify_simple"),
        ("model/x.py", "import errno", 1, "imports errno"),
        ("model/x.py", "from http import HTTPStatus", 1, "imports http"),
        ("model/x.py", "from trio import Lock", 1, "imports trio"),
        # print
        ("mount/x.py", "def f():\n    print('here')", 2, "uses print"),
        ("model/x.py", "callback = print", 1, "uses print"),
        ("api/x.py", "import builtins\nbuiltins.print('here')", 2, "uses print"),
        # what would blind the checker
        ("vfs/x.py", "import memfs", 1, "imports memfs, which is no layer"),
        ("vfs/x.py", "from memfs import *", 1, "imports memfs.*, which is no layer"),
        ("vfs/x.py", "import importlib\nimportlib.import_module(name)", 2, "cannot follow"),
        ("vfs/x.py", "import importlib\nimportlib.import_module('..engine', 'memfs')", 2, "cannot follow"),
        ("vfs/x.py", "from ... import engine", 1, "cannot follow"),
        # the top of the package
        ("__init__.py", "__version__ = '1'\nfrom memfs.engine import sqlite", 2, "__version__ only"),
        ("__init__.py", "__version__ = compute()", 1, "__version__ only"),
        ("helpers.py", "", 1, "belongs to no layer"),
        ("newlayer/x.py", "", 1, "a layer without a rule"),
        ("newlayer/deep/x.py", "", 1, "a layer without a rule"),
    ],
)
def test_a_planted_violation_is_found(tmp_path: Path, file: str, source: str, line: int, reason: str) -> None:
    """Exactly the planted line is reported, in a tree that is clean otherwise."""
    (violation,) = check(plant(tmp_path, CLEAN | {file: source}))
    reported = "memfs/newlayer" if "newlayer" in file else f"memfs/{file}"
    assert (violation.file, violation.line) == (reported, line)
    assert reason in violation.reason


@pytest.mark.parametrize("layer", sorted(MAY_IMPORT))
def test_every_pair_of_layers_is_judged_by_its_rule(tmp_path: Path, layer: str) -> None:
    for other in MAY_IMPORT:
        source = f"from memfs.{other} import something\n"
        violations = check(plant(tmp_path / other, CLEAN | {f"{layer}/planted.py": source}))
        assert (violations == []) is (other == layer or other in MAY_IMPORT[layer]), (layer, other)


def test_a_module_that_does_not_parse_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(SyntaxError):
        check(plant(tmp_path, CLEAN | {"vfs/broken.py": "import ("}))


def test_rules_name_only_layers_that_exist_in_the_rules() -> None:
    named = frozenset().union(*MAY_IMPORT.values(), OWNERS.values(), FORBIDDEN, PRESENT)
    assert named <= MAY_IMPORT.keys()
