# Sourced by the scripts: lists of packages, --help, and functions that install missing packages, make a Debian in a
# folder and run tests.
#
# Debian 12 and newer, Ubuntu 24.04 and newer. If all packages are there, nothing is downloaded or installed.

packages_library="libjansson-dev libpcre2-dev libutf8proc-dev libpng-dev libjpeg-dev zlib1g-dev libzstd-dev"
packages_build="gcc g++ libc6-dev make ninja-build cmake pkg-config libvulkan-dev glslang-tools spirv-tools $packages_library"
packages_run="libvulkan1 mesa-vulkan-drivers"
packages_test="libcmocka-dev libvulkan-volk-dev vulkan-validationlayers shellcheck nodejs"
packages_farm="mesa-drm-shim python3"
packages_onnx="python3-onnx libonnx-testdata"
package_format="clang-format-14" # Debian 12 and Ubuntu 24.04 have it; other versions format otherwise
package_tidy="clang-tidy-14"
package_swiftshader="chromium-common" # Debian has SwiftShader in it; Ubuntu has no package with SwiftShader

say() { printf '%s\n' "$*" >&2; }

# --help: prints the head of the script that runs, and ends it
case "${1:-}" in
  -h | --help) sed -n '2,/^[^#]/s/^# \{0,1\}//p' "scripts/${0##*/}"; exit 0 ;;
esac

# With ninja the whole build takes a fifth less time than with make; a folder that make built stays make's.
use_ninja() { ! command -v ninja >/dev/null || export CMAKE_GENERATOR="${CMAKE_GENERATOR:-Ninja}"; }

is_installed() { [ "$(dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null)" = installed ]; }

# install_packages NAME...
install_packages() {
  local missing="" name sudo=""
  command -v dpkg-query >/dev/null || {
    say "This is no Debian or Ubuntu: expected these packages, or what is called so here: $*"
    return 0
  }
  for name in "$@"; do is_installed "$name" || missing="$missing $name"; done
  [ -n "$missing" ] || return 0
  if [ "$(id -u)" != 0 ]; then
    command -v sudo >/dev/null || { say "Install as root first:$missing"; return 1; }
    sudo=sudo
  fi
  say "Installing:$missing"
  $sudo apt-get update -qq >&2
  # shellcheck disable=SC2086
  $sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing >&2
}

# install_arm64 NAME...: installs a cross compiler and an emulator for 64-bit ARM, and Debian's packages NAME:arm64
install_arm64() {
  local name="" foreign="" sudo=""
  [ "$(id -u)" = 0 ] || sudo=sudo
  [[ " $(dpkg --print-foreign-architectures | tr '\n' ' ')" == *" arm64 "* ]] || $sudo dpkg --add-architecture arm64
  for name in "$@"; do foreign="$foreign $name:arm64"; done
  # shellcheck disable=SC2086
  install_packages gcc-aarch64-linux-gnu g++-aarch64-linux-gnu qemu-user $foreign
}

# is_debian [VERSION]
is_debian() { (. /etc/os-release 2>/dev/null && [ "${ID:-}" = debian ] && [ "${1:-$VERSION_ID}" = "$VERSION_ID" ]); }

# make_debian SUITE DIR: makes a minimal Debian in DIR if there is none; as root
make_debian() {
  local suite=$1 root=$2 mirror
  [ ! -x "$root/usr/bin/apt-get" ] || return 0
  if [ "$(id -u)" != 0 ] || ! command -v debootstrap >/dev/null; then
    say "$root: expected root and debootstrap, to make a Debian there"
    return 1
  fi
  mirror=$(sed -n '/^URIs: */{s///p;q}' /etc/apt/sources.list.d/debian.sources 2>/dev/null) || true
  debootstrap --variant=minbase --no-check-gpg "$suite" "$root" "${mirror:-http://deb.debian.org/debian}" >&2 || return 1
  cp /etc/resolv.conf /etc/hosts "$root/etc/"
  cp -r /etc/apt/apt.conf.d/. "$root/etc/apt/apt.conf.d/"
}

# run_tests FOLDER CTEST-OPTION...: runs tests and leaves in FOLDER what scripts/report reads
run_tests() {
  local folder=$1
  shift
  rm -rf "$folder/junit.xml" "$folder/variants"
  mkdir "$folder/variants"
  ctest --test-dir "$folder" --parallel "$(nproc)" --no-tests=error --output-on-failure --output-junit junit.xml \
    --test-output-size-passed 100000000 --test-output-size-failed 100000000 "$@" || true
}
