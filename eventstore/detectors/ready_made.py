"""Ready-made rules: what has a form, and a check of its own where there is one.

Each takes time in proportion to the text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from eventstore.detectors.rule import Redact, Span
from eventstore.domain.credentials import credentials_in

_HOST = re.compile(r"@(?:[\w-]{1,63}\.){1,8}[\w-]{2,63}")
_BEFORE_HOST = re.compile(r"[\w.!#$&'*+/=?^{|}~%-]{1,64}\Z")
_MOST_BEFORE_HOST = 64

_DIGITS = re.compile(r"(?<![0-9])(?=([0-9](?:[ .\u00a0-]?[0-9]){11,18}))")
_SEPARATORS = str.maketrans("", "", " .\u00a0-")
_CARDS = re.compile(
    r"4(?:[0-9]{12}|[0-9]{15}|[0-9]{18})"  # Visa
    r"|(?:5[1-5][0-9]{2}|2(?:2[2-9]|[3-6][0-9]|7[01])[0-9]|2720)[0-9]{12}"  # Mastercard
    r"|3[47][0-9]{13}|3(?:0[0-5]|[68][0-9])[0-9]{11}"  # American Express, Diners Club
    r"|(?:6011|64[4-9][0-9]|65[0-9]{2}|62[0-9]{2}|35(?:2[89]|[3-8][0-9]))[0-9]{12,15}"
    r"|(?:50|5[6-9]|6[0-9])[0-9]{10,17}"  # Maestro
)

_IBAN = re.compile(r"(?<![A-Za-z0-9])(?=([A-Za-z]{2}[0-9]{2}(?:[ \u00a0-]?[A-Za-z0-9]){11,30}))")
_COUNTRIES = """
AD24 AE23 AL28 AT20 AZ28 BA20 BE16 BG22 BH22 BR29 BY28 CH21 CR22 CY28 CZ24 DE22 DK18 DO28
EE20 EG29 ES24 FI18 FO18 FR27 GB22 GE22 GI23 GL18 GR27 GT28 HR21 HU28 IE22 IL23 IQ23 IS26
IT27 JO30 KW30 KZ20 LB28 LC32 LI21 LT20 LU20 LV21 LY25 MC27 MD24 ME22 MK19 MR27 MT31 MU30
NL18 NO15 PK24 PL28 PS29 PT25 QA29 RO24 RS22 SA24 SC31 SD18 SE24 SI19 SK24 SM27 ST25 SV28
TL23 TN24 TR26 UA29 VA22 VG24 XK20
"""
_IBAN_LENGTHS = {each[:2]: int(each[2:]) for each in _COUNTRIES.split()}
"""Country to the characters of its numbers, from the registry of ISO 13616."""

_PRIVATE_KEY = re.compile(
    r"-----BEGIN [A-Z ]{0,32}PRIVATE KEY-----[^-]{0,16384}(?:-----END [A-Z ]{0,32}KEY-----)?"
)
_MORE_KEYS = re.compile(r"\b(?:[sr]k_(?:live|test)_|whsec_|glpat-|npm_|pypi-)[\w-]{8,256}")


def _emails(text: str) -> Iterator[Span]:
    for host in _HOST.finditer(text):
        begin = max(0, host.start() - _MOST_BEFORE_HOST)
        before = _BEFORE_HOST.search(text[begin : host.start()])
        if before is not None:
            yield begin + before.start(), host.end()


def _cards(text: str) -> Iterator[Span]:
    for found in _DIGITS.finditer(text):
        for length in range(len(found[1]), 11, -1):
            written = found[1][:length]
            begin, end = found.start(), found.start() + length
            digits = written.translate(_SEPARATORS)
            ends = written[-1].isdigit() and not text[end : end + 1].isdigit()
            if ends and _CARDS.fullmatch(digits) and _is_luhn(digits):
                yield begin, end
                break


def _is_luhn(digits: str) -> bool:
    doubled = "0246813579"
    total = sum(int(d) for d in digits[-1::-2]) + sum(int(doubled[int(d)]) for d in digits[-2::-2])
    return total % 10 == 0


def _ibans(text: str) -> Iterator[Span]:
    for found in _IBAN.finditer(text):
        most = _IBAN_LENGTHS.get(found[1][:2].upper(), 0)
        places = [at for at, char in enumerate(found[1]) if char.isalnum()]
        if not 0 < most <= len(places):
            continue
        end = found.start() + places[most - 1] + 1
        number = "".join(filter(str.isalnum, text[found.start() : end])).upper()
        if not text[end : end + 1].isalnum() and _is_iban(number):
            yield found.start(), end


def _is_iban(number: str) -> bool:
    return int("".join(str(int(char, 36)) for char in number[4:] + number[:4])) % 97 == 1


def _secrets(text: str) -> Iterator[Span]:
    yield from credentials_in(text)
    for pattern in (_PRIVATE_KEY, _MORE_KEYS):
        yield from (found.span() for found in pattern.finditer(text))


EMAIL = Redact("email", _emails)
"""Addresses of mail."""

CARD = Redact("card", _cards)
"""Numbers of payment cards: of a known brand, with its length and check digit (Luhn)."""

IBAN = Redact("iban", _ibans)
"""Numbers of bank accounts, with the length of their country and their check digits (mod 97)."""

SECRET = Redact("secret", _secrets)
"""Keys and tokens that have a known form, private keys, and passwords in URLs."""
