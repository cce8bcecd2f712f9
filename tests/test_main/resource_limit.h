// Sets limits of this process for the scope of a test.
#pragma once

#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <fstream>
#include <system_error>

namespace lt_test {

// Lowers a limit of this process for its lifetime. Throws std::system_error where the system refuses.
class ResourceLimit {
 public:
  using Resource = decltype(RLIMIT_FSIZE);
  ResourceLimit(Resource resource, rlim_t value) : resource_(resource) {
    if (::getrlimit(resource, &before_) != 0) throw std::system_error(errno, std::system_category(), "getrlimit");
    const rlimit limit{value, before_.rlim_max};
    if (::setrlimit(resource, &limit) != 0) throw std::system_error(errno, std::system_category(), "setrlimit");
  }
  ~ResourceLimit() { ::setrlimit(resource_, &before_); }
  ResourceLimit(const ResourceLimit&) = delete;
  ResourceLimit& operator=(const ResourceLimit&) = delete;

 private:
  Resource resource_;
  rlimit before_{};
};

// Limits every file of this process to `bytes`. A write is cut short there, and the next one fails with EFBIG, as one
// to a full disk does with ENOSPC. With `on_signal` SIG_DFL the signal ends the process instead.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes, void (*on_signal)(int) = SIG_IGN)
      : handler_(on_signal), limit_(RLIMIT_FSIZE, bytes) {}

 private:
  struct Handler {
    explicit Handler(void (*on_signal)(int)) : before(std::signal(SIGXFSZ, on_signal)) {}
    ~Handler() { std::signal(SIGXFSZ, before); }
    Handler(const Handler&) = delete;
    Handler& operator=(const Handler&) = delete;
    void (*before)(int);
  };
  Handler handler_;  // restored after the limit
  ResourceLimit limit_;
};

// Limits this process to `bytes` more of address space than it has taken.
class AddressSpaceLimit {
 public:
  explicit AddressSpaceLimit(rlim_t bytes) : limit_(RLIMIT_AS, taken() + bytes) {}

 private:
  static rlim_t taken() {
    std::ifstream statm("/proc/self/statm");
    statm.exceptions(std::ios::failbit);
    rlim_t pages = 0;
    statm >> pages;
    return pages * static_cast<rlim_t>(::sysconf(_SC_PAGESIZE));
  }

  ResourceLimit limit_;
};

}  // namespace lt_test
