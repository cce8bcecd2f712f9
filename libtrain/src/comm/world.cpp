// The ranks of this run. MPI is not needed for a single rank, or for ranks with a meeting place.
#include "libtrain/comm/world.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>

#include "comm/alone.h"
#include "comm/deadline.h"
#include "comm/mpi/mpi_group.h"
#include "comm/mpi/mpi_runtime.h"
#include "comm/tcp/tcp_world.h"
#include "comm/thread_count.h"
#include "device/cuda.h"
#include "io/standard_descriptors.h"
#include "libtrain/error.h"

namespace lt::comm {

World world_of_one() {
  World world;
  try {
    world.threads_ = choose_threads(core_grants(core_sources(world.info_)), world.group_);
  } catch (const CommError&) {  // OpenMP's own choice then
  }
  return world;
}

}  // namespace lt::comm

namespace lt {
namespace {

constexpr std::chrono::seconds kEndDeadline{5};

}  // namespace

World init(int& argc, char**& argv, const MeetingOptions& meeting) {
  io::open_standard_descriptors();
  World world;
  world.info_ = discover_ranks();
  const std::vector<comm::CoreGrant> grants = comm::core_grants(comm::core_sources(world.info_));
  const bool is_without_mpi = world.info_.size > 1 && !comm::has_mpi_launcher();
  const std::optional<comm::MeetingPlace> place = is_without_mpi ? comm::meeting_place() : std::nullopt;
  if (place) {
    world.group_ = Group(comm::meet_without_mpi(*place, world.info_, meeting));
    if (!world.info_.host_is_known)
      comm::learn_host_ranks(world.info_, world.group_.all_gather_bytes(comm::host_name()));
  } else if (world.info_.size > 1) {
    world.mpi_ = comm::start_mpi(world.info_, argc, argv);
    world.over_mpi_ = true;
    world.group_ = Group(comm::make_mpi_world_backend());
    world.info_.rank = world.group_.rank();
  }
  world.threads_ = comm::choose_threads(grants, world.group_);
  return world;
}

Device World::device(DeviceType type) const {
  if (type != DeviceType::cuda) return {type, 0};
  return {type, device::cuda::is_built() && device::cuda::count() == 1 ? 0 : info_.local_rank};
}

Group World::group(Device device) const {
  const auto types = group_.all_gather_bytes(std::to_string(static_cast<int>(device.type)));
  const auto other =
      std::find_if(types.begin(), types.end(), [&](const std::string& type) { return type != types[0]; });
  if (other != types.end()) {
    throw UsageError("comm",
                     "rank " + std::to_string(other - types.begin()) +
                         ": expected a device of the type that rank 0 has, found another",
                     "is a GPU of one host not usable?");
  }
  return device.type == DeviceType::cuda && size() > 1 ? group_.with_nccl(device) : group_;
}

void World::abort(int exit_code) const {
  comm::end_by_deadline(kEndDeadline,
                        exit_code);  // the reader of the output may be gone, and MPI may wait for the launcher
  std::fflush(nullptr);
  if (over_mpi_) comm::abort_mpi(exit_code);
  std::_Exit(exit_code);
}

}  // namespace lt
