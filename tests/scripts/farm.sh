#!/bin/sh
# What scripts/farm says of figures: $1 is the script. A select ladder, a spill, scratch memory, a kernel that no driver
# makes and a chip that cannot be opened are each found; figures that are within the limits are not.
set -u
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0

expect() { # expect TEXT MEMBERS [ERRORS [CHIP]]: what the kernel with these members, or the chip, is refused for
  printf '{"chips": [{"chip": "navi31", "driver": "radv", "errors": [%s], "models": [{"model": "m", "dispatches": 9}],
    "kernels": [{"problem": "attention:512,512,8,64", "name": "attention-tiles-32x32x64-m4n2", "mode": "fast",
    "failure": null, "picked": true, "first": true, "registers": 96, "instructions": 2148, "branches": 39, "spills": 0,
    "scratch": 0%s}]%s}]}' "${3:-}" "$2" "${4:-}" >"$work/farm.json"
  judge "$1"
}

judge() { # judge TEXT; "": nothing is refused
  python3 "$script" --judge "$work/farm.json" >"$work/out" 2>&1
  status=$?
  if [ -z "$1" ] && [ $status != 0 ]; then
    echo "expected nothing, found $status and:"
  elif [ -n "$1" ] && { [ $status != 1 ] || ! grep -F "$1" "$work/out" >/dev/null; }; then
    echo "expected exit status 1 and \"$1\", found $status and:"
  else
    return
  fi
  cat "$work/out"
  failed=1
}

script=$1
expect "" ""
expect "expected at most 60 branches, found 621" ', "branches": 621'
expect "expected at most 3000 instructions, found 6435" ', "instructions": 6435'
expect "expected at most 0 spills, found 18" ', "spills": 18'
expect "expected at most 0 scratch, found 288" ', "scratch": 288'
expect "cannot be made: VK_ERROR_UNKNOWN" ', "failure": "VK_ERROR_UNKNOWN"'
expect "navi31: no device was found" "" '"no device was found"'
expect "" ', "picked": false, "first": false, "spills": 4'
expect "expected at most 0 spills, found 4" ', "picked": false, "spills": 4'
expect "expected kernels, found none" "" "" ', "kernels": []'
expect "m: expected dispatches" "" "" ', "models": [{"model": "m", "dispatches": 0}]'
expect "" ""
sed 's/"scratch": 0/"other": 0/' "$work/farm.json" >"$work/without.json" && mv "$work/without.json" "$work/farm.json"
judge "expected scratch, which the driver does not tell"
exit $failed
