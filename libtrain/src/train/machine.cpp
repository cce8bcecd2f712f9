// The machine as the kernel and the environment describe it.
#include "train/machine.h"

#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <fstream>

#include "libtrain/record.h"
#include "libtrain/version.h"
#include "record/process_memory.h"

namespace lt {
namespace {

std::string processor_name() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  }
  return "unknown";
}

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace

nlohmann::ordered_json machine(const World& world) {
  char host[256] = "";
  ::gethostname(host, sizeof host - 1);
  const auto now =
      std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch());
  return {{"version", version()},
          {"commit", commit()},
          {"built_with", built_with()},
          {"host", host},
          {"processor", processor_name()},
          {"processors", ::sysconf(_SC_NPROCESSORS_ONLN)},
          {"memory_bytes", machine_memory_bytes()},
          {"ranks", world.size()},
          {"ranks_on_host", world.info().local_size},
          {"ranks_from", world.info().source},
          {"omp_num_threads", environment("OMP_NUM_THREADS")},
          {"unix_time", now.count()}};
}

}  // namespace lt
