// Records a device's kernels, copies and fills through CUPTI's activity API. CUPTI has its own clock, while a stream's
// time points are events. A mark is a short fill between two events, so both clocks see it. CUPTI's times are mapped
// linearly through the first and the last mark, which cancels the host's delays and the clocks' drift.
#include "profile/kernel_profile.h"

#include <cuda_runtime_api.h>
#include <cxxabi.h>

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <mutex>
#include <new>
#include <string_view>
#include <type_traits>
#include <utility>

#include "device/cuda.h"
#include "device/cuda_error.h"
#include "libtrain/error.h"
#include "profile/cupti.h"

namespace lt::profile {
namespace {

constexpr CUpti_ActivityKind kKinds[] = {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, CUPTI_ACTIVITY_KIND_MEMCPY,
                                         CUPTI_ACTIVITY_KIND_MEMCPY2, CUPTI_ACTIVITY_KIND_MEMSET};
// No other fill of the library has these sizes. A fill of the first size keeps the device busy until the events and the
// mark are enqueued, so that they run without a gap.
constexpr Size kBusyBytes = kKernelProfileBytes, kMarkBytes = 4 * 16381;
constexpr std::size_t kBufferBytes = std::size_t{4} << 20, kBufferAlignment = 8;

struct RawRecord {
  DeviceWork kind;
  std::uint8_t copy_kind;
  std::uint32_t stream;
  const char* name;  // a kernel's mangled name, owned by its module
  Size bytes;
  std::uint64_t begin_ns, end_ns;
};

// Collects the records that CUPTI's threads deliver. They may do so at any time until the process ends.
struct Collector {
  std::mutex mutex;
  std::vector<RawRecord> records;
  Size lost = 0;
};
Collector& collector() {
  static auto& only = *new Collector;
  return only;
}

template <class Activity>
RawRecord moved(DeviceWork kind, const CUpti_Activity& activity) {
  const auto& a = reinterpret_cast<const Activity&>(activity);
  RawRecord record{kind, CUPTI_ACTIVITY_MEMCPY_KIND_UNKNOWN, a.streamId, nullptr, static_cast<Size>(a.bytes), a.start,
                   a.end};
  if constexpr (std::is_same_v<Activity, CUpti_ActivityMemcpy6>) record.copy_kind = a.copyKind;
  if constexpr (std::is_same_v<Activity, CUpti_ActivityMemcpyPtoP4>) record.copy_kind = CUPTI_ACTIVITY_MEMCPY_KIND_PTOP;
  return record;
}

RawRecord raw(const CUpti_Activity& activity) {
  switch (activity.kind) {
    case CUPTI_ACTIVITY_KIND_MEMCPY: return moved<CUpti_ActivityMemcpy6>(DeviceWork::memcpy, activity);
    case CUPTI_ACTIVITY_KIND_MEMCPY2: return moved<CUpti_ActivityMemcpyPtoP4>(DeviceWork::memcpy, activity);
    case CUPTI_ACTIVITY_KIND_MEMSET: return moved<CUpti_ActivityMemset4>(DeviceWork::memset, activity);
    default: break;
  }
  const auto& kernel = reinterpret_cast<const CUpti_ActivityKernel10&>(activity);
  return {DeviceWork::kernel, CUPTI_ACTIVITY_MEMCPY_KIND_UNKNOWN, kernel.streamId, kernel.name, -1, kernel.start,
          kernel.end};
}

// If this returns no buffer, CUPTI drops records and counts them.
void CUPTIAPI give_buffer(std::uint8_t** buffer, std::size_t* bytes, std::size_t* most_records) {
  *buffer = static_cast<std::uint8_t*>(std::aligned_alloc(kBufferAlignment, kBufferBytes));
  *bytes = *buffer == nullptr ? 0 : kBufferBytes;
  *most_records = 0;  // limited by the space only
}

void CUPTIAPI take_buffer(CUcontext, std::uint32_t, std::uint8_t* buffer, std::size_t, std::size_t valid_bytes) {
  Collector& to = collector();
  const std::lock_guard lock(to.mutex);
  CUpti_Activity* activity = nullptr;
  while (valid_bytes > 0 && cupti().next_record(buffer, valid_bytes, &activity) == CUPTI_SUCCESS) {
    try {
      const bool known = std::find(std::begin(kKinds), std::end(kKinds), activity->kind) != std::end(kKinds);
      if (known) to.records.push_back(raw(*activity));
    } catch (const std::bad_alloc&) {
      ++to.lost;
    }
  }
  std::free(buffer);
}

std::string demangled(const char* name) {
  if (name == nullptr) return "kernel";
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> text(abi::__cxa_demangle(name, nullptr, nullptr, &status), std::free);
  return status == 0 ? text.get() : name;
}

// Indexed by CUpti_ActivityMemcpyKind.
constexpr std::string_view kCopies[] = {"",
                                        " host to device",
                                        " device to host",
                                        " host to array",
                                        " array to host",
                                        " array to array",
                                        " array to device",
                                        " device to array",
                                        " device to device",
                                        " host to host",
                                        " peer to peer"};

std::string name_of(const RawRecord& record) {
  if (record.kind == DeviceWork::kernel) return demangled(record.name);
  if (record.kind == DeviceWork::memset) return "memset";
  return "memcpy" + std::string(record.copy_kind < std::size(kCopies) ? kCopies[record.copy_kind] : "");
}

class CuptiProfile final : public KernelProfile {
 public:
  CuptiProfile(Device device, std::byte* memory) : stream_(Stream::compute(device)), memory_(memory) {
    LT_CUPTI(register_callbacks, give_buffer, take_buffer);
  }
  ~CuptiProfile() override { disable(); }

  void try_once() {
    start();
    mark();
    if (stop().lost == 0) return;
    throw UsageError("device", "CUPTI does not record in this process: it has no record of a fill",
                     "another profiler may have taken it: run without that, or leave kernels out");
  }

  void start() override {
    LT_CUDA(cudaSetDevice(stream_.device().index));
    LT_CUDA(cudaDeviceSynchronize());
    marks_.clear();
    drain();  // discards late records
    for (const CUpti_ActivityKind kind : kKinds) LT_CUPTI(enable, kind);
  }

  TimePoint mark() override {
    const CudaStream stream = stream_.cuda();
    const auto fill = [&](Size bytes) {
      LT_CUDA(cudaMemsetAsync(memory_, 0, static_cast<std::size_t>(bytes), static_cast<cudaStream_t>(stream.handle)));
    };
    for (int i = 0; i < 4; ++i) fill(kBusyBytes);
    const TimePoint before = TimePoint::on(stream_);
    fill(kMarkBytes);
    marks_.push_back({before, TimePoint::on(stream_)});
    return marks_.back().after;
  }

  KernelRecords stop() override {
    mark();
    LT_CUDA(cudaSetDevice(stream_.device().index));
    LT_CUDA(cudaDeviceSynchronize());
    disable();
    LT_CUPTI(flush_all, CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
    return on_the_clock_of_moments(drain());
  }

 private:
  struct Mark {
    TimePoint before, after;
  };
  // The centre of a mark on both clocks: in microseconds since the first mark's end, and in CUPTI's nanoseconds.
  struct Tie {
    double us, error_us;
    std::uint64_t ns;
  };
  struct Raw {
    std::vector<RawRecord> records;
    Size lost = 0;
  };

  void disable() noexcept {
    for (const CUpti_ActivityKind kind : kKinds) cupti_.disable(kind);
  }

  static Raw drain() {
    std::size_t dropped = 0;
    if (cupti().dropped_records(nullptr, 0, &dropped) != CUPTI_SUCCESS) dropped = 0;
    Collector& from = collector();
    const std::lock_guard lock(from.mutex);
    Raw taken{std::exchange(from.records, {}), std::exchange(from.lost, 0) + static_cast<Size>(dropped)};
    taken.lost +=
        std::erase_if(taken.records, [](const RawRecord& r) { return r.begin_ns == 0 || r.end_ns < r.begin_ns; });
    std::sort(taken.records.begin(), taken.records.end(),
              [](const RawRecord& a, const RawRecord& b) { return a.begin_ns < b.begin_ns; });
    return taken;
  }

  static Tie tie(const Mark& mark, const TimePoint& origin, const RawRecord& record) {
    const double between_us = mark.after.ms_since(mark.before) * 1e3;
    const double fill_us = static_cast<double>(record.end_ns - record.begin_ns) * 1e-3;
    return {mark.after.ms_since(origin) * 1e3 - between_us / 2, std::max(0.0, between_us - fill_us) / 2,
            record.begin_ns + (record.end_ns - record.begin_ns) / 2};
  }

  KernelRecords on_the_clock_of_moments(const Raw& raw) const {
    KernelRecords result;
    result.lost = raw.lost;
    std::vector<RawRecord> marks, others;
    for (const RawRecord& record : raw.records) {
      if (record.kind == DeviceWork::memset && record.bytes == kBusyBytes) continue;
      const bool is_mark = record.kind == DeviceWork::memset && record.bytes == kMarkBytes;
      (is_mark ? marks : others).push_back(record);
    }
    if (marks.size() != marks_.size() || marks.size() < 2) {
      result.lost += std::max<Size>(1, static_cast<Size>(others.size()));
      return result;
    }
    const TimePoint& origin = marks_.front().after;
    const Tie first = tie(marks_.front(), origin, marks.front()), last = tie(marks_.back(), origin, marks.back());
    const double us_of_ns = (last.us - first.us) / static_cast<double>(last.ns - first.ns);
    const auto us = [&](std::uint64_t ns) {
      return first.us + us_of_ns * static_cast<double>(static_cast<std::int64_t>(ns - first.ns));
    };
    result.error_us = std::max(first.error_us, last.error_us);
    result.records.reserve(others.size());
    for (const RawRecord& record : others) {
      result.records.push_back({record.kind, name_of(record), static_cast<Size>(record.stream), record.bytes,
                                us(record.begin_ns), us(record.end_ns)});
    }
    return result;
  }

  const Cupti& cupti_ = cupti();
  const Stream stream_;
  std::byte* const memory_;
  std::vector<Mark> marks_;
};

}  // namespace

std::unique_ptr<KernelProfile> make_kernel_profile(Device device, std::byte* memory) {
  auto profile = std::make_unique<CuptiProfile>(device, memory);
  profile->try_once();
  return profile;
}

}  // namespace lt::profile
