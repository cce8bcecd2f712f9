// Owns a descriptor: of a file, a folder, a socket, a pipe.
#pragma once

#include <cstddef>
#include <utility>

namespace lt {

class Descriptor {
 public:
  // Takes over what open(), socket() and the like return; below 0: none, and errno says why.
  explicit Descriptor(int fd = -1) : fd_(fd) {}
  ~Descriptor() { close(); }
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }

  bool is_open() const { return fd_ >= 0; }
  int get() const { return fd_; }
  // Says what the destructor cannot: false with errno where the system reports a failure. It is closed either way.
  bool close();
  // write(2) until all is written; false with errno where that fails.
  bool write(const void* data, std::size_t bytes) const;

 private:
  int fd_;
};

}  // namespace lt
