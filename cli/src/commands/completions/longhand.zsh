#compdef longhand
# Completions of longhand for zsh. The program itself says what a word may become.
_longhand() {
    local -a lines values
    local line
    lines=("${(@f)$("${(Q)words[1]/#\~/$HOME}" __complete "${(@Q)words[2,CURRENT-1]}" "${(Q)PREFIX}" 2>/dev/null)}")
    for line in "${(@)lines[2,-1]}"; do
        values+=("${${line%%$'\t'*}//:/\\:}:${line#*$'\t'}")
    done
    (( $#values )) && _describe -t values 'value' values
    [[ $lines[1] == files ]] && _files
    return 0
}
if [[ $funcstack[1] == _longhand ]]; then
    _longhand "$@"
else
    compdef _longhand longhand
fi
