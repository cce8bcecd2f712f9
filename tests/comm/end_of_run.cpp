// Ends a run of two ranks in the way that its argument names. The test checks mpirun's exit code.
#include <mpi.h>
#include <unistd.h>

#include <cstdio>
#include <string>

#include "libtrain/comm/group.h"
#include "libtrain/comm/world.h"
#include "libtrain/error.h"

static bool abort_hangs = false;

// Replaces MPI's function to imitate a launcher that does not answer.
extern "C" int MPI_Abort(MPI_Comm comm, int code) {
  while (abort_hangs) ::pause();
  return PMPI_Abort(comm, code);
}

namespace {

// Rank 1 aborts or throws alone while rank 0 is in a collective.
int run(int argc, char** argv) {
  const lt::World world = lt::init(argc, argv);
  const std::string mode = argc > 1 ? argv[1] : "";
  const lt::Tensor full = lt::Tensor::zeros({1 << 20}, lt::DType::f32);
  const lt::Tensor part = full.narrow(0, world.rank() * (1 << 19), 1 << 19);
  lt::Work gather;
  if (world.rank() == 1) {
    abort_hangs = mode == "abort_hangs";
    if (mode.starts_with("abort")) world.abort(75);
    // Rank 0 never calls this gather, so the handle must give up.
    if (mode == "unwind_work") gather = world.group().all_gather("never answered", full, part);
    throw lt::InternalError("test", mode);
  }
  world.group().barrier();
  return 0;
}

// Groups, duplicates and finished work outlive the world.
int outlive(int argc, char** argv) {
  lt::Group group, other;
  {
    const lt::World world = lt::init(argc, argv);
    group = world.group();
    other = group.duplicate("other");
    other.barrier();
  }
  return group.size() == 2 && other.size() == 2 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return argc > 1 && std::string(argv[1]) == "outlive" ? outlive(argc, argv) : run(argc, argv);
  } catch (const lt::Error& error) {
    std::fprintf(stderr, "threw: %s\n", error.what());
    return static_cast<int>(error.code());
  }
}
