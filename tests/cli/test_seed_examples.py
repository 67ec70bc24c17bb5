"""The shell examples of the document that this project was created from, said in this command line, from end to end."""

import subprocess
import sys
from pathlib import Path

from tests.processes import environment

SCRIPT = r"""
# Create a store.
store_id=$(memfs store create "User Preferences" --description "Per-user preferences and project context." -q)
[[ $store_id == memstore_* ]]

# Seed it.
memfs memory create "$store_id" /formatting_standards.md \
  --content "All reports use GAAP formatting. Dates are ISO-8601..." > /dev/null

# List what it holds: everything below a prefix, or what lies directly below it.
memfs memory list "$store_id" --prefix /
memfs memory list "$store_id" --depth 1 -q | wc -l | grep -qx 1
status=0; memfs memory list "$store_id" --depth 2 2> "$T/err" || status=$?
[[ $status == 2 ]]
status=0; memfs memory list "$store_id" --prefix /formatting 2> "$T/err" || status=$?
[[ $status == 2 ]]
grep -q prefix "$T/err"

# Create a memory; create never overwrites.
mem=$(memfs memory create "$store_id" /preferences/formatting.md --content "Always use tabs, not spaces." --format json)
mem_id=$(field id <<< "$mem")
mem_sha=$(field content_sha256 <<< "$mem")
[[ $mem_sha == "$(printf 'Always use tabs, not spaces.' | sha256sum | cut -d' ' -f1)" ]]
status=0; memfs memory create "$store_id" /preferences/formatting.md --content "Other." 2> "$T/err" || status=$?
[[ $status == 4 ]]

# Retrieve it, by id and by path.
[[ $(memfs memory show "$store_id" "$mem_id") == "Always use tabs, not spaces." ]]
[[ $(memfs memory show "$store_id" /preferences/formatting.md) == "Always use tabs, not spaces." ]]

# Rename it into an archive path: it keeps its id.
memfs memory update "$store_id" "$mem_id" --path /archive/2026_q1_formatting.md > /dev/null
[[ $(memfs memory show "$store_id" /archive/2026_q1_formatting.md --format json | field id) == "$mem_id" ]]

# A safe edit: with a precondition that no longer holds, and with one that does.
memfs memory update "$store_id" "$mem_id" --content "Somebody else was faster." > /dev/null
status=0
memfs memory update "$store_id" "$mem_id" --content "CORRECTED: Always use 2-space indentation." \
  --if-sha256 "$mem_sha" 2> "$T/err" || status=$?
[[ $status == 4 ]]
grep -qi "read it again" "$T/err"
mem_sha=$(memfs memory show "$store_id" "$mem_id" --format json | field content_sha256)
memfs memory update "$store_id" "$mem_id" --content "CORRECTED: Always use 2-space indentation." \
  --if-sha256 "$mem_sha" > /dev/null
# The same again is no conflict, and no version.
memfs memory update "$store_id" "$mem_id" --content "CORRECTED: Always use 2-space indentation." \
  --if-sha256 "$mem_sha" > /dev/null

# Audit: every change is a version, the newest first.
versions=$(memfs version list "$store_id" --memory "$mem_id" --format jsonl)
[[ $(field operation <<< "$versions" | paste -sd,) == modified,modified,modified,created ]]
version_id=$(field id <<< "$versions" | sed -n 2p)
[[ $(memfs version show "$store_id" "$version_id" --content) == "Somebody else was faster." ]]

# Redact an old version; the head cannot be.
status=0; memfs version redact "$store_id" "$(field id <<< "$versions" | sed -n 1p)" 2> "$T/err" || status=$?
[[ $status == 1 ]]
memfs version redact "$store_id" "$version_id" > /dev/null
redacted=$(memfs version show "$store_id" "$version_id" --format json)
[[ $(field content path content_sha256 content_size_bytes <<< "$redacted") == "null null null null" ]]
[[ $(field operation <<< "$redacted") == modified ]]
grep -rqF "Somebody else was faster." "$(dirname "$MEMFS_DB")" && exit 1

# Delete the memory: with a stale precondition it stays. Its versions outlive it, and bring it back.
status=0; memfs memory delete "$store_id" "$mem_id" --if-sha256 "${mem_sha/?/0}" 2> "$T/err" || status=$?
[[ $status == 4 ]]
memfs memory delete "$store_id" "$mem_id" > /dev/null
status=0; memfs memory show "$store_id" "$mem_id" 2> "$T/err" || status=$?
[[ $status == 3 ]]
newest=$(memfs version list "$store_id" --memory "$mem_id" --limit 2 -q)
[[ $(memfs version show "$store_id" "$(sed -n 1p <<< "$newest")" --format json | field operation) == deleted ]]
memfs version restore "$store_id" "$(sed -n 2p <<< "$newest")" > /dev/null
[[ $(memfs memory show "$store_id" "$mem_id") == "CORRECTED: Always use 2-space indentation." ]]

# List the stores, archive this one: it can still be read, but not written or attached.
memfs store list | grep -q "User Preferences"
memfs store archive "$store_id" > /dev/null
memfs store list | grep -q "User Preferences" && exit 1
memfs store list --include-archived | grep -q "User Preferences"
memfs memory show "$store_id" /formatting_standards.md | grep -q GAAP
status=0; memfs memory create "$store_id" /late.md --content late 2> "$T/err" || status=$?
[[ $status == 1 ]]
grep -q archived "$T/err"
status=0; memfs mount -s "$store_id" --root "$T/root" 2> "$T/err" || status=$?
[[ $status == 1 ]]

# And remove it for good.
memfs store delete "$store_id" --yes > /dev/null
status=0; memfs store show "$store_id" 2> "$T/err" || status=$?
[[ $status == 3 ]]
"""


def test_the_seed_s_shell_examples_work(tmp_path: Path) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "memfs").write_text(f'#!/bin/sh\nexec "{sys.executable}" -bb -m memfs.cli "$@"\n')
    # What jq -r would do: fields of each object on stdin, separated by spaces.
    (programs / "field").write_text(
        f"#!{sys.executable}\n"
        "import json, sys\n"
        "text, decoder, at = sys.stdin.read(), json.JSONDecoder(), 0\n"
        "while text[at:].strip():\n"
        "    item, at = decoder.raw_decode(text, at + len(text[at:]) - len(text[at:].lstrip()))\n"
        "    print(*['null' if item[name] is None else item[name] for name in sys.argv[1:]])\n"
    )
    for program in programs.iterdir():
        program.chmod(0o755)
    variables = environment(MEMFS_DB=str(tmp_path / "db" / "memfs.db"), T=str(tmp_path))
    variables["PATH"] = f"{programs}:{variables['PATH']}"
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", "set -E; trap 'echo \"line $LINENO\" >&2' ERR\n" + SCRIPT],
        cwd=tmp_path,
        env=variables,
        capture_output=True,
        text=True,
        timeout=220,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    assert "Traceback" not in done.stderr
