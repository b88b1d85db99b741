"""The error line: of an error text, the line that says the error."""

from __future__ import annotations

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventstore import FunctionCall
from projections.debugging.error_line import error_line, same_error_key
from projections.debugging.error_results import error_text

CALL = FunctionCall("find_order", {"number": 7})

NPM = """
npm warn Unknown env config "store-dir". This will stop working in the next major version of npm.

> app@1.0.0 publish
> npm run build && npm publish

Debugger attached.
src/theme.ts(5,15): error TS2305: Module 'tui' has no exported member 'Theme'.
src/theme.ts(9,2): error TS2554: Expected 1-2 arguments, but got 3.
Waiting for the debugger to disconnect...
npm error Lifecycle script `build` failed with error:
npm error code 1
npm error path /work/app

Command exited with code 1"""

E401 = """npm notice Publishing to https://registry.npmjs.org/ with tag latest
npm error code E401
npm error Unable to authenticate, your authentication token seems to be invalid.
npm error To correct this please try logging in again with: npm login
npm error A complete log of this run can be found in: /root/.npm/_logs/debug-0.log"""

PIP = """Collecting rig-tools==9.9
  Downloading rig.tar.gz (2.1 MB)
WARNING: You are using pip version 21.0; however, version 24.0 is available.
ERROR: Could not find a version that satisfies the requirement rig-tools==9.9 (from versions: 1.0)
ERROR: No matching distribution found for rig-tools==9.9"""

PIP_BUILD = """  error: subprocess-exited-with-error
  x Building wheel for rig (pyproject.toml) did not run successfully.
  │ exit code: 1
  ╰─> [12 lines of output]
      Traceback (most recent call last):
        File "setup.py", line 3, in <module>
          import numpy
      ModuleNotFoundError: No module named 'numpy'
      [end of output]
  note: This error originates from a subprocess, and is likely not a problem with pip.
  ERROR: Failed building wheel for rig"""

PYTEST = """============================= test session starts =============================
collected 3 items

tests/test_sum.py .F.                                                    [100%]

=================================== FAILURES ===================================
    def test_sum():
>       assert total([1, 2]) == 4
E       assert 3 == 4
E        +  where 3 = total([1, 2])

tests/test_sum.py:5: AssertionError
=========================== short test summary info ============================
FAILED tests/test_sum.py::test_sum - assert 3 == 4
========================= 1 failed, 2 passed in 0.03s =========================="""

CHAIN = """Traceback (most recent call last):
  File "a.py", line 1, in <module>
    load()
KeyError: 'token'

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "b.py", line 9, in <module>
    run()
app.errors.ConfigError: the token is not set"""

NODE = """/app/node_modules/tsx/dist/register.cjs:3
`)},"createLog"),x=I(g.bgLightYellow(g.black(" CJS "))),oe=[".cts",".error",".ts"];
Error: Cannot find module './theme'
Require stack:
- /app/index.js
    at Module._resolve (node:internal/modules/cjs/loader:1066:27)
    at wrapModuleLoad (node:internal/modules/cjs/loader:220:24) {
  code: 'MODULE_NOT_FOUND'
}

Node.js v23.4.0"""

JAVA = """Exception in thread "main" java.lang.RuntimeException: request failed
\tat app.Main.main(Main.java:5)
Caused by: java.net.ConnectException: Connection refused
\tat app.Net.open(Net.java:9)"""

RUST = """   Compiling rig v0.1.0
warning: unused variable: `x`
error[E0308]: mismatched types
 --> src/main.rs:2:18
error: could not compile `rig` (bin "rig") due to 1 previous error; 1 warning emitted"""

HTML = """<html><head><title>502 Bad Gateway</title><style>.error {color: red}</style></head>
<body><center><h1>502 Bad Gateway</h1></center><hr></body></html>"""

OPENAI = (
    "Error code: 401 - {'error': {'message': 'Incorrect API key provided', 'code': 'invalid_key'}}"
)
ANTHROPIC = json.dumps(
    {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
)
PROBLEM = json.dumps({"title": "Forbidden", "status": 403, "detail": "the key may only read"})


@pytest.mark.parametrize(
    ("text", "telling"),
    [
        (NPM, "error TS2305"),
        (E401, "Unable to authenticate"),
        (PIP, "Could not find a version"),
        (PIP_BUILD, "No module named 'numpy'"),
        (PYTEST, "test_sum - assert 3 == 4"),
        (CHAIN, "the token is not set"),
        (NODE, "Cannot find module './theme'"),
        (JAVA, "Caused by: java.net.ConnectException"),
        (RUST, "error[E0308]: mismatched types"),
        (HTML, "502 Bad Gateway"),
        (OPENAI, "Incorrect API key provided"),
        (ANTHROPIC, "overloaded_error: Overloaded"),
        (PROBLEM, "the key may only read"),
        ("(no output)\n\nCommand exited with code 1", "exited with code 1"),
        ("one\ntwo\nthree\n\nCommand exited with code 2", "three"),
        ("To github.com:a/b\n ! [rejected] main -> main\nerror: failed to push some refs", "push"),
        ("thread 'main' panicked at src/main.rs:2:5:\nindex out of bounds", "index out of bounds"),
        ("\x1b[31mError:\x1b[0m bad\nat x (y.js:1:2)", "Error: bad"),
        ("<tool_use_error>File has not been read yet.</tool_use_error>", "File has not been read"),
        ("", ""),
    ],
)
def test_the_line_that_says_the_error_is_reported(text: str, telling: str) -> None:
    """Noise of package managers, compilers, test runners and servers is passed over."""
    line = error_line(text)
    assert telling in line
    assert "\n" not in line
    assert len(line) <= 160


def test_markup_colours_and_tags_are_left_out() -> None:
    """The line has the words alone."""
    assert error_line("<tool_use_error>No such file</tool_use_error>") == "No such file"
    assert "<" not in error_line(HTML)
    assert error_line("\x1b[31mError:\x1b[0m bad") == "Error: bad"


def test_a_long_line_is_shown_around_what_says_the_error() -> None:
    """The end of a long prefix gives way to the message inside JSON, or to the match."""
    body = {"error": {"message": "max_tokens is too large", "more": "x" * 400}}
    assert error_line(f"API Error: 400 {json.dumps(body)}") == (
        "API Error: 400 max_tokens is too large"
    )


def test_the_same_error_has_the_same_key_with_other_numbers() -> None:
    """Line numbers, times and addresses do not make another error."""
    one, other = "a.py:12: KeyError at 0x7f01", "a.py:90: KeyError at 0x7fee"
    assert same_error_key(one) == same_error_key(other)
    assert same_error_key(one) != same_error_key("a.py:12: ValueError at 0x7f01")


@given(st.text() | st.text(alphabet="{}[]\"':<>/ \n\x1berrorE4 01"))
def test_any_text_has_a_line(text: str) -> None:
    """No text raises, and the line is part of one line."""
    line = error_line(text)
    assert len(line) <= 160
    assert "\n" not in line
    assert error_line(text) == line


def test_a_text_of_ten_megabytes_is_read_at_once() -> None:
    """The middle of a very long text is left out, so its time is bounded."""
    text = "x error: maybe\n" * 700_000 + "Traceback (most recent call last):\nValueError: the end"
    began = time.process_time()
    assert error_line(text) == "ValueError: the end"
    assert time.process_time() - began < 5


@pytest.mark.parametrize(
    "result",
    [
        "Error: 401 Unauthorized",
        "<tool_use_error>File has not been read yet.</tool_use_error>",
        "Traceback (most recent call last):\n...",
        "output\n\nCommand exited with code 2",
        "Tool call timed out.",
        "Your session has expired. Please log in again.",
        '{"error": {"message": "no"}}',
        '{"success": false, "why": "no"}',
        {"error": "no"},
        {"isError": True, "content": []},
        {"content": [{"type": "text", "text": "Error: no"}]},
        {"status_code": 503},
        {"exit_code": 1, "output": ""},
        [{"type": "text", "text": "Failed to open"}],
    ],
)
def test_a_result_that_says_an_error_is_found(result: object) -> None:
    """The form of the result counts: how it begins, its members, its exit code."""
    assert error_text(result, CALL) is not None


@pytest.mark.parametrize(
    "result",
    [
        "",
        "def fail():\n    raise ValueError('error')\n",
        "The log has 3 errors, see below.",
        '{"error": null, "order": 7}',
        {"error": None, "order": 7},
        {"errors": []},
        {"status": "ok", "exit_code": 0},
        {"success": True},
        [{"type": "text", "text": "All tests pass"}],
        [],
        7,
        None,
    ],
)
def test_a_result_that_only_holds_such_words_is_no_error(result: object) -> None:
    """Files and reports talk of errors, and an empty member says that there was none."""
    assert error_text(result, CALL) is None
