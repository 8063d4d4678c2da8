#!/bin/sh
# Checks the shell scripts of the source folder $1 with shellcheck, and that no pipeline's last command may exit before
# it has read all its input: SIGPIPE then kills the writer, and under pipefail the pipeline fails at random. If there is
# no shellcheck, it exits with 77 (a skip) if the rest passes, or with 1 if VKF_REQUIRE_TOOLS names it.
set -u
cd "$1" || exit 1
failed=0
scripts=$(grep -lE '^#!.*[/ ](ba|da)?sh$' scripts/* .ci/* bench/* tests/*/*.sh 2>/dev/null)
# Every workflow lists its permissions and cancels runs that a newer push replaces.
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
