// Owns a file descriptor: of a file, a folder, a socket or a pipe.
#pragma once

#include <cstddef>
#include <utility>

namespace lt {

class Descriptor {
 public:
  // Takes ownership of the result of open(), socket() and the like. Below 0: no descriptor, and errno says why.
  explicit Descriptor(int fd = -1) : fd_(fd) {}
  ~Descriptor() { close(); }
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }

  bool is_open() const { return fd_ >= 0; }
  int get() const { return fd_; }
  // Closes it and reports failure, which the destructor cannot: returns false, with errno set. It is closed in either
  // case.
  bool close();
  // Repeats write(2) until all is written. Returns false, with errno set, on failure.
  bool write(const void* data, std::size_t bytes) const;

 private:
  int fd_;
};

}  // namespace lt
