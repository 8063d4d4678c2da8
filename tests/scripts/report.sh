#!/bin/sh
# Tests what scripts/report ($1) prints for folders made here, and its exit status.
set -u
report=$1
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
mkdir -p "$folder/whole/variants" "$folder/parts/variants" "$folder/none"

head='<testsuite name="(empty)"
	tests="2"
	>'
cat >"$folder/whole/junit.xml" <<END
$head
	<testcase name="unit.a" classname="unit.a" time="0.04" status="run">
		<system-out>[ RUN      ] one
[       OK ] one
</system-out>
	</testcase>
	<testcase name="unit.b" classname="unit.b" time="0.04" status="run"/>
</testsuite>
END
printf 'ran matmul-naive\nleft matmul-uniform\nleft matmul-coopmat\n' >"$folder/whole/variants/ops@one"
# A test that skips parts of itself (cmocka names them twice), a skipped one, a failed one, one without its program.
cat >"$folder/parts/junit.xml" <<END
$head
	<testcase name="op.ops@x" classname="op.ops@x" time="0.04" status="run">
		<system-out>[ RUN      ] wide_one
[  SKIPPED ] wide_one
[ RUN      ] other
  a line [  SKIPPED ] test_3
[  SKIPPED ] 2 test(s), listed below:
[  SKIPPED ] tests: 2 test(s), listed below:
[  SKIPPED ] wide_one
[  SKIPPED ] test_3
</system-out>
	</testcase>
	<testcase name="gpu.c" classname="gpu.c" time="0.04" status="notrun">
		<skipped message="SKIP_RETURN_CODE=77"/>
		<system-out></system-out>
	</testcase>
	<testcase name="gpu.d" classname="gpu.d" time="0.04" status="fail">
		<failure message=""/>
	</testcase>
	<testcase name="gpu.e" classname="gpu.e" time="0.04" status="notrun">
		<skipped message="Unable to find executable"/>
	</testcase>
</testsuite>
END
printf 'left matmul-naive\nleft matmul-uniform\nran matmul-coopmat\n' >"$folder/parts/variants/ops@two"

# must STATUS EXPECTED ARGUMENT...: exits with 1 if the report for these arguments differs
must() {
  status=$1 expected=$2
  shift 2
  found=$("$report" "$@" 2>&1)
  code=$?
  if [ "$code" != "$status" ] || [ "$found" != "$expected" ]; then
    printf 'report %s\nexpected exit %s:\n%s\nfound exit %s:\n%s\n' "$*" "$status" "$expected" "$code" "$found"
    exit 1
  fi
}

must 0 "1 of 3 kernel variants ran on some driver; on none:
  matmul-coopmat
  matmul-uniform
2 passed, 0 failed" "$folder/whole"
must 1 "left out: a driver
2 of 3 kernel variants ran on some driver; on none:
  matmul-uniform
skipped in part: op.ops@x: wide_one test_3
skipped: gpu.c
failed: gpu.d
failed: gpu.e
1 skipped, 1 skipped in part
2 passed, 2 failed" --left-out "a driver" "$folder/whole" "$folder/parts"
must 1 "$folder/none: ctest left no report
0 passed, 1 failed" "$folder/none"
