// The file driver through which HDF5 writes.
#include "checkpoints/format/hdf5_write_driver.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>
#if __has_include(<H5FDdevelop.h>)
#include <H5FDdevelop.h>
#endif

#include "checkpoints/format/files.h"
#include "device/progress.h"
#include "io/file.h"
#include "libtrain/error.h"

namespace lt::checkpoint {
namespace {

using Failure = Hdf5WriteDriver::Failure;

// Driver information in the access properties; HDF5 copies it bytewise.
struct Info {
  Failure* failure;
};

struct File {
  H5FD_t base;  // HDF5's base; must be first
  io::Descriptor descriptor;
  haddr_t end_of_addresses, end_of_file;
  Failure* failure;
};

File& as_file(H5FD_t* file) { return *reinterpret_cast<File*>(file); }
const File& as_file(const H5FD_t* file) { return *reinterpret_cast<const File*>(file); }

constexpr haddr_t kMaxAddress = (haddr_t{1} << 63) - 1;

H5FD_t* open_file(const char* name, unsigned, hid_t access, haddr_t) {
  const auto* info = static_cast<const Info*>(H5Pget_driver_info(access));
  if (info == nullptr) return nullptr;
  io::Descriptor file = io::create_new(name);
  if (!file.is_open()) {
    info->failure->keep("create");
    return nullptr;
  }
  return &(new File{{}, std::move(file), 0, 0, info->failure})->base;
}

herr_t close_file(H5FD_t* base) {
  File& file = as_file(base);
  if (!file.descriptor.close()) file.failure->keep("close");
  delete &file;
  return 0;
}

herr_t query(const H5FD_t*, unsigned long* flags) {
  *flags = H5FD_FEAT_AGGREGATE_METADATA | H5FD_FEAT_ACCUMULATE_METADATA | H5FD_FEAT_DATA_SIEVE |
           H5FD_FEAT_AGGREGATE_SMALLDATA | H5FD_FEAT_DEFAULT_VFD_COMPATIBLE;
  return 0;
}

haddr_t get_eoa(const H5FD_t* base, H5FD_mem_t) { return as_file(base).end_of_addresses; }
haddr_t get_eof(const H5FD_t* base, H5FD_mem_t) { return as_file(base).end_of_file; }

herr_t set_eoa(H5FD_t* base, H5FD_mem_t, haddr_t address) {
  as_file(base).end_of_addresses = address;
  return 0;
}

// Bytes that were never written read as zeros.
herr_t read(H5FD_t* base, H5FD_mem_t, hid_t, haddr_t address, std::size_t bytes, void* buffer) {
  File& file = as_file(base);
  const std::size_t got = file.descriptor.read_at(buffer, bytes, static_cast<std::int64_t>(address));
  if (got < bytes && errno != 0) file.failure->keep("read");
  std::memset(static_cast<char*>(buffer) + got, 0, bytes - got);
  return 0;
}

herr_t write(H5FD_t* base, H5FD_mem_t, hid_t, haddr_t address, std::size_t bytes, const void* buffer) {
  File& file = as_file(base);
  file.end_of_file = std::max(file.end_of_file, address + bytes);
  for (auto* p = static_cast<const char*>(buffer); bytes > 0 && file.failure->error == 0;) {
    const ssize_t n =
        ::pwrite(file.descriptor.get(), p, std::min(bytes, std::size_t{kPieceBytes}), static_cast<off_t>(address));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      file.failure->keep("write");
      break;
    }
    device::count_progress();
    if (!begin_write_out(file.descriptor, static_cast<Size>(address), n)) file.failure->keep("write");
    p += n, address += static_cast<haddr_t>(n), bytes -= static_cast<std::size_t>(n);
  }
  return 0;
}

herr_t truncate_file(H5FD_t* base, hid_t, hbool_t) {
  File& file = as_file(base);
  if (file.end_of_file == file.end_of_addresses) return 0;
  const auto bytes = static_cast<off_t>(file.end_of_addresses);
  if (::ftruncate(file.descriptor.get(), bytes) != 0) file.failure->keep("set the length");
  file.end_of_file = file.end_of_addresses;
  return 0;
}

hid_t register_driver() {
  H5FD_class_t driver{};
#if H5_VERSION_GE(1, 13, 2)
  driver.version = H5FD_CLASS_VERSION;
  driver.value = 600;  // from the range that HDF5 leaves to unregistered drivers (256 to 511 are reserved)
#endif
  driver.name = "libtrain-write";
  driver.maxaddr = kMaxAddress;
  driver.fc_degree = H5F_CLOSE_SEMI;
  driver.fapl_size = sizeof(Info);
  driver.open = open_file;
  driver.close = close_file;
  driver.query = query;
  driver.get_eoa = get_eoa;
  driver.set_eoa = set_eoa;
  driver.get_eof = get_eof;
  driver.read = read;
  driver.write = write;
  driver.truncate = truncate_file;
  constexpr H5FD_mem_t kKinds[] = H5FD_FLMAP_DICHOTOMY;
  std::copy(std::begin(kKinds), std::end(kKinds), driver.fl_map);
  return LT_HDF5(H5FDregister(&driver));
}

}  // namespace

void Hdf5WriteDriver::Failure::keep(const char* name) {
  if (error == 0) call = name, error = errno;
}

Hdf5WriteDriver::Hdf5WriteDriver() : driver_(register_driver()) {}

Hdf5Properties Hdf5WriteDriver::access() {
  Hdf5Properties properties = file_access();
  const Info info{&failure_};
  LT_HDF5(H5Pset_driver(properties, driver_, &info));
  return properties;
}

void Hdf5WriteDriver::check() {
  const Failure failure = std::exchange(failure_, {});
  if (failure.error == 0) return;
  throw DataError("checkpoint", fmt::format("cannot {}: {}", failure.call, std::strerror(failure.error)));
}

}  // namespace lt::checkpoint
