# Every tests/ROOM/test_SUBJECT.c is a program of cmocka tests named ROOM.SUBJECT; every tests/ROOM/SUBJECT.sh a script
# that gets the build folder as its first argument. Helpers shared by tests lie in tests/support.
pkg_check_modules(CMOCKA REQUIRED IMPORTED_TARGET cmocka)
file(GLOB SUPPORT CONFIGURE_DEPENDS tests/support/*.c tests/link/*.c)
add_library(test_support OBJECT ${SUPPORT} tests/support/empty.c)
target_link_libraries(test_support PUBLIC veche_core PkgConfig::CMOCKA)
target_include_directories(test_support PUBLIC tests)

# What this build cannot test stands among the tests, too, as skipped, with the reason.
function(left_out name why)
  add_test(NAME ${name} COMMAND ${CMAKE_COMMAND} -E echo "SKIPPED: ${why}")
  set_tests_properties(${name} PROPERTIES SKIP_REGULAR_EXPRESSION "^SKIPPED: ")
endfunction()

set(MOST_SECONDS 300)
if(VECHE_SANITIZE OR CMAKE_CROSSCOMPILING)
  set(MOST_SECONDS 1500) # naive loops under a sanitizer, or emulated, on a busy machine
endif()

file(GLOB TESTS CONFIGURE_DEPENDS tests/*/test_*.c)
if(NOT WITH_DNNL)
  list(FILTER TESTS EXCLUDE REGEX "test_(dnnl|winograd)")
  left_out(engine.dnnl "built without oneDNN")
endif()
if(NOT WITH_CUDA)
  list(FILTER TESTS EXCLUDE REGEX "test_cuda")
  left_out(engine.cuda "built without CUDA; gpu.cuda has the same tests on a pretended GPU")
endif()
list(FILTER TESTS EXCLUDE REGEX "tests/mpi/") # built once for each MPI, see mpi.cmake
foreach(source ${TESTS})
  get_filename_component(subject ${source} NAME_WE)
  get_filename_component(folder ${source} DIRECTORY)
  get_filename_component(room ${folder} NAME)
  string(REPLACE "test_" "" subject ${subject})
  set(name ${room}.${subject})
  add_executable(${name} ${source} $<TARGET_OBJECTS:test_support>)
  target_link_libraries(${name} PRIVATE veche_static test_support)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  add_test(NAME ${name} COMMAND ${name} WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
  set_tests_properties(${name} PROPERTIES TIMEOUT ${MOST_SECONDS} SKIP_RETURN_CODE 77)
endforeach()

file(GLOB SCRIPTS CONFIGURE_DEPENDS tests/*/*.sh)
list(FILTER SCRIPTS EXCLUDE REGEX "tests/((support|cluster|gpu)/|portable/aarch64)") # those of a cluster and of aarch64 take minutes: make test-cluster, make nightly, make test-portable; gpu.cmake has its own
if(NOT WITH_MPI)
  list(FILTER SCRIPTS EXCLUDE REGEX "tests/mpi/")
endif()
foreach(source ${SCRIPTS})
  get_filename_component(subject ${source} NAME_WE)
  get_filename_component(folder ${source} DIRECTORY)
  get_filename_component(room ${folder} NAME)
  add_test(NAME ${room}.${subject} COMMAND bash ${source} ${CMAKE_BINARY_DIR} WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
  set_tests_properties(${room}.${subject} PROPERTIES TIMEOUT ${MOST_SECONDS} SKIP_RETURN_CODE 77)
  if(room STREQUAL mpi) # ranks that wait for each other, for signals and for patience: something else may run beside them
    set_tests_properties(${room}.${subject} PROPERTIES LABELS mpi)
  endif()
endforeach()

# For tests/suite/summary.sh: a program whose tests pass, fail, crash and are skipped.
add_executable(suite.outcomes tests/suite/outcomes.c $<TARGET_OBJECTS:test_support>)
target_link_libraries(suite.outcomes PRIVATE veche_static test_support)
set_target_properties(suite.outcomes PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)

# Libraries for tests/cli/signals.sh and tests/mpi/ranks.sh; sanitizers want to be loaded first.
if(NOT VECHE_SANITIZE)
  foreach(library cli/stranger mpi/slow_disk)
    get_filename_component(name ${library} NAME)
    add_library(${name} MODULE tests/${library}.c)
    set_target_properties(${name} PROPERTIES PREFIX "" LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  endforeach()
endif()

include(tests/mpi/mpi.cmake)
include(tests/gpu/gpu.cmake)

# The longest first, so that no core is idle at the end. Only their order counts; after a first run ctest knows the times itself.
set(cost 100)
foreach(name fuzz.short gpu.cuda.convolutions.forward gpu.cuda_models.a_chain.forward gpu.cuda_models.a_block.backward
             gpu.cuda_models.a_chain.small mpi.ranks mpi.compare mpi.launch mpi.survive engine.dnnl_older_processors gpu.resume mpi.gpu
             gpu.cuda.pools.forward gpu.choosing cli.compare cli.run_and_resume engine.golden engine.dnnl cli.experiments)
  if(TEST ${name})
    set_tests_properties(${name} PROPERTIES COST ${cost})
  endif()
  math(EXPR cost "${cost} - 1")
endforeach()

# Fuzz targets: tests/fuzz/fuzz_SUBJECT.c, each with LLVMFuzzerTestOneInput and a folder of seeds corpus/SUBJECT.
if(VECHE_FUZZ)
  file(GLOB FUZZERS CONFIGURE_DEPENDS tests/fuzz/fuzz_*.c)
  foreach(source ${FUZZERS})
    get_filename_component(name ${source} NAME_WE)
    add_executable(${name} ${source})
    target_link_libraries(${name} PRIVATE veche_static)
    target_compile_options(${name} PRIVATE -fsanitize=fuzzer)
    target_link_options(${name} PRIVATE -fsanitize=fuzzer)
  endforeach()
endif()
