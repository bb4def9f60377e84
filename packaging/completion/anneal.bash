# Completion of anneal for bash. `anneal complete` finds the candidates: see tui/command/complete.h.

_anneal() {
    local current=$2 rest=${COMP_LINE:0:COMP_POINT} words=() paths=() word left line target= apart i
    # Readline ends a word also at "=" and ":". Put together again what no blank separates, without the quotes. What is
    # behind "<" and ">" is a file, and no word of the command.
    for ((i = 0; i <= COMP_CWORD; i++)); do
        word=${COMP_WORDS[i]} apart=
        [[ $i -ne 0 && $rest != [[:blank:]]* ]] || apart=1
        rest=${rest#"${rest%%[![:blank:]]*}"}
        ((i < COMP_CWORD)) || word=$rest
        rest=${rest#"$word"}
        if [[ $word == *[\<\>]* && $word != *[!\<\>\&\|]* ]]; then
            [[ $apart || ${words[-1]} == *[!0-9]* ]] || unset "words[-1]" # of "2>"
            target=awaited
            continue
        fi
        if [[ $target == awaited || ($target && ! $apart) ]]; then
            target=begun
            continue
        fi
        target=
        word=${word//[\\\"\']/}
        if [[ $apart ]]; then words+=("$word"); else words[-1]+=$word; fi
    done
    COMPREPLY=()
    if [[ $target ]]; then
        mapfile -t COMPREPLY < <(compgen -f -- "$current")
        compopt -o filenames
        return
    fi
    left=${words[-1]%"${current//[\\\"\']/}"} # what readline has as words of their own
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
