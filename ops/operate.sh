# Sourced by the scripts that operate an installed service: where everything is, and how they say and do things.
# shellcheck shell=bash

# Where a Debian machine has PowerQueue. Not settings: units, documentation and the package say the same.
# shellcheck disable=SC2034 # the scripts that source this file use them
{
  program=/usr/bin/powerqueue
  config_dir=/etc/powerqueue
  config=$config_dir/powerqueue.toml
  data=/var/lib/powerqueue
  backups=/var/backups/powerqueue
  caddy_env=/etc/caddy/powerqueue.env
  packages=/var/cache/powerqueue
  user=powerqueue
  service=powerqueue.service
  units=/usr/lib/systemd/system
}

# Set by --dry-run: everything is said and nothing is done.
dry_run=${dry_run:-}

say() { printf '== %s\n' "$*"; }

die() {
  printf '%s: %s\n' "$(basename "$0")" "$*" >&2
  exit 1
}

# run COMMAND…: shows it, and runs it unless this is a dry run.
run() {
  printf '   %s\n' "$*"
  [ -n "$dry_run" ] || "$@"
}

need_root() {
  [ "$(id -u)" -eq 0 ] || [ -n "$dry_run" ] || die "must be run as root"
}

# put MODE SOURCE TARGET: a file that is to be as in the source. Says nothing if it already is. True if it changed.
put() {
  if [ -f "$3" ] && cmp -s "$2" "$3" && [ "$(stat -c %a "$3")" = "$1" ]; then return 1; fi
  # Renamed into place: a program that runs keeps its file, and nobody sees half of a new one.
  # Callers ask whether it changed, which turns errexit off: a failure must end the script here.
  run install -D -m "$1" "$2" "$3.new" || die "cannot write $3"
  run mv -f "$3.new" "$3" || die "cannot write $3"
}

# put_text MODE TARGET: the same with the text on standard input.
put_text() {
  local new changed=0
  new=$(mktemp)
  cat >"$new"
  put "$1" "$new" "$2" || changed=1
  rm -f "$new"
  return "$changed"
}

# The store's format that a binary writes. Before there was a second one, binaries did not say.
store_format() { "$1" version --store-format 2>/dev/null || echo 1; }

# as_service COMMAND…: with the rights of the service, so that nothing it makes belongs to anybody else.
as_service() { setpriv --reuid="$user" --regid="$user" --init-groups --reset-env "$@"; }

# healthy PROGRAM SECONDS: ready in that time, and every front end passes a message on.
healthy() {
  run "$1" --config "$config" wait --timeout "${2}s" && run "$1" --config "$config" selftest
}
