"""What the script of a bundle says of one that was tampered with, and of what is no bundle.

The forger has no signing key, and computes anew all that needs none: digests of files, of payloads,
of markers and of the chain.
"""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from hashlib import blake2b, sha256
from pathlib import Path
from runpy import run_path
from typing import TYPE_CHECKING, Any, cast

import pytest

from eventstore import EventStore
from eventstore.domain.member_tree import proof_of, root_of
from eventstore.seals import SigningKey
from projections.audit import Span, check, write_bundle

if TYPE_CHECKING:
    from typing import Self

KEY = SigningKey("example.com/agents", bytes(range(32)))
VKEY = str(KEY.verifier)

more = run_path(str(check.MORE))
"""The names in the second script, which no package imports."""

Lines = list[dict[str, Any]]

_FILES = ["events.jsonl", "manifest.json", "decisions.json", "redactions.json"]


class Tampered:
    """A copy of a bundle. What is changed by its methods has the digests of the manifest anew."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def lines(self, change: Callable[[Lines], Any]) -> Self:
        """Change the events; where the change returns a list, it takes their place."""
        path = self.folder / "events.jsonl"
        lines: Lines = [json.loads(line) for line in path.read_bytes().splitlines()]
        changed = change(lines)
        lines = cast("Lines", changed) if isinstance(changed, list) else lines
        path.write_text("".join(json.dumps(each) + "\n" for each in lines), "utf-8")
        return self.manifest(lambda _: None)

    def json(self, name: str, change: Callable[[Any], Any]) -> Self:
        """Change another file of JSON in place."""
        path = self.folder / name
        value = json.loads(path.read_bytes())
        change(value)
        path.write_text(json.dumps(value), "utf-8")
        return self

    def manifest(self, change: Callable[[Any], Any]) -> Self:
        """Change the manifest, and compute its digests anew."""
        files = [path for path in self.folder.rglob("*") if path.is_file()]
        digests = {
            path.relative_to(self.folder).as_posix(): sha256(path.read_bytes()).hexdigest()
            for path in files
            if path.name != "manifest.json"
        }
        return self.json(
            "manifest.json", lambda value: (value.update(sha256=digests), change(value))
        )

    def text(self, name: str, old: str, new: str) -> Self:
        """Change a text in a file."""
        path = self.folder / name
        text = path.read_text("utf-8")
        assert old in text
        path.write_text(text.replace(old, new, 1), "utf-8")
        return self.manifest(lambda _: None)

    def leaf(self, number: int, change: Callable[[Any], Any], **line: Any) -> Self:
        """Change the leaf of a line, and members of the line."""

        def changed(lines: Lines) -> None:
            leaf = json.loads(lines[number]["leaf"])
            change(leaf)
            lines[number] |= {"leaf": json.dumps(leaf, separators=(",", ":")), **line}

        return self.lines(changed)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a bundle: `one` with two redactions and version 8 after the seal, and `two`."""
    folder = tmp_path_factory.mktemp("bundles") / "made"
    with EventStore.open("sqlite://") as store:
        for name in ("one", "two"):
            chat = store.conversation(name)
            chat.add_message("user", f"my card is 4111, says {name}")
            call = chat.request("refund", {"amount": 20, "who": "ann"})
            chat.approve(call.id, by="mia", edited_arguments={"amount": 10, "who": "ann"})
            chat.start(call.id)
            chat.complete(call.id, {"paid": 10, "to": "ann"})
        store.redact("one", by="ann", versions=[1], reason="a card", rule="cards")
        store.redact("one", by="ann", versions=[5], paths=["response.result.to"], reason="a name")
        store.seal(KEY)
        store.conversation("one").add_message("user", "more")
        write_bundle(store, folder, ["one", "two"], [KEY.verifier])
    return folder


@pytest.fixture
def tampered(made: Path, tmp_path: Path) -> Tampered:
    """Return a copy that can be changed."""
    return Tampered(Path(shutil.copytree(made, tmp_path / "copy")))


def said_of(folder: Path, capsys: pytest.CaptureFixture[str]) -> tuple[int, list[str]]:
    """Return the status of the script, and its lines."""
    status = check.main(folder, [VKEY])
    return status, capsys.readouterr().out.splitlines()


# Of `one` the lines 0 to 7 are the versions 1 to 8, of `two` the lines 8 to 12 are 1 to 5.


def _edit(line: dict[str, Any]) -> None:
    line["payload"] = line["payload"].replace('"amount":20', '"amount":21')


def _forge(line: dict[str, Any]) -> None:
    """Edit a payload, with its digest in a leaf of its own; take away the path."""
    _edit(line)
    data = bytes.fromhex(line["salt"]) + bytes.fromhex(line["fingerprint"] or "")
    digest = blake2b(data + line["payload"].encode(), digest_size=32, person=b"toolledger/salt")
    leaf = json.loads(line["leaf"]) | {"payload": digest.hexdigest()}
    line |= {"leaf": json.dumps(leaf, separators=(",", ":")), "path": None}


def _shift(line: dict[str, Any]) -> None:
    """Take the first bytes of the payload for the last ones of the salt."""
    line["salt"] += (line["fingerprint"] or "") + line["payload"][:8].encode().hex()
    line |= {"payload": line["payload"][8:], "fingerprint": None}


def _shift_mark(line: dict[str, Any]) -> None:
    """Take the first bytes of the payload for a fingerprint."""
    assert line["fingerprint"] is None
    line |= {"fingerprint": line["payload"][:16].encode().hex(), "payload": line["payload"][16:]}


def _hide(line: dict[str, Any]) -> None:
    """Put a marker in the place of a payload that nobody has redacted."""
    digest = json.loads(line["leaf"])["payload"]
    proof = proof_of(line["payload"].encode(), bytes.fromhex(line["salt"]), None)
    marker = json.dumps({"redacted": digest, "members": proof}, separators=(",", ":"))
    line |= {"payload": None, "salt": None, "fingerprint": None, "marker": marker}


def _other_left(lines: Lines) -> None:
    """Write another amount to what is left of a payload, and its digest into the record."""
    old = lines[4]["marker"]
    new = old.replace('"paid":10', '"paid":99')
    assert new != old
    digests = [
        blake2b(text[75:].encode(), digest_size=16, person=b"toolledger/mark").hexdigest()
        for text in (old[2:], new[2:])
    ]
    lines[4]["marker"] = new
    lines[6]["payload"] = lines[6]["payload"].replace(*digests)


def _swap(lines: Lines) -> None:
    lines[8], lines[9] = lines[9], lines[8]


def _swap_payloads(lines: Lines) -> None:
    for name in ("payload", "salt", "fingerprint"):
        lines[8][name], lines[9][name] = lines[9][name], lines[8][name]


def _unprove(lines: Lines, note: str | None = "lane-0.note") -> None:
    for line in lines:
        line |= {"path": None, "note": note}


def _set(**values: Any) -> Callable[[Any], Any]:
    return lambda value: value.update(values)


def _with_leaf(member: str) -> Callable[[Tampered], Any]:
    return lambda it: it.leaf(9, lambda leaf: leaf.update({member: "x"}))


def _scope(name: str, **values: Any) -> Callable[[Tampered], Any]:
    return lambda it: it.manifest(lambda value: value["conversations"][name].update(values))


WAYS: dict[str, tuple[Callable[[Tampered], Any], str]] = {
    "event dropped": (lambda it: it.lines(lambda some: some.pop(9)), "'two' lacks versions 2 to 2"),
    "first dropped": (lambda it: it.lines(lambda some: some.pop(8)), "'two' lacks versions 1 to 1"),
    "last dropped": (lambda it: it.lines(lambda some: some.pop()), "'two' lacks versions 5 to 5"),
    "all dropped": (lambda it: it.lines(lambda some: some[:8]), "'two' lacks versions 1 to 5"),
    "none left": (lambda it: it.lines(lambda _: []), "'events.jsonl' holds no event"),
    "doubled": (lambda it: it.lines(lambda some: [*some, some[9]]), "'two' version 2 comes again"),
    "swapped": (lambda it: it.lines(_swap), "'two' version 1 comes again, or after version 2"),
    "payload edited": (lambda it: it.lines(lambda some: _edit(some[9])), "is not that of its leaf"),
    "payloads swapped": (lambda it: it.lines(_swap_payloads), "payload is not that of its leaf"),
    "forged": (lambda it: it.lines(lambda some: _forge(some[9])), "version 2: it has no proof"),
    "forged in a chain": (lambda it: it.lines(lambda some: _forge(some[9])), "chain does not foll"),
    "payload null": (lambda it: it.lines(lambda some: some[9].update(payload=None)), "it is gone"),
    "hidden": (lambda it: it.lines(lambda some: _hide(some[9])), "no redaction is recorded here"),
    "marker edited": (
        lambda it: it.text("events.jsonl", '\\"role\\":\\"user\\"', '\\"role\\":\\"tool\\"'),
        "version 1: what is left of it is not what its redaction recorded",
    ),
    "what is left edited": (
        lambda it: it.text("events.jsonl", '\\"paid\\":10', '\\"paid\\":99'),
        "version 5: what is left of it is not what was sealed",
    ),
    "what is left forged": (lambda it: it.lines(_other_left), "is not what was sealed"),
    "record edited": (
        lambda it: it.text("events.jsonl", "a card", "a cart"),
        "version 6: its payload is not that of its leaf",
    ),
    "salt shortened": (
        lambda it: it.lines(lambda some: some[9].update(salt=some[9]["salt"][:-2])),
        "'two' version 2: its salt or its fingerprint does not have 16 bytes",
    ),
    "salt removed": (lambda it: it.lines(lambda some: some[9].update(salt=None)), "not that of"),
    "salt empty": (lambda it: it.lines(lambda some: some[9].update(salt="")), "have 16 bytes"),
    "salt shifted": (lambda it: it.lines(lambda some: _shift(some[9])), "have 16 bytes"),
    "mark shifted": (
        lambda it: it.lines(lambda some: _shift_mark(some[8])),
        "'two' version 1: its members are not those of its leaf",
    ),
    "path null": (lambda it: it.lines(lambda some: some[9].update(path=None)), "has no proof"),
    "all paths null": (lambda it: it.lines(_unprove), "'one' version 1: it has no proof"),
    "no lane": (lambda it: it.lines(lambda some: _unprove(some, None)), "it has no proof"),
    "other lane": (
        lambda it: it.lines(lambda some: some[9].update(note="lane-1.note", path=None)),
        "'two' stands in one lane",
    ),
    "path edited": (
        lambda it: it.lines(lambda some: some[9]["path"].reverse()),
        "'two' version 2: does not lead to its note",
    ),
    "path shortened": (lambda it: it.lines(lambda some: some[9]["path"].pop()), "does not lead"),
    "index moved": (lambda it: it.leaf(9, _set(position=10**6)), "does not lead to its note"),
    "note's size": (lambda it: it.text("notes/lane-0.note", "\n12\n", "\n11\n"), "is false"),
    "note gone": (
        lambda it: (it.folder / "notes/lane-0.note").unlink(),
        "'notes/lane-0.note' is missing",
    ),
    "another's note": (
        lambda it: it.text("notes/lane-0.note", "example.com/agents ", "example.com/others "),
        "none of the keys has signed it",
    ),
    "other store": (lambda it: it.manifest(_set(store="x")), "another store or lane"),
    "other tenant": (lambda it: it.manifest(_set(tenant="x")), "it is of another tenant"),
    "scope cut": (_scope("two", versions=[1, 4]), "other versions after 4 than the manifest says"),
    "scope begins later": (_scope("two", versions=[2, 5]), "lacks versions 1 to 1, and no time"),
    "scope grown": (_scope("two", versions=[1, 10**15]), "lacks versions 6 to 1000000000000000"),
    "scope without one": (
        lambda it: it.manifest(lambda value: value["conversations"].pop("two")),
        "'two' is not in the manifest",
    ),
    "span edited": (lambda it: it.manifest(_set(until=10)), "outside of the time span"),
    "count edited": (
        lambda it: it.manifest(lambda value: value["holds"].update(events=3)),
        "says other numbers than there are",
    ),
    "redaction edited": (
        lambda it: it.text("redactions.json", "a card", "a cart"),
        "'redactions.json' is not what",
    ),
    "redactions edited": (
        lambda it: [it.text(each, "a card", "a cart") for each in _FILES[2:]],
        "'decisions.json': ('one', 6) is not what the event says",
    ),
    "decision edited": (lambda it: it.text("decisions.json", "mia", "bob"), "('one', 3) is not"),
    "decision dropped": (
        lambda it: it.json("decisions.json", lambda some: some.pop()).manifest(_set()),
        "lacks the decision of ('two', 3)",
    ),
    "extra file": (
        lambda it: (it.folder / "more.txt").write_text("x", "utf-8"),
        "'more.txt' is not in the manifest",
    ),
    "link": (lambda it: (it.folder / "more").symlink_to("README.md"), "'more' is no plain file"),
    "page edited": (
        lambda it: (it.folder / "README.md").write_text("all is well", "utf-8"),
        "'README.md' is missing, or is not the file of the manifest",
    ),
    "form of a leaf": (
        lambda it: it.lines(lambda some: some[9].update(leaf=some[9]["leaf"] + " ")),
        "'two' version 2: its line, or its leaf, does not have its form",
    ),
    **{f"leaf: {member}": (_with_leaf(member), "") for member in more["LEAF"].split()},
}


@pytest.mark.parametrize("way", WAYS)
def test_each_change_is_named(
    tampered: Tampered, capsys: pytest.CaptureFixture[str], way: str
) -> None:
    """One line names it, and the status is 1."""
    change, named = WAYS[way]
    change(tampered)
    status, lines = said_of(tampered.folder, capsys)
    assert status == 1
    assert not lines[-1].endswith(" 0 faults")
    assert any(named in line for line in lines[:-1]), lines


ONLY_MORE = {
    *("hidden", "marker edited", "what is left edited", "what is left forged", "scope without one"),
    *("span edited", "count edited", "redaction edited", "redactions edited", "decision edited"),
    *("decision dropped", "mark shifted", "extra file", "link"),
}
"""What the first script does not see where the second one is missing."""


@pytest.mark.parametrize("way", WAYS)
def test_the_first_script_alone_names_what_is_not_proven(
    tampered: Tampered,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    way: str,
) -> None:
    """No other script is needed for that, and what is left out is said."""
    monkeypatch.setattr(check, "MORE", tampered.folder / "none")
    WAYS[way][0](tampered)
    status, lines = said_of(tampered.folder, capsys)
    assert status == int(way not in ONLY_MORE), lines
    assert "not checked: what check_more.py looks at, which is not beside check.py" in lines


def test_an_untouched_bundle_has_no_fault(made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The event after the seal is said to be unproven."""
    status, lines = said_of(made, capsys)
    assert (status, lines[-1]) == (0, "12 events proven, 1 after the last seal, 0 faults")
    assert lines[0] == "not proven: 'one' version 8 comes after its note"


def test_a_forged_end_is_said_to_be_unproven(
    tampered: Tampered, capsys: pytest.CaptureFixture[str]
) -> None:
    """The last event can be moved behind the note, and then counts as one that nothing proves."""

    def forge(lines: Lines) -> None:
        line = lines[-1]
        line["payload"] = line["payload"].replace('"paid":10', '"paid":99')
        salt = bytes.fromhex(line["salt"])
        data = salt + bytes.fromhex(line["fingerprint"] or "") + line["payload"].encode()
        payload = blake2b(data, digest_size=32, person=b"toolledger/salt").hexdigest()
        leaf = json.loads(line["leaf"]) | {"position": 99, "payload": payload}
        leaf["members"] = root_of(line["payload"].encode(), salt).hex()
        leaf["chain"] = next(more["chains_of"](leaf, json.loads(lines[-2]["leaf"])["chain"]))
        line |= {"leaf": json.dumps(leaf, separators=(",", ":")), "path": None}

    tampered.lines(forge).manifest(lambda value: value["holds"].update(proven=11))
    status, lines = said_of(tampered.folder, capsys)
    assert "not proven: 'two' version 5 comes after its note" in lines
    assert (status, lines[-1]) == (0, "11 events proven, 2 after the last seal, 0 faults")


def test_hostile_bytes_are_faults_and_no_tracebacks(
    tampered: Tampered, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Any member of any line, of the manifest and of the lists may hold anything."""
    chance = random.Random(39)
    values: list[Any] = [None, True, -1, 2**70, 1e300, "", "é\n", "00", [], {}, [[]], {"a": None}]
    monkeypatch.setattr(check, "run_path", cache(run_path))
    pristine = {name: (tampered.folder / name).read_bytes() for name in _FILES}
    for _ in range(300):
        name = chance.choice(_FILES)
        is_lines = name == _FILES[0]
        lines = [json.loads(line) for line in pristine[name].splitlines()] if is_lines else []
        value: Any = lines or json.loads(pristine[name])
        some, at = chance.choice(list(_places(value)))
        old, some[at] = some[at], chance.choice(values)
        if old == some[at]:
            continue
        text = "\n".join(map(json.dumps, lines)) if lines else json.dumps(value)
        (tampered.folder / name).write_text(text, "utf-8")
        assert check.main(tampered.folder, [VKEY]) in (1, 2), (name, some, at)
        (tampered.folder / name).write_bytes(pristine[name])
    for name in _FILES:
        for junk in (b"", b"\xff\xfe", b"[" * 100_000, b"1", b"null", b"{}"):
            (tampered.folder / name).write_bytes(junk)
            assert check.main(tampered.folder, [VKEY]) in (1, 2)
        (tampered.folder / name).write_bytes(pristine[name])
    capsys.readouterr()


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield each list or object with each of its keys, at any depth."""
    keys: Iterable[Any] = value.keys() if isinstance(value, dict) else range(len(value))
    for key in keys:
        yield value, key
        if isinstance(value[key], dict | list):
            yield from _places(value[key])


@pytest.mark.parametrize("key", ["", "nonsense", "a+b+c", VKEY[:-1], VKEY.replace("agents", "x")])
def test_unreadable_input_ends_with_status_2(
    made: Path, capsys: pytest.CaptureFixture[str], key: str
) -> None:
    """A key may be none, and a folder no bundle."""
    assert check.main(made, [key]) == 2
    assert "is no verifier key" in capsys.readouterr().out
    assert check.main(made / "pages", [VKEY]) == 2
    assert "is no bundle that can be read" in capsys.readouterr().out


def test_another_key_proves_nothing(made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The key comes from elsewhere; the one in the folder proves nothing."""
    other = str(SigningKey("example.com/agents", bytes(32)).verifier)
    assert check.main(made, [other]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert "'notes/lane-0.note': none of the keys has signed it: pass the key that has" in lines
    assert lines[-1].startswith("0 events proven")
    assert check.main(made, [other, VKEY]) == 0


def test_a_span_keeps_the_records_of_its_redactions(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A record that comes after the span is in the bundle; no other event is."""
    times = iter(range(10**15, 2 * 10**15, 10**6))
    with EventStore.open("sqlite://", clock=lambda: next(times)) as store:
        chat = store.conversation("chat")
        for number in range(5):
            chat.add_message("user", f"message {number}")
        store.redact("chat", by="ann", versions=[2])
        events = list(chat.events())
        store.seal(KEY)
        span = Span(events[1].recorded_at, events[3].recorded_at)
        write_bundle(store, tmp_path / "some", ["chat"], [KEY.verifier], span)
    status, lines = said_of(tmp_path / "some", capsys)
    assert (status, lines[-1]) == (0, "3 events proven, 0 after the last seal, 0 faults")
    assert lines[:2] == [
        "'chat': versions 2 to 3; no bundle shows if there are more",
        "it also has version 6, a redaction",
    ]


@pytest.mark.parametrize(
    "payload",
    [
        '{"a":[1,2.5,-0.0,1e22,null,true,"é\\u0001",[],{}]}',
        '{"é":{"b":[[["x"]]]}}',
        f'{{"a":{2**70}}}',
        "[" * 40 + "7" + "]" * 40,
        "[" * 300 + "]" * 300,
        '"\\ud800"',
        "NaN",
        "no JSON",
    ],
)
def test_the_root_over_members_is_that_of_the_library(payload: str) -> None:
    """The script computes what a seal has computed."""
    salt = bytes(range(16))
    assert more["is_root"](payload, salt.hex(), root_of(payload.encode(), salt).hex())
    assert not more["is_root"](payload, salt.hex(), root_of(b"{}", salt).hex())


def test_a_message_without_parts_is_one() -> None:
    """Such are those that give back results; a text in the place of the parts is a fault."""
    role, check_part = {"role": "0" * 32}, more["check_part"]
    back = {"role": "user", "results": "[redacted]"}
    check_part("message", back, {**role, "results": "1" * 64})
    with pytest.raises(ValueError, match="no message"):
        check_part("message", {"role": "user", "parts": "[redacted]"}, role)
