# Uses CUDA from PyPI packages (launch/cuda_packages.txt). LIBTRAIN_CUDA_ROOT is the folder `nvidia` into which pip
# installs them; it supplies the whole toolkit, NCCL and cuDNN. If a package is missing, configuration stops with its
# name.
set(missing "")
function(lt_cuda_package package file)
  if(NOT EXISTS "${LIBTRAIN_CUDA_ROOT}/${file}")
    set(missing "${missing} ${package}" PARENT_SCOPE)
  endif()
endfunction()
lt_cuda_package(nvidia-cuda-nvcc cu13/bin/nvcc)
lt_cuda_package(nvidia-cuda-crt cu13/include/crt/host_config.h)
lt_cuda_package(nvidia-nvvm cu13/nvvm/bin/cicc)
lt_cuda_package(nvidia-cuda-runtime cu13/lib/libcudart.so.13)
lt_cuda_package(nvidia-cuda-cccl cu13/include/cccl/cub/cub.cuh)
lt_cuda_package(nvidia-cublas cu13/lib/libcublasLt.so.13)
lt_cuda_package(nvidia-cuda-nvrtc cu13/lib/libnvrtc.so.13)  # cuDNN compiles kernels with it
lt_cuda_package(nvidia-nvtx cu13/include/nvtx3/nvToolsExt.h)
lt_cuda_package(nvidia-cuda-cupti cu13/include/cupti.h)
lt_cuda_package(nvidia-nccl-cu13 nccl/lib/libnccl.so.2)
lt_cuda_package(nvidia-cudnn-cu13 cudnn/lib/libcudnn.so.9)
if(missing)
  message(FATAL_ERROR "LIBTRAIN_CUDA_ROOT=${LIBTRAIN_CUDA_ROOT} is without these packages of PyPI:${missing}. Install all that it "
                      "needs with `bash launch/deps.sh --cuda=FOLDER`, and name FOLDER/nvidia")
endif()

set(CMAKE_CUDA_COMPILER "${LIBTRAIN_CUDA_ROOT}/cu13/bin/nvcc" CACHE FILEPATH "nvcc")
if(NOT CMAKE_CUDA_COMPILER STREQUAL "${LIBTRAIN_CUDA_ROOT}/cu13/bin/nvcc")
  message(FATAL_ERROR "This folder is configured with ${CMAKE_CUDA_COMPILER}: configure another one for LIBTRAIN_CUDA_ROOT")
endif()
# nvcc looks for its libraries in lib64; the packages have lib. CMake keeps the answer of its first query to nvcc, so
# set this before.
set(ENV{NVCC_APPEND_FLAGS} "-L${LIBTRAIN_CUDA_ROOT}/cu13/lib $ENV{NVCC_APPEND_FLAGS}")
list(PREPEND CMAKE_PREFIX_PATH "${LIBTRAIN_CUDA_ROOT}/cu13" "${LIBTRAIN_CUDA_ROOT}/nccl" "${LIBTRAIN_CUDA_ROOT}/cudnn")
list(APPEND CMAKE_FIND_LIBRARY_SUFFIXES .so.13 .so.9 .so.2)  # the packages have no links without a version

# DT_RPATH (LIBTRAIN_CUDA_LINK_OPTIONS) instead of DT_RUNPATH: it also applies to libraries that a library opens by
# name, such as NVRTC's libnvrtc-builtins.
set(LIBTRAIN_CUDA_RPATH "${LIBTRAIN_CUDA_ROOT}/cu13/lib" "${LIBTRAIN_CUDA_ROOT}/nccl/lib" "${LIBTRAIN_CUDA_ROOT}/cudnn/lib")
set(LIBTRAIN_CUDA_LINK_OPTIONS LINKER:--disable-new-dtags)
