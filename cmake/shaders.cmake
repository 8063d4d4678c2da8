# Compiles GLSL to SPIR-V and puts it into one C file, VKF_SHADERS_C.
#
# A shader, shaders/NAME.comp, says which modules are compiled from it, a line each:
#
#   // module NAME[: DEFINE...][, needs FEATURE][, reads FORMAT...][, written out]
#
#   NAME     what vkf_kern_spirv_table calls it
#   DEFINE   for example "TYPE=vec4 HALF"; only for what changes SPIR-V types or extensions
#   FEATURE  a GLSL extension that the compiler must know, for example GL_EXT_integer_dot_product, or COOPMAT for
#            GL_KHR_cooperative_matrix, which the Vulkan headers must know as well. Where they do not, the module is left
#            out, and a line says so.
#   FORMAT   storage formats beside f32 in which it reads weights, keys or values: each gives one more module,
#            NAME_<format>, with FORMAT_<FORMAT> defined. "weights" and "caches" stand for all formats of weights, or of
#            keys and values, in shaders/lib/format.glsl.
#   written out: one more module of each, NAME_written_out, with WRITTEN_OUT defined (shaders/lib/each.glsl)
#
# Give a shader the lowest #version that it needs. For each module glslang reads the built-in functions of that version,
# which takes most of its time, and for 450 twice as long as for 440. 64-bit integers and cooperative matrices need 450.
set(format_glsl ${PROJECT_SOURCE_DIR}/shaders/lib/format.glsl)
set_property(DIRECTORY ${PROJECT_SOURCE_DIR} APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${format_glsl})
foreach(stored weights caches)
  set(${stored}_formats "")
  file(STRINGS ${format_glsl} lines REGEX "^#(el)?if defined\\(FORMAT_[A-Z0-9_]+\\) //.* ${stored}")
  foreach(line IN LISTS lines)
    string(REGEX REPLACE "^.*\\(FORMAT_([A-Z0-9_]+)\\).*$" "\\1" format "${line}")
    string(TOLOWER "${format}" format)
    string(APPEND ${stored}_formats " ${format}")
  endforeach()
endforeach()
file(GLOB shader_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/shaders/*.comp)
set_property(DIRECTORY ${PROJECT_SOURCE_DIR} APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${shader_sources})

set(spirv_dir ${PROJECT_BINARY_DIR}/spirv)
file(MAKE_DIRECTORY ${spirv_dir})
execute_process(COMMAND ${VKF_GLSLANG} --help OUTPUT_VARIABLE glslang_help ERROR_QUIET)
string(FIND "${glslang_help}" "--depfile" has_depfile)
# Without depfiles every shader depends on every included file.
file(GLOB_RECURSE shader_headers CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/shaders/*.glsl ${PROJECT_SOURCE_DIR}/shaders/*.h)

# Tests whether the compiler knows a GLSL extension, for a target such as vulkan1.1. Caches it as VKF_GLSL_<extension>.
function(vkf_probe_extension extension target)
  if(DEFINED VKF_GLSL_${extension})
    return()
  endif()
  set(probe ${spirv_dir}/probe_${extension}.comp)
  file(WRITE ${probe} "#version 450\n#extension ${extension} : require\nlayout(local_size_x = 1) in;\nvoid main() {}\n")
  execute_process(COMMAND ${VKF_GLSLANG} -V --target-env ${target} ${probe} -o ${probe}.spv
                  RESULT_VARIABLE failed OUTPUT_QUIET ERROR_QUIET)
  if(failed)
    set(VKF_GLSL_${extension} OFF CACHE INTERNAL "")
  else()
    set(VKF_GLSL_${extension} ON CACHE INTERNAL "")
  endif()
endfunction()

vkf_probe_extension(GL_KHR_cooperative_matrix vulkan1.1)
file(STRINGS ${VKF_VULKAN_INCLUDE_DIR}/vulkan/vulkan_core.h headers_have_coopmat
     REGEX "#define VK_KHR_cooperative_matrix 1" LIMIT_COUNT 1)
set(VKF_COOPMAT OFF)
if(VKF_GLSL_GL_KHR_cooperative_matrix AND headers_have_coopmat)
  set(VKF_COOPMAT ON)
  target_compile_definitions(vkf_vulkan INTERFACE VKF_HAS_COOPMAT)
else()
  message(WARNING "the kernels for matrix cores (matmul_coopmat, attention_coopmat) are left out: ${VKF_GLSLANG} or the Vulkan headers do "
                  "not know GL_KHR_cooperative_matrix; GPUs that have such cores will not use them")
endif()
vkf_probe_extension(GL_NV_cooperative_matrix2 vulkan1.3)
file(STRINGS ${VKF_VULKAN_INCLUDE_DIR}/vulkan/vulkan_core.h headers_have_coopmat2
     REGEX "#define VK_NV_cooperative_matrix2 1" LIMIT_COUNT 1)
set(VKF_COOPMAT2 OFF)
if(VKF_COOPMAT AND VKF_GLSL_GL_NV_cooperative_matrix2 AND headers_have_coopmat2)
  set(VKF_COOPMAT2 ON)
  target_compile_definitions(vkf_vulkan INTERFACE VKF_HAS_COOPMAT2)
endif()

set(VKF_SHADERS_FROM "" CACHE PATH "a build folder of the same sources, whose compiled shaders are taken")
if(VKF_SHADERS_FROM)
  set(VKF_SHADERS_C ${VKF_SHADERS_FROM}/generated/kern_spirv.c)
  set(VKF_SPIRV_DIR ${VKF_SHADERS_FROM}/spirv)
  if(NOT EXISTS ${VKF_SHADERS_C})
    message(FATAL_ERROR
      "VKF_SHADERS_FROM: expected a build folder with compiled shaders of its own, found no ${VKF_SHADERS_C}")
  endif()
  return()
endif()
set(VKF_SPIRV_DIR ${spirv_dir})

set(spirv_files "")
set(spirv_names "")
# A row a module: "name|source|defines|feature".
set(shader_rows "")
foreach(source IN LISTS shader_sources)
  file(STRINGS ${source} modules REGEX "^// module ")
  if(NOT modules)
    message(FATAL_ERROR "${source}: expected a line \"// module NAME\", found none")
  endif()
  foreach(module IN LISTS modules)
    if(NOT module MATCHES "^// module ([a-z0-9_]+)(: ([A-Za-z0-9_= ]+))?(, needs ([A-Za-z0-9_]+))?(, reads ([a-z0-9 ]+))?(, written out)?$")
      message(FATAL_ERROR "${source}: expected \"// module NAME: DEFINES, needs FEATURE, reads FORMATS, written out\", found \"${module}\"")
    endif()
    set(name ${CMAKE_MATCH_1})
    set(defines "${CMAKE_MATCH_3}")
    set(feature "${CMAKE_MATCH_5}")
    set(formats "${CMAKE_MATCH_7}")
    set(written_out "${CMAKE_MATCH_8}")
    string(REPLACE "weights" "${weights_formats}" formats "${formats}")
    string(REPLACE "caches" "${caches_formats}" formats "${formats}")
    separate_arguments(formats UNIX_COMMAND "${formats}")
    foreach(form "" "_written_out")
      set(form_defines "${defines}")
      if(form)
        if(NOT written_out)
          continue()
        endif()
        string(APPEND form_defines " WRITTEN_OUT")
      endif()
      list(APPEND shader_rows "${name}${form}|${source}|${form_defines}|${feature}")
      foreach(format IN LISTS formats)
        string(TOUPPER ${format} upper)
        list(APPEND shader_rows "${name}${form}_${format}|${source}|${form_defines} FORMAT_${upper}|${feature}")
      endforeach()
    endforeach()
  endforeach()
endforeach()

foreach(row IN LISTS shader_rows)
  string(REPLACE "|" ";" row "${row}||")
  list(GET row 0 name)
  list(GET row 1 source)
  list(GET row 2 defines)
  list(GET row 3 feature)
  if(name IN_LIST spirv_names)
    message(FATAL_ERROR "${source}: expected a new name, found another module called ${name}")
  endif()
  set(target vulkan1.1)
  if(feature STREQUAL "COOPMAT")
    if(NOT VKF_COOPMAT)
      continue() # the warning is above
    endif()
  elseif(feature STREQUAL "COOPMAT2")
    if(NOT VKF_COOPMAT2)
      message(STATUS "shader ${name} is left out: ${VKF_GLSLANG} or the Vulkan headers do not know GL_NV_cooperative_matrix2")
      continue()
    endif()
    set(target vulkan1.3)
  elseif(feature)
    vkf_probe_extension(${feature} ${target})
    if(NOT VKF_GLSL_${feature})
      message(STATUS "shader ${name} is left out: ${VKF_GLSLANG} does not know ${feature}")
      continue()
    endif()
  endif()
  separate_arguments(defines UNIX_COMMAND "${defines}")
  list(TRANSFORM defines PREPEND -D)
  # Each is compiled twice: as NAME, and as NAME_reproducible for the reproducible mode (shaders/lib/math.glsl).
  foreach(mode "" "_reproducible")
    set(reproducible "")
    if(mode)
      set(reproducible -DREPRODUCIBLE)
    endif()
    set(spv ${spirv_dir}/${name}${mode}.spv)
    set(validate "")
    if(VKF_SPIRV_VAL)
      set(validate COMMAND ${VKF_SPIRV_VAL} --target-env ${target} ${spv})
    endif()
    if(has_depfile GREATER -1)
      set(included DEPFILE ${spv}.d)
      set(write_depfile --depfile ${spv}.d)
    else()
      set(included ${shader_headers})
      set(write_depfile "")
    endif()
    add_custom_command(
      OUTPUT ${spv}
      COMMAND ${VKF_GLSLANG} --quiet -V --target-env ${target} -I${PROJECT_SOURCE_DIR}/shaders ${defines} ${reproducible} ${write_depfile} -o
              ${spv} ${source} ${validate}
      DEPENDS ${source} ${included}
      COMMENT "shader ${name}${mode}"
      VERBATIM)
    list(APPEND spirv_names ${name}${mode})
    list(APPEND spirv_files ${spv})
  endforeach()
endforeach()

# The list is a file, because a command line would grow with the number of shaders.
set(VKF_SHADERS_C ${PROJECT_BINARY_DIR}/generated/kern_spirv.c)
set(spirv_list ${spirv_dir}/list.txt)
list(JOIN spirv_files "\n" spirv_lines)
file(CONFIGURE OUTPUT ${spirv_list} CONTENT "${spirv_lines}\n" @ONLY)
add_custom_command(
  OUTPUT ${VKF_SHADERS_C}
  COMMAND ${CMAKE_COMMAND} -D LIST=${spirv_list} -D OUTPUT=${VKF_SHADERS_C} -P ${PROJECT_SOURCE_DIR}/cmake/embed.cmake
  DEPENDS ${spirv_files} ${spirv_list} ${PROJECT_SOURCE_DIR}/cmake/embed.cmake
  COMMENT "embedding the shaders"
  VERBATIM)
