# Completions of longhand for bash. The program itself says what a word may become.
_longhand() {
    local -a words=() lines=()
    local word glued= last line cut
    # Bash splits words at : and =. They are joined again here.
    for word in "${COMP_WORDS[@]:1:COMP_CWORD}"; do
        word=${word//[\\\"\']/}
        last=$((${#words[@]} - 1))
        if [[ $last -ge 0 && ( $glued || $word =~ ^[:=]+$ ) ]]; then
            words[last]+=$word
        else
            words+=("$word")
        fi
        [[ $word =~ ^[:=]+$ ]] && glued=1 || glued=
    done
    last=${words[${#words[@]} - 1]}
    mapfile -t lines < <("${1/#\~/$HOME}" __complete "${words[@]}" 2>/dev/null)
    # Only what is behind the last : or = is replaced.
    cut=${last%"${last##*[:=]}"}
    COMPREPLY=()
    for line in "${lines[@]:1}"; do
        line=${line%%$'\t'*}
        COMPREPLY+=("${line#"$cut"}")
    done
    if [[ ${lines[0]} == files ]]; then
        compopt -o filenames
        mapfile -t -O ${#COMPREPLY[@]} COMPREPLY < <(compgen -f -- "${last#"$cut"}")
    fi
}
complete -F _longhand longhand
