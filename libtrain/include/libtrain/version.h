// The version of this build, and the libraries it was built with.
#pragma once

#include <string>
#include <vector>

#include "libtrain/api.h"

namespace LT_API lt {

std::string version();     // "0.1.0"
std::string commit();      // git commit, followed by "+" if the tree had changes; "unknown" outside a checkout
std::string built_with();  // devices and libraries: "cpu, oneDNN 2.6.3, Open MPI v4.1.4, HDF5 1.10.8"

// A library or tool that the build uses.
struct BuildComponent {
  std::string name, version;  // version: empty if the build does not use it
};
std::vector<BuildComponent> build_components();  // compiler, cuda, nccl, cudnn, onednn, mpi, hdf5

}  // namespace lt
