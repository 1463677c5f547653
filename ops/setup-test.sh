#!/usr/bin/env bash
# Install what only the tests need: tools into the virtual environment; Chromium, PostgreSQL and
# systemd's tools by apt-get.
# Usage: ops/setup-test.sh VENV
set -euo pipefail
cd "$(dirname "$0")/.."
venv=${1:?usage: ops/setup-test.sh VENV}

pip() { "$venv/bin/python" -m pip --quiet --disable-pip-version-check --no-input "$@"; }
pip install --upgrade "$(grep '^pip==' constraints.txt)"  # --group needs pip 25.1
pip install --constraint constraints.txt --group dev

if ! command -v chromium >/dev/null; then
  if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    echo "Installing Chromium for the browser tests"
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium >/dev/null
  else
    echo "The browser tests need Chromium: run 'apt-get install chromium' as root and try again" >&2
    exit 1
  fi
fi

# A server, not the client's files alone: what the tests look for is what is looked for here.
if ! "$venv/bin/python" -m tests.postgresql >/dev/null 2>&1; then
  if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    echo "Installing PostgreSQL for the tests of the store"
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -qq && apt-get install -y -qq --no-install-recommends postgresql >/dev/null
  fi
  "$venv/bin/python" -m tests.postgresql >/dev/null
fi

if ! command -v systemd-analyze >/dev/null; then
  if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    echo "Installing systemd for the tests of the units"
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -qq && apt-get install -y -qq --no-install-recommends systemd >/dev/null
  else
    echo "The tests of the units need systemd's tools: run 'apt-get install systemd' as root" >&2
    exit 1
  fi
fi

if ! PATH="$venv/bin:$PATH" command -v promtool >/dev/null ||
  ! PATH="$venv/bin:$PATH" command -v prometheus >/dev/null; then
  echo "Fetching Prometheus for the tests that ask it, and promtool for those of its files"
  ops/fetch-promtool.sh "$venv/bin"
fi

# An OTLP backend that no one here wrote, to see the spans in. In a venv of its own: what other
# people's tools require must not bend our pins.
peers=$(dirname "$venv")/.venv-peers
[ -x "$peers/bin/python" ] || "$venv/bin/python" -m venv "$peers"
"$peers/bin/python" -m pip --quiet --disable-pip-version-check --no-input install trace-view==0.1.0
