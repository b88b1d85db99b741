"""The Merkle tree of RFC 6962 (section 2.1) over SHA-256: edges, proofs, and their checks.

1. The hash of a leaf is that of `leaves.leaf_hash`, that of a node SHA-256 over 0x01 and its two
   children, that of the empty tree SHA-256 over nothing.
2. The left child of a node over n > 1 leaves covers the greatest power of two that is less than n.
3. The right edge of a tree of n leaves is the hashes of its whole subtrees, one for each bit of n,
   the greatest first. It is all that a tree needs in order to grow, and to have a root.
4. A proof is the roots of some ranges of leaves. `inclusion_ranges` and `consistency_ranges` say of
   which; `range_roots` reads the leaves once and keeps edges alone, so its memory is O(log n).
5. The checks are those of RFC 9162 (sections 2.1.3.2 and 2.1.4.2). What has not the form of a proof
   is false, and raises nothing.

Algebra: adding leaves to an edge one by one equals adding them at once; every tree is consistent
with each of its prefixes, and with no other tree that has another prefix.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import sha256
from typing import Self

from eventstore.storage.leaves import HASH_BYTES

EMPTY_ROOT = sha256().digest()
"""The root of a tree without leaves."""

Range = tuple[int, int]
"""The leaves from one index to before another."""

_of_node = sha256(b"\1")


def node_hash(left: bytes, right: bytes) -> bytes:
    """Return the hash of the node over two hashes."""
    hash_ = _of_node.copy()
    hash_.update(left + right)
    return hash_.digest()


class Edge:
    """The right edge of a tree, which grows by hashes of leaves."""

    __slots__ = ("_hashes", "size")

    def __init__(self) -> None:
        self.size = 0
        """The number of leaves."""
        self._hashes: list[bytes] = []

    @classmethod
    def of(cls, size: int, stored: bytes) -> Self | None:
        """Return the edge that `stored_form` wrote; None where the bytes are not of that size."""
        if size < 0 or len(stored) != HASH_BYTES * size.bit_count():
            return None
        edge = cls()
        edge.size = size
        edge._hashes = [
            stored[start : start + HASH_BYTES] for start in range(0, len(stored), HASH_BYTES)
        ]
        return edge

    def stored_form(self) -> bytes:
        """Return its hashes, one after another."""
        return b"".join(self._hashes)

    def add(self, leaf: bytes) -> None:
        """Let the tree grow by the hash of a leaf."""
        rest = self.size
        while rest & 1:
            leaf = node_hash(self._hashes.pop(), leaf)
            rest >>= 1
        self._hashes.append(leaf)
        self.size += 1

    def root(self) -> bytes:
        """Return the root of the tree."""
        if not self._hashes:
            return EMPTY_ROOT
        *others, root = self._hashes
        for left in reversed(others):
            root = node_hash(left, root)
        return root


def inclusion_ranges(index: int, size: int) -> list[Range]:
    """Return the ranges whose roots prove that a leaf is in a tree, the leaf's neighbour first."""
    start, end = 0, size
    found: list[Range] = []
    while end - start > 1:
        middle = start + _left(end - start)
        if index < middle:
            found.append((middle, end))
            end = middle
        else:
            found.append((start, middle))
            start = middle
    return found[::-1]


def consistency_ranges(old: int, new: int) -> list[Range]:
    """Return the ranges whose roots prove that a tree of `old` leaves is a prefix of one of `new`.

    None are needed where it is empty, or where nothing was added.
    """
    start, end = 0, new
    found: list[Range] = []
    while old and old != end:
        middle = start + _left(end - start)
        if old <= middle:
            found.append((middle, end))
            end = middle
        else:
            found.append((start, middle))
            start = middle
    if start:  # otherwise it is the old tree, whose root is known
        found.append((start, end))
    return found[::-1]


def range_roots(ranges: Iterable[Range], leaves: Iterable[bytes]) -> dict[Range, bytes]:
    """Return the root of each range, over the hashes of all leaves, which are read once.

    Raises:
        ValueError: there are fewer leaves than the ranges cover.
    """
    waiting = sorted(set(ranges), reverse=True)
    growing: dict[Range, Edge] = {}
    roots: dict[Range, bytes] = {}
    for index, leaf in enumerate(leaves):
        while waiting and waiting[-1][0] == index:
            growing[waiting.pop()] = Edge()
        for edge in growing.values():
            edge.add(leaf)
        for each in [each for each in growing if each[1] == index + 1]:
            roots[each] = growing.pop(each).root()
    if waiting or growing:
        raise ValueError(
            f"there are fewer leaves than {max(end for _, end in [*waiting, *growing])}"
        )
    return roots


def is_included(leaf: bytes, index: int, size: int, path: Sequence[bytes], root: bytes) -> bool:
    """Return whether a path proves that the hash of a leaf is in a tree, at an index from 0."""
    if not 0 <= index < size or not _are_hashes(leaf, root, *path):
        return False
    place, last = index, size - 1
    for other in path:
        if last == 0:
            return False
        if place & 1 or place == last:
            leaf = node_hash(other, leaf)
            while place and not place & 1:
                place, last = place >> 1, last >> 1
        else:
            leaf = node_hash(leaf, other)
        place, last = place >> 1, last >> 1
    return last == 0 and leaf == root


def is_consistent(
    old: int, old_root: bytes, new: int, new_root: bytes, path: Sequence[bytes]
) -> bool:
    """Return whether a path proves that the tree of `old` leaves is a prefix of that of `new`."""
    if not 0 <= old <= new or not _are_hashes(old_root, new_root, *path):
        return False
    if old in (0, new):
        is_empty = old > 0 or old_root == EMPTY_ROOT
        return not path and is_empty and (old < new or old_root == new_root)
    hashes = [old_root, *path] if old.bit_count() == 1 else list(path)
    if not hashes:
        return False
    place, last = old - 1, new - 1
    while place & 1:
        place, last = place >> 1, last >> 1
    old_hash = new_hash = hashes[0]
    for other in hashes[1:]:
        if last == 0:
            return False
        if place & 1 or place == last:
            old_hash, new_hash = node_hash(other, old_hash), node_hash(other, new_hash)
            while place and not place & 1:
                place, last = place >> 1, last >> 1
        else:
            new_hash = node_hash(new_hash, other)
        place, last = place >> 1, last >> 1
    return last == 0 and old_hash == old_root and new_hash == new_root


def _left(leaves: int) -> int:
    """Return the greatest power of two that is less than a number above 1."""
    return 1 << (leaves - 1).bit_length() - 1


def _are_hashes(*values: bytes) -> bool:
    return all(len(value) == HASH_BYTES for value in values)
