# What vkformer is built from. Each is found in the distribution or, for the Vulkan parts, first in VULKAN_SDK.
#
# Defines vkf_dependencies (what the library links) and vkf_volk (headers of Vulkan and volk for our own sources), and
# VKF_VOLK_C, VKF_GLSLANG, VKF_SPIRV_VAL.
find_package(PkgConfig REQUIRED)
pkg_check_modules(JANSSON REQUIRED IMPORTED_TARGET jansson>=2.11)
pkg_check_modules(PCRE2 REQUIRED IMPORTED_TARGET libpcre2-8>=10.32)
pkg_check_modules(UTF8PROC REQUIRED IMPORTED_TARGET libutf8proc>=2.2)
set(THREADS_PREFER_PTHREAD_FLAG ON)
find_package(Threads REQUIRED)

set(sdk "")
if(DEFINED ENV{VULKAN_SDK})
  file(TO_CMAKE_PATH "$ENV{VULKAN_SDK}" sdk)
endif()
find_path(VKF_VULKAN_INCLUDE_DIR vulkan/vulkan_core.h HINTS ${sdk}/include ${sdk}/Include
          DOC "the folder with vulkan/vulkan_core.h")
find_path(VKF_VOLK_DIR volk.c HINTS ${sdk}/include ${sdk}/Include PATH_SUFFIXES Volk volk DOC "the folder with volk.h and volk.c")
find_program(VKF_GLSLANG NAMES glslangValidator glslang HINTS ${sdk}/bin ${sdk}/Bin DOC "the GLSL compiler")
find_program(VKF_SPIRV_VAL NAMES spirv-val HINTS ${sdk}/bin ${sdk}/Bin DOC "the SPIR-V validator (optional)")
foreach(need "VKF_VULKAN_INCLUDE_DIR|Vulkan headers|libvulkan-dev" "VKF_VOLK_DIR|volk|libvulkan-volk-dev"
             "VKF_GLSLANG|glslangValidator|glslang-tools")
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

# volk defines one global for each Vulkan command. A program that has its own volk, or that links the loader, has the same
# names. So that a static libvkformer can stand beside them, a generated header gives ours the prefix vkf_; it comes
# first in volk.c and, through "volk_names.h", in every source of ours that includes volk.h.
set(VKF_VOLK_C ${VKF_VOLK_DIR}/volk.c)
set(names_h ${PROJECT_BINARY_DIR}/generated/volk_names.h)
file(STRINGS ${VKF_VOLK_DIR}/volk.h lines REGEX "^extern PFN_vk|^[A-Za-z].* volk[A-Z][A-Za-z]*\\(")
set(names "/* Generated from volk.h: our volk under names of its own. */\n#ifndef VKF_VOLK_NAMES_H\n#define VKF_VOLK_NAMES_H\n")
foreach(line IN LISTS lines)
  if(line MATCHES "^extern PFN_(vk[A-Za-z0-9_]+) " OR line MATCHES "(volk[A-Z][A-Za-z]*)\\(")
    string(APPEND names "#define ${CMAKE_MATCH_1} vkf_volk_${CMAKE_MATCH_1}\n")
  endif()
endforeach()
string(APPEND names "#endif\n")
file(CONFIGURE OUTPUT ${names_h} CONTENT "${names}" @ONLY)
set_property(DIRECTORY ${PROJECT_SOURCE_DIR} APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${VKF_VOLK_DIR}/volk.h)

add_library(vkf_volk INTERFACE)
target_include_directories(vkf_volk SYSTEM INTERFACE ${VKF_VULKAN_INCLUDE_DIR} ${VKF_VOLK_DIR})
target_include_directories(vkf_volk INTERFACE ${PROJECT_BINARY_DIR}/generated)
target_compile_definitions(vkf_volk INTERFACE VK_NO_PROTOTYPES)
if(MSVC)
  target_compile_options(vkf_volk INTERFACE /FI${names_h})
else()
  target_compile_options(vkf_volk INTERFACE "SHELL:-include ${names_h}")
endif()
