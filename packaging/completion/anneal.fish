# Completion of anneal for fish. `anneal complete` finds the candidates: see tui/command/complete.h.

function __anneal_complete
    set -l words (commandline -opc)
    set -l program $words[1]
    $program complete $words[2..-1] (commandline -ct | string replace -r '^["\']' '') 2>/dev/null
end

# Folders alone, also behind the "=" of "--name=".
function __anneal_folders
    set -l token (commandline -ct)
    set -l name (string match -r -- '^--[^=]*=' $token)
    __fish_complete_directories (string replace -- "$name" '' $token) | string replace -r -- '^' "$name"
end

complete -c anneal -f -a '(__anneal_complete | string match -v ":*")'
complete -c anneal -n '__anneal_complete | string match -q ":files"' -F
complete -c anneal -n '__anneal_complete | string match -q ":folders"' -f -a '(__anneal_folders)'
