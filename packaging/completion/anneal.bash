# Completion of anneal for bash. `anneal complete` finds the candidates: see tui/command/complete.h.

_anneal() {
    local current=$2 rest=${COMP_LINE:0:COMP_POINT} words=() paths=() word left line i
    # Readline ends a word also at "=" and ":". Put together again what no blank separates.
    for ((i = 0; i <= COMP_CWORD; i++)); do
        word=${COMP_WORDS[i]}
        ((i < COMP_CWORD)) || word=${rest#"${rest%%[![:blank:]]*}"}
        if [[ $i -eq 0 || $rest == [[:blank:]]* ]]; then words+=("$word"); else words[-1]+=$word; fi
        rest=${rest#"${rest%%[![:blank:]]*}"}
        rest=${rest#"$word"}
    done
    left=${words[-1]%"$current"} # what readline has as words of their own
    COMPREPLY=()
    while IFS= read -r line; do
        case $line in
            :files) mapfile -t paths < <(compgen -f -- "$current") ;;
            :folders) mapfile -t paths < <(compgen -d -- "$current") ;;
            *)
                line=${line%%$'\t'*}
                [[ $line == "$left" ]] || COMPREPLY+=("${line#"$left"}")
                [[ $line != *[=.:] ]] || compopt -o nospace
                ;;
        esac
    done < <("${1/#\~/$HOME}" complete "${words[@]:1}" 2>/dev/null)
    ((${#paths[@]} == 0)) || compopt -o filenames
    COMPREPLY+=("${paths[@]}")
} 2>/dev/null

complete -F _anneal anneal
