#!/bin/sh
# installed.sh WHEEL: checks that the installed Debian packages translate, by the program and by a C, a C++ and a Python
# program, and that the wheel does so with its own library in a virtual environment. Prints the seconds of each.
set -eu
here=$(dirname "$0")
model=/usr/share/vkformer/models/en-es
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

# translates WHAT COMMAND...: exits with 1 if the command does not print the translation
translates() {
  what=$1
  shift
  start=$(date +%s%N)
  found=$("$@" "I am here.")
  ms=$((($(date +%s%N) - start) / 1000000))
  if [ "$found" != "Estoy aquí." ]; then
    echo "$what: expected 'Estoy aquí.', found '$found'"
    exit 1
  fi
  printf '%s: %d.%03d s\n' "$what" $((ms / 1000)) $((ms % 1000))
}

# shellcheck disable=SC2046
gcc -std=c11 "$here/translate.c" $(pkg-config --cflags --libs vkformer) -o c_program
# shellcheck disable=SC2046
g++ -std=c++17 -x c++ "$here/translate.c" -x none $(pkg-config --cflags --libs vkformer) -o cxx_program
cat > translate.py <<'END'
import sys
import vkformer

print(vkformer.Model(sys.argv[1]).session().translate(sys.argv[2]))
END
translates program vkformer translate --device lavapipe
export VKF_DEVICE=lavapipe
translates C ./c_program "$model"
translates C++ ./cxx_program "$model"
translates Python python3 translate.py "$model"
python3 -m venv environment
environment/bin/pip install -q --no-index "$1"
translates wheel environment/bin/python translate.py "$model"
environment/bin/python -c 'import vkformer, sys; sys.exit(not vkformer._lib._name.startswith(sys.prefix))' || {
  echo "wheel: expected its own library to be loaded, found another one"
  exit 1
}
vkformer help exit-codes > /dev/null
vkformer tour --brief > /dev/null
