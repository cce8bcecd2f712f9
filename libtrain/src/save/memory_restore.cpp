// Finds the copies, agrees on a step with all ranks, verifies the copies and loads them.
#include "save/memory_restore.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <sstream>
#include <utility>

#include "checkpoints/format/manifest.h"
#include "checkpoints/memory/memory_folder.h"
#include "comm/value_exchange.h"
#include "device/copy_bytes.h"
#include "kernels/elementwise.h"
#include "libtrain/error.h"
#include "save/broadcast_payload.h"
#include "save/engine_checkpoint.h"
#include "tensor/host_memory.h"

namespace lt::saver {
namespace {

using checkpoint::CopyRange;
using checkpoint::MemoryCopy;

bool covers_all_ranks(const std::set<int>& owners, int ranks) { return static_cast<int>(owners.size()) == ranks; }

}  // namespace

// The state that a rank needs, and how much of it is still missing.
class StateParts {
 public:
  StateParts(Device device, std::vector<StateRange> needed) : device_(device) {
    for (StateRange& range : needed) {
      missing_ += range.end - range.begin;
      by_name_[{range.parameter, range.kind}].push_back(std::move(range));
    }
  }

  // Takes bytes [begin, begin + size) of a payload from `bytes`. If `bytes` is null, it only counts them.
  void take(const std::vector<CopyRange>& layout, Size begin, Size size, const std::byte* bytes) {
    for (const CopyRange& range : layout) {
      const Size element = dtype_bytes(range.dtype);
      const Size first = std::max(range.begin, range.begin + (begin - range.offset) / element);
      const Size end = std::min(range.end, range.begin + (begin + size - range.offset) / element);
      const auto wanted = by_name_.find({range.parameter, range.kind});
      if (first >= end || wanted == by_name_.end()) continue;
      for (const StateRange& to : wanted->second) {
        const Size from = std::max(first, to.begin), until = std::min(end, to.end);
        if (from >= until) continue;
        missing_ -= until - from;
        if (bytes == nullptr) continue;
        const Tensor values = to.values.narrow(0, from - to.begin, until - from);
        const std::byte* const source = bytes + (range.offset - begin + (from - range.begin) * element);
        if (values.dtype() == range.dtype) {
          device::copy_bytes(device_, values.data(), source, values.bytes());
          continue;
        }
        // Frozen weights are kept in the compute dtype, which may have changed.
        const std::shared_ptr<void> converted = tensor::host_memory(kCpu, values.bytes());
        kernels::convert(CpuStream{}, values.dtype(), converted.get(), range.dtype, source, until - from, false);
        device::copy_bytes(device_, values.data(), converted.get(), values.bytes());
        Stream::compute(device_).synchronize();
      }
    }
  }
  Size missing() const { return missing_; }
  Device device() const { return device_; }

 private:
  Device device_;
  std::map<std::pair<std::string, std::string>, std::vector<StateRange>> by_name_;
  Size missing_ = 0;  // elements
};

MemoryRestore::MemoryRestore(const Group& group, const std::string& run, const std::string& timeline)
    : group_(group),
      hosts_(memory_hosts(group)),
      timeline_(checkpoint::timeline_number(timeline)),
      found_(checkpoint::memory_copies(run)) {
  for (const Size step : complete_steps()) {
    copies_ = verified_copies(step);
    std::set<int> owners;
    for (const Copy& copy : copies_) owners.insert(copy.owner);
    if (!covers_all_ranks(owners, group_.size())) continue;
    step_ = step;
    return;
  }
}

Size MemoryRestore::step_of(const MemoryCopy& copy) const {
  const checkpoint::CopySeal seal = copy.sealed();
  return seal.timeline == timeline_ && copy.owner().ranks == group_.size() ? seal.step : 0;
}

// The steps for which sealed copies of every rank exist, newest first. Does not verify checksums.
std::vector<Size> MemoryRestore::complete_steps() const {
  std::string mine;
  for (const auto& [file, copy] : found_) {
    const Size step = step_of(*copy);
    if (step > 0) mine += fmt::format("{} {} ", step, copy->owner().rank);
  }
  std::map<Size, std::set<int>> owners;
  for (const std::string& theirs : group_.all_gather_bytes(mine)) {
    std::istringstream stream(theirs);
    Size step = 0;
    for (int owner = 0; stream >> step >> owner;) owners[step].insert(owner);
  }
  std::vector<Size> steps;
  for (const auto& [step, who] : owners) {
    if (covers_all_ranks(who, group_.size())) steps.insert(steps.begin(), step);
  }
  return steps;
}

// The ranks of a host divide the verification of its copies among them.
std::vector<MemoryRestore::Copy> MemoryRestore::verified_copies(Size step) const {
  const auto me = static_cast<std::size_t>(group_.rank());
  const auto sharers = static_cast<int>(hosts_.ranks[static_cast<std::size_t>(hosts_.host_of[me])].size());
  std::string mine;
  int number = 0;
  for (const auto& [file, copy] : found_) {
    if (step_of(*copy) != step) continue;
    if (number++ % sharers == hosts_.place_of[me] && copy->is_as_sealed()) {
      mine += fmt::format("{} {} ", copy->owner().rank, file);
    }
  }
  std::vector<Copy> copies;
  const std::vector<std::string> all = group_.all_gather_bytes(mine);
  for (std::size_t r = 0; r < all.size(); ++r) {
    std::istringstream stream(all[r]);
    Copy copy{0, static_cast<int>(r), ""};
    while (stream >> copy.owner >> copy.file) copies.push_back(copy);
  }
  return copies;
}

// One copy for each owner whose state is on this host.
std::vector<const MemoryCopy*> MemoryRestore::copies_here() const {
  const auto host = [&](int rank) { return hosts_.host_of[static_cast<std::size_t>(rank)]; };
  std::map<int, const MemoryCopy*> by_owner;
  for (const Copy& copy : copies_) {
    if (host(copy.rank) == host(group_.rank())) by_owner.emplace(copy.owner, found_.at(copy.file).get());
  }
  std::vector<const MemoryCopy*> copies;
  for (const auto& [owner, copy] : by_owner) copies.push_back(copy);
  return copies;
}

checkpoint::CopySeal MemoryRestore::load(Engine& engine) const {
  const Device device = engine.options().device;
  const std::vector<StateRange> needed = saved_state(engine).needed;
  StateParts counted(device, needed), parts(device, needed);
  const std::vector<const MemoryCopy*> here = copies_here();
  for (const MemoryCopy* copy : here) counted.take(copy->layout(), 0, copy->payload_bytes(), nullptr);
  const std::vector<Size> missing = comm::gather_values(group_, counted.missing());
  if (std::ranges::count(missing, Size{0}) == group_.size()) {
    for (const MemoryCopy* copy : here) parts.take(copy->layout(), 0, copy->payload_bytes(), copy->payload());
  } else {
    take_from_all_hosts(parts);
  }
  Stream::compute(device).synchronize();
  collectively(group_, [&] {
    if (parts.missing() == 0) return;
    throw DataError(
        "checkpoint",
        fmt::format("memory: expected all of the state of step {}, {} elements are missing", step_, parts.missing()),
        "`checkpoint free RUN` removes the copies; the run then resumes from the disk");
  });
  const Copy& first = copies_.front();
  const std::string seal = group_.rank() == first.rank ? to_text(found_.at(first.file)->sealed()) : std::string();
  const checkpoint::CopySeal sealed = checkpoint::seal_of(group_.broadcast_bytes(seal, first.rank));
  engine.parameters_changed();
  engine.set_progress(sealed.step, sealed.samples);
  restore_loss_scale(engine, {static_cast<float>(sealed.loss_scale), sealed.loss_scale_steps, sealed.skipped});
  return sealed;
}

State MemoryRestore::program_state() const {
  const auto of_rank_0 = std::ranges::find(copies_, 0, &Copy::owner);
  std::string text;
  State state;
  collectively(group_, [&] {
    if (of_rank_0->rank == group_.rank()) text = found_.at(of_rank_0->file)->state();
  });
  text = group_.broadcast_bytes(text, of_rank_0->rank);
  collectively(group_, [&] {
    if (!text.empty()) state = checkpoint::parse_state(text);
  });
  return state;
}

// Broadcasts each rank's copy to all ranks. Each rank takes the ranges that it needs.
void MemoryRestore::take_from_all_hosts(StateParts& parts) const {
  for (int owner = 0; owner < group_.size(); ++owner) {
    const auto copy = std::find_if(copies_.begin(), copies_.end(), [&](const Copy& one) { return one.owner == owner; });
    const MemoryCopy* const from = copy->rank == group_.rank() ? found_.at(copy->file).get() : nullptr;
    const auto layout =
        checkpoint::layout_of(group_.broadcast_bytes(from == nullptr ? "" : to_text(from->layout()), copy->rank));
    if (!layout) throw InternalError("checkpoint", "memory: a peer's layout cannot be read");
    const Size bytes = checkpoint::payload_bytes_of(*layout);
    broadcast_payload(group_, copy->rank, from, bytes, [&](Size at, std::span<const std::byte> piece) {
      parts.take(*layout, at, static_cast<Size>(piece.size()), piece.data());
      Stream::compute(parts.device()).synchronize();  // before the piece is freed
    });
  }
}

}  // namespace lt::saver
