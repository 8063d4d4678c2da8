# cmake -D OBJDUMP=objdump -D LIBRARY=libvkformer.a -P check_state.cmake
#
# Checks that the library has no global state. The only variables are those that each thread has for itself (the
# innermost callback, the session that refused its last call) and a lock for the creation of instances.
cmake_minimum_required(VERSION 3.22)
set(allowed refusal innermost making)
execute_process(COMMAND ${OBJDUMP} -t ${LIBRARY} OUTPUT_VARIABLE symbols COMMAND_ERROR_IS_FATAL ANY)
string(REGEX MATCHALL "[^\n]* \\.t?(bss|data)[^\n\t]*\t[^\n]*" lines "${symbols}")
set(found "")
foreach(line IN LISTS lines)
  string(REGEX REPLACE ".*[ \t]([^ \t]+)$" "\\1" name "${line}")
  if(NOT line MATCHES "\\.data\\.rel\\.ro" AND NOT name MATCHES "^\\.") # constants that hold addresses; sections
    list(APPEND found ${name})
  endif()
endforeach()
if(NOT "making" IN_LIST found)
  message(FATAL_ERROR "expected the lock that is known in ${LIBRARY}, found '${found}': this check does not read it")
endif()
list(REMOVE_ITEM found ${allowed})
if(found)
  message(FATAL_ERROR "${LIBRARY}: expected no global state, found ${found}")
endif()
