# The tests of the world `mpi`, with each MPI of this machine.
#
# Every tests/mpi/test_X.c becomes two programs, tests/mpi.X with the MPI that `veche` has and tests/KIND.X with another one if
# there is one (on Debian: mpich.X), each run with 1, 2, 3, 4 and 7 ranks as mpi.X.KIND.RANKS. Scripts find the launchers and
# the program `veche` of each MPI in the build folder's mpi.list: lines of KIND, launcher, program.
file(WRITE ${CMAKE_BINARY_DIR}/mpi.list "")
if(NOT WITH_MPI)
  left_out(mpi "built without MPI")
  return()
endif()

# The programs of PREFIX's MPI: each test linked with LIBRARY and named STEM.X, and its line in mpi.list.
function(mpi_tests prefix library stem program)
  set(kind ${${prefix}_KIND})
  file(APPEND ${CMAKE_BINARY_DIR}/mpi.list "${kind} ${${prefix}_RUN} ${CMAKE_BINARY_DIR}/${program}\n")
  file(GLOB sources CONFIGURE_DEPENDS tests/mpi/test_*.c)
  foreach(source ${sources})
    get_filename_component(subject ${source} NAME_WE)
    string(REPLACE "test_" "" subject ${subject})
    add_executable(${stem}.${subject} ${source} tests/mpi/crew.c $<TARGET_OBJECTS:test_support>)
    target_link_libraries(${stem}.${subject} PRIVATE ${library} test_support)
    set_target_properties(${stem}.${subject} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
    foreach(ranks 1 2 3 4 7)
      set(name mpi.${subject}.${kind}.${ranks})
      add_test(NAME ${name} COMMAND bash tests/support/mpi.sh ${CMAKE_BINARY_DIR} ${kind} ${ranks} $<TARGET_FILE:${stem}.${subject}>
               WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
      set(cores 1) # ranks that wait sleep
      if(subject STREQUAL overlap) # it compares how long ranks wait
        set(cores 2)
      endif()
      set_tests_properties(${name} PROPERTIES TIMEOUT ${MPI_SECONDS} SKIP_RETURN_CODE 77 PROCESSORS ${cores} LABELS mpi)
      if(VECHE_SANITIZE MATCHES thread) # UCX, under MPICH, puts code of its own in the place of the sanitizer's
        set_tests_properties(${name} PROPERTIES ENVIRONMENT
                             "TSAN_OPTIONS=suppressions=${CMAKE_SOURCE_DIR}/tests/mpi/tsan.supp;UCX_MEM_EVENTS=no")
      endif()
    endforeach()
  endforeach()
endfunction()

set(MPI_SECONDS 120)
if(VECHE_SANITIZE)
  set(MPI_SECONDS 600)
endif()
mpi_tests(MPI_DEFAULT veche_static mpi veche)

foreach(kind openmpi mpich)
  if(NOT kind STREQUAL MPI_KIND)
    find_program(MPI_WRAPPER_mpicc.${kind} mpicc.${kind})
    if(MPI_WRAPPER_mpicc.${kind})
      mpi_from(${MPI_WRAPPER_mpicc.${kind}} MPI_OTHER)
    endif()
  endif()
endforeach()
if(MPI_OTHER_KIND AND NOT MPI_OTHER_KIND STREQUAL MPI_KIND)
  set(kind ${MPI_OTHER_KIND})
  mpi_world(MPI_OTHER)
  add_library(veche_with_${kind} STATIC ${CORE_OBJECTS} $<TARGET_OBJECTS:world_${kind}>)
  target_include_directories(veche_with_${kind} PUBLIC include)
  target_link_libraries(veche_with_${kind} PUBLIC veche_core world_${kind})
  add_executable(veche-${kind} ${CLI_SOURCES})
  target_include_directories(veche-${kind} PRIVATE src)
  target_link_libraries(veche-${kind} PRIVATE veche_with_${kind} m)
  mpi_tests(MPI_OTHER veche_with_${kind} ${kind} veche-${kind})
else()
  left_out(mpi.other "there is no MPI beside ${MPI_KIND}")
endif()
