# What `.ci/run` and `.ci/long` need of a machine: a folder that is removed at the end, the servers
# and programs that no Python package brings, interpreters, and the tools that make environments.
# This file is sourced, with `python` set to the interpreter of everything that names no other.
# shellcheck shell=bash

export CI=true PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_COMPILE=1 PIP_ROOT_USER_ACTION=ignore
export UV_PYTHON_DOWNLOADS=never DEBIAN_FRONTEND=noninteractive
unset PYTHONHOME PYTHONPATH TOOLLEDGER_LONG TOOLLEDGER_URL TOOLLEDGER_TENANT VIRTUAL_ENV
unset PYTHONDONTWRITEBYTECODE # each process would compile all that it imports
exec </dev/null
scratch=$(mktemp -d)
chmod a+x "$scratch" # servers run as another user
mkdir "$scratch/bin"
PATH=$scratch/bin:$scratch/mysql/bin:$PATH

# What runs beside the rest is interrupted when the script ends early, and gets a moment to stop the
# servers that it has started.
clean_up() {
    local job
    for job in $(jobs -pr); do
        kill -INT -- "-$job" 2>/dev/null || continue # it has just ended
        timeout 60 tail --pid="$job" -f /dev/null || kill -KILL -- "-$job"
    done
    rm -rf "$scratch"
}
trap clean_up EXIT

step() { printf '\n==> [%d:%02d] %s\n' $((SECONDS / 60)) $((SECONDS % 60)) "$*"; }

run() {
    step "$*"
    "$@"
}

# Run a command whose output is of interest only if it fails.
quietly() {
    local log
    log=$(mktemp -p "$scratch")
    "$@" >"$log" 2>&1 || { tail -n 30 "$log" >&2 && return 1; }
}

# Run a command beside the rest, as the job NAME: `aside NAME COMMAND ...`.
aside() {
    local name=$1
    shift
    step "beside what follows: $name"
    set -m # a process group of its own, so that its children are ended with it
    ("$@" >"$scratch/$name.log" 2>&1) &
    set +m
    printf '%s' "$!" >"$scratch/$name.job"
}

# Wait for the job NAME, print what it printed, and fail if it failed.
join() {
    local failed=""
    step "the end of $1"
    wait "$(<"$scratch/$1.job")" || failed=yes
    cat "$scratch/$1.log"
    [[ -z $failed ]]
}

# Try twice, with a limit: a mirror may hang.
twice() {
    quietly timeout 300 "$@" || {
        step "once more"
        quietly timeout 300 "$@"
    }
}

# Everything that tests of a server or a browser need.
fetch_servers() {
    step "servers and a browser, where they are missing"
    quietly .ci/servers "$scratch/mysql"
}

# Citus cannot be fetched: say where it was not tried.
tell_of_citus() {
    [[ -n ${TOOLLEDGER_CITUS_URL:-} ]] || step "Citus was not tried: TOOLLEDGER_CITUS_URL names no cluster"
}

version() { "$1" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null; }

# An interpreter of a version: of that name on the PATH, or one of pyenv's.
find_python() {
    local found
    for found in "$(command -v "python$1" || true)" "$(pyenv root 2>/dev/null)/versions/$1".*/bin/python; do
        if [[ -x $found && $(version "$found") == "$1" ]]; then
            printf '%s\n' "$found"
            return
        fi
    done
    return 1
}

# Put the interpreter of a version on the PATH, if there is one.
offer_python() {
    local found
    found=$(find_python "$1") || return 1
    found=$("$found" -c 'import sys; print(sys.executable)') # pyenv's is a script that looks for it
    ln -sf "$found" "$scratch/bin/python$1"
}

# The same; where there is none, unpack one from Debian's unstable beside the system. The caller has
# `$scratch/pythonVERSION/bin` on the PATH.
fetch_python() {
    offer_python "$1" && return
    step "Python $1 from Debian's unstable, unpacked beside the system"
    twice bash -c 'rm -rf "$2" && .ci/python "$1" "$2"' - "$1" "$scratch/python$1"
}

# nox and uv, in an environment that nothing else sees.
make_tools() {
    step "nox and uv"
    "$python" -m venv "$scratch/tools"
    quietly "$scratch/tools/bin/pip" install -q nox uv
}

# Run sessions of `.ci/noxfile.py` in fresh environments: `sessions NAME ... [-- WORDS]`.
sessions() {
    step "nox -s $*"
    "$scratch/tools/bin/nox" -f .ci/noxfile.py --envdir "$scratch/nox" --no-color -s "$@"
}
