// Reads the description from the kernel, the libraries and the environment.
#include "run/machine.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <unistd.h>

#if defined(__GLIBC__)
#include <gnu/libc-version.h>
#endif

#include <chrono>
#include <cstdlib>
#include <fstream>

#include "device/cuda.h"
#include "libtrain/version.h"
#include "record/record.h"
#include "record/system_memory.h"

namespace lt::run {
namespace {

std::string processor_name() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  }
  return "unknown";
}

// "580.159.04, CUDA 13.0": the driver's version, and the version of CUDA that it supports; null without a GPU's driver.
nlohmann::ordered_json driver() {
  const std::string cuda = device::cuda::driver_version();
  if (cuda.empty()) return {};
  std::ifstream module("/proc/driver/nvidia/version");
  for (std::string word; module >> word;) {
    const bool is_version = word.find_first_not_of("0123456789.") == word.npos && word.find('.') != word.npos;
    if (is_version) return word + ", CUDA " + cuda;
  }
  return "CUDA " + cuda;
}

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::string c_library() {
#if defined(__GLIBC__)
  return std::string("glibc ") + gnu_get_libc_version();
#else
  return "unknown";
#endif
}

// Versions by name; null for a library that this build does not use.
nlohmann::ordered_json libraries() {
  nlohmann::ordered_json versions;
  for (const BuildComponent& component : build_components()) {
    versions[component.name] =
        component.version.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(component.version);
  }
  versions["c_library"] = c_library();
  return versions;
}

// Null unless this process has loaded the symbol's library.
template <class Function>
Function* loaded(const char* symbol) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_DEFAULT, symbol));
}

// 22809 is "2.28.9".
std::string version_text(int number) {
  return fmt::format("{}.{}.{}", number / 10000, number / 100 % 100, number % 100);
}

}  // namespace

std::string built_version(const char* component_name) {
  for (const BuildComponent& component : build_components()) {
    if (component.name == component_name) return component.version;
  }
  return {};
}

std::string loaded_nccl() {
  auto* const query = loaded<int(int*)>("ncclGetVersion");
  int number = 0;
  return query != nullptr && query(&number) == 0 ? version_text(number) : "";
}

std::string loaded_cudnn() {
  auto* const query = loaded<std::size_t()>("cudnnGetVersion");
  return query == nullptr ? "" : version_text(static_cast<int>(query()));
}

nlohmann::ordered_json machine(const World& world) {
  const bool has_gpu = best_device() == DeviceType::cuda;
  char host[256] = "";
  ::gethostname(host, sizeof host - 1);
  const auto now =
      std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch());
  return {{"version", version()},
          {"commit", commit()},
          {"built_with", built_with()},
          {"libraries", libraries()},
          {"driver", driver()},
          {"gpu", has_gpu ? nlohmann::ordered_json(device::cuda::name(0)) : nlohmann::ordered_json()},
          {"host", host},
          {"processor", processor_name()},
          {"processors", ::sysconf(_SC_NPROCESSORS_ONLN)},
          {"memory_bytes", recorder::system_memory_bytes(kCpu)},
          {"ranks", world.size()},
          {"ranks_on_host", world.info().local_size},
          {"ranks_from", world.info().source},
          {"omp_num_threads", environment("OMP_NUM_THREADS")},
          {"threads_per_rank", world.threads().count},
          {"threads_from", world.threads().reason},
          {"unix_time", now.count()}};
}

}  // namespace lt::run
