#!/usr/bin/env bash
# Put Prometheus and Alertmanager, each with its tool, into a folder, out of Debian's packages:
# installing those would start both.
# Usage: ops/fetch-prometheus.sh FOLDER
set -euo pipefail
folder=$(realpath "${1:?usage: ops/fetch-prometheus.sh FOLDER}")
if ! command -v apt-get >/dev/null || ! command -v dpkg-deb >/dev/null; then
  echo "The tests of alerting need prometheus, promtool, alertmanager and amtool on the PATH" >&2
  exit 1
fi
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch"
if [ "$(id -u)" = 0 ]; then apt-get update -qq; fi
# root writes here: apt's own user may not, and would say so.
apt-get download -qq -o APT::Sandbox::User=root prometheus prometheus-alertmanager >/dev/null
for package in ./*.deb; do dpkg-deb -x "$package" .; done
install -m 0755 usr/bin/promtool usr/bin/prometheus usr/bin/amtool "$folder"
# As everybody but Debian calls it.
install -m 0755 usr/bin/prometheus-alertmanager "$folder/alertmanager"
# Debian's build carries no templates of its own: it wants them where its package would put them.
templates=/usr/share/prometheus/alertmanager
if ! [ -e "$templates/default.tmpl" ]; then
  if ! mkdir -p "$templates" 2>/dev/null || ! cp ".$templates"/*.tmpl "$templates"; then
    echo "Alertmanager needs its templates in $templates: run this as root once" >&2
    exit 1
  fi
fi
