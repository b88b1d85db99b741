"""Check what follows from the events of a bundle; `check.py` beside this file runs it.

Checked here are: files that the manifest does not name; the form of lines and of leaves; the
members of payloads; what redactions have left, and their records; the chain; the order in the log;
the lists of decisions; and what else the manifest says. It counts nothing as proven.
"""

import json
import re
import struct
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from hashlib import blake2b, sha256
from pathlib import Path
from typing import Any, TypeGuard

LEAF = (
    "leaf position tenant conversation version event_id recorded_at occurred_at "
    "tag schema fingerprint payload members chain"
)
LINE = {"leaf", "note", "path", "payload", "salt", "fingerprint", "marker"}
MANIFEST = "store tenant subject from until conversations holds sha256"
HOLDS = "conversations events proven redacted decisions"
DECIDED = {"approved", "rejected", "completed", "failed", "redacted", "archived", "restored"}
GONE = "[redacted]"
FORMS = {"native", "provider", "exact", "results"}
DIGEST = 32  # bytes
LEVELS = 32  # how deep the tree over members is
CALL = {"call_id": "call_id", "attempt": "attempt", "duration": "duration"}
PLACES = {
    "running": CALL,
    "paused": CALL,
    "ended_late": CALL,
    "approved": {**CALL, "name": "edited_call.name"},
    "failed": {**CALL, "word": "failure.kind", "delay": "delay"},
    "pending": {
        "call_id": "call.id",
        "name": "call.name",
        "turn": "turn",
        "index": "index",
        "provider_call_id": "provider_call_id",
        "imported": "imported",
    },
    "completed": {**CALL, "name": "response.name", "synthetic": "synthetic", "lossy": "lossy"},
    "rejected": {"call_id": "call_id", "word": "source"},
    "message": {"role": "role", "turn": "turn", "calls": "calls", "call_id": "call_id"},
    "hook_raised": {"call_id": "call_id", "word": "failure.kind"},
    "history_compacted": {"until": "until", "after": "after", "hides_system": "hides_system"},
    "run_ended": {"word": "reason"},
}
"""The places in a payload of what stays when all else of it is gone, by tags."""
DEFAULTS = {
    "attempt": 0,
    "index": 0,
    "calls": 0,
    "until": 0,
    "after": 0,
    **dict.fromkeys(("hides_system", "imported", "lossy", "synthetic"), False),
}
EDITS = {"approved": "edited_call", "running": "arguments"}
WRONG = (
    *(ArithmeticError, AttributeError, LookupError, OSError, RecursionError, TypeError),
    *(ValueError, struct.error),
)
"""What values of wrong types and sizes raise."""
Events = dict[str, list[tuple[dict[str, Any], dict[str, Any]]]]
"""The lines and leaves of events, by their conversation."""


def is_list(value: Any) -> TypeGuard[list[Any]]:
    """Return whether a value is a list."""
    return isinstance(value, list)


def is_object(value: Any) -> TypeGuard[dict[str, Any]]:
    """Return whether a value is an object."""
    return isinstance(value, dict)


def members_of(
    left: Any, proof: Any, shown: list[Any], levels: int = LEVELS, *, gone: bool = False
) -> bytes:
    """Return the root over the members of a payload, from what is left of it and its proof.

    What is left and not proven goes to `shown`. Only where all else is `gone` may members be
    missing in others.
    """
    if isinstance(proof, str):
        if re.fullmatch("[0-9a-f]{64}", proof):
            shown.append(left)
            return bytes.fromhex(proof)
        if not re.fullmatch("[0-9a-f]{32}", proof) or left is Ellipsis:
            raise ValueError("its proof does not have the form of what is left")
        salt, inner = bytes.fromhex(proof), list[str]()
        if not (levels and left and (is_list(left) or is_object(left))):
            return sha256(b"\4" + salt + json.dumps(left, separators=(",", ":")).encode()).digest()
        for number in range(len(left)):
            inner.append(sha256(b"\3" + salt + number.to_bytes(8, "big")).hexdigest()[:32])
        proof = dict(zip(left, inner, strict=True)) if is_object(left) else inner
    if is_list(proof) and is_list(left):
        pairs = zip(left, proof, strict=True)
        digests = (members_of(*each, shown, levels - 1, gone=gone) for each in pairs)
        return sha256(b"\5" + b"".join(digests)).digest()
    if not (is_object(proof) and is_object(left)) or left.keys() - proof.keys():
        raise ValueError("its proof does not have the form of what is left")
    over = sha256(b"\6")
    for name, each in proof.items():
        if name not in left and levels < LEVELS and not gone:
            raise ValueError("members are missing in what is left of it")
        over.update(len(name.encode()).to_bytes(4, "big") + name.encode())
        over.update(members_of(left.get(name, ...), each, shown, levels - 1, gone=gone))
    return over.digest()


def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object none of whose names comes twice."""
    if len(members := dict(pairs)) < len(pairs):
        raise ValueError("a name comes twice in it")
    return members


def identifiers_of(tag: str, marker: dict[str, Any], proof: dict[str, Any]) -> dict[str, Any]:
    """Return what a marker has kept of a payload that is gone as a whole, at its places."""
    left: dict[str, Any] = {}
    if (EDITS.get(tag) in proof) != bool(marker.get("edited")):
        raise ValueError("it does not say whether arguments were edited")
    for name, place in PLACES.get(tag, {}).items():
        *outer, last = place.split(".")
        if (node := node_at(proof, (*outer, last))) is None:
            if name in marker and (tag, marker[name]) != ("rejected", "human"):
                raise ValueError(f"it says a {name} that it did not have")
        elif len(node) != DIGEST:  # in hex a salt has as many digits as a digest has bytes
            raise ValueError(f"its {name} is not proven")
        else:
            holder = left
            for step in outer:
                holder = holder.setdefault(step, {})
            holder[last] = marker.get(name, DEFAULTS.get(name))
    return left


def node_at(proof: Any, place: Iterable[str]) -> str | None:
    """Return the salt or the digest that a proof has for a place, None if it has none."""
    for step in place:
        proof = proof.get(step) if is_object(proof) else proof
    return proof if isinstance(proof, str) else None


def check_part(tag: str, kept: Any, proof: Any) -> None:
    """Refuse what a redaction of a part does not leave: it keeps identifiers, and all members."""
    for place in PLACES.get(tag, {}).values():
        node = node_at(proof, place.split("."))
        if node is not None and len(node) != DIGEST:
            raise ValueError(f"its {place} is not proven")
    missing = proof.keys() - kept.keys() if is_object(proof) and is_object(kept) else set[str]()
    if missing - FORMS or (missing and (FORMS & kept.keys() or "." in tag)):
        raise ValueError("members are missing in what is left of it")
    if tag == "message" and not is_list(kept.get("parts", [])):
        raise ValueError("it is no message any more")


def value_of(payload: str) -> Any:
    """Return what a payload says; None for one that is no JSON."""
    try:
        return json.loads(payload)
    except (RecursionError, ValueError):
        return None


def is_root(payload: str, salt: str, root: str | None) -> bool:
    """Return whether it is the root over the members of a payload, or over one that has none."""
    own = sha256(b"\10" + bytes.fromhex(salt)).digest()[:16]
    if root == sha256(b"\7" + own + payload.encode()).hexdigest():
        return True
    try:
        return members_of(value_of(payload), own.hex(), []).hex() == root
    except (RecursionError, ValueError):
        return False


def chains_of(leaf: dict[str, Any], chain: str) -> Iterator[str]:
    """Yield the digests that an event may have in the chain after another, "" at the beginning."""
    before = bytes.fromhex(chain)
    if not before:
        tenant, name = leaf["tenant"].encode(), leaf["conversation"].encode()
        data = len(tenant).to_bytes(4, "big") + tenant + name
        before = blake2b(data, digest_size=16, person=b"toolledger/chat").digest()
    payload = bytes.fromhex(leaf["payload"])
    mark = bytes.fromhex(leaf["fingerprint"] or "").ljust(16, b"\0")
    old = b"" if len(payload) == DIGEST else mark
    known = 8 * (leaf["occurred_at"] is not None) + 16 * (not old)
    numbers = leaf["recorded_at"], leaf["occurred_at"] or 0, leaf["version"], leaf["schema"]
    for marks in range(8):  # three of them stand in no column: any is possible
        packed = struct.pack(">qqIIB", *numbers, marks | known)
        data = before + payload + bytes.fromhex(leaf["event_id"]) + old + packed
        data += leaf["tag"].encode()
        yield blake2b(data, digest_size=16, person=b"toolledger/event").hexdigest()


class More:
    """What is found in a bundle: faults, and what cannot be known from it."""

    def __init__(
        self, folder: Path, manifest: dict[str, Any], events: Events, said: list[str]
    ) -> None:
        self.folder, self.manifest, self.events, self.said = folder, manifest, events, said
        self.faults: list[str] = []
        self.decided: dict[tuple[str, int], dict[str, Any] | None] = {}

    def files(self) -> None:
        """Look for files that the manifest does not name."""
        for path in sorted(self.folder.rglob("*")):
            name = path.relative_to(self.folder).as_posix()
            if path.is_symlink() or not (path.is_file() or path.is_dir()):
                self.faults.append(f"{name!r} is no plain file")
            elif path.is_file() and name not in {"manifest.json", *self.manifest["sha256"]}:
                self.faults.append(f"{name!r} is not in the manifest: nothing is known of it")

    def scope(self, name: str, scope: dict[str, Any]) -> None:
        """Compare the events of a conversation with what the manifest says of them."""
        (first, last), start, end = scope["versions"], self.manifest["from"], self.manifest["until"]
        for line, leaf in self.events.get(name, []):
            place, at = f"{name!r} version {leaf['version']}: ", leaf["recorded_at"]
            is_form = json.dumps(leaf, separators=(",", ":")) == line["leaf"]
            if not is_form or line.keys() != LINE or " ".join(leaf) != LEAF:
                self.faults.append(f"{place}its line, or its leaf, does not have its form")
            if leaf["version"] > last and leaf["tag"] != "redacted":
                self.faults.append(f"{place}it comes after the last one, and records no redaction")
            if leaf["version"] in (first, last) and (
                (start is not None and at < start) or (end is not None and at >= end)
            ):
                self.faults.append(f"{place}outside of the time span")
        if first != 1 and start is None:
            self.faults.append(f"{name!r} lacks versions 1 to {first - 1}, and no time is chosen")
        self.said.append(f"{name!r}: versions {first} to {last}; no bundle shows if there are more")
        self.said += [f"it also has version {each}, a redaction" for each in scope["records"]]

    def conversation(self, name: str) -> None:
        """Check how the events of a conversation follow one another, and their payloads."""
        events = self.events.get(name, [])
        if len({line["note"] for line, _ in events}) > 1:
            self.faults.append(f"{name!r} stands in one lane, and names several notes")
        before: dict[str, Any] = {"version": 0, "chain": "", "position": 0}
        records: dict[int, str] = {}
        for line, leaf in events:
            place = f"{name!r} version {leaf['version']}: "
            follows = leaf["version"] == before["version"] + 1
            if follows and leaf["chain"] not in chains_of(leaf, before["chain"]):
                self.faults.append(f"{place}its chain does not follow the one before")
            if leaf["position"] <= before["position"]:
                self.faults.append(f"{place}it comes before its predecessor in the log")
            if leaf["tag"] == "redacted" and line["payload"] is not None:
                content = json.loads(line["payload"])
                if content.get("origin") is None:  # otherwise it is about the origin of a fork
                    records |= {each["version"]: each["marker"] for each in content["payloads"]}
            before = leaf
        for line, leaf in events:
            place = f"{name!r} version {leaf['version']}: "
            try:
                self.payload(place, line, leaf, records.get(leaf["version"]))
            except WRONG as error:
                self.faults.append(f"{place}its payload cannot be read: {error}")

    def payload(self, place: str, line: dict[str, Any], leaf: dict[str, Any], record: Any) -> None:
        """Compare what is there, or left, of a payload with its leaf."""
        if line["marker"] is not None:
            content = self.marked(place, line, leaf, record)
        elif line["payload"] is not None:
            content = self.whole(place, line, leaf, record)
        else:
            raise ValueError("it is gone, and nothing says that it was redacted")
        if not is_object(content) or next(iter(content), "") == "encrypted":
            content = None
        if leaf["tag"] in DECIDED:
            self.decision(leaf, content)

    def whole(self, place: str, line: dict[str, Any], leaf: dict[str, Any], record: Any) -> Any:
        """Check a payload that is there; return what it says."""
        if line["salt"] and not is_root(line["payload"], line["salt"], leaf["members"]):
            self.faults.append(f"{place}its members are not those of its leaf")
        if record is not None:
            self.faults.append(f"{place}it was redacted, and its payload is there")
        return value_of(line["payload"])

    def marked(self, place: str, line: dict[str, Any], leaf: dict[str, Any], record: Any) -> Any:
        """Check what stands in the place of a payload, by the record of its redaction."""
        marker, start = line["marker"], f'{{"redacted":"{leaf["payload"]}"'
        rest = marker.removeprefix(start).encode()
        if not marker.startswith(start) or line["payload"] is not None:
            self.faults.append(f"{place}what is left of it names another payload")
        if record is None:
            self.faults.append(f"{place}its content is gone, and no redaction is recorded here")
        elif record != blake2b(rest, digest_size=16, person=b"toolledger/mark").hexdigest():
            self.faults.append(f"{place}what is left of it is not what its redaction recorded")
        return self.left(place, json.loads(marker, object_pairs_hook=once), leaf)

    def left(self, place: str, marker: dict[str, Any], leaf: dict[str, Any]) -> Any:
        """Check what is left of a payload by the members that are sealed; return it."""
        tag, kept = leaf["tag"], marker.get("kept", ...)
        if "members" not in marker or leaf["members"] is None:
            if kept is not Ellipsis:
                self.faults.append(f"{place}what is left of it is proven by nothing")
        elif kept is not Ellipsis:
            self.part(place, tag, kept, marker["members"], leaf["members"])
        else:
            self.identifiers(place, tag, marker, leaf["members"])
        if kept is not Ellipsis:
            return kept
        content = {"call_id": marker.get("call_id")}
        refused = {"reason": GONE, "source": marker.get("word") or GONE}
        if marker.get("edited"):
            content["edited_call"] = GONE
        return content | refused if tag == "rejected" else content

    def part(self, place: str, tag: str, kept: Any, proof: Any, root: str) -> None:
        """Check a part of a payload."""
        shown = list[Any]()
        check_part(tag, kept, proof)
        if members_of(kept, proof, shown).hex() != root:
            self.faults.append(f"{place}what is left of it is not what was sealed")
        shown = [each for each in shown if each is not Ellipsis and each != GONE]
        if any(GONE not in json.dumps(each) for each in shown):
            self.faults.append(f"{place}what is left of it shows what is not proven")
        elif shown:
            self.said.append(f"not proven: {place}what is left of {len(shown)} of its texts")

    def identifiers(self, place: str, tag: str, marker: dict[str, Any], root: str) -> None:
        """Check what is left of a payload that is gone as a whole."""
        proof = marker["members"]
        if is_object(proof):
            left = identifiers_of(tag, marker, proof)
            if members_of(left, proof, [], gone=True).hex() != root:
                self.faults.append(f"{place}its identifiers are not those that were sealed")
        elif proof != root:
            self.faults.append(f"{place}what is left of it is not what was sealed")
        elif tag in PLACES:
            self.said.append(f"not proven: {place}its identifiers; it was encrypted")

    def decision(self, leaf: dict[str, Any], content: dict[str, Any] | None) -> None:
        """Keep what `decisions.json` has to say of an event."""
        key = leaf["conversation"], leaf["version"]
        if content is None:
            self.said.append(f"not compared: the decision of {key}, which is encrypted")
            self.decided[key] = None
            return
        by, tag = content.get("by"), leaf["tag"]
        if by is None and tag not in ("approved", "rejected"):
            return
        at = leaf["occurred_at"] if leaf["occurred_at"] is not None else leaf["recorded_at"]
        more = {name: content.get(name) for name in ("call_id", "reason", "rule")}
        more["source"] = content.get("source", "human") if tag == "rejected" else None
        more["edited"] = content.get("edited_call") is not None or None
        more["versions"] = [each["version"] for each in content.get("payloads") or ()] or None
        time = datetime.fromtimestamp(at / 1e6, UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]
        known = {"conversation": key[0], "version": key[1], "at": time, "what": tag, "by": by}
        more = {name: value for name, value in more.items() if value is not None}
        self.decided[key] = known | more

    def decisions(self) -> int:
        """Compare the lists of decisions with the events; return how many there are."""
        made = json.loads((self.folder / "decisions.json").read_bytes())
        redactions = json.loads((self.folder / "redactions.json").read_bytes())
        if redactions != [each for each in made if each["what"] == "redacted"]:
            self.faults.append("'redactions.json' is not what 'decisions.json' says of redactions")
        left = dict(self.decided)
        for each in made:
            key = each["conversation"], each["version"]
            if left.pop(key, ...) not in (None, each):
                self.faults.append(f"'decisions.json': {key} is not what the event says")
        for key in (key for key, each in left.items() if each is not None):
            self.faults.append(f"'decisions.json' lacks the decision of {key}")
        return len(made)

    def run(self, proven: int) -> None:
        """Check all of it."""
        self.files()
        scope = self.manifest["conversations"]
        self.faults += [f"{name!r} is not in the manifest" for name in self.events.keys() - scope]
        for name in scope:
            try:
                self.scope(name, scope[name])
                self.conversation(name)
            except WRONG as error:
                self.faults.append(f"{name!r} does not have its form: {error}")
        made = self.decisions()
        events = [line for some in self.events.values() for line, _ in some]
        redacted = sum(line["payload"] is None for line in events)
        counts = len(scope), len(events), proven, redacted, made
        if not events:
            self.faults.append("'events.jsonl' holds no event")
        if self.manifest["holds"] != dict(zip(HOLDS.split(), counts, strict=True)):
            self.faults.append("the manifest says other numbers than there are")
        self.subject(self.manifest["subject"])
        if " ".join(self.manifest) != MANIFEST:
            self.faults.append("the manifest does not have its form")
        self.said.append("for reading, and proven by nothing: README.md, pages/")

    def subject(self, digest: str | None) -> None:
        """Say what is not known of a choice by person."""
        if digest is not None:
            if len(bytes.fromhex(digest)) != DIGEST // 2:
                self.faults.append("the manifest does not have the digest of a person's name")
            self.said.append(
                f"chosen by the tags of the person {digest}: they are not sealed, so no bundle "
                "shows whether all events about that person are there, or who it is"
            )


def faults(
    folder: Path, manifest: dict[str, Any], events: Events, proven: int, said: list[str]
) -> list[str]:
    """Return what is at fault; what cannot be known goes to `said`."""
    more = More(folder, manifest, events, said)
    try:
        more.run(proven)
    except WRONG as error:
        more.faults.append(f"the bundle does not have its form: {error!r}")
    return more.faults
