// Handles and checked calls of the serial HDF5 C library. The library must be used only inside an Hdf5Session.
#pragma once

#include <hdf5.h>

#include <mutex>
#include <string>
#include <utility>

namespace lt::checkpoint {

// Throws DataError with the expression, the innermost entry of HDF5's error stack and the source location.
[[noreturn]] void throw_hdf5(const char* expression, const char* file, int line);

template <class T>
T hdf5_checked(T result, const char* expression, const char* file, int line) {
  if (result < 0) throw_hdf5(expression, file, line);
  return result;
}

// Returns the value of an HDF5 call. Throws DataError if it is negative, which is how HDF5 reports failure.
#define LT_HDF5(expr) ::lt::checkpoint::hdf5_checked((expr), #expr, __FILE__, __LINE__)

// Admits one thread at a time to the library, which is not thread-safe, and keeps it from printing errors meanwhile.
class Hdf5Session {
 public:
  Hdf5Session();
  ~Hdf5Session();
  Hdf5Session(const Hdf5Session&) = delete;
  Hdf5Session& operator=(const Hdf5Session&) = delete;

 private:
  std::unique_lock<std::mutex> lock_;
  H5E_auto2_t print_ = nullptr;
  void* print_data_ = nullptr;
};

// Owns an HDF5 identifier and releases it with Close.
template <herr_t (*Close)(hid_t)>
class Hdf5Handle {
 public:
  explicit Hdf5Handle(hid_t id) : id_(id) {}
  Hdf5Handle(Hdf5Handle&& other) noexcept : id_(std::exchange(other.id_, H5I_INVALID_HID)) {}
  Hdf5Handle& operator=(Hdf5Handle&&) = delete;
  ~Hdf5Handle() {
    if (id_ >= 0) Close(id_);
  }

  operator hid_t() const { return id_; }
  // Closes the identifier and throws on failure, which the destructor cannot.
  void close() {
    if (Close(std::exchange(id_, H5I_INVALID_HID)) < 0) throw_hdf5("close", __FILE__, __LINE__);
  }

 private:
  hid_t id_;
};

using Hdf5File = Hdf5Handle<H5Fclose>;
using Hdf5Group = Hdf5Handle<H5Gclose>;
using Hdf5Dataset = Hdf5Handle<H5Dclose>;
using Hdf5Type = Hdf5Handle<H5Tclose>;
using Hdf5Space = Hdf5Handle<H5Sclose>;
using Hdf5Attribute = Hdf5Handle<H5Aclose>;
using Hdf5Properties = Hdf5Handle<H5Pclose>;

// Returns the file access properties of every checkpoint file. The format is exactly 1.10: its metadata is checksummed,
// and a file whose writer died is refused. HDF5's file locks are off, because shared file systems often lack them.
Hdf5Properties file_access();

}  // namespace lt::checkpoint
