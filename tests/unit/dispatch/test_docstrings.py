"""What the model is told of a tool, from its docstring."""

from __future__ import annotations

import pytest

from eventstore.dispatch.docstrings import read_docstring

GOOGLE = """Find orders.

    Only open ones, unless asked.

    Args:
        customer: Whose orders: a name
            or a number.
        limit (int, optional): At most so many.
        **more: Anything else.

    Returns:
        limit: not a parameter.
    """

NUMPY = """Find orders.

    Only open ones, unless asked.

    Parameters
    ----------
    customer : str
        Whose orders: a name
        or a number.
    limit : int, optional
        At most so many.
    **more
        Anything else.

    Returns
    -------
    limit : int
        Not a parameter.
    """

FIELDS = """Find orders.

    Only open ones, unless asked.

    :param customer: Whose orders: a name
        or a number.
    :param int limit: At most so many.
    :param more: Anything else.
    :type limit: int
    :returns: limit, not a parameter
    :raises ValueError: never
    """


@pytest.mark.parametrize("text", [GOOGLE, NUMPY, FIELDS], ids=["google", "numpy", "fields"])
def test_each_form_of_docstring_is_read(text: str) -> None:
    """Descriptions may go on over several lines; results are no parameters."""
    found = read_docstring(text)
    assert found.description == "Find orders.\n\nOnly open ones, unless asked."
    assert found.parameters == {
        "customer": "Whose orders: a name or a number.",
        "limit": "At most so many.",
        "more": "Anything else.",
    }


@pytest.mark.parametrize(
    ("text", "description"),
    [
        (None, ""),
        ("", ""),
        ("Find: all of it.", "Find: all of it."),
        ("Find.\n\nNote:\n    Be quick.", "Find.\n\nNote:\n    Be quick."),
        ("Args:\n    number: Its number.", ""),
        ("Find.\n\nRaises:\n    ValueError: never.", "Find."),
    ],
)
def test_a_docstring_may_have_less(text: str | None, description: str) -> None:
    """A section that is not known is part of the description."""
    assert read_docstring(text).description == description
