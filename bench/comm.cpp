// Implements `ltrain bench comm`: checks the result of each collective, then times it.
#include "bench/comm.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "bench/table.h"
#include "bench/timing.h"
#include "io/print_note.h"
#include "libtrain/error.h"
#include "memory/allocation.h"
#include "record/system_memory.h"

namespace lt::bench {
namespace {

// A collective. If its array and what arrives lie in the group's peer memory, it has a separate row with implementation
// "window".
struct Measured {
  CollectiveOp op;
  bool in_window = false;
  auto operator<=>(const Measured&) const = default;
};

constexpr Measured kMeasured[] = {{CollectiveOp::all_gather},     {CollectiveOp::all_gather, true},
                                  {CollectiveOp::reduce_scatter}, {CollectiveOp::reduce_scatter, true},
                                  {CollectiveOp::all_reduce},     {CollectiveOp::all_reduce, true},
                                  {CollectiveOp::broadcast}};
constexpr Size kPattern = 97;  // values repeat with this period, so a part at the wrong place is detected

// Rank r's value at element i. Sums over 5000 ranks stay below 2^24, so they are exact.
float value(int rank, Size i) { return static_cast<float>((i + rank) % kPattern); }

// Takes each block from a source once and gives it again after it was released, as an arena does for the blocks of a
// step: making a window is a collective.
class KeptBlocks final : public memory::BlockSource {
 public:
  explicit KeptBlocks(std::shared_ptr<memory::BlockSource> from) : from_(std::move(from)) {}
  ~KeptBlocks() override {
    for (const Kept& kept : blocks_) from_->release(kept.block.index);
  }

  Block allocate(Size bytes, MemoryOwner owner) override {
    const auto is_free = [&](const Kept& kept) { return !kept.in_use && kept.bytes == bytes; };
    auto found = std::find_if(blocks_.begin(), blocks_.end(), is_free);
    if (found == blocks_.end()) found = blocks_.insert(found, {from_->allocate(bytes, owner), bytes});
    found->in_use = true;
    return {found->block.data, static_cast<std::size_t>(found - blocks_.begin())};
  }
  void release(std::size_t index) noexcept override { blocks_[index].in_use = false; }

 private:
  struct Kept {
    Block block;
    Size bytes;
    bool in_use = false;
  };
  std::shared_ptr<memory::BlockSource> from_;
  std::vector<Kept> blocks_;
};

// Holds the arrays of one collective, runs it and checks its result.
class Collective {
 public:
  Collective(const Group& group, CollectiveOp op, Size bytes, Device device)
      : group_(group),
        op_(op),
        full_(Tensor::empty({bytes / 4}, DType::f32, device)),
        part_(full_.narrow(0, begin(), Group::part_size(bytes / 4, group.size(), group.rank()))) {
    if (op == CollectiveOp::reduce_scatter) part_ = Tensor::empty({part_.elements()}, DType::f32, device);
  }

  void run() const {
    switch (op_) {
      case CollectiveOp::all_gather: return group_.all_gather("bench", full_, part_).wait();
      case CollectiveOp::reduce_scatter: return group_.reduce_scatter("bench", part_, full_, DType::f32).wait();
      case CollectiveOp::all_reduce: return group_.all_reduce("bench", full_, DType::f32);
      default: return group_.broadcast("bench", full_, 0).wait();
    }
  }

  // Every rank must call it. If a result is wrong on one rank, throws InternalError on all. Leaves zeros, which stay
  // zero however often they are summed.
  void check() const {
    std::vector<float> mine(static_cast<std::size_t>(full_.elements()));
    for (std::size_t i = 0; i < mine.size(); ++i) mine[i] = value(group_.rank(), static_cast<Size>(i));
    copy(full_, Tensor::from(mine, full_.shape()));
    run();
    collectively(group_, [&] {
      const bool scattered = op_ == CollectiveOp::reduce_scatter;
      const std::vector<float> result = (scattered ? part_ : full_).to_vector<float>();
      for (std::size_t i = 0; i < result.size(); ++i) {
        const Size at = static_cast<Size>(i) + (scattered ? begin() : 0);
        const float found = result[i], expected = expected_at(at);
        if (found == expected) continue;
        throw InternalError("bench", fmt::format("{} of {} bytes: element {}: expected {}, got {}", to_string(op_),
                                                 full_.bytes(), at, expected, found));
      }
    });
    fill_zero(full_);
  }

 private:
  Size begin() const { return Group::part_begin(full_.elements(), group_.size(), group_.rank()); }

  float expected_at(Size i) const {
    if (op_ == CollectiveOp::broadcast) return value(0, i);
    const Size part = Group::part_size(full_.elements(), group_.size(), 0);
    if (op_ == CollectiveOp::all_gather) return value(static_cast<int>(i / part), i);
    float sum = 0;
    for (int r = 0; r < group_.size(); ++r) sum += value(r, i);
    return sum;
  }

  const Group& group_;
  CollectiveOp op_;
  Tensor full_, part_;  // part_ lies in full_, except for a reduce-scatter, which would overwrite its input
};

// The slowest rank's time of each call. The result is the same on all ranks.
std::vector<double> slowest(const Group& group, const std::vector<double>& mine) {
  std::vector<double> most(mine.size());
  for (const std::string& text : group.all_gather_bytes(Json(mine).dump())) {
    const auto ms = Json::parse(text).get<std::vector<double>>();
    for (std::size_t i = 0; i < most.size(); ++i) most[i] = std::max(most[i], ms[i]);
  }
  return most;
}

// Times `iterations` calls on newly allocated arrays. These and what arrives lie in `windows` unless it is null.
std::vector<double> time_block(const Group& group, CollectiveOp op, Size bytes, Device device,
                               const std::shared_ptr<memory::BlockSource>& windows, Size warmup, Size iterations) {
  const memory::AllocationScope scope(windows ? std::make_shared<KeptBlocks>(windows) : nullptr, device);
  const Collective collective(group, op, bytes, device);
  collective.check();
  std::vector<double> mine;
  for (Size i = 0; i < warmup + iterations; ++i) {
    group.barrier();
    const double ms = time_ms(device, [&] { collective.run(); });
    if (i >= warmup) mine.push_back(ms);
  }
  return slowest(group, mine);
}

Json row_of(const Group& group, Measured measured, Size bytes, const std::vector<std::vector<double>>& blocks) {
  const Json ms = times(blocks);
  const double rate = static_cast<double>(bytes) / ms["median"].get<double>() * 1e-6;
  Json row = {{"name", to_string(measured.op)}};
  if (measured.in_window) row["implementation"] = "window";
  row.update({{"shape", fmt::format("{} bytes", bytes)},
              {"dtype", "f32"},
              {"ranks", group.size()},
              {"bytes", bytes},
              {"ms", ms},
              {"algbw_gb_per_s", rate},
              {"busbw_gb_per_s", rate * bus_factor(measured.op, group.size())}});
  return row;
}

constexpr Column kCollectiveColumns[] = {{"collective", -17}, {"bytes", 12},      {"median ms", 10}, {"min ms", 10},
                                         {"max ms", 10},      {"algbw GB/s", 12}, {"busbw GB/s", 12}};

void print_collective_row(const Json& row) {
  const Json& ms = row["ms"];
  const std::string name = row["name"].get<std::string>() + (row.contains("implementation") ? " window" : "");
  print_cells(kCollectiveColumns,
              {name, row["bytes"].dump(), fixed(ms["median"], 4), fixed(ms["min"], 4), fixed(ms["max"], 4),
               fixed(row["algbw_gb_per_s"], 2), fixed(row["busbw_gb_per_s"], 2)});
}

void require_size(const World& world, Size bytes, Device device) {
  if (bytes < 4 || bytes % 4 != 0) {
    throw UsageError("bench", fmt::format("comm: --sizes: expected multiples of 4 bytes, got {}", bytes));
  }
  // A rank holds the array, its part, and the data that arrives for that part: less than three arrays.
  const bool cpu = device.type == DeviceType::cpu;
  const Size most = recorder::system_memory_bytes(device) / (cpu ? world.info().local_size : 1) / 3;
  if (bytes > most) {
    throw UsageError("bench", fmt::format("comm: --sizes: expected at most {} bytes, a third of {} memory, got {}",
                                          most, cpu ? "a rank's share of the host's" : "the device's", bytes));
  }
}

}  // namespace

double bus_factor(CollectiveOp op, int ranks) {
  const double others = static_cast<double>(ranks - 1) / ranks;
  switch (op) {
    case CollectiveOp::all_gather:
    case CollectiveOp::reduce_scatter: return others;
    case CollectiveOp::all_reduce: return 2 * others;
    default: return 1;
  }
}

void require_collectives(const World& world, const CommOptions& options) {
  if (world.size() < 2) {
    throw UsageError("bench", "comm: expected at least two ranks, got 1",
                     "start it as `ltrain launch -n 2 -- bench comm`, or under mpirun -n 2");
  }
  collectively(world.group(), [&] {
    require_device(options.device);
    for (const Size bytes : options.sizes) require_size(world, bytes, options.device);
  });
}

Json measure_collectives(const World& world, const CommOptions& options) {
  const Group group = world.group(options.device);
  const PeerMemory memory = group.peer_memory(options.device);
  std::vector<Measured> measurements;
  for (const Measured measured : kMeasured) {
    if (!measured.in_window || memory.windows != nullptr) measurements.push_back(measured);
  }
  std::map<std::pair<Measured, Size>, std::vector<std::vector<double>>> blocks;
  for (Size b = 0; b < kBlocks; ++b) {
    const Size iterations = block_size(options.iterations, b);
    if (iterations == 0) continue;
    for (const Measured measured : measurements) {
      const auto source = measured.in_window ? memory.windows : nullptr;
      for (const Size bytes : options.sizes) {
        blocks[{measured, bytes}].push_back(
            time_block(group, measured.op, bytes, options.device, source, options.warmup, iterations));
      }
    }
  }
  Json rows = Json::array();
  if (world.rank() != 0) return rows;
  print_header(kCollectiveColumns);
  for (const Measured measured : measurements) {
    for (const Size bytes : options.sizes)
      print_collective_row(rows.emplace_back(row_of(group, measured, bytes, blocks.at({measured, bytes}))));
  }
  if (!memory.why_none.empty()) io::print_note("no rows of windows: {}\n", memory.why_none);
  return rows;
}

void bench_comm(const World& world, const CommOptions& options) {
  require_collectives(world, options);
  Json rows = measure_collectives(world, options);
  if (world.rank() != 0) return;
  Json result = new_result("comm", world, options, options.device);
  write_result(std::move(result), std::move(rows), options.out);
}

}  // namespace lt::bench
