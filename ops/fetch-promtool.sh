#!/usr/bin/env bash
# Put promtool and prometheus into a folder, out of Debian's package: installing that would start
# a Prometheus.
# Usage: ops/fetch-promtool.sh FOLDER
set -euo pipefail
folder=$(realpath "${1:?usage: ops/fetch-promtool.sh FOLDER}")
if ! command -v apt-get >/dev/null || ! command -v dpkg-deb >/dev/null; then
  echo "The tests of Prometheus' files need promtool on the PATH" >&2
  exit 1
fi
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch"
if [ "$(id -u)" = 0 ]; then apt-get update -qq; fi
# root writes here: apt's own user may not, and would say so.
apt-get download -qq -o APT::Sandbox::User=root prometheus >/dev/null
dpkg-deb -x prometheus_*.deb .
install -m 0755 usr/bin/promtool usr/bin/prometheus "$folder"
