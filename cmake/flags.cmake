# The flags of our own targets, and of nothing else.
#
# -ffp-contract=off: everything is compared with the scalar path, so every compiler must compute what its source says.
function(vkf_flags target)
  set_target_properties(${target} PROPERTIES C_STANDARD 11 C_STANDARD_REQUIRED ON C_EXTENSIONS OFF C_VISIBILITY_PRESET hidden
                                             VISIBILITY_INLINES_HIDDEN ON)
  target_compile_options(
    ${target} PRIVATE $<$<COMPILE_LANGUAGE:C>:-Wall -Wextra -Wstrict-prototypes -Wmissing-prototypes -ffp-contract=off>
                      $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra> $<$<BOOL:${VKF_WERROR}>:-Werror>)
  if(WIN32) # src/base/windows/posix.h; printf() as C has it, which the compiler's check of formats does not know
    target_include_directories(${target} BEFORE PRIVATE ${PROJECT_SOURCE_DIR}/src/base/windows)
    target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:C>:-include$<SEMICOLON>posix.h$<SEMICOLON>-Wno-format>)
    target_compile_definitions(${target} PRIVATE __USE_MINGW_ANSI_STDIO=1 _POSIX_C_SOURCE=200809L)
  endif()
  if(VKF_SANITIZE)
    target_compile_options(${target} PRIVATE -fsanitize=${VKF_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
    get_target_property(type ${target} TYPE)
    if(NOT type STREQUAL "OBJECT_LIBRARY")
      target_link_options(${target} PUBLIC -fsanitize=${VKF_SANITIZE})
    endif()
  endif()
endfunction()
