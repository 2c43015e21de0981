# Completions of longhand for fish. The program itself says what a word may become.
function __longhand_complete
    set -l words (commandline -opc)
    set -l current (commandline -ct)
    set -l lines ($words[1] __complete $words[2..] "$current" 2>/dev/null)
    printf '%s\n' $lines[2..]
    if test "$lines[1]" = files
        __fish_complete_path "$current"
    end
end
complete -c longhand -f -a '(__longhand_complete)'
