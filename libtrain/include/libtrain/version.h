// Version and components of this build.
#pragma once

#include <string>
#include <vector>

#include "libtrain/api.h"

namespace LT_API lt {

std::string version();     // "0.1.0"
std::string commit();      // git commit, with "+" if the tree had changes; "unknown" outside a checkout
std::string built_with();  // "cpu, oneDNN 2.6, Open MPI 4.1, HDF5 1.10": devices and libraries

// A library or tool used by the build, and its version; empty if the build does not use it.
struct BuildComponent {
  std::string name, version;
};
std::vector<BuildComponent> build_components();  // compiler, cuda, nccl, cudnn, onednn, mpi, hdf5

}  // namespace lt
