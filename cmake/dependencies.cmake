# Finds what vkformer is built from: in the distribution or, for the Vulkan parts, first in VULKAN_SDK.
#
# libpng and libjpeg are optional: without them vkformer refuses images and says why. zlib and libzstd, for compressed
# corpora, are optional, too.
#
# Defines vkf_dependencies (what the library links), vkf_vulkan (Vulkan's headers, for our own sources), VKF_GLSLANG and
# VKF_SPIRV_VAL.
find_package(PkgConfig REQUIRED)
pkg_check_modules(JANSSON REQUIRED IMPORTED_TARGET jansson>=2.11)
pkg_check_modules(PCRE2 REQUIRED IMPORTED_TARGET libpcre2-8>=10.32)
pkg_check_modules(UTF8PROC REQUIRED IMPORTED_TARGET libutf8proc>=2.2)
pkg_check_modules(PNG IMPORTED_TARGET libpng>=1.6)
pkg_check_modules(JPEG IMPORTED_TARGET libjpeg)
pkg_check_modules(ZLIB IMPORTED_TARGET zlib)
pkg_check_modules(ZSTD IMPORTED_TARGET libzstd)
set(THREADS_PREFER_PTHREAD_FLAG ON)
find_package(Threads REQUIRED)

set(sdk "")
if(DEFINED ENV{VULKAN_SDK})
  file(TO_CMAKE_PATH "$ENV{VULKAN_SDK}" sdk)
endif()
find_path(VKF_VULKAN_INCLUDE_DIR vulkan/vulkan_core.h HINTS ${sdk}/include ${sdk}/Include
          DOC "the folder with vulkan/vulkan_core.h")
find_program(VKF_GLSLANG NAMES glslangValidator glslang HINTS ${sdk}/bin ${sdk}/Bin DOC "the GLSL compiler")
find_program(VKF_SPIRV_VAL NAMES spirv-val HINTS ${sdk}/bin ${sdk}/Bin DOC "the SPIR-V validator (optional)")
foreach(need "VKF_VULKAN_INCLUDE_DIR|the Vulkan headers|libvulkan-dev" "VKF_GLSLANG|glslangValidator|glslang-tools")
  string(REPLACE "|" ";" need "${need}")
  list(GET need 0 variable)
  list(GET need 1 what)
  list(GET need 2 package)
  if(NOT ${variable})
    message(FATAL_ERROR "vkformer needs ${what}: install the package ${package}, or set the environment's VULKAN_SDK to "
                        "a Vulkan SDK, or pass -D${variable}=...")
  endif()
endforeach()

add_library(vkf_dependencies INTERFACE)
target_link_libraries(vkf_dependencies INTERFACE PkgConfig::JANSSON PkgConfig::PCRE2 PkgConfig::UTF8PROC
                                                 Threads::Threads ${CMAKE_DL_LIBS})
if(UNIX)
  target_link_libraries(vkf_dependencies INTERFACE m)
endif()
set(vkf_packages "jansson libpcre2-8 libutf8proc") # for programs that link a static libvkformer
foreach(format PNG JPEG)
  option(VKF_${format} "read ${format} images, where the library is there" ON)
  if(VKF_${format} AND ${format}_FOUND)
    target_link_libraries(vkf_dependencies INTERFACE PkgConfig::${format})
    target_compile_definitions(vkf_dependencies INTERFACE VKF_HAS_${format})
    string(TOLOWER " lib${format}" package)
    string(APPEND vkf_packages ${package})
  elseif(VKF_${format})
    message(STATUS "vkformer will read no ${format} images: the library is not there")
  endif()
endforeach()

# The room gpu has its own function tables and opens the loader at run time, so it needs only Vulkan's headers.
add_library(vkf_vulkan INTERFACE)
target_include_directories(vkf_vulkan SYSTEM INTERFACE ${VKF_VULKAN_INCLUDE_DIR})
