#!/usr/bin/env bash
# Analyze both programs and compare them: the captures of this folder, or with "gpu" new ones.
set -euo pipefail
cd "$(dirname "$0")"
for program in slow fast; do
    mkdir -p "out/$program"
    options=(--force=true --output_path="out/$program" --profile_name="$program" --verbosity=quiet)
    if [ "${1:-}" = gpu ]; then
        dlprof --profile_steps=24 --nsys_base_name="$program" "${options[@]}" python3 "$program.py"
    else
        xz --decompress --stdout "captures/$program.sqlite.xz" > "out/$program.sqlite"
        dlprof --database="out/$program.sqlite" "${options[@]}"
    fi
done
dlprof advise --fail_on=never out/slow/dlprof_dldb.sqlite
dlprof compare out/slow/dlprof_dldb.sqlite out/fast/dlprof_dldb.sqlite
