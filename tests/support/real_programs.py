"""Agents of others as npm has them, run against a scripted model: what they write is imported.

Each is installed in a folder of its own, in the version that is named, and started with a home that
is empty but for its settings. `{address}` stands for the model's address, `{bin}` for the folder of
the program's commands.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
from support.scripted_model import SUB_AGENT_TASK, Step, scripted_model

PROMPT = "Do the work"
SECONDS = 240
NODE = "node@24.21.0"
"""For what needs a newer Node than the machine may have."""


class Program(msgspec.Struct, frozen=True, kw_only=True):
    """An agent, and how its session is had.

    `sessions` is a pattern under the home; without one, what `also` prints is the session. `runner`
    and `read` name tools, and the member that has the command and the path; `agent` is the call
    that starts a sub-agent.
    """

    packages: tuple[str, ...]
    command: tuple[str, ...]
    runner: tuple[str, str]
    read: tuple[str, str]
    sessions: str
    settings: Mapping[str, object] = {}
    environment: Mapping[str, str] = {}
    agent: tuple[str, dict[str, Any]] | None = None
    more: Mapping[str, Any] = {}
    """Arguments that each command has besides."""
    also: str = ""
    """A command of the shell that is run afterwards."""
    completed: int = 1
    failed: int = 3
    conversations: int = 1

    def steps(self) -> list[Step]:
        """Return what the model says: a command that succeeds, three failures, and an end."""

        def command(text: str) -> tuple[str, dict[str, Any]]:
            name, key = self.runner
            given = [text] if key == "commands" else text
            return name, {key: given, **self.more}

        name, key = self.read
        missing: Any = "/no/where/none.txt"
        if key == "files":
            missing = [{"path": missing}]
        calls: list[tuple[str, dict[str, Any]]] = [
            command("echo hello"),
            command("echo no >&2; exit 3"),
            (name, {key: missing}),
            ("no_such_tool", {"x": 1}),
        ]
        if self.agent is not None:
            calls.append(self.agent)
        steps = [
            Step("" if number else "I look first.", [each]) for number, each in enumerate(calls)
        ]
        return [*steps, Step("All done: it is broken.")]


def run(program: Program, folder: Path) -> list[Path]:
    """Install a program, run it once, and return the files of its session."""
    home, project = folder / "home", folder / "project"
    for each in (home, project):
        each.mkdir()
    (folder / "package.json").write_text("{}")
    install = ["npm", "install", "--no-audit", "--no-fund", "--loglevel=error", *program.packages]
    subprocess.run(install, cwd=folder, check=True, timeout=SECONDS)
    with scripted_model(program.steps()) as address:
        names = {"address": address, "bin": str(folder / "node_modules" / ".bin")}

        def filled(text: str) -> str:
            for name, value in names.items():
                text = text.replace(f"{{{name}}}", value)
            return text

        for name, settings in program.settings.items():
            path = home / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(filled(settings if isinstance(settings, str) else json.dumps(settings)))
        environment = {
            "HOME": str(home),
            "PATH": f"{names['bin']}:{os.environ['PATH']}",
            "DO_NOT_TRACK": "1",
            **{name: filled(value) for name, value in program.environment.items()},
        }
        for command in (list(map(filled, program.command)), ["sh", "-c", filled(program.also)]):
            subprocess.run(
                command,
                cwd=project,
                env=environment,
                stdin=subprocess.DEVNULL,
                check=True,
                timeout=SECONDS,
            )
    return sorted(home.glob(program.sessions))


PROGRAMS: dict[str, Program] = {
    "qwen-code": Program(
        packages=("@qwen-code/qwen-code@0.24.4",),
        command=("{bin}/qwen", "--yolo", "--auth-type", "openai", "-p", PROMPT),
        environment={
            "OPENAI_API_KEY": "x",
            "OPENAI_BASE_URL": "{address}/v1",
            "OPENAI_MODEL": "fake-model",
        },
        settings={
            ".qwen/settings.json": {
                "privacy": {"usageStatisticsEnabled": False},
                "telemetry": {"enabled": False},
                "general": {"disableAutoUpdate": True},
            }
        },
        runner=("run_shell_command", "command"),
        more={"description": "a", "is_background": False},
        read=("read_file", "file_path"),
        agent=(
            "agent",
            {
                "description": "count files",
                "prompt": SUB_AGENT_TASK,
                "subagent_type": "general-purpose",
                "run_in_background": False,
            },
        ),
        sessions=".qwen/projects/*/*/**/*.jsonl",
        completed=3,
        conversations=2,
    ),
    "gemini-cli": Program(
        packages=("@google/gemini-cli@0.61.0",),
        command=("{bin}/gemini", "--yolo", "-m", "gemini-2.5-flash", "-p", PROMPT),
        environment={
            "GEMINI_API_KEY": "x",
            "GOOGLE_GEMINI_BASE_URL": "{address}",
            "GEMINI_CLI_TRUST_WORKSPACE": "true",
        },
        settings={
            ".gemini/settings.json": {
                "security": {"auth": {"selectedType": "gemini-api-key"}},
                "privacy": {"usageStatisticsEnabled": False},
                "telemetry": {"enabled": False},
                "general": {"disableAutoUpdate": True},
            }
        },
        runner=("run_shell_command", "command"),
        read=("read_file", "file_path"),
        sessions=".gemini/tmp/*/chats/session-*.jsonl",
    ),
    "opencode": Program(
        packages=("opencode-ai@1.18.33",),
        command=("{bin}/opencode", "run", PROMPT),
        also=(
            "{bin}/opencode export $({bin}/opencode session list --format json"
            """ | sed -n 's/.*"id": *"\\(ses_[^"]*\\)".*/\\1/p' | head -1) > $HOME/export.json"""
        ),
        environment={
            "OPENCODE_DISABLE_AUTOUPDATE": "1",
            "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
            "OPENCODE_DISABLE_MODELS_FETCH": "1",
        },
        settings={
            ".config/opencode/opencode.json": {
                "autoupdate": False,
                "share": "disabled",
                "permission": "allow",
                "model": "fake/fake-model",
                "small_model": "fake/fake-model",
                "provider": {
                    "fake": {
                        "npm": "@ai-sdk/openai-compatible",
                        "options": {"baseURL": "{address}/v1", "apiKey": "x"},
                        "models": {"fake-model": {"name": "fake-model"}},
                    }
                },
            }
        },
        runner=("bash", "command"),
        more={"description": "a"},
        read=("read", "filePath"),
        sessions="export.json",
    ),
    "claude-code": Program(
        packages=("@anthropic-ai/claude-code@2.1.332",),
        command=(
            *("{bin}/claude", "--dangerously-skip-permissions", "--model", "claude-sonnet-4-5"),
            *("-p", PROMPT),
        ),
        environment={
            "IS_SANDBOX": "1",
            "ANTHROPIC_API_KEY": "x",
            "ANTHROPIC_BASE_URL": "{address}",
            "DISABLE_AUTOUPDATER": "1",
            "DISABLE_TELEMETRY": "1",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        },
        runner=("Bash", "command"),
        more={"description": "a"},
        read=("Read", "file_path"),
        sessions=".claude/projects/*/*.jsonl",
    ),
    "codex": Program(
        packages=("@openai/codex@0.171.0",),
        command=(
            *("{bin}/codex", "exec", "--skip-git-repo-check"),
            *("--dangerously-bypass-approvals-and-sandbox", PROMPT),
        ),
        environment={"FAKE_KEY": "x"},
        settings={
            ".codex/config.toml": (
                'model = "fake-model"\nmodel_provider = "fake"\n'
                "check_for_update_on_startup = false\n[analytics]\nenabled = false\n"
                '[model_providers.fake]\nname = "fake"\nbase_url = "{address}/v1"\n'
                'env_key = "FAKE_KEY"\nwire_api = "responses"\n'
            )
        },
        runner=("exec_command", "cmd"),
        read=("view_image", "path"),
        sessions=".codex/sessions/*/*/*/rollout-*.jsonl",
    ),
    "copilot-cli": Program(
        packages=("@github/copilot@1.0.102",),
        command=("{bin}/copilot", "--allow-all", "--no-auto-update", "-p", PROMPT),
        environment={
            "COPILOT_OFFLINE": "true",
            "COPILOT_AUTO_UPDATE": "false",
            "COPILOT_PROVIDER_BASE_URL": "{address}/v1",
            "COPILOT_PROVIDER_API_KEY": "x",
            "COPILOT_MODEL": "fake-model",
        },
        runner=("bash", "command"),
        more={"description": "a", "mode": "sync"},
        read=("view", "path"),
        agent=(
            "task",
            {
                "agent_type": "general-purpose",
                "description": "count files",
                "prompt": SUB_AGENT_TASK,
                "name": "counter",
                "mode": "sync",
            },
        ),
        sessions=".copilot/session-state/*/events.jsonl",
        completed=3,
        conversations=2,
    ),
    "pi": Program(
        packages=("@earendil-works/pi-coding-agent@1.6.0", NODE),
        command=("{bin}/pi", "--provider", "fake", "--model", "fake-model", "-p", PROMPT),
        environment={"PI_OFFLINE": "1"},
        settings={
            ".pi/agent/models.json": {
                "providers": {
                    "fake": {
                        "baseUrl": "{address}/v1",
                        "api": "openai-completions",
                        "apiKey": "x",
                        "models": [{"id": "fake-model", "name": "f", "input": ["text"]}],
                    }
                }
            }
        },
        runner=("bash", "command"),
        read=("read", "path"),
        sessions=".pi/agent/sessions/*/*.jsonl",
    ),
    "kimi-code": Program(
        packages=("@moonshot-ai/kimi-code@2.1.0", NODE),
        command=("{bin}/kimi", "-p", PROMPT),
        environment={
            "KIMI_MODEL_NAME": "fake-model",
            "KIMI_MODEL_API_KEY": "x",
            "KIMI_MODEL_PROVIDER_TYPE": "openai",
            "KIMI_MODEL_BASE_URL": "{address}/v1",
            "KIMI_DISABLE_TELEMETRY": "1",
            "KIMI_CODE_NO_AUTO_UPDATE": "1",
        },
        runner=("Bash", "command"),
        read=("Read", "path"),
        agent=(
            "Agent",
            {"description": "count", "prompt": SUB_AGENT_TASK, "subagent_type": "coder"},
        ),
        sessions=".kimi-code/sessions/*/*/agents/*/wire.jsonl",
        completed=3,
        conversations=2,
    ),
    "continue": Program(
        packages=("@continuedev/cli@1.5.47", NODE),
        command=("{bin}/cn", "--auto", "-p", PROMPT, "--config", "../home/config.yaml"),
        environment={"CONTINUE_TELEMETRY_ENABLED": "0", "CONTINUE_CLI_AUTO_UPDATED": "true"},
        settings={
            "config.yaml": (
                "name: t\nversion: 0.0.1\nschema: v1\nmodels:\n"
                "  - {name: fake-model, model: fake-model, provider: openai, roles: [chat],\n"
                "     apiBase: '{address}/v1', apiKey: x, capabilities: [tool_use]}\n"
            )
        },
        runner=("Bash", "command"),
        read=("Read", "filepath"),
        sessions=".continue/sessions/*-*-*.json",
    ),
}
"""By the name of the format that reads what they write."""
