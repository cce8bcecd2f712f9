// Owns a file descriptor of a file, folder, socket or pipe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

namespace lt::io {

class Descriptor {
 public:
  // Takes ownership of the result of open(), socket() and the like. A negative result means no descriptor; errno then
  // holds the reason.
  explicit Descriptor(int fd = -1) : fd_(fd) {}
  ~Descriptor() { close(); }
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }

  bool is_open() const { return fd_ >= 0; }
  int get() const { return fd_; }
  // Closes the descriptor. Unlike the destructor it reports failure: it returns false and sets errno. The descriptor is
  // closed in either case.
  bool close();
  // Repeats write(2) until everything is written. On failure returns false and sets errno.
  bool write(const void* data, std::size_t bytes) const;
  // Repeats pread(2) until `bytes` bytes from `offset` on are read. Returns how many were read. If fewer than `bytes`,
  // the file ends there if errno is 0; otherwise reading failed, and errno has the reason.
  std::size_t read_at(void* data, std::size_t bytes, std::int64_t offset) const;

 private:
  int fd_;
};

// Raises the process's soft limit of open descriptors so that the caller can open `count` more. The limit becomes 1,024
// plus the counts of all calls, but at most the hard limit. Reports no failure; a later open() then fails.
void allow_descriptors(std::size_t count);

}  // namespace lt::io
