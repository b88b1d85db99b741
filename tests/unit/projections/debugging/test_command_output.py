"""Failures in plain results: what commands print, what files say, and pages that ask to sign in."""

from __future__ import annotations

import pytest

from eventstore import EventStore, FunctionCall
from projections import why
from projections.debugging.error_results import error_text

FAILED = {
    "twine": "Uploading pkg.whl 100%\n"
    * 60
    + "WARNING  Error during upload.\nERROR    HTTPError: 400 Bad Request from the index\n"
    "         File already exists ('pkg-1.0.whl').",
    "push": "To git.example:a/b.git\n ! [rejected]        main -> main (fetch first)\n"
    "error: failed to push some refs to 'git.example:a/b.git'\n"
    "hint: Updates were rejected because the remote contains work that you do not have.\n",
    "disk": "gcc -c a.c\n" * 80 + "a.s: fatal error: error writing: No space left on device\n"
    "compilation terminated.\nmake: *** [Makefile:3: a.o] Error 1\n",
    "pytest": "....F.\n=== short test summary info ===\nFAILED test_a.py::test_b - assert 1 == 2\n"
    "1 failed, 5 passed in 0.12s",
    "unittest": "Ran 4 tests in 0.01s\n\nFAILED (failures=1)",
    "jest": "Tests:       1 failed, 3 passed, 4 total\nTime: 1 s",
    "go": "--- FAIL: TestTotal (0.00s)\nFAIL\nexit status 1",
    "rust": "thread 'main' panicked at src/main.rs:2:5:\nindex out of bounds",
    "sh": "/bin/sh: 1: npm: not found",
    "bash": "bash: line 3: npm: command not found",
    "cat": "cat: nofile: No such file or directory",
    "curl": "curl: (7) Failed to connect to localhost port 80",
    "make": "cc a.c\nmake: *** [all] Error 2",
    "killed": "step 1\nstep 2\nKilled",
    "gradle": "> Task :test\nBUILD FAILED in 3s",
}
SOUND = {
    "all pass": "5 passed in 0.12s",
    "no failure": "0 failed, 5 passed in 0.12s",
    "retried": "Collecting\nerror: connection was lost, trying again\nSuccessfully installed p-1",
    "words": "I fixed the error handling.\nNothing failed.",
    "early": "begun\nerror: an optional step\n" + "copied a file\n" * 40,
}
SHOWN = "error: this line stands in a log\nmake: *** [all] Error 2\n"


def bash(command: str) -> FunctionCall:
    """Return a call of a shell."""
    return FunctionCall("bash", {"command": command})


@pytest.mark.parametrize("name", FAILED)
@pytest.mark.parametrize("call", [bash("make all"), FunctionCall("run_shell", {"line": "x"})])
def test_the_output_of_a_command_that_failed_is_an_error(name: str, call: FunctionCall) -> None:
    """The tool gave back what was printed, and no exit code."""
    assert error_text(FAILED[name], call) is not None


@pytest.mark.parametrize("name", SOUND)
def test_the_output_of_a_command_that_succeeded_is_none(name: str) -> None:
    """Words of failure in the middle, or before a sound end, are no failure."""
    assert error_text(SOUND[name], bash("make all")) is None


@pytest.mark.parametrize("command", ["cat build.log", "cd a && grep -n error x", "git diff HEAD~1"])
def test_text_that_a_command_shows_is_no_failure(command: str) -> None:
    """Only the command's own complaint is one."""
    assert error_text("some words\n" + SHOWN, bash(command)) is None
    assert error_text("grep: x: Is a directory", bash("grep error x")) is not None


@pytest.mark.parametrize("name", ["order", "find_order"])
def test_the_results_of_other_tools_are_not_read_as_output(name: str) -> None:
    """A report may hold such lines."""
    assert error_text("notes\n" + SHOWN, FunctionCall(name, {"number": 7})) is None


@pytest.mark.parametrize(
    ("text", "is_error"),
    [
        ("401 Unauthorized: token expired\nThe token has to be renewed.", False),
        ("error = None\nfor each in things: ...", False),
        ("Invalid input is refused, see below.", False),
        ("Error: file not found: a.py", True),
        ("File a.py does not exist.", True),
        ("ENOENT: no such file or directory, open 'a.py'", True),
        ("FileNotFoundError: a.py", True),
    ],
)
def test_the_text_of_a_file_is_about_anything(text: str, *, is_error: bool) -> None:
    """A tool that reads files failed only where it complains itself."""
    assert (error_text(text, FunctionCall("read_file", {"path": "a.py"})) is not None) is is_error


def test_a_page_that_asks_to_sign_in_is_an_error() -> None:
    """The status was 200, and the session was over."""
    call = FunctionCall("http_get", {"url": "https://shop.example/orders"})
    page = "<!doctype html><html><head><title>{}</title></head><body>{}</body></html>"
    assert error_text(page.format("Sign in", "Welcome back"), call) is not None
    assert error_text(page.format("Orders", "Your session has expired."), call) is not None
    assert error_text(page.format("Orders", "Sign in to see more."), call) is None


def test_words_of_the_assistant_are_no_error(store: EventStore) -> None:
    """A host's notice has a colon, a bracket or a status after the word."""
    chat = store.conversation("c")
    chat.add_message("user", "Please add error handling.")
    chat.add_message("assistant", "Error handling is now in place; all tests pass.")
    assert why(chat.events()).causes == ()
    chat.add_message("assistant", "API Error: 529 overloaded")
    assert [cause.version for cause in why(chat.events()).causes] == [3]


def test_a_result_with_an_id_or_path_of_its_own_is_that_of_its_call(store: EventStore) -> None:
    """A path may be absolute in the answer, and what is created gets a new id."""
    chat = store.conversation("c")
    for name, arguments, result in (
        ("read_file", {"path": "./src/a.py"}, {"path": "/srv/app/src/a.py", "text": "x"}),
        ("create_order", {"id": 3, "item": "pen"}, {"id": 8812, "item": "pen"}),
    ):
        call = chat.request(name, arguments)
        chat.start(call.id)
        chat.complete(call.id, result)
    chat.add_message("assistant", "Done.")
    assert why(chat.events()).causes == ()
