#!/usr/bin/env bash
# Draws the pictures of the README, run-dark.svg and run-light.svg, from the workbench on a run.
#
#     docs/images/capture.sh [RUN]          RUN: an id, a name or `latest` (the default), of $ANNEAL_HOME
#
# The workbench runs in tmux at 110 x 38 characters, and what it shows goes through ansi_to_svg.py. A run that still trains
# makes the best picture; the one of the README is taken at about four fifths of
#     anneal train --name demo --train.batch_size=4 --train.total_steps=600 --train.warmup_steps=50 \
#         --train.learning_rate=6e-4 --eval.every=50 --sample.every=50
set -eu
cd "$(dirname "$0")/../.."
run=${1:-latest}
socket=anneal-capture-$$
screen=$(mktemp)
trap 'tmux -L "$socket" kill-server 2>/dev/null; rm -f "$screen"' EXIT

tmux -L "$socket" -f /dev/null new-session -d -x 110 -y 38 \
    "env LANG=C.UTF-8 TERM=tmux-256color build/anneal watch $(printf %q "$run") || sleep 5" \; set -g status off
for ((tries = 0; tries < 100; tries++)); do # until its charts are drawn
    tmux -L "$socket" capture-pane -e -p >"$screen"
    if grep -q 'gradient norm' "$screen" && grep -q 'sample' "$screen"; then break; fi
    sleep 0.1
done
grep -q 'gradient norm' "$screen" || { echo "capture.sh: the workbench shows no run:" >&2; cat "$screen" >&2; exit 1; }
for theme in dark light; do
    docs/images/ansi_to_svg.py $theme "The workbench of anneal on a training run: progress, loss, learning rate, gradient norm, speed, a sample text" \
        <"$screen" >docs/images/run-$theme.svg
    echo "docs/images/run-$theme.svg"
done
