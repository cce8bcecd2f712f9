// `ltrain doctor`: shows what this build and machine have, what is missing, and what that costs.
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <pwd.h>
#include <sys/resource.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <exception>
#include <filesystem>
#include <future>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "comm/mpi/mpi_runtime.h"
#include "device/cgroup.h"
#include "device/cuda.h"
#include "launch/command.h"
#include "launch/config_options.h"
#include "launch/host_facts.h"
#include "launch/supervisor/launcher.h"
#include "libtrain/version.h"
#include "record/short_text.h"
#include "record/system_memory.h"
#include "run/machine.h"

namespace lt::launch {
namespace {

namespace cuda = device::cuda;
using recorder::counted;

struct Finding {
  std::string found;
  std::string cost = {};  // what a lack costs and how to mend it; empty: nothing lacks
};

struct Place {
  const World& world;
  std::string run_dir;
};

std::string gib(Size bytes) { return fmt::format("{:.1f} GiB", static_cast<double>(bytes) / (1 << 30)); }

// 13 of "13.0.88"; 0 of an empty text.
int major_of(const std::string& version) { return std::atoi(version.c_str()); }

Finding version_of(const Place&) { return {fmt::format("libtrain {}, commit {}", version(), commit())}; }

Finding build(const Place&) {
  Finding finding{built_with()};
  if (run::built_version("onednn").empty()) {
    finding.cost =
        "no oneDNN: matmuls on the processor run on own loops, several times slower; apt-get install libdnnl-dev "
        "ocl-icd-opencl-dev, then build again";
  }
  return finding;
}

constexpr const char* kWithoutGpu =
    "training runs on the processor, which suits tiny models (docs/benchmarks.md); train.device=cuda is refused";

Finding gpus(const Place&) {
  if (!cuda::is_built()) {
    const int unused = gpus_of_kernel();
    if (unused == 0) return {"none, and this build has no CUDA", fmt::format("no GPU: {}", kWithoutGpu)};
    return {fmt::format("{}, which this build cannot use", counted(unused, "NVIDIA GPU")),
            fmt::format("a build without CUDA: {}; `cmake --preset cuda` builds for GPUs (docs/how-to/install.md)",
                        kWithoutGpu)};
  }
  const int count = cuda::count();
  if (count == 0) return {"none", fmt::format("a device {}; {}", cuda::why_not(0), kWithoutGpu)};
  std::vector<std::pair<std::string, int>> kinds;  // what they are, and how many in a row
  Finding finding;
  bool has_fp8 = true;
  for (int device = 0; device < count; ++device) {
    const int capability = cuda::compute_capability(device);
    has_fp8 = has_fp8 && capability == 90;
    const std::string kind = fmt::format("{}, compute capability {}.{}, {}", cuda::name(device), capability / 10,
                                         capability % 10, gib(cuda::total_memory(device)));
    if (kinds.empty() || kinds.back().first != kind) kinds.emplace_back(kind, 0);
    ++kinds.back().second;
    if (const std::string reason = cuda::why_not(device); !reason.empty() && finding.cost.empty()) {
      finding.cost = fmt::format("cuda:{} {}", device, reason);
    }
  }
  for (const auto& [kind, number] : kinds) {
    finding.found += fmt::format("{}{} x {}", finding.found.empty() ? "" : "; ", number, kind);
  }
  if (finding.cost.empty() && !has_fp8) finding.cost = "train.dtype=fp8 needs compute capability 9.0 (H100, H200)";
  return finding;
}

Finding driver(const Place& place) {
  if (!cuda::is_built()) return {"not needed, as this build has no CUDA"};
  const int needed = major_of(run::built_version("cuda"));
  const auto text = run::machine(place.world)["driver"];
  if (text.is_null()) {
    return {"none", fmt::format("no GPU can be used; it takes a driver for CUDA {} or newer", needed)};
  }
  Finding finding{text.get<std::string>()};
  if (major_of(cuda::driver_version()) < needed) {
    finding.cost =
        fmt::format("older than this build's CUDA {}, so no GPU can be used; it takes a driver for CUDA {} or newer",
                    run::built_version("cuda"), needed);
  }
  return finding;
}

// "2.28.9", or "2.29.1, built with 2.28.9".
std::string with_built_version(const std::string& loaded, const char* component) {
  const std::string built = run::built_version(component);
  return loaded == built ? loaded : fmt::format("{}, built with {}", loaded, built);
}

Finding nccl(const Place&) {
  if (!cuda::is_built()) return {"not needed, as this build has no CUDA"};
  const std::string loaded = run::loaded_nccl();
  if (loaded.empty()) return {"version unknown, built with " + run::built_version("nccl")};
  return {with_built_version(loaded, "nccl")};
}

// Whether a run gets windows is known when NCCL makes them; this is what they need of the devices.
Finding windows(const Place&) {
  const int count = cuda::count();
  if (count < 2) return {"not needed, as they are between GPUs of a host"};
  constexpr const char* kCost =
      "no symmetric windows: NCCL's kernels move the data between GPUs, slower than copies "
      "(docs/explanation/architecture.md)";
  for (const char* name : {"NCCL_WIN_ENABLE", "NCCL_CUMEM_ENABLE"}) {
    const char* const value = std::getenv(name);
    if (value != nullptr && std::string(value) == "0") {
      return {fmt::format("disabled by {}=0", name), fmt::format("{}; unset {}", kCost, name)};
    }
  }
  for (int a = 0; a < count; ++a) {
    for (int b = 0; b < count; ++b) {
      if (a != b && !cuda::can_access(a, b))
        return {fmt::format("GPU {} cannot access the memory of GPU {}", a, b), kCost};
    }
  }
  return {fmt::format("all {} GPUs can access each other's memory; a run says `peer memory:` when it starts", count)};
}

Finding cudnn(const Place&) {
  if (!cuda::is_built()) return {"not needed, as this build has no CUDA"};
  if (run::built_version("cudnn").empty()) {
    return {
        "not in this build",
        "attention in bf16 and f16 runs on own kernels, many times slower, except for heads of 64 channels on H100, "
        "H200 and GH200; bash launch/deps.sh --cuda, then build again"};
  }
  const std::string loaded = run::loaded_cudnn();
  return {loaded.empty() ? "version unknown, built with " + run::built_version("cudnn")
                         : with_built_version(loaded, "cudnn")};
}

Finding mpi(const Place&) {
  const auto mpirun = find_program("mpirun");
  Finding finding{fmt::format("{}; mpirun: {}", comm::mpi_library_version(), mpirun.value_or("not in PATH"))};
  const auto is_set = [](const char* name) { return std::getenv(name) != nullptr; };
  if (!mpirun) {
    finding.cost =
        "several ranks meet over TCP, where tensors of CPU ranks pass through rank 0, slower than over MPI; apt-get "
        "install openmpi-bin, or srun --mpi=pmix";
  } else if (!is_set("HOME") && ::getpwuid(::geteuid()) == nullptr) {
    finding.cost = "mpirun of Open MPI 4.1 crashes without HOME: export HOME=/ (`launch` does so itself)";
  } else if (finding.found.starts_with("Open MPI") && ::geteuid() == 0 &&
             !(is_set("OMPI_ALLOW_RUN_AS_ROOT") && is_set("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"))) {
    finding.cost =
        "as root, mpirun asks for OMPI_ALLOW_RUN_AS_ROOT=1 and OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 (`launch` does not)";
  }
  return finding;
}

Finding processors(const Place& place) {
  const auto machine = run::machine(place.world);
  const ThreadCount& threads = place.world.threads();
  return {fmt::format("{}, {}; a rank alone computes with {} ({})", machine["processor"].get<std::string>(),
                      counted(machine["processors"].get<Size>(), "processor"), counted(threads.count, "thread"),
                      threads.reason)};
}

Finding memory(const Place&) {
  Finding finding{gib(recorder::system_memory_bytes(kCpu))};
  if (device::memory_limit_bytes()) finding.found += ", with the limit of the container or job";
  if (const Size available = recorder::system_memory_available(); available > 0)
    finding.found += fmt::format(", {} available", gib(available));
  return finding;
}

Finding shared_memory(const Place&) {
  constexpr Size kOfContainers = Size{64} << 20;
  const FileSystem shm = file_system_of("/dev/shm");
  constexpr const char* kUse =
      "MPI and NCCL exchange data between ranks of a host there, and checkpoint.memory_every keeps its copies there";
  if (shm.folder != "/dev/shm" || !shm.bytes) return {"no /dev/shm", kUse};
  Finding finding{fmt::format("/dev/shm, {} of {} free", gib(shm.free_bytes), gib(*shm.bytes))};
  if (!shm.why_not_writable.empty()) {
    finding.cost = fmt::format("no file can be created: {}. {}", shm.why_not_writable, kUse);
  } else if (*shm.bytes <= kOfContainers) {
    finding.cost =
        fmt::format("{}; a container's --shm-size raises it, in a pod a volume emptyDir with medium: Memory", kUse);
  } else if (shm.free_bytes < *shm.bytes / 10) {
    finding.cost = fmt::format("nearly full. {}; `checkpoint free RUN` gives back the copies of a run", kUse);
  }
  return finding;
}

Finding limits(const Place&) {
  constexpr Size kFewFiles = 1024;  // the library raises its limit to what its ranks need, up to the hard limit
  const auto size = [](const std::optional<Size>& bytes) {
    return !bytes ? std::string("unlimited") : *bytes == 0 ? "0" : fmt::format("{} KiB", *bytes / 1024);
  };
  const ResourceLimit files = resource_limit(RLIMIT_NOFILE), locked = resource_limit(RLIMIT_MEMLOCK),
                      file_size = resource_limit(RLIMIT_FSIZE);
  Finding finding{fmt::format("open files {}, locked memory {}, core files {}, stack {}, file size {}",
                              files.most ? std::to_string(*files.most) : "unlimited", size(locked.now),
                              size(resource_limit(RLIMIT_CORE).now), size(resource_limit(RLIMIT_STACK).now),
                              size(file_size.now))};
  if (file_size.now) {
    finding.cost = "a larger file of a checkpoint or record fails like one on a full disk: ulimit -f unlimited";
  } else if (files.most && *files.most < kFewFiles) {
    finding.cost = "rank 0 has a connection or two for each rank, so a run cannot have more ranks: raise ulimit -Hn";
  } else if (locked.now && has_infiniband()) {
    finding.cost = "InfiniBand registers memory within the limit of locked memory: ulimit -l unlimited";
  }
  return finding;
}

Finding run_dir(const Place& place) {
  constexpr Size kLittle = Size{1} << 30;
  const FileSystem disk = file_system_of(place.run_dir);
  Finding finding{place.run_dir};
  if (!disk.kind.empty()) finding.found += ", " + disk.kind;
  if (disk.bytes) finding.found += fmt::format(", {} of {} free", gib(disk.free_bytes), gib(*disk.bytes));
  if (!disk.why_not_writable.empty()) {
    finding.found += ", cannot be written";
    finding.cost = fmt::format("{}: no run can start there; name another folder by --run.dir", disk.why_not_writable);
  } else if (disk.bytes && disk.free_bytes < kLittle) {
    finding.cost =
        "little room: a save that does not fit is tried again; if the last one fails, the run ends with code 3";
  } else if (disk.is_memory) {
    finding.cost = "a folder in memory: checkpoints take the host's memory, and are gone after a reboot";
  } else if (disk.is_network) {
    finding.cost = "a network file system: a save takes longer; with checkpoint.async training does not wait for it";
  }
  return finding;
}

Finding clock(const Place&) {
  const ClockState state = clock_state();
  const std::string now = fmt::format("{:%Y-%m-%d %H:%M:%S} UTC", fmt::gmtime(std::time(nullptr)));
  if (!state.is_known) return {now + ", the kernel does not say whether it is synchronised"};
  if (state.is_synchronised) return {fmt::format("{}, synchronised within {:.0f} ms", now, state.error_ms)};
  return {
      now + ", not synchronised",
      "times in logs of several hosts do not agree; training does not depend on them. `timedatectl` shows the service"};
}

struct Probe {
  const char* name;
  Finding (*find)(const Place&);
};
constexpr Probe kProbes[] = {{"version", version_of},
                             {"build", build},
                             {"gpus", gpus},
                             {"driver", driver},
                             {"nccl", nccl},
                             {"windows", windows},
                             {"cudnn", cudnn},
                             {"mpi", mpi},
                             {"processors", processors},
                             {"memory", memory},
                             {"shared_memory", shared_memory},
                             {"limits", limits},
                             {"run_dir", run_dir},
                             {"clock", clock}};

// Breaks a text into lines of at most `columns`.
std::vector<std::string> wrapped(const std::string& text, std::size_t columns) {
  std::vector<std::string> lines(1);
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(' ', begin), text.size());
    const std::string word = text.substr(begin, end - begin);
    if (!lines.back().empty() && lines.back().size() + 1 + word.size() > columns) lines.emplace_back();
    lines.back() += (lines.back().empty() ? "" : " ") + word;
    begin = end + 1;
  }
  return lines;
}

std::string to_text(const std::vector<Finding>& findings) {
  constexpr std::size_t kColumns = 100, kName = 15;
  std::string text;
  for (std::size_t i = 0; i < findings.size(); ++i) {
    std::string name = kProbes[i].name;
    std::ranges::replace(name, '_', ' ');
    for (const std::string& line : wrapped(findings[i].found, kColumns - kName)) {
      text += fmt::format("{:<{}}{}\n", std::exchange(name, ""), kName, line);
    }
    const char* mark = "! ";
    if (findings[i].cost.empty()) continue;
    for (const std::string& line : wrapped(findings[i].cost, kColumns - kName - 2)) {
      text += fmt::format("{:<{}}{}{}\n", "", kName, std::exchange(mark, "  "), line);
    }
  }
  return text;
}

std::string to_json(const std::vector<Finding>& findings) {
  nlohmann::ordered_json all;
  for (std::size_t i = 0; i < findings.size(); ++i) {
    const std::string& cost = findings[i].cost;
    all[kProbes[i].name] = {{"found", findings[i].found},
                            {"cost", cost.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(cost)}};
  }
  return all.dump(1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

// Runs a probe in a thread of its own, which may outlive the call.
std::future<Finding> started(const Probe& probe, const Place& place) {
  std::packaged_task<Finding()> task([&probe, place] { return probe.find(place); });
  std::future<Finding> answer = task.get_future();
  std::thread(std::move(task)).detach();
  return answer;
}

// A driver or a file system that is away may not answer.
Finding result_of(std::future<Finding>& answer, std::chrono::steady_clock::time_point deadline, bool& is_whole) {
  if (answer.wait_until(deadline) != std::future_status::ready) {
    is_whole = false;
    return {"no answer", "a run would wait for it too"};
  }
  try {
    return answer.get();
  } catch (const std::exception& error) {
    return {fmt::format("unknown: {}", error.what())};
  }
}

}  // namespace

CommandBody set_up_doctor(CLI::App& app, const Models& models) {
  const ConfigOptions options(app, models);
  const auto as_json = std::make_shared<bool>(false);
  app.add_flag("--json", *as_json, "print one JSON object: `found` and `cost` by name");
  return [options, as_json](const Invocation& invocation) {
    const auto config = options.load(invocation);
    if (!config) return ExitCode::ok;
    constexpr std::chrono::seconds kLimit(20);
    const Place place{invocation.world, std::filesystem::absolute(config->run.dir).lexically_normal().string()};
    const auto deadline = std::chrono::steady_clock::now() + kLimit;
    std::vector<std::future<Finding>> answers;
    for (const Probe& probe : kProbes) answers.push_back(started(probe, place));
    std::vector<Finding> findings;
    bool is_whole = true;
    for (std::future<Finding>& answer : answers) findings.push_back(result_of(answer, deadline, is_whole));
    std::fputs((*as_json ? to_json(findings) : to_text(findings)).c_str(), stdout);
    // The normal end of the process would wait for the probes that did not answer.
    if (!is_whole) std::_Exit(static_cast<int>(std::fflush(stdout) == 0 ? ExitCode::ok : ExitCode::data));
    return ExitCode::ok;
  };
}

}  // namespace lt::launch
