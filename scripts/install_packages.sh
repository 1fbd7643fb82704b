#!/usr/bin/env bash
# Install packages into the environment whose programs are in a folder:
#
#   scripts/install_packages.sh .venv/bin -c constraints.txt -e ".[dev]"
#
# uv needs a tenth of pip's time. It does not read pip's configuration files: what it cannot find in the
# places of pip's variables, pip installs.
set -euo pipefail

bin=$1
shift
# An editable installation builds no page, so it needs nothing that builds one.
export DLPROF_SKIP_FRONTEND_BUILD=1
commas() { printf '%s' "$*" | tr -s ' ' ','; }

if [ -x "$bin/uv" ]; then
  export UV_LINK_MODE=${UV_LINK_MODE:-hardlink}
  export UV_FIND_LINKS=${UV_FIND_LINKS:-$(commas "${PIP_FIND_LINKS:-}")}
  export UV_INDEX=${UV_INDEX:-${PIP_EXTRA_INDEX_URL:-}}
  [ -z "${PIP_INDEX_URL:-}" ] || export UV_DEFAULT_INDEX=${UV_DEFAULT_INDEX:-$PIP_INDEX_URL}
  [ -z "${PIP_CERT:-}" ] || export SSL_CERT_FILE=${SSL_CERT_FILE:-$PIP_CERT}
  if "$bin/uv" pip install -q --python "$bin/python" "$@"; then exit; fi
fi
exec "$bin/pip" install -q --no-compile "$@"
