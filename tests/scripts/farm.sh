#!/bin/sh
# Tests how scripts/farm ($1) judges figures. It must refuse a select ladder, a spill, scratch memory, a kernel that no
# driver can make, a chip that cannot be opened, a step with too many dispatches, too much host time and an inner loop
# with too many instructions, and accept figures within the limits.
set -u
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0

expect() { # expect TEXT MEMBERS [ERRORS [CHIP]]: judges a kernel with MEMBERS, and a chip with ERRORS and CHIP
  printf '{"chips": [{"chip": "navi31", "driver": "radv", "errors": [%s], "models": [{"model": "m", "dispatches": 9}],
    "kernels": [{"problem": "attention:512,512,8,64", "name": "attention-tiles-32x32x64-m4n2", "mode": "fast",
    "failure": null, "picked": true, "first": true, "registers": 96, "instructions": 2148, "branches": 39, "spills": 0,
    "scratch": 0%s}]%s}]}' "${3:-}" "$2" "${4:-}" >"$work/farm.json"
  judge "$1"
}

judge() { # judge TEXT: scripts/farm must refuse $work/farm.json with TEXT, or accept it if TEXT is ""
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
expect "0 errors, 0 not made, 1 over their limits" ', "spills": 18' # once, although the kernel is picked and the first
expect "cannot be made: VK_ERROR_UNKNOWN" ', "failure": "VK_ERROR_UNKNOWN"'
expect "navi31: no device was found" "" '"no device was found"'
expect "" ', "picked": false, "first": false, "spills": 4'
expect "expected at most 0 spills, found 4" ', "picked": false, "spills": 4'
expect "expected kernels, found none" "" "" ', "kernels": []'
host='"models": [{"model": "of 32 layers", "host_ms": 0.05}]'
expect "1 kernels on 1 chips, 2 errors, 1 not made, 1 over their limits" ', "failure": "lost"' '"one", "two"' ", $host"
expect "m: expected dispatches" "" "" ', "models": [{"model": "m", "dispatches": 0}]'
step='"models": [{"model": "tests/golden/llama", "dispatches": 19, "step_layer"'
expect "" "" "" ", $step: 9}]"
expect "tests/golden/llama: expected at most 9 step_layer, found 10" "" "" ", $step: 10}]"
expect "expected at most 0.03 host_ms, found 0.05" "" "" ", $host"
expect "" ""
sed 's/"scratch": 0/"other": 0/' "$work/farm.json" >"$work/without.json" && mv "$work/without.json" "$work/farm.json"
judge "expected scratch, which the driver does not tell"

matmul='"problem": "matmul:512,4096,512,f16", "name": "matmul-coopmat-halves-128x128x32-m64n64-16x16x16-w64"'
expect "" ", $matmul, \"loop_vector\": 33"
expect "expected at most 50 loop_vector, found 189" ", $matmul, \"loop_vector\": 189"

# Tests the counts of the inner loop in RADV's disassembly, here of a kernel with two stages, whose second is printed
# first. The outer loop, code outside the loops and instructions that only wait do not count.
cat >"$work/program" <<'END'
#!/bin/sh
stage() { echo '{"problem": "p:1", "op": "p", "name": "k", "stage": '$1', "format": "f16", "picked": true, "failure": null,
  "rank": 1, "shared_bytes": 0, "statistics": {"Instructions": '$2', "Spilled VGPRs": 0, "Scratch size": 0}}'; }
echo '{"device": "d", "driver": "r", "kernels": ['"$(stage 0 2), $(stage 1 14)"']}'
cat >&2 <<'CODE'
vkformer: p:1: k (some reason)
Compute Shader
disasm:
BB0:
	v_mov_b32_e32 v0, 0 ; 7e000280
BB1:
	v_add_f32 v0, v1, v2
	s_waitcnt lgkmcnt(0)
BB2:
	ds_load_b128 v[0:3], v4
	ds_load_b128 v[4:7], v4
	v_fma_f32 v0, v1, v2
	v_wmma_f32_16x16x16_f16 v[0:7], v[8:15], v[16:23], v[0:7]
	s_add_i32 s0, s0, 1
	s_delay_alu 1
	buffer_load_b128 v[0:3], v4, s[0:3], 0
	s_cbranch_scc1 BB2 ; bfa2fff8
BB3:
	v_add_f32 v0, v1, v2
	s_cbranch_scc1 BB1
	s_endpgm
Compute Shader
disasm:
BB0:
	v_mov_b32_e32 v0, 0
	s_endpgm
vkformer: p:1: k (some reason)
CODE
END
chmod +x "$work/program"
python3 "$script" "$work/program" --chip navi31 --problem p:1 --json "$work/loops.json" >"$work/out" 2>&1
loops=$(python3 -c 'import json, sys
kernels = json.load(open(sys.argv[1]))["chips"][0]["kernels"]
print([[k.get("loop_" + u) for u in ("matrix", "vector", "shared", "memory", "scalar")] + [k.get("busiest")] for k in kernels])
' "$work/loops.json")
expected="[[0, 0, 0, 0, 0, ''], [1, 1, 2, 1, 2, 'matrix']]"
if [ "$loops" != "$expected" ]; then
  echo "inner loops: expected $expected, found $loops and:"
  cat "$work/out"
  failed=1
fi
exit $failed
