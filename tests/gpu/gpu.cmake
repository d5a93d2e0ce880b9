# The engine `cuda` on a pretended GPU (driver.cpp): the same tests as on a real one, where there is none. Nothing of CUDA is needed, only
# a C++ compiler. Fibers and sanitizers do not go together.
include(CheckLanguage)
check_language(CXX)
if(VECHE_SANITIZE OR CMAKE_CROSSCOMPILING OR NOT CMAKE_CXX_COMPILER)
  left_out(gpu "a pretended GPU needs a C++ compiler for this machine, and no sanitizer")
  return()
endif()
enable_language(CXX)
set(GPU_FOLDER ${CMAKE_BINARY_DIR}/tests/gpu)
set(GPU_INCLUDE ${CMAKE_SOURCE_DIR}/tests/gpu/include) # before all others: it has the driver's header, and the tensor cores' work

file(GLOB GPU_SOURCES CONFIGURE_DEPENDS tests/gpu/*.cpp)
file(GLOB GPU_KERNELS CONFIGURE_DEPENDS src/engine/cuda/*.cu src/engine/cuda/*.cuh)
add_library(pretended_gpu SHARED ${GPU_SOURCES})
set_source_files_properties(tests/gpu/kernels.cpp PROPERTIES OBJECT_DEPENDS "${GPU_KERNELS}")
target_include_directories(pretended_gpu BEFORE PRIVATE ${GPU_INCLUDE} tests/gpu src)
target_compile_definitions(pretended_gpu PRIVATE __CUDACC__)
target_compile_options(pretended_gpu PRIVATE -O3 -w -march=native) # it stays on this machine
set_target_properties(pretended_gpu PROPERTIES CXX_STANDARD 17 CXX_VISIBILITY_PRESET default OUTPUT_NAME cuda SOVERSION 1
                                               LIBRARY_OUTPUT_DIRECTORY ${GPU_FOLDER})

file(GLOB GPU_ENGINE CONFIGURE_DEPENDS src/engine/cuda/*.c)
add_library(engine_on_pretended_gpu OBJECT ${GPU_ENGINE} tests/gpu/no_code.c)
target_include_directories(engine_on_pretended_gpu BEFORE PRIVATE ${GPU_INCLUDE} src)
target_link_libraries(engine_on_pretended_gpu PRIVATE veche_core)

foreach(subject cuda cuda_models cuda_passes cuda_rows)
  add_executable(gpu.${subject} tests/engine/test_${subject}.c $<TARGET_OBJECTS:test_support> $<TARGET_OBJECTS:engine_on_pretended_gpu>)
  target_link_libraries(gpu.${subject} PRIVATE veche_static test_support ${CMAKE_DL_LIBS})
  add_dependencies(gpu.${subject} pretended_gpu)
  set_target_properties(gpu.${subject} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
endforeach()

# The program as it is where the build found CUDA, for tests/gpu/*.sh; only engine.c asks what the build has.
add_executable(gpu.veche ${CLI_SOURCES} src/engine/engine.c $<TARGET_OBJECTS:engine_on_pretended_gpu>)
target_compile_definitions(gpu.veche PRIVATE VECHE_HAS_CUDA)
target_include_directories(gpu.veche PRIVATE src)
target_link_libraries(gpu.veche PRIVATE veche_static m ${CMAKE_DL_LIBS})
add_dependencies(gpu.veche pretended_gpu)
set_target_properties(gpu.veche PROPERTIES OUTPUT_NAME veche RUNTIME_OUTPUT_DIRECTORY ${GPU_FOLDER})

foreach(subject choosing resume stream)
  add_test(NAME gpu.${subject} COMMAND bash tests/gpu/${subject}.sh ${GPU_FOLDER} WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
  set_tests_properties(gpu.${subject} PROPERTIES TIMEOUT ${MOST_SECONDS} ENVIRONMENT LD_LIBRARY_PATH=${GPU_FOLDER})
endforeach()

add_test(NAME gpu.without_cuda COMMAND engine.without_cuda WORKING_DIRECTORY ${CMAKE_SOURCE_DIR}) # but with a driver
set_tests_properties(gpu.without_cuda PROPERTIES TIMEOUT ${MOST_SECONDS} ENVIRONMENT LD_LIBRARY_PATH=${GPU_FOLDER})

# For a real GPU only.
if(WITH_CUDA)
  add_executable(gpu.fill tests/gpu/fill.c)
  target_include_directories(gpu.fill SYSTEM PRIVATE ${CUDA_INCLUDE})
  target_link_libraries(gpu.fill PRIVATE veche_static)
  set_target_properties(gpu.fill PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
endif()
foreach(subject real sanitize)
  add_test(NAME gpu.${subject} COMMAND bash tests/gpu/${subject}.sh ${CMAKE_BINARY_DIR} WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
  set_tests_properties(gpu.${subject} PROPERTIES TIMEOUT 1500 SKIP_RETURN_CODE 77 RUN_SERIAL ON LABELS "gpu;long")
endforeach()

# One test for every pattern of names, on a GPU that runs its threads forward or backward (see threads.cpp), or has as little shared memory as many
# have. What takes minutes is labelled so, and left to `make test-gpu`.
set(GPU_forward PRETENDED_GPU_ORDER=forward)
set(GPU_backward PRETENDED_GPU_ORDER=backward)
set(GPU_small PRETENDED_GPU_SHARED_KIB=99)
set(GPU_small_backward "PRETENDED_GPU_SHARED_KIB=99;PRETENDED_GPU_ORDER=backward")
function(gpu_tests subject kind label)
  foreach(pattern ${ARGN})
    set(name gpu.${subject}.${pattern}.${kind})
    add_test(NAME ${name} COMMAND gpu.${subject} ${pattern}* WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
    set_tests_properties(${name} PROPERTIES TIMEOUT 1500 LABELS "gpu;${label}"
                                            ENVIRONMENT "LD_LIBRARY_PATH=${GPU_FOLDER};${GPU_${kind}}")
  endforeach()
endfunction()

gpu_tests(cuda forward short convolutions groups joined pools linear residuals a_residual)
gpu_tests(cuda forward long random)
gpu_tests(cuda backward long convolutions groups joined pools linear residuals a_residual random)
gpu_tests(cuda_rows forward short steps mixes)
gpu_tests(cuda_passes forward short lessons fused micro small named random parts passes)
gpu_tests(cuda_passes backward short lessons small passes)
gpu_tests(cuda_models forward long named residual_blocks the_named a_lesson) # two runs of the same could not differ here
gpu_tests(cuda_models forward short a_few a_chain)
gpu_tests(cuda_models backward short a_block)
gpu_tests(cuda_models backward long the_named)
gpu_tests(cuda_models small short a_chain)
gpu_tests(cuda_models small_backward long a_chain the_named)
