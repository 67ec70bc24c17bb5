"""A store as a tree of inodes and handles, in plain Python: everything a mount does, without a kernel."""

from memfs.vfs.filesystem import Filesystem
from memfs.vfs.handles import DirectoryHandle, FileHandle
from memfs.vfs.nodes import DirectoryNode, FileNode, Node
from memfs.vfs.temporaries import Temporaries
from memfs.vfs.tree import StaleEntry, StaleInode

__all__ = [
    "DirectoryHandle",
    "DirectoryNode",
    "FileHandle",
    "FileNode",
    "Filesystem",
    "Node",
    "StaleEntry",
    "StaleInode",
    "Temporaries",
]
