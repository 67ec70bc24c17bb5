"""Detectors behind the guards: where a text holds secrets and personal data, and the text with them masked.

Nothing here reads a file or talks to anyone. The libraries come with the extra ``guards`` and are loaded by the first
search; docs/design/decisions/0010 says which they are and why.
"""

from memfs.workspace.detectors.rules import Finding, Kind
from memfs.workspace.detectors.search import find, mask

__all__ = ["Finding", "Kind", "find", "mask"]
