"""What the operations of one mount share."""

from dataclasses import dataclass

from memfs.vfs.asides import Asides
from memfs.vfs.bases import Bases
from memfs.vfs.content import Contents
from memfs.vfs.nodes import FileNode
from memfs.vfs.saving import Saving
from memfs.vfs.scratch import ScratchAccount
from memfs.vfs.temporaries import Temporaries
from memfs.vfs.transactions import Transactions
from memfs.vfs.tree import Tree
from memfs.vfs.working import WorkingCopies
from memfs.workspace import AttachedStore


@dataclass(frozen=True, slots=True)
class Parts:
    """The state of a filesystem but for what is open, and what keeps it in step with the store."""

    store: AttachedStore
    tree: Tree
    transactions: Transactions
    saving: Saving
    contents: Contents
    asides: Asides
    bases: Bases
    scratch: ScratchAccount
    working: WorkingCopies
    temporaries: Temporaries

    def remove(self, node: FileNode) -> None:
        """Take a file out of the tree, after its removal is committed."""
        node.removed_here = True
        self.saving.forget(node)
        self.tree.orphan(node)
        self.scratch.settle(node)
