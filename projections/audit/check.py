"""Check a bundle of events: `python check.py FOLDER VERIFIER_KEY…`.

An event is proven if its leaf leads to the root of a note that a key has signed, and its payload,
or the marker in its place, has the digest of the leaf. All else is left to `check_more.py` beside
this file. The status is 0 without a fault, 1 with one, and 2 if bundle or key cannot be read.
"""

import json
import sys
from base64 import b64decode
from collections.abc import Iterator
from hashlib import blake2b, sha256
from itertools import pairwise
from pathlib import Path
from runpy import run_path
from typing import Any

try:
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
except ImportError:
    sys.stdout.write("signatures cannot be checked without it: pip install cryptography\n")
    sys.exit(2)

MORE = Path(__file__).with_name("check_more.py")
WRONG = (  # what values of wrong types and sizes raise
    *(ArithmeticError, AttributeError, InvalidSignature, LookupError),
    *(OSError, RecursionError, TypeError, ValueError),
)


def key_of(text: str) -> tuple[str, Ed25519PublicKey]:
    """Return the name and id of a verifier key, and the key (C2SP signed-note)."""
    name, key_id, encoded = text.split("+", 2)
    key = b64decode(encoded, validate=True)
    if key[:1] != b"\1" or sha256(name.encode() + b"\n" + key).hexdigest()[:8] != key_id:
        raise ValueError("it is of another kind, or was changed")
    return f"{name}+{key_id}", Ed25519PublicKey.from_public_bytes(key[1:])


def opened(note: str, keys: dict[str, Ed25519PublicKey], lane: str) -> tuple[int, bytes]:
    """Return size and root of a lane's note that a key has signed (C2SP tlog-checkpoint)."""
    text, _, signatures = note.rpartition("\n\n")
    for name, encoded in (line.split(" ")[1:] for line in signatures.splitlines()):
        value = b64decode(encoded)
        if key := keys.get(f"{name}+{value[:4].hex()}"):
            key.verify(value[4:], f"{text}\n".encode())  # raises InvalidSignature
            origin, size, root = text.split("\n")[:3]
            if not origin.endswith(lane):
                raise ValueError(f"it is of {origin!r}: another store or lane")
            return int(size), b64decode(root)
    raise ValueError("none of the keys has signed it: pass the key that has")


def root_of(node: bytes, index: int, size: int, path: list[bytes]) -> bytes:
    """Return the root of a tree of a size, of which a node is a leaf's hash (RFC 6962)."""
    if size == 1 or not path:
        if (index, size, path) != (0, 1, []):
            raise ValueError("does not lead to its note")
        return node
    left, (*rest, other) = 1 << (size - 1).bit_length() - 1, path  # the left half is a full tree
    if index < left:
        return sha256(b"\1" + root_of(node, index, left, rest) + other).digest()
    return sha256(b"\1" + other + root_of(node, index - left, size - left, rest)).digest()


def has_digest(line: dict[str, Any], digest: str) -> bool:
    """Return whether an event's payload, or the marker in its place, has a digest."""
    if line["payload"] is None:
        return str(line["marker"]).startswith(f'{{"redacted":"{digest}"')
    payload = line["payload"].encode()
    if line["salt"] is None:  # of an older version of the log
        return blake2b(payload, digest_size=16).hexdigest() == digest
    salt, mark = (bytes.fromhex(line[name] or "") for name in ("salt", "fingerprint"))
    if (len(salt), len(mark)) not in ((16, 0), (16, 16)):
        raise ValueError("its salt or its fingerprint does not have 16 bytes")
    of = blake2b(salt + mark + payload, digest_size=32, person=b"toolledger/salt")
    return of.hexdigest() == digest


def is_proven(line: dict[str, Any], leaf: dict[str, Any], size: int, root: bytes) -> bool:
    """Return whether a note proves an event, False for one after it; raise for any other."""
    if not has_digest(line, leaf["payload"]):
        raise ValueError("its payload is not that of its leaf")
    if line["path"] is None:
        if 0 <= size < leaf["position"]:
            return False
        raise ValueError("it has no proof")
    node = sha256(b"\0" + line["leaf"].encode()).digest()
    path = [b64decode(each, validate=True) for each in line["path"]]
    if root_of(node, leaf["position"] - 1, size, path) != root:
        raise ValueError("does not lead to its note")
    return True


def holes(versions: list[int], scope: dict[str, Any]) -> Iterator[str]:
    """Yield where the versions of a conversation are not those of the manifest."""
    first, last = scope["versions"]
    chosen = [version for version in versions if version <= last]
    for one, two in pairwise([first - 1, *chosen, last + 1]):
        if two > one + 1:
            yield f"lacks versions {one + 1} to {two - 1}"
        elif two <= one:
            yield f"version {two} comes again, or after version {one}"
    if versions[len(chosen) :] != scope["records"]:
        yield f"has other versions after {last} than the manifest says"


class Check:
    """What is found in a bundle: what is proven, what is at fault, and what cannot be known."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.manifest = folder, json.loads((folder / "manifest.json").read_bytes())
        self.lines = (folder / "events.jsonl").read_bytes().splitlines()
        self.notes: dict[str, tuple[int, bytes]] = {}
        self.events: dict[str, list[tuple[dict[str, Any], dict[str, Any]]]] = {}
        self.proven = self.later = 0
        self.said = list[str]()

    def files(self, keys: dict[str, Ed25519PublicKey]) -> Iterator[str]:
        """Compare the files with the manifest, and open the notes; yield what is at fault."""
        for name, digest in self.manifest["sha256"].items():
            path = self.folder / name
            if not path.is_file() or sha256(path.read_bytes()).hexdigest() != digest:
                yield f"{name!r} is missing, or is not the file of the manifest"
        for path in sorted(self.folder.glob("notes/*")):
            lane = f"/{self.manifest['store']}/{path.stem.removeprefix('lane-')}"
            try:
                self.notes[path.name] = opened(path.read_bytes().decode(), keys, lane)
            except WRONG as error:
                yield f"'notes/{path.name}': {str(error) or 'its signature is false'}"

    def content(self) -> Iterator[str]:
        """Check each event, and that none is missing; yield what is at fault."""
        for number, data in enumerate(self.lines, 1):
            place = f"line {number} of 'events.jsonl'"
            try:
                line = json.loads(data)
                leaf = json.loads(line["leaf"])
                place = f"{leaf['conversation']!r} version {leaf['version'] + 0}"
                self.events.setdefault(leaf["conversation"], []).append((line, leaf))
                if leaf["tenant"] != self.manifest["tenant"]:
                    raise ValueError("it is of another tenant")
                if is_proven(line, leaf, *self.notes.get(line["note"], (-1, b""))):
                    self.proven += 1
                else:
                    self.later += 1
                    self.said.append(f"not proven: {place} comes after its note")
            except WRONG as error:
                yield f"{place}: {error}"
        for name, scope in self.manifest["conversations"].items():
            versions = [leaf["version"] for _, leaf in self.events.get(name, [])]
            yield from (f"{name!r} {hole}" for hole in holes(versions, scope))


def main(folder: Path, texts: list[str]) -> int:
    """Print what cannot be known, what is at fault, and what is proven; return the status."""
    keys, faults, reading = dict[str, Ed25519PublicKey](), list[str](), ""
    try:
        for reading in texts:
            keys |= [key_of(reading)]
        reading = str(folder)
        check = Check(folder)
    except WRONG as error:
        what = "bundle that can be read" if reading == str(folder) else "verifier key of kind 1"
        sys.stdout.write(f"{reading[:80]!r} is no {what}: {error}\n")
        return 2
    try:
        faults.extend(check.files(keys))
        faults.extend(check.content())
        if MORE.is_file():
            more = run_path(str(MORE))["faults"]
            faults.extend(more(folder, check.manifest, check.events, check.proven, check.said))
    except WRONG as error:
        faults.append(f"the bundle does not have its form: {error!r}")
    if not MORE.is_file():
        check.said.append("not checked: what check_more.py looks at, which is not beside check.py")
    check.said.append("not signed: manifest.json, so no bundle shows what was left out as a whole")
    counts = f"{check.proven} events proven, {check.later} after the last seal"
    lines = [*check.said, *faults, f"{counts}, {len(faults)} faults"]
    text = "".join(" ".join(line.splitlines()) + "\n" for line in lines)
    sys.stdout.buffer.write(text.encode("utf-8", "backslashreplace"))
    return int(bool(faults))


if __name__ == "__main__":
    if not sys.argv[2:]:
        sys.stdout.write("usage: python check.py FOLDER VERIFIER_KEY...\n")
        sys.exit(2)
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))
