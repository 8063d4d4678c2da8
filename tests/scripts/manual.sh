#!/bin/sh
# manual.sh VKFORMER FOLDER: checks that the man pages and completions that the build wrote to FOLDER have exactly the
# options that --help prints, that bash completes with them, and that groff, zsh and fish accept the files. Also checks
# that options refuse numbers out of range.
set -u
program=$1
folder=$2
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
failed=0

# same WHERE COMMAND: fails if the words of standard input are not the options of the command.
same() {
  sort -u > "$work/found"
  diff "$work/options" "$work/found" > "$work/diff" && return
  echo "$1: expected the options of $2, found other ones (< is missing):"
  cat "$work/diff"
  return 1
}

commands=$("$program" --help | sed -n '/^Commands/,/^$/s/^  \([a-z-]*\) .*/\1/p')
n=0
for command in $commands; do
  "$program" "$command" --help | sed -n 's/^  .\{4\}--\([a-z0-9-]*\).*/\1/p' | sort -u > "$work/options"
  n=$((n + $(wc -l < "$work/options")))
  sed -n 's/^[.]B .*\\-\\-//p; s/^[.]B \\-\\-//p' "$folder/man1/vkformer-$command.1" | sed 's/\\-/-/g; s/[ [].*//' |
    same "man page" "$command" || failed=1
  sed -n "/^    $command)/,/;;/s/^ *options='//p" "$folder/bash/vkformer" | tr -d "'" | tr ' ' '\n' | sed -n 's/^--//p' |
    same bash "$command" || failed=1
  sed -n "/^    $command)/,/;;/s/^ *'[*]--\([a-z0-9-]*\)\[.*/\1/p" "$folder/zsh/_vkformer" |
    same zsh "$command" || failed=1
  sed -n "s/.*__fish_seen_subcommand_from $command' -l \([a-z0-9-]*\) .*/\1/p" "$folder/fish/vkformer.fish" |
    same fish "$command" || failed=1
  grep -q "BR vkformer.*$(printf %s "$command" | sed 's/-/\\\\-/') (1)" "$folder/man1/vkformer.1" || {
    echo "vkformer.1: expected $command, found none"
    failed=1
  }
done
if [ "$n" -lt 250 ]; then
  echo "expected 250 options or more, found $n"
  failed=1
fi

# refuses COMMAND OPTION VALUE: the program must exit with 2 and say what it expected
refuses() {
  timeout 10 "$program" "$1" "--$2=$3" > "$work/said" 2>&1 < /dev/null
  code=$?
  if [ "$code" != 2 ] || ! grep -q -e "--$2: expected" "$work/said"; then
    echo "$1 --$2=$3: expected exit code 2 and what was expected, found $code:"
    cat "$work/said"
    failed=1
  fi
}
n=0
for command in $commands; do
  # N is a whole number, X any: some keys of generation_config.json may be negative; the library knows which.
  for option in $("$program" "$command" --help | sed -n 's/^  .\{4\}--\([a-z0-9-]*\) \([NX]\)\(\[,N\]\)*\( .*\)*$/\1=\2/p'); do
    kind=${option#*=}
    option=${option%=*}
    [ "$option" != driver-threads ] || continue # the library parses it
    n=$((n + 1))
    refuses "$command" "$option" 1e999
    [ "$kind" = X ] || refuses "$command" "$option" -1
    case $option in seconds | limit) refuses "$command" "$option" 86401 ;; esac
  done
done
if [ "$n" -lt 60 ]; then
  echo "expected 60 options with numbers or more, found $n"
  failed=1
fi

# offers WORDS EXPECTED: bash must complete the last of WORDS to EXPECTED.
offers() {
  # shellcheck disable=SC2016,SC2086
  found=$(bash -c '. "$1/bash/vkformer"; cd "$1" || exit; shift; COMP_WORDS=(vkformer "$@"); COMP_CWORD=$#
                   _vkformer; printf "%s " "${COMPREPLY[@]}"' completion "$folder" $1)
  if [ "$found" != "$2 " ]; then
    echo "bash, vkformer $1: expected $2, found $found"
    failed=1
  fi
}
if command -v bash > /dev/null; then
  offers tra translate
  offers "translate --num-b" "--num-beams --num-beam-groups"
  offers "translate --no-" "--no-repeat-ngram-size --no-wide-vectors"
  offers "validate --qui" --quick
  offers "run x --inputs ma" man1
fi
if command -v groff > /dev/null && groff -man -ww -z "$folder"/man1/*.1 2>&1 | grep .; then
  failed=1
fi
for shell in zsh fish; do
  for file in "$folder/$shell"/*; do
    if command -v $shell > /dev/null && ! $shell -n "$file"; then failed=1; fi
  done
done
exit $failed
