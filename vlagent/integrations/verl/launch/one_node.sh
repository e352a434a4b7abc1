#!/usr/bin/env bash
# One machine: veRL starts a Ray of its own and ends it with the run. Settings: see train.sh.
set -euo pipefail
NODES=1 exec "$(dirname "${BASH_SOURCE[0]}")/train.sh" "$@"
