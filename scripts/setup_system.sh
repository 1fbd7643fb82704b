#!/usr/bin/env bash
# Make sure that the programs which pip and npm cannot bring are here.
#
#   scripts/setup_system.sh demo    Python 3.11+ with venv, Node.js (20.19+, 22.12+ or newer) with npm
#   scripts/setup_system.sh test    the same, and Chromium and redis-server for the tests that need them
#
# On Debian and Ubuntu what is missing is installed with apt-get, as root or through sudo. Elsewhere, or
# without the right to, it says what to install. Python and Node.js are needed; Chromium and redis-server
# are not: the tests that use them are then skipped, except under CI=true, where that is a failure.
set -euo pipefail

purpose=${1:?usage: scripts/setup_system.sh demo|test}
python=${PYTHON:-$("$(dirname "$0")/find_python.sh")}

say() { printf 'set-up: %s\n' "$*" >&2; }

as_root() {
  if [ "$(id -u)" -eq 0 ]; then
    "$@"
  elif ! command -v sudo >/dev/null; then
    return 1
  elif [ -t 0 ]; then
    sudo "$@"
  else
    sudo -n "$@" # no one is there to type a password
  fi
}

updated=false
apt_install() {
  command -v apt-get >/dev/null || return 1
  if ! $updated; then
    say "refreshing the package lists"
    as_root apt-get update -q >/dev/null || return 1
    updated=true
  fi
  say "installing $*"
  as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "$@" >/dev/null
}

has_venv() { "$python" -c 'import ensurepip, venv' 2>/dev/null; }

has_node() {
  command -v npm >/dev/null && command -v node >/dev/null &&
    node -e 'const [a, b] = process.versions.node.split("."); process.exit(+a > 22 || (+a == 22 && +b >= 12) || (+a == 20 && +b >= 19) ? 0 : 1)'
}

apt_has_new_node() { # Debian 12 carries Node.js 18, which is too old
  command -v apt-cache >/dev/null &&
    apt-cache policy nodejs | sed -n 's/ *Candidate: *//p' | { IFS=. read -r major _; [ "${major:-0}" -gt 20 ] 2>/dev/null; }
}

has_chromium() {
  [ -x "${DLPROF_CHROMIUM:-}" ] ||
    command -v chromium-headless-shell chromium chromium-browser google-chrome >/dev/null
}

has_redis() { command -v redis-server >/dev/null; }

failed=0
optional() { # name, what to do, consequence
  say "$1 is missing and could not be installed. $2"
  if [ "${CI:-}" = true ]; then failed=1; else say "$3"; fi
}

if ! has_venv && ! apt_install python3-venv; then
  say "Python's venv module is missing. Install it (Debian, Ubuntu: apt-get install python3-venv)."
  failed=1
fi

if ! has_node && ! { apt_has_new_node && apt_install nodejs npm && has_node; }; then
  say "Node.js (20.19+, 22.12+ or newer) with npm is needed to build the viewer's page. Install it from your"
  say "system's packages or nodejs.org. (An installed wheel holds the built page and needs none.)"
  failed=1
fi

if [ "$purpose" = test ]; then
  if ! has_chromium && ! { { apt_install chromium-headless-shell || apt_install chromium; } && has_chromium; }; then
    optional Chromium "Install it, or set DLPROF_CHROMIUM to the program of a Chromium or Chrome." \
      "The browser tests will be skipped."
  fi
  if ! has_redis && ! { apt_install redis-server && has_redis; }; then
    optional redis-server "Install it from your system's packages (redis, redis-server or valkey)." \
      "The tests of background jobs over Redis will be skipped."
  fi
fi
exit $failed
