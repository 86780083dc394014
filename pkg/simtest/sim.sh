#!/usr/bin/env bash
# Usage: pkg/simtest/sim.sh [flags of go test]
#
# Runs the simulation's tests with their progress, and ends with the summary.
set -uo pipefail
cd "$(dirname "$0")/../.."
"${GO:-go}" test ./pkg/simtest -count=1 -timeout 24h -v "$@" 2>&1 | awk '
    /^(crash|histories|race|soak|mutants): [0-9]/ { summary = $0; next }
    /^(=== |--- PASS| +--- PASS|PASS$|ok )/ { next }
    { print; fflush() }
    END { if (summary) print summary }'
exit "${PIPESTATUS[0]}"
