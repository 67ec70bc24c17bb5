"""Whether this system lets anybody make user namespaces, which a sandbox needs: within a chroot, none can be made."""

import subprocess

import pytest

_TRIED = subprocess.run(["unshare", "--user", "true"], capture_output=True, text=True, timeout=120, check=False)

needs_user_namespaces = pytest.mark.skipif(
    _TRIED.returncode != 0, reason=f"no user namespaces can be made here: {_TRIED.stderr.strip()}"
)
