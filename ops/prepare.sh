# Sourced by the scripts beside it: finds or installs what they need. Installs only when run as root on a machine
# with apt-get, only what is missing, and says so first.
# shellcheck shell=bash

: "${top:?the script that sources this file sets it}"

say() { printf '\n== %s\n' "$*"; }

# What the workspace asks for in Cargo.toml.
rust_wanted() { sed -n 's/^rust-version = "\(.*\)"/\1/p' "$top/Cargo.toml"; }

apt_updated=""

# install PACKAGE…: true if they are there afterwards.
install() {
  if ! command -v apt-get >/dev/null || [ "$(id -u)" -ne 0 ]; then
    printf 'missing: %s. Install with: sudo apt-get install -y %s\n' "$*" "$*" >&2
    return 1
  fi
  say "Installing $*"
  [ -n "$apt_updated" ] || apt-get update -q || true
  apt_updated=yes
  DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "$@"
}

# need COMMAND PACKAGE…: true if the command is there, or its packages could be installed.
need() {
  local command=$1
  shift
  command -v "$command" >/dev/null || install "$@"
}

# A linker and a Rust that is new enough; without them nothing can be built.
need_rust() {
  need cc build-essential
  if ! command -v cargo >/dev/null && [ -x "$HOME/.cargo/bin/cargo" ]; then
    PATH="$HOME/.cargo/bin:$PATH"
  fi
  if ! command -v cargo >/dev/null && apt-cache show rustup >/dev/null 2>&1; then
    install rustup && rustup default stable
  fi
  local wanted found
  wanted=$(rust_wanted)
  found=$(cargo --version 2>/dev/null | cut -d' ' -f2 || true)
  if [ "$(printf '%s\n' "$wanted" "${found:-0}" | sort -V | head -n 1)" != "$wanted" ]; then
    printf 'Rust %s or newer is needed (found: %s). Install it with rustup: https://rustup.rs\n' \
      "$wanted" "${found:-none}" >&2
    return 1
  fi
}

target=${CARGO_TARGET_DIR:-$top/target}
binary=$target/release/powerqueue

# Builds the release binary unless it is newer than every source.
build_release() {
  if [ -x "$binary" ] &&
    [ -z "$(find "$top/Cargo.toml" "$top/Cargo.lock" "$top/server" "$top/web" -newer "$binary" -type f -print -quit)" ]; then
    return 0
  fi
  need_rust
  say "Building the release binary (a few minutes the first time)"
  (cd "$top" && cargo build --release --locked -p powerqueue)
}
