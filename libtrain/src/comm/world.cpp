// The ranks of this run. One rank needs no MPI.
#include "libtrain/world.h"

#include <cstdio>
#include <cstdlib>

#include "comm/mpi_group.h"
#include "comm/mpi_runtime.h"

namespace lt {

World init(int& argc, char**& argv) {
  World world;
  world.info_ = discover_ranks();
  if (world.info_.size > 1) {
    world.mpi_ = start_mpi(world.info_, argc, argv);
    world.group_ = Group(make_mpi_world_backend());
    world.info_.rank = world.group_.rank();
  }
  return world;
}

void World::abort(int exit_code) const {
  if (info_.size > 1) abort_mpi(exit_code);
  std::fflush(nullptr);
  std::_Exit(exit_code);
}

}  // namespace lt
