// Memory of the process and the machine, as the kernel counts it.
#include "record/process_memory.h"

#include <unistd.h>

#include <fstream>

namespace lt {

Size process_resident_bytes() {
  std::ifstream statm("/proc/self/statm");
  Size total_pages = 0, resident_pages = 0;
  statm >> total_pages >> resident_pages;
  return resident_pages * ::sysconf(_SC_PAGESIZE);
}

Size machine_memory_bytes() { return static_cast<Size>(::sysconf(_SC_PHYS_PAGES)) * ::sysconf(_SC_PAGESIZE); }

}  // namespace lt
