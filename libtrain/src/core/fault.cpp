// The fault of this process, of which there is at most one.
#include "core/fault.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "core/cuda.h"
#include "libtrain/error.h"

namespace lt {
namespace {

constexpr std::array<std::string_view, 4> kPoints = {"data", "forward", "collective", "save-begin"};
constexpr std::array<std::string_view, 3> kDevicePoints = {"gather", "reduce", "optimizer"};
constexpr std::chrono::milliseconds kSleep{50}, kDeviceSleep{100};

struct Fault {
  std::string point;
  std::int64_t step = -1;
  bool of_device = false;
  bool armed = false;
  int hits = 0;
};
Fault fault;
thread_local std::int64_t current_step = 0;  // a background save has its own

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> parts(1);
  for (const char c : text) {
    if (c == ':') {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

bool parse(const std::string& text, std::int64_t& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() && value >= 0;
}

}  // namespace

void arm_fault(int rank) {
  fault = {};
  const char* given = std::getenv("LTRAIN_FAULT");
  if (given == nullptr) return;
  const auto parts = split(given);
  std::int64_t of_rank = 0, step = 0;
  const auto is_one_of = [&](const auto& points) {
    return std::find(points.begin(), points.end(), parts[0]) != points.end();
  };
  const bool of_device = parts.size() == 4 && parts[3] == "device-sleep";
  if (parts.size() != 4 || !(of_device ? is_one_of(kDevicePoints) : is_one_of(kPoints)) || !parse(parts[1], of_rank) ||
      !parse(parts[2], step) || !(of_device || parts[3] == "sleep")) {
    throw UsageError("config", std::string("LTRAIN_FAULT: expected <point>:<rank>:<step>:sleep, got \"") + given + "\"",
                     "points of this version: data, forward, collective, save-begin; with device-sleep gather, reduce, "
                     "optimizer");
  }
  fault = {parts[0], step, of_device, of_rank == rank};
}

int fault_hits() { return fault.hits; }
void set_fault_step(std::int64_t step) { current_step = step; }

void fault_point(std::string_view point) {
  if (!fault.armed || fault.of_device || current_step != fault.step || point != fault.point) return;
  fault.armed = false;
  ++fault.hits;
  std::this_thread::sleep_for(kSleep);
}

void fault_point(std::string_view point, const Stream& stream) {
  if (!fault.armed || !fault.of_device || current_step != fault.step || point != fault.point) return;
  ++fault.hits;
  if (stream.device().type == DeviceType::cuda) return cuda::sleep(stream.cuda().handle, kDeviceSleep);
  std::this_thread::sleep_for(kDeviceSleep);
}

}  // namespace lt
