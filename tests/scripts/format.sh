#!/bin/sh
# Checks that clang-format 14 would not change the C sources of the folder $1 (other versions differ), and that no
# shader has a line of more than 120 columns. Without clang-format 14 it exits with 77 (a skip) if the rest passes, or
# with 1 if VKF_REQUIRE_TOOLS names it.
set -u
cd "$1" || exit 1
failed=0
if find shaders tests/gpu examples \( -name '*.comp' -o -name '*.glsl' -o -name '*.h' \) -exec awk '
    length > 120 { printf "%s:%d: expected at most 120 columns, found %d\n", FILENAME, FNR, length; found = 1 }
    END { exit !found }' {} +; then
  failed=1
fi
format=""
for name in clang-format-14 clang-format; do
  case $("$name" --version 2>/dev/null) in *"version 14."*) format=$name && break ;; esac
done
if [ -n "$format" ]; then
  find include src tools tests examples shaders \( -name '*.c' -o -name '*.h' \) -exec "$format" --dry-run -Werror {} + || failed=1
elif [ "$failed" = 0 ]; then
  echo "clang-format 14 is not installed"
  case ,${VKF_REQUIRE_TOOLS:-}, in *,clang-format,*) exit 1 ;; esac
  exit 77
fi
exit $failed
