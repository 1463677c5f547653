#!/usr/bin/env bash
# Make the secrets that compose.yaml hands over as files. What exists is kept.
# Usage: ops/deploy/compose/make-secrets.sh [FOLDER]    (default: secrets/ beside this script)
set -euo pipefail
folder=${1:-$(dirname "$0")/secrets}
mkdir -p "$folder"
# The folder is closed; the files are readable, because containers read them as other users.
chmod 0700 "$folder"
umask 0333
if ! [ -e "$folder/postgres_password" ]; then
  head -c 24 /dev/urandom | base64 | tr '+/' '-_' | tr -d '\n' >"$folder/postgres_password"
fi
if ! [ -e "$folder/database_url" ]; then
  printf 'postgresql://pilothouse:%s@postgres/pilothouse\n' "$(cat "$folder/postgres_password")" \
    >"$folder/database_url"
fi
