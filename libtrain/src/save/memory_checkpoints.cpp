// Handles one copy at a time: copies the state, seals the copy, sends it to the next host, and adds checksums.
#include "save/memory_checkpoints.h"

#include <fmt/format.h>

#include <algorithm>
#include <condition_variable>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <mutex>
#include <optional>
#include <utility>

#include "checkpoints/format/manifest.h"
#include "checkpoints/memory/memory_folder.h"
#include "comm/value_exchange.h"
#include "device/cuda.h"
#include "io/readable.h"
#include "libtrain/device/phase.h"
#include "libtrain/error.h"

namespace lt::saver {

// The state shared by training and the thread.
struct MemoryCheckpoints::Shared {
  std::unique_ptr<CopySlots> slots;
  std::unique_ptr<MemoryMirror> mirror;
  std::vector<std::shared_ptr<void>> registrations;  // pinned slots; destroyed before the slots
  std::shared_ptr<RecordedSteps> recorded;

  std::mutex mutex;
  std::condition_variable changed;
  bool copying = false;       // the newest copy is not sealed on all hosts yet
  bool closed = false;        // no further copy will be made
  std::exception_ptr failed;  // why no further copy can be made

  bool must_stop_summing() {
    const std::lock_guard lock(mutex);
    return copying || closed;
  }
  void end_copying(const std::exception_ptr& why = nullptr) {
    const std::lock_guard lock(mutex);
    copying = false;
    if (why != nullptr) failed = why;
    changed.notify_all();
  }
};

namespace {

// Removes the copies on this host that have none of the given names. Earlier starts with other ranks left them.
void remove_others(const std::string& run, const Group& group, const MemoryHosts& hosts,
                   const std::vector<std::string>& own) {
  std::string mine;
  for (const std::string& name : own) mine += name + " ";
  const std::vector<std::string> names = group.all_gather_bytes(mine);
  const auto me = static_cast<std::size_t>(group.rank());
  std::string here;
  for (std::size_t r = 0; r < names.size(); ++r) {
    if (hosts.host_of[r] == hosts.host_of[me]) here += names[r];
  }
  std::error_code ignored;
  for (const std::filesystem::path& path : io::readable_entries(checkpoint::memory_folder(run))) {
    const std::string file = path.filename();  // <name>-a
    const bool is_ours = file.size() > 2 && here.find(file.substr(0, file.size() - 2) + " ") != std::string::npos;
    if (!is_ours && hosts.place_of[me] == 0) std::filesystem::remove(path, ignored);
  }
  group.barrier();
}

// Removes files that hold no copy, after a failed start.
void remove_unsealed(const std::string& run, const std::vector<std::string>& own) {
  std::error_code ignored;
  for (const auto& [file, copy] : checkpoint::memory_copies(run)) {
    const bool is_own = std::find(own.begin(), own.end(), file.substr(0, file.size() - 2)) != own.end();
    if (is_own && copy->sealed().step == 0) std::filesystem::remove(checkpoint::memory_folder(run) / file, ignored);
  }
  std::filesystem::remove(checkpoint::memory_folder(run), ignored);  // fails if the folder is not empty
}

}  // namespace

bool MemoryCheckpoints::keeps_copies(const StateCopy& copy, const Group& group, const RunIdentity& identity) {
  const checkpoint::CopyOwner owner{identity.id, group.rank(), group.size()};
  const int are_there = CopySlots::exist(slots_name(owner.rank), owner, copy.layout()) ? 1 : 0;
  return std::ranges::count(comm::gather_values(group, are_there), 1) == group.size();
}

MemoryCheckpoints::MemoryCheckpoints(Engine& engine, const StateCopy& copy, const Group& group,
                                     const RunIdentity& identity, Size data_tokens,
                                     std::shared_ptr<RecordedSteps> recorded)
    : engine_(engine),
      state_copy_(copy),
      group_(group),
      run_(identity.id),
      timeline_(checkpoint::timeline_number(identity.timeline)),
      data_tokens_(data_tokens),
      shared_(std::make_shared<Shared>()) {
  shared_->recorded = std::move(recorded);
  const checkpoint::CopyOwner owner{run_, group.rank(), group.size()};
  const MemoryHosts hosts = memory_hosts(group);
  std::vector<std::string> names = {slots_name(owner.rank)};
  if (const int peer = mirrored_rank(hosts, owner.rank); peer >= 0) names.push_back(mirror_name(peer));
  remove_others(run_, group, hosts, names);  // frees memory before more is taken
  try {
    collectively(group,
                 [&] { shared_->slots = std::make_unique<CopySlots>(slots_name(owner.rank), owner, copy.layout()); });
    shared_->mirror = std::make_unique<MemoryMirror>(group, hosts, owner, copy.layout());
  } catch (const Error&) {
    shared_.reset();
    remove_unsealed(run_, names);
    throw;
  }
  shared_->slots->keep_until(engine.steps_done(), timeline_);
  if (shared_->mirror->kept() != nullptr) shared_->mirror->kept()->keep_until(engine.steps_done(), timeline_);
  thread_ = std::make_unique<device::BackgroundThread>();
  const Device device = engine.options().device;
  if (device.type != DeviceType::cuda) return;
  // Mapping and pinning take seconds, so they run during the first steps.
  pinned_ = std::async(std::launch::async, [shared = shared_, device] {
    for (const auto& slot : shared->slots->both()) {
      shared->registrations.push_back(device::cuda::pin(device.index, slot->payload(), slot->payload_bytes()));
    }
  });
}

MemoryCheckpoints::~MemoryCheckpoints() { stop(); }

void MemoryCheckpoints::stop() {
  {
    const std::lock_guard lock(shared_->mutex);
    shared_->closed = true;
  }
  const AwaitBackgroundScope awaits;
  thread_.reset();
}

bool MemoryCheckpoints::is_mirrored() const { return shared_->mirror->exists(); }

void MemoryCheckpoints::copy(std::shared_ptr<const State> program) {
  // After this the newest copies of all ranks are complete and of the same step, so the older ones can be overwritten.
  collectively(group_, [&] { wait_for_copy(); });
  checkpoint::MemoryCopy& slot = shared_->slots->next();
  slot.unseal();
  {
    const std::lock_guard lock(shared_->mutex);
    shared_->copying = true;
  }
  // Start the copy before reading the loss scale, because that may wait for the end of the step.
  const Event copied = state_copy_.start(slot.payload());
  const LossScale scale = state_copy_.loss_scale();
  const checkpoint::CopySeal seal{engine_.steps_done(), timeline_,   engine_.samples_done(), data_tokens_,
                                  scale.scale,          scale.steps, scale.skipped};
  thread_->add([shared = shared_, &slot, seal, program = std::move(program), copied] {
    conclude(*shared, slot, seal, *program, copied);
  });
}

// Rethrows the error that made the previous copy fail.
void MemoryCheckpoints::wait_for_copy() {
  const AwaitBackgroundScope awaits;
  if (pinned_.valid()) pinned_.get();
  std::unique_lock lock(shared_->mutex);
  shared_->changed.wait(lock, [&] { return !shared_->copying; });
  if (shared_->failed != nullptr) std::rethrow_exception(shared_->failed);
}

void MemoryCheckpoints::conclude(Shared& shared, checkpoint::MemoryCopy& slot, const checkpoint::CopySeal& seal,
                                 const State& program, const Event& copied) {
  try {
    copied.synchronize();
    if (!shared.recorded->wait_for(seal.step)) return shared.end_copying();
    try {  // Only rank 0's state of the program counts.
      slot.seal(seal, slot.owner().rank > 0 || program.empty() ? "" : checkpoint::state_text(program));
    } catch (const DataError& error) {  // no memory for the state: the copy of an earlier step stays
      std::fprintf(stderr, "warning: [checkpoint] step %ld has no copy in memory: %s\n", seal.step, error.what());
    }
    shared.mirror->exchange(slot);  // also an unsealed copy, because the peers wait for it
    shared.end_copying();
  } catch (...) {
    return shared.end_copying(std::current_exception());
  }
  // Computed while training goes on, until the next copy begins.
  const auto stop = [&] { return shared.must_stop_summing(); };
  slot.add_checksum(stop);
  if (const CopySlots* kept = shared.mirror->kept()) {
    for (const auto& copy : kept->both()) copy->add_checksum(stop);
  }
}

void MemoryCheckpoints::remove() {
  stop();
  group_.barrier();  // now no thread of any rank writes
  remove_memory(group_, run_);
}

void remove_memory(const Group& group, const std::string& run) {
  const MemoryHosts hosts = memory_hosts(group);
  collectively(group, [&] {
    if (hosts.place_of[static_cast<std::size_t>(group.rank())] == 0) checkpoint::remove_memory_copies(run);
  });
}

}  // namespace lt::saver
