# Turns every .cu file of this folder into an array of bytes that the driver loads at run time. nvcc is the only part of
# CUDA's toolkit that is needed, and only to build: nothing is linked.
#
# Sets WITH_CUDA, CUDA_INCLUDE (cuda.h) and CUDA_CODE (the arrays, as C); leaves the folder out of SOURCES otherwise.
set(WITH_CUDA OFF)
set(CUDA_CODE "")
set(CUDA_HOST "")
set(CUDA_TROUBLE "no nvcc was found")

# Whether nvcc works with this host compiler (empty: the one it takes by itself), which only preprocesses here.
function(try_nvcc host out)
  list(GET VECHE_CUDA_ARCHITECTURES -1 latest)
  file(WRITE ${CMAKE_BINARY_DIR}/cuda/try.cu "extern \"C\" __global__ void nothing(float *x) { *x = 1; }\n")
  execute_process(
    COMMAND ${NVCC} ${host} -std=c++17 -gencode arch=compute_${latest},code=sm_${latest} -fatbin
            ${CMAKE_BINARY_DIR}/cuda/try.cu -o ${CMAKE_BINARY_DIR}/cuda/try.fatbin
    RESULT_VARIABLE failed OUTPUT_VARIABLE said ERROR_VARIABLE said)
  string(REGEX REPLACE "^[\n ]+|\n.*" "" said "${said} ")
  set(${out} "nvcc does not work: ${said}" PARENT_SCOPE)
  if(failed EQUAL 0)
    set(${out} "" PARENT_SCOPE)
  endif()
endfunction()

if(VECHE_CUDA)
  find_program(NVCC nvcc HINTS $ENV{CUDA_HOME}/bin /usr/local/cuda/bin)
  find_program(BIN2C bin2c HINTS $ENV{CUDA_HOME}/bin /usr/local/cuda/bin)
  if(NVCC AND BIN2C)
    get_filename_component(CUDA_ROOT ${NVCC} REALPATH)
    get_filename_component(CUDA_ROOT ${CUDA_ROOT}/../.. ABSOLUTE)
    find_path(CUDA_INCLUDE cuda.h HINTS ${CUDA_ROOT}/include)
  endif()
  if(CUDA_INCLUDE)
    try_nvcc("" CUDA_TROUBLE)
    foreach(compiler g++-14 g++-13 g++-12 g++-11 clang-16 clang-15 clang-14) # an nvcc knows none newer than itself
      if(NOT CUDA_TROUBLE)
        break()
      endif()
      try_nvcc("-ccbin;${compiler}" trouble)
      if(NOT trouble)
        set(CUDA_TROUBLE "")
        set(CUDA_HOST -ccbin ${compiler})
      endif()
    endforeach()
  elseif(NVCC)
    set(CUDA_TROUBLE "nvcc was found, but not bin2c and cuda.h beside it")
  endif()
  if(NOT CUDA_TROUBLE)
    set(WITH_CUDA ON)
  endif()
endif()

if(NOT WITH_CUDA)
  list(FILTER SOURCES EXCLUDE REGEX "src/engine/cuda/")
  if(NOT VECHE_CUDA)
    message(STATUS "the engine `cuda` is left out, as asked")
  elseif(VECHE_CUDA STREQUAL AUTO)
    message(STATUS "the engine `cuda` is left out: ${CUDA_TROUBLE}")
  else()
    message(FATAL_ERROR "VECHE_CUDA is ${VECHE_CUDA}, but ${CUDA_TROUBLE}")
  endif()
  return()
endif()

set(CUDA_TARGETS "")
foreach(capability ${VECHE_CUDA_ARCHITECTURES})
  list(APPEND CUDA_TARGETS -gencode arch=compute_${capability},code=sm_${capability})
endforeach()
list(GET VECHE_CUDA_ARCHITECTURES -1 LATEST)
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
    COMMAND ${NVCC} ${CUDA_HOST} ${options} ${CUDA_TARGETS} -I ${CMAKE_SOURCE_DIR}/src -fatbin ${source} -o ${made}.fatbin
    COMMAND ${BIN2C} --const --type longlong --name cuda_code_${name} ${made}.fatbin > ${made}.c
    DEPENDS ${source} ${CUDA_HEADERS}
    COMMENT "Compiling ${name}.cu for compute capabilities ${VECHE_CUDA_ARCHITECTURES}"
    VERBATIM)
  list(APPEND CUDA_CODE ${made}.c)
endforeach()
