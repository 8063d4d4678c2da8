#!/bin/sh
# The verdicts of bench/compare on rows that are made up: a winner, none where spreads touch, none over a bound.
# usage: compare.sh COMPARE
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# name minimum median p90 ratio
row() {
  printf '{"problem":"matmul:1,2,3","variant":"%s","min_us":%s,"median_us":%s,"p90_us":%s,"ratio":%s,"runs":9}' "$@"
}
document() {
  printf '{"device":"d","driver":"e","version":"0","rows":[%s]}' "$1"
}
document "$(row fast 10 11 12 0.5),$(row even 10 11 20 0.5),$(row slow 30 31 33 0.5),$(row wrong 10 11 12 0.5),$(row a 1 2 3 0.1)" \
  > "$folder/a"
document "$(row fast 20 22 24 0.5),$(row even 19 21 24 0.5),$(row slow 20 21 29 0.5),$(row wrong 1 1 1 1.5),$(row b 1 2 3 0.1)" \
  > "$folder/b"

found=$("$1" --json "$folder/a" "$folder/b" | sed -n 's/.*"\(a\|verdict\)": "\(.*\)".*/\2/p' | tr '\n' ' ')
test "$found" = "fast A even even slow B wrong wrong " || { echo "verdicts: $found"; exit 1; }
"$1" "$folder/a" "$folder/b" > "$folder/out"
grep -q '0.500  fast: A wins' "$folder/out" || { echo "no winner is named"; exit 1; }
grep -q 'even: no winner: the spreads overlap' "$folder/out" || { echo "a winner too many"; exit 1; }
"$1" --best --json "$folder/a" "$folder/b" > "$folder/out"
grep -q '"verdict": "even"' "$folder/out" || { echo "the best of each are a and b"; exit 1; }
# The roofs of both files: the device was 1.25 times as fast in one, so a gap of 1.18 says nothing and one of 1.67 does.
peaks() {
  printf '{"format":"vkformer-bench/1","device":"%s","driver":"e","peak":{"gflops":100,"gbytes":%s},"rows":[%s]}' "$@"
}
peaks d 10 "$(row near 10 11 17 0.5),$(row far 10 11 12 0.5)" > "$folder/a"
peaks d 8 "$(row near 20 21 24 0.5),$(row far 20 21 24 0.5)" > "$folder/b"
found=$("$1" --json "$folder/a" "$folder/b" | sed -n 's/.*"\(a\|verdict\)": "\(.*\)".*/\2/p' | tr '\n' ' ')
test "$found" = "near drift far A " || { echo "verdicts with drift: $found"; exit 1; }
"$1" "$folder/a" "$folder/b" > "$folder/out"
grep -q 'drifted by 25.0 %' "$folder/out" || { echo "the drift is not told"; exit 1; }
grep -q 'near: no winner: the gap is within the drift' "$folder/out" || { echo "a winner in spite of drift"; exit 1; }
peaks other 8 "$(row near 20 21 24 0.5),$(row far 20 21 24 0.5)" > "$folder/b"
found=$("$1" --json "$folder/a" "$folder/b" | sed -n 's/.*"\(drift\|verdict\)": "*\([a-zA-Z]*\).*/\2/p' | tr '\n' ' ')
test "$found" = "null A A " || { echo "verdicts of two devices: $found"; exit 1; }
sed 's/bench.1/bench\/9/' "$folder/a" > "$folder/c"
if "$1" "$folder/a" "$folder/c" 2> "$folder/err"; then echo "took another format"; exit 1; fi
grep -q 'expected the format vkformer-bench/1, found vkformer-bench/9' "$folder/err" || { echo "no format is named"; exit 1; }

echo '[]' > "$folder/c"
if "$1" "$folder/a" "$folder/c" 2> "$folder/err"; then echo "took a file without rows"; exit 1; fi
grep -q 'expected the output of vkformer bench --json' "$folder/err" || { echo "no reason is given"; exit 1; }
if "$1" "$folder/a" "$folder/nosuch" 2> "$folder/err"; then echo "took a file that is not there"; exit 1; fi
test "$(cat "$folder/err")" = "compare: $folder/nosuch: No such file or directory"
echo '{"device":"d","driver":"e","rows":[{"problem":"p"}]}' > "$folder/c"
if "$1" "$folder/a" "$folder/c" 2> "$folder/err"; then echo "took a row without times"; exit 1; fi
grep -q 'c: expected the output of vkformer bench --json, found no "variant"' "$folder/err" || { cat "$folder/err"; exit 1; }
if "$1" "$folder/a" "$folder/a" > /dev/full 2> "$folder/err"; then echo "a full disk is no failure"; exit 1; fi
test "$(cat "$folder/err")" = "compare: standard output: No space left on device"
