#!/bin/sh
# The shell scripts of the source folder $1: shellcheck has nothing to say, and no pipeline ends in a command that may end
# before it has read everything, because the writer is then killed by SIGPIPE and under pipefail the whole pipeline fails
# by chance. Without shellcheck the test is a skip (77) once the rest is done, and a failure where VKF_REQUIRE_TOOLS names
# it.
set -u
cd "$1" || exit 1
failed=0
scripts=$(grep -lE '^#!.*[/ ](ba|da)?sh$' scripts/* .ci/* bench/* tests/*/*.sh 2>/dev/null)
# A workflow says what it may do, and ends the runs that a newer push makes needless.
for key in permissions concurrency; do
  if grep -L "^$key:" .github/workflows/*.yml | grep .; then
    echo "expected the key $key in every workflow, found none in those above"
    failed=1
  fi
done
# shellcheck disable=SC2086
if grep -nE '[|] *(grep +(-[A-Za-z]+ +)*-[A-Za-z]*[qm]|[h]ead\b|sed +[^|]*[0-9;]q\b)' $scripts scripts/packages.sh; then
  echo "expected no pipeline whose reader may end first, found those above"
  failed=1
fi
if [ "$failed" = 0 ] && ! command -v shellcheck >/dev/null; then
  echo "shellcheck is not installed"
  case ,${VKF_REQUIRE_TOOLS:-}, in *,shellcheck,*) exit 1 ;; esac
  exit 77
fi
# shellcheck disable=SC2086
shellcheck -x $scripts || failed=1
exit $failed
