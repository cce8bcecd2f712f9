// Asks the kernel.
#include "launch/host_facts.h"

#include <sys/resource.h>
#include <sys/statfs.h>
#include <sys/timex.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "io/readable.h"

namespace lt::launch {
namespace {

namespace fs = std::filesystem;

struct Kind {
  unsigned long magic;
  const char* name;
  bool is_network = false, is_memory = false;
};

// statfs(2), and the sources of file systems outside the kernel.
constexpr Kind kKinds[] = {{0xef53, "ext4"},
                           {0x58465342, "xfs"},
                           {0x9123683e, "btrfs"},
                           {0x2fc12fc1, "zfs"},
                           {0x794c7630, "overlay"},
                           {0x01021994, "tmpfs", false, true},
                           {0x858458f6, "ramfs", false, true},
                           {0x6969, "nfs", true},
                           {0xff534d42, "cifs", true},
                           {0xfe534d42, "smb2", true},
                           {0x01021997, "9p", true},
                           {0x65735546, "fuse", true},
                           {0x00c36400, "ceph", true},
                           {0x0bd00bd0, "lustre", true},
                           {0x47504653, "gpfs", true},
                           {0x19830326, "beegfs", true}};

std::string why_no_file(const std::string& folder) {
  std::error_code failed;
  if (!fs::is_directory(folder, failed)) return folder + " is no folder";
  std::string name = folder + "/.ltrain-doctor-XXXXXX";
  const int file = ::mkstemp(name.data());
  if (file < 0) return std::strerror(errno);
  ::close(file);
  ::unlink(name.c_str());
  return {};
}

std::optional<Size> size_or_unlimited(rlim_t value) {
  return value == RLIM_INFINITY ? std::nullopt : std::optional(static_cast<Size>(value));
}

}  // namespace

FileSystem file_system_of(const std::string& path) {
  std::error_code failed;
  fs::path folder = fs::absolute(path, failed).lexically_normal();
  while (!fs::exists(folder, failed) && folder.has_relative_path()) folder = folder.parent_path();
  FileSystem found{.folder = folder.string()};
  struct statfs status {};
  if (::statfs(folder.c_str(), &status) == 0) {
    for (const Kind& kind : kKinds) {
      if (kind.magic != static_cast<unsigned long>(status.f_type & 0xffffffff)) continue;
      found.kind = kind.name, found.is_network = kind.is_network, found.is_memory = kind.is_memory;
    }
    if (status.f_blocks > 0) {
      found.bytes = static_cast<Size>(status.f_blocks) * status.f_bsize;
      found.free_bytes = static_cast<Size>(status.f_bavail) * status.f_bsize;
    }
  }
  found.why_not_writable = why_no_file(found.folder);
  return found;
}

ResourceLimit resource_limit(int resource) {
  rlimit limit{};
  if (::getrlimit(static_cast<__rlimit_resource>(resource), &limit) != 0) return {};
  return {size_or_unlimited(limit.rlim_cur), size_or_unlimited(limit.rlim_max)};
}

ClockState clock_state() {
  timex state{};
  const int code = ::adjtimex(&state);
  if (code < 0) return {};
  return {.is_known = true,
          .is_synchronised = code != TIME_ERROR && (state.status & STA_UNSYNC) == 0,
          .error_ms = static_cast<double>(state.maxerror) / 1e3};
}

bool has_infiniband() { return !io::readable_entries("/sys/class/infiniband").empty(); }

int gpus_of_kernel() { return static_cast<int>(io::readable_entries("/proc/driver/nvidia/gpus").size()); }

// A sandbox may have the device files without the driver's folder, and a host may create them at their first use.
bool has_gpu() {
  std::error_code failed;
  return gpus_of_kernel() > 0 || fs::exists("/dev/nvidiactl", failed);
}

}  // namespace lt::launch
