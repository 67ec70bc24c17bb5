"""How editors are started: without the user's settings, and with their backups.

By itself neither vim nor emacs keeps a backup of what lies below /tmp, where tests work.
"""

import shlex

VIM = ["vim", "-u", "DEFAULTS", "-i", "NONE", "--cmd", "set backupskip="]

EX = shlex.join([*VIM, "-es"])
"""In batch; without a word, whatever happens, but with an exit status."""

EMACS = ["emacs", "-nw", "-Q", "--eval", "(setq backup-enable-predicate (lambda (name) t))"]

EVALUATE = f"{shlex.join([*EMACS, '--batch'])} --eval "
"""In batch."""
