# A toolchain file: builds for 64-bit ARM Linux with Debian's and Ubuntu's cross compiler, and lets CTest run the tests
# under qemu-user where that is installed. `scripts/cross-arm64` installs the packages and uses it.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)
set(ENV{PKG_CONFIG_LIBDIR} /usr/lib/aarch64-linux-gnu/pkgconfig:/usr/share/pkgconfig)
find_program(qemu NAMES qemu-aarch64-static qemu-aarch64)
if(qemu)
  set(CMAKE_CROSSCOMPILING_EMULATOR ${qemu})
endif()
