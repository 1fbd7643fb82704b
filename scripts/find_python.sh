#!/usr/bin/env bash
# Print the first Python that is new enough.
set -euo pipefail
for candidate in python3 python3.13 python3.12 python3.11; do
  if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
    command -v "$candidate"
    exit
  fi
done
echo "set-up: Python 3.11 or newer is needed and none was found; or set PYTHON to its program." >&2
exit 1
