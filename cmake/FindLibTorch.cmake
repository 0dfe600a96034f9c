# Finds LibTorch in, in this order: LIBTORCH (folder with include/ and lib/; variable or environment), the project's
# virtual environment (.venv), the python3 in PATH. Defines its own imported targets, because the package's CMake files
# require a CUDA toolkit and linking libtorch_cuda costs every rank 350 MB.
#
# Sets LibTorch_LIBRARY_DIR, LibTorch_VERSION, LibTorch::cpu, and LibTorch::cuda if found with CUDA and NCCL headers.
set(LIBTORCH "$ENV{LIBTORCH}" CACHE PATH "folder of LibTorch (with include/ and lib/)")
set(_wmtp_candidates ${LIBTORCH})
file(GLOB _wmtp_venv ${PROJECT_SOURCE_DIR}/.venv/lib/python3*/site-packages/torch)
list(APPEND _wmtp_candidates ${_wmtp_venv})
find_program(_wmtp_python python3)
if(_wmtp_python)
  execute_process(COMMAND ${_wmtp_python} -c
    "import importlib.util as u; s = u.find_spec('torch'); print(s.submodule_search_locations[0] if s else '')"
    OUTPUT_VARIABLE _wmtp_from_python OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  list(APPEND _wmtp_candidates ${_wmtp_from_python})
endif()

find_path(LibTorch_INCLUDE_DIR ATen/ATen.h PATHS ${_wmtp_candidates} PATH_SUFFIXES include NO_DEFAULT_PATH)
find_library(LibTorch_cpu_LIBRARY torch_cpu PATHS ${_wmtp_candidates} PATH_SUFFIXES lib NO_DEFAULT_PATH)
find_library(LibTorch_c10_LIBRARY c10 PATHS ${_wmtp_candidates} PATH_SUFFIXES lib NO_DEFAULT_PATH)
if(LibTorch_INCLUDE_DIR)
  file(STRINGS ${LibTorch_INCLUDE_DIR}/torch/headeronly/version.h _wmtp_version
       REGEX "define TORCH_VERSION_(MAJOR|MINOR|PATCH) ")
  string(REGEX REPLACE "[^0-9;]" "" LibTorch_VERSION "${_wmtp_version}")
  list(JOIN LibTorch_VERSION . LibTorch_VERSION)
endif()

list(JOIN _wmtp_candidates ", " _wmtp_searched)
set(_wmtp_advice "install torch==2.11.0 for that python3, or pass -DLIBTORCH=/path/to/torch")
if(EXISTS ${PROJECT_SOURCE_DIR}/cmake/FindLibTorch.cmake)  # our own tree; a plugin's has no Makefile
  set(_wmtp_advice "run `make setup` (installs torch==2.11.0 into .venv), or pass -DLIBTORCH=/path/to/torch")
endif()
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(LibTorch
  REQUIRED_VARS LibTorch_cpu_LIBRARY LibTorch_c10_LIBRARY LibTorch_INCLUDE_DIR VERSION_VAR LibTorch_VERSION
  REASON_FAILURE_MESSAGE "searched: ${_wmtp_searched} (python3 is ${_wmtp_python}). To do: ${_wmtp_advice}")

get_filename_component(LibTorch_LIBRARY_DIR ${LibTorch_cpu_LIBRARY} DIRECTORY)
if(NOT TARGET LibTorch::cpu)
  add_library(LibTorch::cpu INTERFACE IMPORTED)
  set_target_properties(LibTorch::cpu PROPERTIES
    INTERFACE_INCLUDE_DIRECTORIES "${LibTorch_INCLUDE_DIR};${LibTorch_INCLUDE_DIR}/torch/csrc/api/include"
    INTERFACE_LINK_LIBRARIES "${LibTorch_cpu_LIBRARY};${LibTorch_c10_LIBRARY}"
    INTERFACE_LINK_OPTIONS "LINKER:-rpath,${LibTorch_LIBRARY_DIR};LINKER:--allow-shlib-undefined")
  find_library(LibTorch_cuda_LIBRARY torch_cuda PATHS ${LibTorch_LIBRARY_DIR} NO_DEFAULT_PATH)
  find_library(LibTorch_c10_cuda_LIBRARY c10_cuda PATHS ${LibTorch_LIBRARY_DIR} NO_DEFAULT_PATH)
  # Headers and runtime of CUDA and NCCL that LibTorch was built with, from the nvidia-* packages that pip installs next
  # to it. A toolkit is needed only if LibTorch comes without them.
  file(GLOB _wmtp_nvidia ${LibTorch_LIBRARY_DIR}/../../nvidia/*/include)
  find_path(LibTorch_cudart_INCLUDE_DIR cuda_runtime_api.h PATHS ${_wmtp_nvidia} NO_DEFAULT_PATH)
  find_path(LibTorch_nccl_INCLUDE_DIR nccl.h PATHS ${_wmtp_nvidia} NO_DEFAULT_PATH)
  cmake_path(GET LibTorch_cudart_INCLUDE_DIR PARENT_PATH _wmtp_cudart)
  if(NOT LibTorch_cudart_INCLUDE_DIR OR NOT LibTorch_nccl_INCLUDE_DIR)
    find_package(CUDAToolkit QUIET)
    set(LibTorch_cudart_INCLUDE_DIR ${CUDAToolkit_INCLUDE_DIRS})
    find_path(LibTorch_nccl_INCLUDE_DIR nccl.h PATHS ${CUDAToolkit_INCLUDE_DIRS})
  endif()
  # nvcc compiles the kernels of host/cuda: from the same packages, or from a toolkit of the same CUDA version.
  find_program(WMTP_NVCC nvcc PATHS ${_wmtp_cudart}/bin NO_DEFAULT_PATH)
  find_program(WMTP_NVCC nvcc PATHS /usr/local/cuda/bin)
  if(LibTorch_cuda_LIBRARY AND LibTorch_c10_cuda_LIBRARY AND LibTorch_cudart_INCLUDE_DIR AND LibTorch_nccl_INCLUDE_DIR)
    add_library(LibTorch::cuda INTERFACE IMPORTED)
    set_target_properties(LibTorch::cuda PROPERTIES
      INTERFACE_INCLUDE_DIRECTORIES "${LibTorch_nccl_INCLUDE_DIR};${LibTorch_cudart_INCLUDE_DIR}"
      # libtorch_cuda loads the runtime, from nvidia's package next to it.
      INTERFACE_LINK_LIBRARIES "LibTorch::cpu;${LibTorch_cuda_LIBRARY};${LibTorch_c10_cuda_LIBRARY}")
  endif()
endif()
