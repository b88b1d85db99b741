"""The Merkle tree against the vectors of Certificate Transparency, and every way to break a proof.

Leaves, roots and proofs are those by which the implementations of RFC 6962 are tested, as in
`proof/verify_test.go` of transparency-dev/merkle.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from eventstore.seals.merkle import (
    EMPTY_ROOT,
    Edge,
    Range,
    consistency_ranges,
    inclusion_ranges,
    is_consistent,
    is_included,
    range_roots,
)
from eventstore.storage.leaves import leaf_hash

ENTRIES = [
    bytes.fromhex(text)
    for text in (
        *("", "00", "10", "2021", "3031", "40414243", "5051525354555657"),
        "606162636465666768696a6b6c6d6e6f",
    )
]
LEAVES = [leaf_hash(entry) for entry in ENTRIES]
ROOTS = [
    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
    "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
    "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
    "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
    "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
    "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
    "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
]
INCLUSION = {
    (0, 1): [],
    (0, 8): [
        "96a296d224f285c67bee93c30f8a309157f0daa35dc5b87e410b78630a09cfc7",
        "5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e",
        "6b47aaf29ee3c2af9af889bc1fb9254dabd31177f16232dd6aab035ca39bf6e4",
    ],
    (5, 8): [
        "bc1a0643b12e4d2d7c77918f44e0f4f79a838b6cf9ec5b5c283e1f4d88599e6b",
        "ca854ea128ed050b41b35ffc1b87b8eb2bde461e9e3b5596ece6b9d5975a0ae0",
        "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    ],
    (2, 3): ["fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125"],
    (1, 5): [
        "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
        "5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e",
        "bc1a0643b12e4d2d7c77918f44e0f4f79a838b6cf9ec5b5c283e1f4d88599e6b",
    ],
}
CONSISTENCY = {
    (1, 1): [],
    (1, 8): INCLUSION[0, 8],
    (6, 8): [
        "0ebc5d3437fbe2db158b9f126a1d118e308181031d0a949f8dededebc558ef6a",
        "ca854ea128ed050b41b35ffc1b87b8eb2bde461e9e3b5596ece6b9d5975a0ae0",
        "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    ],
    (2, 5): [
        "5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e",
        "bc1a0643b12e4d2d7c77918f44e0f4f79a838b6cf9ec5b5c283e1f4d88599e6b",
    ],
    (6, 7): [
        "0ebc5d3437fbe2db158b9f126a1d118e308181031d0a949f8dededebc558ef6a",
        "b08693ec2e721597130641e8211e7eedccb4c26413963eee6c1e2ed16ffb1a5f",
        "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    ],
}
OTHER = bytes.fromhex("abacaba000000000000000000000000000000000000000000060061e00123456")


def test_the_roots_are_those_of_the_vectors() -> None:
    """The edge has the published root at every size, and its stored form goes on from there."""
    edge, other = Edge(), Edge()
    for size, root in enumerate(ROOTS):
        assert edge.root().hex() == root
        assert other.root().hex() == root
        assert len(edge.stored_form()) == 32 * size.bit_count()
        if size < len(LEAVES):
            edge.add(LEAVES[size])
            resumed = Edge.of(size, other.stored_form())
            assert resumed is not None
            other = resumed
            other.add(LEAVES[size])
    assert Edge.of(5, edge.stored_form()) is None
    assert Edge.of(-1, b"") is None


@pytest.mark.parametrize(("place", "expected"), INCLUSION.items())
def test_inclusion_proofs_are_those_of_the_vectors(
    place: tuple[int, int], expected: list[str]
) -> None:
    """The path is the published one, leads to the root, and no broken one does."""
    index, size = place
    path = path_of(inclusion_ranges(index, size), LEAVES)
    assert [each.hex() for each in path] == expected
    leaf, root = LEAVES[index], bytes.fromhex(ROOTS[size])
    assert is_included(leaf, index, size, path, root)
    for other in (index - 1, index + 1, index ^ 2):
        assert not is_included(leaf, other, size, path, root)
    for other in (2 * size, size // 2, 0):
        assert not is_included(leaf, index, other, path, root)
    for other in (b"", OTHER, EMPTY_ROOT):
        assert not is_included(other, index, size, path, root)
        assert not is_included(leaf, index, size, path, other)
    for broken in broken_paths(path, root):
        assert not is_included(leaf, index, size, broken, root)


@pytest.mark.parametrize(("sizes", "expected"), CONSISTENCY.items())
def test_consistency_proofs_are_those_of_the_vectors(
    sizes: tuple[int, int], expected: list[str]
) -> None:
    """The path is the published one, leads to both roots, and no broken one does."""
    old, new = sizes
    path = path_of(consistency_ranges(old, new), LEAVES)
    assert [each.hex() for each in path] == expected
    old_root, new_root = bytes.fromhex(ROOTS[old]), bytes.fromhex(ROOTS[new])
    assert is_consistent(old, old_root, new, new_root, path)
    assert not is_consistent(old, OTHER, new, new_root, path)
    assert not is_consistent(old, old_root, new, OTHER, path)
    for broken in broken_paths(path, old_root, new_root):
        assert not is_consistent(old, old_root, new, new_root, broken)
    if old < new:
        for other in (old - 1, old + 1, old ^ 2):
            assert not is_consistent(other, old_root, new, new_root, path)
        for other in (2 * new, new // 2):
            assert not is_consistent(old, old_root, other, new_root, path)


def test_the_empty_tree_is_the_beginning_of_every_tree() -> None:
    """Only the root of the empty tree is taken for it, and nothing goes back in time."""
    root = bytes.fromhex(ROOTS[8])
    assert is_consistent(0, EMPTY_ROOT, 8, root, [])
    assert is_consistent(0, EMPTY_ROOT, 0, EMPTY_ROOT, [])
    assert not is_consistent(0, root, 8, root, [])
    assert not is_consistent(0, EMPTY_ROOT, 0, root, [])
    assert not is_consistent(0, EMPTY_ROOT, 8, root, [EMPTY_ROOT])
    assert not is_consistent(1, EMPTY_ROOT, 0, root, [])
    assert not is_consistent(1, bytes.fromhex(ROOTS[1]), 2, root, [])


def test_leaves_that_are_missing_are_no_tree() -> None:
    """The roots of ranges are not made from less."""
    with pytest.raises(ValueError, match="fewer leaves than 8"):
        range_roots(inclusion_ranges(0, 8), LEAVES[:7])


def path_of(ranges: list[Range], leaves: list[bytes]) -> list[bytes]:
    """Return the roots of ranges, in their order."""
    roots = range_roots(ranges, leaves)
    return [roots[each] for each in ranges]


def broken_paths(path: list[bytes], *roots: bytes) -> Iterator[list[bytes]]:
    """Yield a path with something too much, too little, or changed."""
    for extra in (b"", OTHER, *roots):
        yield [*path, extra]
        yield [extra, *path]
    for number, each in enumerate(path):
        yield [*path[:number], bytes([each[0] ^ 8, *each[1:]]), *path[number + 1 :]]
        yield [*path[:number], *path[number + 1 :]]
        yield [*path[:number], OTHER, *path[number:]]
