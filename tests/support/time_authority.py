"""A time stamping authority (RFC 3161), made with openssl: `openssl ts` signs what it is asked."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

CONFIG = """
[req]
distinguished_name = name
prompt = no
[name]
CN = {name}
[root]
basicConstraints = critical, CA:true
keyUsage = critical, keyCertSign
[signer]
basicConstraints = critical, CA:false
keyUsage = critical, digitalSignature
extendedKeyUsage = critical, timeStamping
[tsa]
default_tsa = own
[own]
serial = serial
default_policy = 1.2.3.4.1
digests = sha256
accuracy = secs:1
ess_cert_id_chain = no
ess_cert_id_alg = sha256
signer_digest = sha256
"""


class TimeAuthority:
    """An authority with a root of its own, in a folder; called with a request, it answers."""

    def __init__(self, folder: Path) -> None:
        program = shutil.which("openssl")
        if program is None:
            pytest.skip("openssl is not installed")
        self._program = program
        folder.mkdir()
        self.folder = folder
        (folder / "serial").write_text("01\n")
        for name in ("root", "signer"):
            (folder / f"{name}.cnf").write_text(CONFIG.format(name=name))
            key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")
            self.openssl(
                "req",
                "-new",
                *key,
                "-keyout",
                f"{name}.key",
                "-out",
                f"{name}.csr",
                "-config",
                f"{name}.cnf",
            )
        days = ("-days", "30", "-extfile", "root.cnf")
        self.openssl(
            "x509",
            "-req",
            "-in",
            "root.csr",
            "-signkey",
            "root.key",
            "-extensions",
            "root",
            "-out",
            "root.pem",
            *days,
        )
        self.openssl(
            "x509",
            "-req",
            "-in",
            "signer.csr",
            "-CA",
            "root.pem",
            "-CAkey",
            "root.key",
            "-set_serial",
            "2",
            "-extensions",
            "signer",
            "-out",
            "signer.pem",
            *days,
        )
        self.root = (folder / "root.pem").read_bytes()

    def __call__(self, request: bytes) -> bytes:
        """Return the answer to a request."""
        (self.folder / "query").write_bytes(request)
        self.openssl(
            "ts",
            "-reply",
            "-queryfile",
            "query",
            "-signer",
            "signer.pem",
            "-inkey",
            "signer.key",
            "-config",
            "root.cnf",
            "-out",
            "reply",
        )
        return (self.folder / "reply").read_bytes()

    def verifies(self, note: Path, stamp: Path) -> bool:
        """Return whether openssl takes a stamp for one of a note."""
        command = (
            self._program,
            "ts",
            "-verify",
            "-data",
            note,
            "-in",
            stamp,
            "-CAfile",
            "root.pem",
        )
        done = subprocess.run(command, cwd=self.folder, capture_output=True, text=True, check=False)
        return done.returncode == 0 and "Verification: OK" in done.stdout + done.stderr

    def openssl(self, *words: str) -> None:
        """Run openssl in the folder."""
        subprocess.run((self._program, *words), cwd=self.folder, capture_output=True, check=True)
