"""Trees of any size, and any edit of a sealed lane: proofs hold, and what was changed is named.

1. A tree does not depend on the steps in which it grew; its proofs verify, and with any bit of
   leaf, path or root changed they do not.
2. A lane that was not touched has no finding. One that was edited, cut, swapped, thinned or
   lengthened has one that covers the place; with the edges of all seals, an edit in place is named
   between its two seals, and nowhere else.
"""

from __future__ import annotations

from bisect import bisect_left
from itertools import accumulate

from hypothesis import given
from hypothesis import strategies as st

from eventstore.seals.findings import Finding, Mark, findings_of, merged
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
from eventstore.storage.leaves import SealedRow, hash_of, leaf_hash

MOST = 70

Rows = list[SealedRow]


def leaves_of(size: int) -> list[bytes]:
    """Return hashes of as many leaves."""
    return [leaf_hash(str(number).encode()) for number in range(size)]


def path_of(ranges: list[Range], leaves: list[bytes]) -> list[bytes]:
    """Return the roots of ranges, in their order."""
    roots = range_roots(ranges, leaves)
    return [roots[each] for each in ranges]


def root_of(leaves: list[bytes]) -> bytes:
    """Return the root of a tree."""
    edge = Edge()
    for leaf in leaves:
        edge.add(leaf)
    return edge.root()


def flipped(data: bytes, bit: int) -> bytes:
    """Return the bytes with one bit changed."""
    place, mask = bit // 8 % len(data), 1 << bit % 8
    return data[:place] + bytes([data[place] ^ mask]) + data[place + 1 :]


@given(st.lists(st.integers(0, 9), max_size=12))
def test_a_tree_does_not_depend_on_the_steps_in_which_it_grew(steps: list[int]) -> None:
    """Its edge is stored and taken up again between any two steps."""
    leaves = leaves_of(sum(steps))
    edge = Edge()
    for end, step in zip(accumulate(steps), steps, strict=True):
        resumed = Edge.of(edge.size, edge.stored_form())
        assert resumed is not None
        edge = resumed
        for leaf in leaves[end - step : end]:
            edge.add(leaf)
    assert edge.size == len(leaves)
    assert edge.root() == root_of(leaves)


@given(st.data())
def test_proofs_verify_and_with_any_bit_changed_they_do_not(data: st.DataObject) -> None:
    """Inclusion and consistency, in trees of any size."""
    size = data.draw(st.integers(1, MOST))
    index, old = data.draw(st.integers(0, size - 1)), data.draw(st.integers(1, size))
    bit = data.draw(st.integers(0, 255))
    leaves = leaves_of(size)
    root, old_root = root_of(leaves), root_of(leaves[:old])
    path = path_of(inclusion_ranges(index, size), leaves)
    since = path_of(consistency_ranges(old, size), leaves)
    assert len(path) <= size.bit_length()
    assert len(since) <= size.bit_length() + 1
    assert is_included(leaves[index], index, size, path, root)
    assert is_consistent(old, old_root, size, root, since)

    assert not is_included(flipped(leaves[index], bit), index, size, path, root)
    assert not is_included(leaves[index], index, size, path, flipped(root, bit))
    assert not is_consistent(old, flipped(old_root, bit), size, root, since)
    assert not is_consistent(old, old_root, size, flipped(root, bit), since)
    for number in range(len(path)):
        broken = [*path[:number], flipped(path[number], bit), *path[number + 1 :]]
        assert not is_included(leaves[index], index, size, broken, root)
    for number in range(len(since)):
        broken = [*since[:number], flipped(since[number], bit), *since[number + 1 :]]
        assert not is_consistent(old, old_root, size, root, broken)
    other = data.draw(st.integers(0, size - 1))
    assert is_included(leaves[index], other, size, path, root) is (other == index)


def rows_of(size: int) -> Rows:
    """Return the rows of a lane."""
    return [
        SealedRow(
            *(position, "", "c", position, b"i", 0, None, "message", 1, None),
            *(b"p" * 16, None, b"c" * 16),
        )
        for position in range(1, size + 1)
    ]


def marks_of(rows: Rows, sizes: list[int], *, has_edges: bool) -> list[Mark]:
    """Return the seals of these sizes, with their edges; or notes alone."""
    marks: list[Mark] = []
    edge = Edge()
    for row in rows:
        edge.add(hash_of(row))
        if edge.size in sizes:
            stored = edge.stored_form() if has_edges else None
            marks.append(
                Mark(edge.size, edge.root(), stored, is_outside=not has_edges, is_stored=has_edges)
            )
    return merged(0, marks)[0]


def numbered(rows: Rows) -> Rows:
    """Return the rows with positions without gaps, as a careful forger leaves them."""
    return [row._replace(position=number) for number, row in enumerate(rows, 1)]


@given(st.data())
def test_any_edit_of_a_sealed_lane_is_named(data: st.DataObject) -> None:
    """The finding covers the place, and without an edit there is none."""
    size = data.draw(st.integers(1, MOST))
    sizes = sorted({size, *data.draw(st.lists(st.integers(1, size), max_size=5))})
    has_edges = data.draw(st.booleans())
    rows = rows_of(size)
    marks = marks_of(rows, sizes, has_edges=has_edges)
    if data.draw(st.booleans()):
        marks = [Mark(0, EMPTY_ROOT, is_stored=has_edges), *marks]
    assert list(findings_of(0, rows, marks)) == []
    assert list(findings_of(0, rows_of(size + 3), marks)) == []

    place = data.draw(st.integers(1, size))
    kind = data.draw(
        st.sampled_from(["edit", "damage", "lose", "twice", "swap", "cut", "thin", "more"])
    )
    before, row, after = rows[: place - 1], rows[place - 1], rows[place:]
    assert isinstance(row, SealedRow)
    first = ([0, *sizes])[bisect_left(sizes, place)] + 1
    last = sizes[bisect_left(sizes, place)]
    expected: tuple[str, int, int] | None = None
    if kind == "edit":
        changed = [*before, row._replace(payload=b"q" * 16), *after]
        expected = "changed", first, last
    elif kind == "damage":
        changed = [*before, row._replace(tag=5), *after]
        expected = "unreadable", place, place
    elif kind == "lose":
        changed = [*before, *after]
        expected = ("missing", place, place) if place < size else None
    elif kind == "twice":
        changed = [*before, row, row, *after]
        expected = "unreadable", place, place
    elif kind == "swap":
        changed = numbered([*before, *after[:1], row, *after[1:]])
        if place == size:  # it has no neighbour
            return
    elif kind == "cut":
        changed = before
    elif kind == "thin":
        changed = numbered([*before, *after])
    else:
        changed = numbered([*before, row._replace(version=0), row, *after])
    found = list(findings_of(0, changed, marks))
    assert any(each.first <= place <= each.last for each in found), found
    if expected is not None and (has_edges or kind != "edit"):
        assert [(each.kind, each.first, each.last) for each in found] == [expected]
    if kind in ("cut", "thin"):
        assert found[-1].kind == ("cut" if has_edges else "put back")
    assert all(isinstance(each, Finding) and str(each) for each in found)
