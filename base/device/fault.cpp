// Parses the process's faults once and looks them up at each fault point.
#include "device/fault.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "device/cuda.h"
#include "libtrain/error.h"

namespace lt::device {
namespace {

enum Action : unsigned { kKill, kStop, kSegv, kExit, kSleep, kNan, kNoSpace, kInputOutput, kOom, kDeviceSleep };
constexpr std::string_view kActionNames[] = {"kill", "stop",   "segv", "exit", "sleep",
                                             "nan",  "enospc", "eio",  "oom",  "device-sleep"};

template <class... A>
constexpr unsigned set_of(A... actions) {
  return ((1u << actions) | ...);
}
constexpr unsigned kProcess = set_of(kKill, kStop, kSegv, kExit, kSleep);
constexpr unsigned kComputes = kProcess | set_of(kNan), kWrites = kProcess | set_of(kNoSpace, kInputOutput);

struct Point {
  std::string_view name;
  unsigned actions;
  bool inside_step = false;  // not reached inside a CUDA graph
};
constexpr Point kPoints[] = {
    {"start", kProcess},                        // the run is open, the first step has not begun
    {"step", kProcess},                         // before the step's batch is read
    {"data", kProcess},                         // while waiting for the step's batch
    {"forward", kComputes, true},               // in each micro-batch
    {"backward", kComputes, true},              //
    {"collective", kProcess, true},             // started and not yet awaited
    {"evaluate", kProcess},                     // before the evaluation after the step
    {"save-begin", kWrites},                    // before anything is written
    {"save-shard", kWrites},                    // while writing a rank's file
    {"save-manifest", kWrites},                 //
    {"save-rename", kWrites},                   // everything is written, the checkpoint is not yet renamed
    {"save-gc", kWrites},                       // while removing older checkpoints
    {"load", kProcess | set_of(kInputOutput)},  //
    {"prepare", kProcess},                      // a piece of the text is encoded; its progress is not yet saved
    {"prepare-rename", kProcess},               // every file is written, none has its name
    {"allocate", set_of(kOom)},                 // a block of device memory
    {"gather", set_of(kDeviceSleep)},           // on the device's stream
    {"reduce", set_of(kDeviceSleep)},           //
    {"hand-over", set_of(kDeviceSleep)},        // before each step of a copy between devices
    {"add", set_of(kDeviceSleep)},              // before what a reduction received is added
    {"all_to_all", set_of(kDeviceSleep)},       //
    {"transform", set_of(kDeviceSleep)},        //
    {"optimizer", set_of(kDeviceSleep)},        //
};

constexpr double kSleepSeconds = 0.05, kDeviceSleepSeconds = 0.1;

struct Fault {
  const Point* point;
  std::int64_t rank, step;
  Action action;
  double seconds = 0;          // of a sleep
  std::int64_t countdown = 1;  // for oom: allocations up to and including the one that fails
  bool armed = false;          // belongs to this rank and has not struck yet
};
std::vector<Fault> faults;
std::mutex faults_mutex;  // guards `armed` and `countdown`: a background thread may write checkpoints
std::atomic<int> hits{0};
thread_local std::int64_t current_step = 0;  // per thread: a background save has a step of its own

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts(1);
  for (const char c : text) {
    if (c == separator) {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

template <class T>
bool parse(const std::string& text, T& value) {
  constexpr T kMost = 1000000000;  // leaves out infinity
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() && value >= 0 && value <= kMost;
}

std::string names_of_actions(unsigned actions) {
  std::string names;
  for (unsigned i = 0; i < std::size(kActionNames); ++i) {
    if (actions >> i & 1u) names += (names.empty() ? "" : ", ") + std::string(kActionNames[i]);
  }
  return names;
}

Fault parse_fault(const std::string& text) {
  const auto refuse = [&](const std::string& what, const std::string& hint) {
    return UsageError("config", "LTRAIN_FAULT: " + text + ": " + what, hint);
  };
  const auto parts = split(text, ':');
  Fault fault{};
  if (parts.size() != 4 || !parse(parts[1], fault.rank) || !parse(parts[2], fault.step)) {
    throw refuse("expected <point>:<rank>:<step>:<action>", "for example forward:1:6:kill");
  }
  const auto point = std::find_if(std::begin(kPoints), std::end(kPoints),
                                  [&](const Point& candidate) { return candidate.name == parts[0]; });
  if (point == std::end(kPoints)) {
    std::string names;
    for (const Point& known : kPoints) names += (names.empty() ? "" : ", ") + std::string(known.name);
    throw refuse("unknown point " + parts[0], "points: " + names);
  }
  fault.point = point;
  const auto named = split(parts[3], '=');
  const auto action = std::find(std::begin(kActionNames), std::end(kActionNames), named[0]);
  if (action == std::end(kActionNames)) {
    throw refuse("unknown action " + parts[3], "actions at " + parts[0] + ": " + names_of_actions(point->actions));
  }
  fault.action = static_cast<Action>(action - std::begin(kActionNames));
  if ((point->actions >> fault.action & 1u) == 0) {
    throw refuse(named[0] + " makes no sense at " + parts[0],
                 "actions at " + parts[0] + ": " + names_of_actions(point->actions));
  }
  const bool sleeps = fault.action == kSleep || fault.action == kDeviceSleep;
  fault.seconds = fault.action == kDeviceSleep ? kDeviceSleepSeconds : kSleepSeconds;
  if (named.size() == 1) return fault;
  const bool is_understood = named.size() == 2 && ((sleeps && parse(named[1], fault.seconds)) ||
                                                   (fault.action == kOom && parse(named[1], fault.countdown)));
  if (!is_understood) {
    throw refuse("expected an action, sleep=SECONDS, device-sleep=SECONDS or oom=NUMBER",
                 "for example step:0:3:sleep=2.5, or allocate:0:3:oom=7");
  }
  return fault;
}

// Returns this rank's fault at `point` of the current step with one of `actions`, or null. Disarms it unless `stays`.
const Fault* strike(std::string_view point, unsigned actions, bool stays = false) {
  if (faults.empty()) return nullptr;
  const std::lock_guard lock(faults_mutex);
  for (Fault& fault : faults) {
    if (!fault.armed || fault.step != current_step || fault.point->name != point) continue;
    if ((actions >> fault.action & 1u) == 0 || --fault.countdown > 0) continue;
    fault.armed = stays;
    ++hits;
    return &fault;
  }
  return nullptr;
}

// Causes a real segmentation fault instead of raising the signal.
void violate_memory() {
  void* const page = ::mmap(nullptr, 1, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  *static_cast<volatile char*>(page) = 0;
}

[[noreturn]] void fail_with(const Fault& fault, int error) {
  const std::string what = fault.point->name == "load" ? "cannot read: " : "cannot write: ";
  throw DataError("checkpoint", what + std::strerror(error));
}

}  // namespace

void arm_fault(int rank) {
  faults.clear();
  hits = 0;
  const char* given = std::getenv("LTRAIN_FAULT");
  if (given == nullptr || *given == '\0') return;
  for (const std::string& text : split(given, ',')) {
    faults.push_back(parse_fault(text));
    faults.back().armed = faults.back().rank == rank;
  }
}

int fault_hits() { return hits; }
void set_fault_step(std::int64_t step) { current_step = step; }

void fault_point(std::string_view point) {
  const Fault* const fault = strike(point, ~set_of(kNan, kOom, kDeviceSleep));
  if (fault == nullptr) return;
  switch (fault->action) {
    case kKill: ::raise(SIGKILL); break;
    case kStop: ::raise(SIGSTOP); break;
    case kSegv: violate_memory(); break;
    case kExit: ::_exit(1);
    case kSleep: std::this_thread::sleep_for(std::chrono::duration<double>(fault->seconds)); break;
    case kNoSpace: fail_with(*fault, ENOSPC);
    case kInputOutput: fail_with(*fault, EIO);
    case kNan:
    case kOom:
    case kDeviceSleep: break;  // handled by the functions below
  }
}

void fault_point(std::string_view point, const Stream& stream) {
  const Fault* const fault = strike(point, set_of(kDeviceSleep), true);
  if (fault == nullptr) return;
  const auto time = std::chrono::round<std::chrono::milliseconds>(std::chrono::duration<double>(fault->seconds));
  if (stream.device().type == DeviceType::cuda) return cuda::sleep(stream.cuda(), time);
  std::this_thread::sleep_for(time);
}

bool fault_makes_nan(std::string_view point) { return strike(point, set_of(kNan)) != nullptr; }

bool fault_fails_allocation() { return strike("allocate", set_of(kOom)) != nullptr; }

bool fault_in_this_step() {
  return std::any_of(faults.begin(), faults.end(),
                     [](const Fault& fault) { return fault.point->inside_step && fault.step == current_step; });
}

}  // namespace lt::device
