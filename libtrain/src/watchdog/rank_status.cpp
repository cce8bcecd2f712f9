// Makes rank statuses from the counters of the process, and converts them to bytes: integers little-endian, each text
// preceded by one byte of length.
#include "watchdog/rank_status.h"

#include <bit>
#include <cstring>
#include <type_traits>

#include "comm/call_log.h"
#include "device/progress.h"

namespace lt::watchdog {
namespace {

static_assert(std::endian::native == std::endian::little, "statuses travel as they lie in memory");
constexpr std::size_t kLongestName = 100, kMostGroups = 64;

class Writer {
 public:
  template <class T>
  void number(T value) {
    static_assert(std::is_arithmetic_v<T>);
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  void text(std::string_view text) {
    text = text.substr(0, kLongestName);
    number(static_cast<std::uint8_t>(text.size()));
    bytes_ += text;
  }
  std::string take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

// Reads zeros past the end, and remembers that it failed.
class Reader {
 public:
  explicit Reader(std::string_view bytes) : bytes_(bytes) {}

  template <class T>
  T number() {
    T value{};
    const std::string_view raw = take(sizeof value);
    if (raw.size() == sizeof value) std::memcpy(&value, raw.data(), sizeof value);
    return value;
  }
  std::string text() { return std::string(take(number<std::uint8_t>())); }
  bool failed() const { return failed_; }
  bool is_at_end() const { return bytes_.empty(); }

 private:
  std::string_view take(std::size_t size) {
    if (size > bytes_.size()) {
      failed_ = true;
      return {};
    }
    const std::string_view taken = bytes_.substr(0, size);
    bytes_.remove_prefix(size);
    return taken;
  }
  std::string_view bytes_;
  bool failed_ = false;
};

void write(Writer& to, const GroupStatus& group) {
  to.number(group.id), to.number(group.first), to.number(group.stride), to.number(group.size);
  to.text(group.name), to.number(group.launch), to.number(group.begun);
  to.number(static_cast<std::uint8_t>(group.calls.size()));
  for (const Call& call : group.calls) {
    to.number(call.sequence), to.number(static_cast<std::uint8_t>(call.op)), to.text(call.name);
    to.number(call.whole), to.number(static_cast<std::uint8_t>(call.ended));
  }
}

GroupStatus read_group(Reader& from) {
  GroupStatus group;
  group.id = from.number<std::uint64_t>(), group.first = from.number<std::uint32_t>();
  group.stride = from.number<std::uint32_t>(), group.size = from.number<std::uint32_t>();
  group.name = from.text(), group.launch = from.number<std::uint32_t>(), group.begun = from.number<std::uint64_t>();
  const std::size_t calls = from.number<std::uint8_t>();
  for (std::size_t i = 0; i < calls && !from.failed(); ++i) {
    Call call;
    call.sequence = from.number<std::uint64_t>(), call.op = static_cast<CollectiveOp>(from.number<std::uint8_t>());
    call.name = from.text(), call.whole = from.number<std::uint64_t>(), call.ended = from.number<std::uint8_t>() != 0;
    group.calls.push_back(std::move(call));
  }
  return group;
}

void add(RankStatus& status, const comm::GroupCalls& group, std::uint32_t launches) {
  if (status.groups.size() == kMostGroups) return;
  GroupStatus& entry = status.groups.emplace_back();
  const comm::GroupPlace& place = group.place;
  entry.id = place.id, entry.size = static_cast<std::uint32_t>(place.size);
  entry.stride = place.is_even ? static_cast<std::uint32_t>(place.stride) : 0;
  entry.first = static_cast<std::uint32_t>(place.run_rank - place.rank * place.stride);
  entry.name = place.name, entry.launch = group.as_device ? launches : 0, entry.begun = group.begun;
  for (const CollectiveRecord& call : group.calls) {
    entry.calls.push_back({call.sequence, call.op, call.name, static_cast<std::uint64_t>(call.whole), call.ended});
  }
}

}  // namespace

RankStatus StatusReader::read(double seconds, bool paused) {
  const device::Progress now = device::read_progress();
  const std::uint64_t device = comm::device_progress() + now.launches;
  const bool moved = now.count != count_ || device != device_;
  still_s_ = moved || paused ? 0 : still_s_ + seconds;
  count_ = now.count, device_ = device;
  RankStatus status{now.count + device, now.phase, now.step, now.slowest_step_s, still_s_, {}};
  if (moved) return status;
  for (const comm::GroupCalls& group : comm::calls_of_groups(kCallsInStatus, true)) {
    if (!group.in_background || now.awaits_background) add(status, group, now.launches);
  }
  return status;
}

RankStatus last_status() {
  const device::Progress now = device::read_progress();
  RankStatus status{now.count + comm::device_progress() + now.launches, now.phase, now.step, now.slowest_step_s, 0, {}};
  for (const comm::GroupCalls& group : comm::calls_of_groups(kCallsInStatus, true)) add(status, group, now.launches);
  for (const comm::GroupCalls& group : comm::ended_groups()) add(status, group, now.launches);
  // Who leaves waits in no call, and a goodbye should be short.
  for (GroupStatus& group : status.groups) group.calls.clear();
  return status;
}

std::string encode(const RankStatus& status) {
  Writer to;
  to.number(status.count), to.number(static_cast<std::uint8_t>(status.phase)), to.number(status.step);
  to.number(status.slowest_step_s), to.number(status.still_s);
  to.number(static_cast<std::uint8_t>(status.groups.size()));
  for (const GroupStatus& group : status.groups) write(to, group);
  return to.take();
}

std::optional<RankStatus> decode(std::string_view bytes) {
  Reader from(bytes);
  RankStatus status;
  status.count = from.number<std::uint64_t>();
  const auto phase = from.number<std::uint8_t>();
  if (phase >= device::kPhases) return std::nullopt;
  status.phase = static_cast<Phase>(phase), status.step = from.number<std::int64_t>();
  status.slowest_step_s = from.number<double>(), status.still_s = from.number<double>();
  const std::size_t groups = from.number<std::uint8_t>();
  for (std::size_t i = 0; i < groups && !from.failed(); ++i) status.groups.push_back(read_group(from));
  if (from.failed() || !from.is_at_end()) return std::nullopt;
  return status;
}

}  // namespace lt::watchdog
