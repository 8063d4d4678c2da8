# Installs the library, the headers, the program, the files that it reads, and packages for find_package(vkformer) and
# pkg-config. The test api.installed uses both packages.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
install(TARGETS vkformer EXPORT vkformerTargets)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/vkformer DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
if(TARGET vkformer_program)
  if(BUILD_SHARED_LIBS AND UNIX AND NOT APPLE)
    set_target_properties(vkformer_program PROPERTIES INSTALL_RPATH "$ORIGIN/../${CMAKE_INSTALL_LIBDIR}")
  endif()
  install(TARGETS vkformer_program)
endif()
if(EXISTS ${PROJECT_SOURCE_DIR}/models/en-es)
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/models DESTINATION ${CMAKE_INSTALL_DATADIR}/vkformer)
endif()
install(DIRECTORY ${PROJECT_SOURCE_DIR}/python DESTINATION ${CMAKE_INSTALL_DATADIR}/vkformer
        PATTERN __pycache__ EXCLUDE)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/tour DESTINATION ${CMAKE_INSTALL_DATADIR}/vkformer)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/docs/topics DESTINATION ${CMAKE_INSTALL_DATADIR}/vkformer/docs)
if(VKF_MANUAL)
  install(DIRECTORY ${VKF_MANUAL}/man1 DESTINATION ${CMAKE_INSTALL_MANDIR})
  install(FILES ${VKF_MANUAL}/bash/vkformer DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
  install(FILES ${VKF_MANUAL}/zsh/_vkformer DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions)
  install(FILES ${VKF_MANUAL}/fish/vkformer.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)
endif()
install(FILES ${PROJECT_SOURCE_DIR}/bench/explorer.html DESTINATION ${CMAKE_INSTALL_DATADIR}/vkformer/bench)
install(FILES ${PROJECT_SOURCE_DIR}/tools/validation.html ${PROJECT_SOURCE_DIR}/tools/attention.html
              ${PROJECT_SOURCE_DIR}/tools/attention.svg ${PROJECT_SOURCE_DIR}/tools/tour.html ${PROJECT_SOURCE_DIR}/tools/page.css
              ${PROJECT_SOURCE_DIR}/tools/page.js ${PROJECT_SOURCE_DIR}/tools/picture.html
        DESTINATION ${CMAKE_INSTALL_DATADIR}/vkformer/tools)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/shaders/lib ${PROJECT_SOURCE_DIR}/shaders/shared # for `bench --shader`
        DESTINATION ${CMAKE_INSTALL_DATADIR}/vkformer/shaders)
# Scripts and documents are installed under the names that the documents use.
install(PROGRAMS ${PROJECT_SOURCE_DIR}/scripts/swiftshader ${PROJECT_SOURCE_DIR}/scripts/convert
        DESTINATION ${CMAKE_INSTALL_DATADIR}/vkformer/scripts)
install(PROGRAMS ${PROJECT_SOURCE_DIR}/bench/compare DESTINATION ${CMAKE_INSTALL_DATADIR}/vkformer/bench)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/docs DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(FILES ${PROJECT_SOURCE_DIR}/README.md ${PROJECT_SOURCE_DIR}/CHANGELOG.md ${PROJECT_SOURCE_DIR}/LICENSE
              ${PROJECT_SOURCE_DIR}/NOTICE DESTINATION ${CMAKE_INSTALL_DOCDIR})

# Builds a Python wheel that contains the shared library. It needs the same system packages as the library.
find_package(Python3 QUIET COMPONENTS Interpreter)
if(BUILD_SHARED_LIBS AND Python3_FOUND AND CMAKE_SYSTEM_NAME STREQUAL Linux)
  set(wheel ${PROJECT_BINARY_DIR}/wheel)
  file(WRITE ${PROJECT_BINARY_DIR}/wheel.cfg "[bdist_wheel]\nplat_name = linux_${CMAKE_SYSTEM_PROCESSOR}\n")
  add_custom_target(wheel_needs COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/cmake/wheel_needs.py VERBATIM)
  add_custom_target(wheel
    COMMAND ${CMAKE_COMMAND} -E rm -rf ${wheel}
    COMMAND ${CMAKE_COMMAND} -E copy_directory ${PROJECT_SOURCE_DIR}/python ${wheel}/source
    COMMAND ${CMAKE_COMMAND} -E copy $<TARGET_FILE:vkformer> ${wheel}/source/vkformer/libvkformer.so
    COMMAND ${CMAKE_COMMAND} -E copy ${PROJECT_BINARY_DIR}/wheel.cfg ${wheel}/source/setup.cfg
    COMMAND ${Python3_EXECUTABLE} -m pip wheel -q --no-deps --no-build-isolation -w ${wheel} ${wheel}/source
    DEPENDS vkformer VERBATIM)
  add_dependencies(wheel wheel_needs) # beside the library, so that it need not be whole before something is missed
endif()

# A program that links a static libvkformer must also link its dependencies, so the packages name them.
set(VKF_STATIC ON)
set(requires "Requires: ${vkf_packages}\n")
set(libs "-lvkformer -pthread -lm")
if(CMAKE_DL_LIBS)
  string(APPEND libs " -l${CMAKE_DL_LIBS}")
endif()
if(BUILD_SHARED_LIBS)
  set(VKF_STATIC OFF)
  set(requires "") # no Requires.private: pkg-config would require headers that ours do not include
  set(libs -lvkformer)
endif()
file(RELATIVE_PATH up ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
string(REGEX REPLACE "/$" "" up "${up}")
foreach(dir LIBDIR INCLUDEDIR)
  set(pc_${dir} "\${prefix}/${CMAKE_INSTALL_${dir}}")
  if(IS_ABSOLUTE "${CMAKE_INSTALL_${dir}}")
    set(pc_${dir} "${CMAKE_INSTALL_${dir}}")
  endif()
endforeach()
file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/vkformer.pc @ONLY CONTENT [[
prefix=${pcfiledir}/@up@
libdir=@pc_LIBDIR@
includedir=@pc_INCLUDEDIR@
Name: vkformer
Description: @PROJECT_DESCRIPTION@
Version: @PROJECT_VERSION@
@requires@Libs: -L${libdir} @libs@
Cflags: -I${includedir}
]])
install(FILES ${PROJECT_BINARY_DIR}/vkformer.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/vkformer)
file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/vkformerConfig.cmake @ONLY CONTENT [[
set(vkf_static @VKF_STATIC@)
include(CMakeFindDependencyMacro)
include(${CMAKE_CURRENT_LIST_DIR}/vkformerTargets.cmake)
if(vkf_static)
  find_dependency(PkgConfig)
  find_dependency(Threads)
  pkg_check_modules(VKFORMER_DEPENDENCIES REQUIRED IMPORTED_TARGET @vkf_packages@)
  target_link_libraries(vkformer::vkformer INTERFACE PkgConfig::VKFORMER_DEPENDENCIES Threads::Threads ${CMAKE_DL_LIBS})
  if(UNIX)
    target_link_libraries(vkformer::vkformer INTERFACE m)
  endif()
endif()
]])
write_basic_package_version_file(${PROJECT_BINARY_DIR}/vkformerConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(EXPORT vkformerTargets NAMESPACE vkformer:: DESTINATION ${package_dir})
install(FILES ${PROJECT_BINARY_DIR}/vkformerConfig.cmake ${PROJECT_BINARY_DIR}/vkformerConfigVersion.cmake
        DESTINATION ${package_dir})
