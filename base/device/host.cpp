// Reads the boot id, which the kernel chooses at random when it starts.
#include "device/host.h"

#include <unistd.h>

#include <fstream>

namespace lt::device {

std::string kernel_identity(const std::filesystem::path& root) {
  std::string identity;
  if (std::ifstream(root / "proc/sys/kernel/random/boot_id") >> identity) return identity;
  char host[256] = "";
  ::gethostname(host, sizeof host - 1);
  return host;
}

}  // namespace lt::device
