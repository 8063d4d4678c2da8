#!/bin/sh
# A wrong number in the cases must be found: exit code 1, the line that says which, and N - 1 of N.
# Arguments: the program, tour.json, where to write the cases with the wrong number.
sed 's/"expect": \[\[1, 6, 4\]/"expect": [[1, 6, 4.001]/' "$2" > "$3" || exit 2
if cmp -s "$2" "$3"; then echo "no number was planted"; exit 2; fi
out=$("$1" tour scores --file "$3")
code=$?
echo "$out"
right=$("$1" tour scores | sed -n '$s/.* of \([0-9]*\) reproduced/\1/p')
case $out in *"WRONG scaled is"*) ;; *) code=none ;; esac
# --brief must leave out what passes, and nothing else.
brief=$("$1" tour scores --brief --file "$3")
[ "$brief" = "$(echo "$out" | grep -v '^    ok ')" ] || code=brief
# The page must have every check, right or wrong, and what is printed must stay the same.
paged=$("$1" tour scores --file "$3" --html "$3.html")
[ "$paged" = "$out" ] || code=paged
[ "$(grep -o '"check":true' "$3.html" | wc -l)" = "$((right - 1))" ] || code=page
[ "$(grep -o '"check":false' "$3.html" | wc -l)" = 1 ] || code=page
rm -f "$3.html"
[ "$code" = 1 ] &&
  [ "$(echo "$out" | tail -1)" = "$((right - 1)) of $right reproduced" ]
