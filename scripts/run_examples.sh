#!/usr/bin/env bash
# Runs every examples/*.oi with drawn inputs and compares it with the simulator.
set -euo pipefail
cd "$(dirname "$0")/.."

failed=0
for program in examples/*.oi; do
    echo "== $program"
    openinfer run "$program" || failed=1
    openinfer compare "$program" || failed=1
done
exit "$failed"
