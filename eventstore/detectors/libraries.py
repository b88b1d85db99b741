"""Rules of other libraries, which the extra `redact` installs."""

from __future__ import annotations

from collections.abc import Iterator

from eventstore.detectors.rule import Redact, Span


def phone_numbers(region: str | None = None) -> Redact:
    """Return the rule for phone numbers that the numbering plans have, by `phonenumbers`.

    Without a `region` (`"DE"`) only numbers with their country (`+49 ...`) are found.

    Raises:
        ModuleNotFoundError: the extra is not installed.
        ValueError: there is no such region.
    """
    try:
        import phonenumbers
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "phone numbers need phonenumbers: pip install 'toolledger[redact]'", name=error.name
        ) from error
    if region is not None and region not in phonenumbers.SUPPORTED_REGIONS:
        raise ValueError(f"region is {region!r}: pass two letters, such as 'DE', or None")

    def find(text: str) -> Iterator[Span]:
        for found in phonenumbers.PhoneNumberMatcher(text, region):
            yield found.start, found.end

    return Redact("phone", find)
