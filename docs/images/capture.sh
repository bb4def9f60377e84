#!/usr/bin/env bash
# Draws what the workbench shows as pictures (SVG), in its own colours for dark and for light backgrounds.
#
#     docs/images/capture.sh [-o FOLDER] [-r RUN] [VIEW...]
#
# VIEW: list run compare evaluations memory profile configuration log, or `all`; without one, run: the picture of the README.
# RUN is an id, a name or `latest` (the default), of $ANNEAL_HOME. FOLDER is docs/images unless it is given; the files are
# VIEW-dark.svg and VIEW-light.svg.
#
# The workbench runs in tmux, where COLORFGBG names the background, and what it shows goes through ansi_to_svg.py. All views
# show something after `make demo`; `compare` compares all runs of the list, of which there must be two. A run that still
# trains makes the best picture; the one of the README is taken at about four fifths of
#     anneal train --name demo --train.batch_size=4 --train.seq_len=64 --train.total_steps=600 --train.warmup_steps=50 \
#         --train.learning_rate=6e-4 --eval.every=50 --sample.every=50
set -eu
cd "$(dirname "$0")/../.."

# A view: where the workbench opens (list or run), the keys from there, words that it then shows, and a sentence about it.
views=(
    "list||progress|The list of runs in the workbench of anneal: status, progress, losses, speed and curves"
    "run||gradient norm|The workbench of anneal on a training run: progress, loss, learning rate, gradient norm, speed, a sample text"
    "compare|aC|compare +[0-9]+ runs|The comparison of runs in the workbench: their curves, what differs, and their outcomes"
    "evaluations|E|evaluations|The evaluations of a run in the workbench, with the verdicts of early stopping"
    "memory|M|on one scale|Where the memory of a run goes: plan, process and device on one scale"
    "profile|P|ms a step|Where the time of a step goes: phases, layers and operations"
    "configuration|i|train\\.|The configuration of a run in the workbench, with what differs from the defaults first"
    "log|w|.|What the trainer of a run wrote"
)
folder=docs/images run=latest wanted=()
while [ $# -gt 0 ]; do
    case $1 in
    -o) folder=$2 && shift 2 ;;
    -r) run=$2 && shift 2 ;;
    all) for view in "${views[@]}"; do wanted+=("${view%%|*}"); done && shift ;;
    *) wanted+=("$1") && shift ;;
    esac
done
[ ${#wanted[@]} -gt 0 ] || wanted=(run)
socket=anneal-capture-$$
screen=$(mktemp)
trap 'tmux -L "$socket" kill-server 2>/dev/null || true; rm -f "$screen"' EXIT
mkdir -p "$folder"

# Waits until the screen shows these words (an extended regular expression), and keeps what it shows.
wait_for() {
    local tries
    for ((tries = 0; tries < 200; tries++)); do
        tmux -L "$socket" capture-pane -e -p >"$screen" 2>/dev/null || true
        if sed 's/\x1b\[[0-9;]*m//g' "$screen" | grep -Eq "$1"; then return 0; fi
        sleep 0.1
    done
    echo "capture.sh: the workbench does not show \"$1\":" >&2
    cat "$screen" >&2
    exit 1
}

# $1: view, $2: dark or light
capture() {
    local name keys words title view fgbg='15;0' start ready
    for view in "${views[@]}"; do [ "${view%%|*}" != "$1" ] || break; done
    IFS='|' read -r name keys words title <<<"$view"
    [ "$name" = "$1" ] || { echo "capture.sh: there is no view $1" >&2; exit 2; }
    [ "$2" = dark ] || fgbg='0;15'
    start="build/anneal watch $(printf %q "$run")" ready='loss'
    case $name in list | compare) start=build/anneal ready='anneal  [0-9]+ run' ;; esac
    tmux -L "$socket" -f /dev/null new-session -d -x 110 -y 38 \
        "env -u NO_COLOR LANG=C.UTF-8 TERM=tmux-256color COLORFGBG='$fgbg' $start || sleep 5" \; set -g status off
    wait_for "$ready"
    [ -z "$keys" ] || tmux -L "$socket" send-keys -l "$keys"
    wait_for "$words"
    tmux -L "$socket" kill-server
    docs/images/ansi_to_svg.py "$2" "$title" <"$screen" >"$folder/$name-$2.svg"
    echo "$folder/$name-$2.svg"
}

for view in "${wanted[@]}"; do
    for theme in dark light; do capture "$view" $theme; done
done
