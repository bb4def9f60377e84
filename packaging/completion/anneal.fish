# Completion of anneal for fish. `anneal complete` finds the candidates: see tui/command/complete.h.

function __anneal_complete
    set -l words (commandline -opc)
    set -l program $words[1]
    $program complete $words[2..-1] (commandline -ct) 2>/dev/null
end

complete -c anneal -f -a '(__anneal_complete | string match -v ":*")'
complete -c anneal -n '__anneal_complete | string match -q ":*"' -F
