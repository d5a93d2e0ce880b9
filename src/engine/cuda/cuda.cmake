# Turns every .cu file of this folder into an array of bytes that the driver loads at run time. nvcc is the only part of
# CUDA's toolkit that is needed, and only to build: nothing is linked.
#
# Sets WITH_CUDA, CUDA_INCLUDE (cuda.h) and CUDA_CODE (the arrays, as C); leaves the folder out of SOURCES otherwise.
set(WITH_CUDA OFF)
set(CUDA_CODE "")
if(VECHE_CUDA)
  find_program(NVCC nvcc HINTS $ENV{CUDA_HOME}/bin /usr/local/cuda/bin)
  find_program(BIN2C bin2c HINTS $ENV{CUDA_HOME}/bin /usr/local/cuda/bin)
  if(NVCC AND BIN2C)
    get_filename_component(CUDA_ROOT ${NVCC} REALPATH)
    get_filename_component(CUDA_ROOT ${CUDA_ROOT}/../.. ABSOLUTE)
    find_path(CUDA_INCLUDE cuda.h HINTS ${CUDA_ROOT}/include)
  endif()
  if(CUDA_INCLUDE)
    file(WRITE ${CMAKE_BINARY_DIR}/cuda/try.cu "extern \"C\" __global__ void nothing(float *x) { *x = 1; }\n")
    list(GET VECHE_CUDA_ARCHITECTURES -1 LATEST)
    execute_process(
      COMMAND ${NVCC} -std=c++17 -gencode arch=compute_${LATEST},code=sm_${LATEST} -fatbin
              ${CMAKE_BINARY_DIR}/cuda/try.cu -o ${CMAKE_BINARY_DIR}/cuda/try.fatbin
      RESULT_VARIABLE NVCC_FAILED OUTPUT_QUIET ERROR_QUIET)
    if(NVCC_FAILED EQUAL 0)
      set(WITH_CUDA ON)
    endif()
  endif()
endif()

if(NOT WITH_CUDA)
  list(FILTER SOURCES EXCLUDE REGEX "src/engine/cuda/")
  if(NOT VECHE_CUDA)
    message(STATUS "the engine `cuda` is left out, as asked")
  elseif(VECHE_CUDA STREQUAL AUTO)
    message(STATUS "the engine `cuda` is left out: no nvcc that works was found")
  else()
    message(FATAL_ERROR "VECHE_CUDA is ${VECHE_CUDA}, but no nvcc that works was found")
  endif()
  return()
endif()

set(CUDA_TARGETS "")
foreach(capability ${VECHE_CUDA_ARCHITECTURES})
  list(APPEND CUDA_TARGETS -gencode arch=compute_${capability},code=sm_${capability})
endforeach()
list(APPEND CUDA_TARGETS -gencode arch=compute_${LATEST},code=compute_${LATEST})

file(GLOB CUDA_SOURCES CONFIGURE_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/*.cu)
file(GLOB CUDA_HEADERS CONFIGURE_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/*.cuh ${CMAKE_CURRENT_LIST_DIR}/call.h
     ${CMAKE_CURRENT_LIST_DIR}/conv3.h ${CMAKE_CURRENT_LIST_DIR}/measure.h)
foreach(source ${CUDA_SOURCES})
  get_filename_component(name ${source} NAME_WE)
  set(options -O3 -std=c++17)
  if(name STREQUAL rows)
    list(APPEND options --fmad=false) # the same bits as on the host
  endif()
  set(made ${CMAKE_BINARY_DIR}/cuda/${name})
  add_custom_command(
    OUTPUT ${made}.c
    COMMAND ${NVCC} ${options} ${CUDA_TARGETS} -I ${CMAKE_SOURCE_DIR}/src -fatbin ${source} -o ${made}.fatbin
    COMMAND ${BIN2C} --const --type longlong --name cuda_code_${name} ${made}.fatbin > ${made}.c
    DEPENDS ${source} ${CUDA_HEADERS}
    COMMENT "Compiling ${name}.cu for compute capabilities ${VECHE_CUDA_ARCHITECTURES}"
    VERBATIM)
  list(APPEND CUDA_CODE ${made}.c)
endforeach()
