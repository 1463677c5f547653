#!/usr/bin/env bash
# Install what only the tests need: tools into the virtual environment; Chromium, PostgreSQL and
# systemd's tools by apt-get.
# Usage: ops/setup-test.sh VENV
set -euo pipefail
cd "$(dirname "$0")/.."
venv=${1:?usage: ops/setup-test.sh VENV}

pip() { "$venv/bin/python" -m pip --quiet --disable-pip-version-check --no-input "$@"; }

# Install what is missing of Debian's packages, as root, or say what misses: debian WHAT PACKAGE FOR
debian() {
  if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    echo "Installing $1 for $3"
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -qq && apt-get install -y -qq --no-install-recommends "$2" >/dev/null
  else
    echo "$1 is missing for $3: run 'apt-get install $2' as root and try again" >&2
    return 1
  fi
}

has_program() { PATH="$venv/bin:$PATH" command -v "$1" >/dev/null; }

# Debian's Alertmanager, which is fetched, has its templates apart from it.
has_alerting() {
  has_program promtool && has_program prometheus && has_program amtool && has_program alertmanager &&
    { ! [ -x "$venv/bin/alertmanager" ] || [ -e /usr/share/prometheus/alertmanager/default.tmpl ]; }
}

has_postgresql() { "$venv/bin/python" -m tests.postgresql; }

programs() {
  command -v chromium >/dev/null || debian Chromium chromium "the browser tests"
  # A server, not the client's files alone: what the tests look for is what is looked for here.
  has_postgresql >/dev/null 2>&1 || debian PostgreSQL postgresql "the tests of the store"
  has_postgresql >/dev/null
  command -v systemd-analyze >/dev/null || debian systemd systemd "the tests of the units"
  if ! has_alerting; then
    echo "Fetching Prometheus and Alertmanager for the tests that start them, with their tools"
    ops/fetch-prometheus.sh "$venv/bin"
  fi
}

# Side by side: one waits for Debian's servers, the other for PyPI's and for the disk.
(programs) &
programs=$!
pip install --upgrade "$(grep '^pip==' constraints.txt)"  # --group needs pip 25.1
pip install --constraint constraints.txt --group dev

# An OTLP backend that no one here wrote, to see the spans in. In a venv of its own: what other
# people's tools require must not bend our pins.
peers=$(dirname "$venv")/.venv-peers
[ -x "$peers/bin/python" ] || "$venv/bin/python" -m venv "$peers"
"$peers/bin/python" -m pip --quiet --disable-pip-version-check --no-input install trace-view==0.1.0
wait "$programs"
