// Checked calls of the serial HDF5 C library, and the access properties of checkpoint files.
#include "checkpoints/format/hdf5_handle.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "libtrain/error.h"

namespace lt::checkpoint {
namespace {

std::mutex& library_mutex() {
  static std::mutex mutex;
  return mutex;
}

herr_t take_innermost(unsigned index, const H5E_error2_t* error, void* out) {
  if (index == 0 && error->desc != nullptr) *static_cast<std::string*>(out) = error->desc;
  return 0;
}

}  // namespace

void throw_hdf5(const char* expression, const char* file, int line) {
  std::string text;
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, take_innermost, &text);
  std::replace(text.begin(), text.end(), '\n', ' ');
  throw DataError("checkpoint", fmt::format("{}: {} ({}:{})", expression, text.empty() ? "failed" : text,
                                            std::filesystem::path(file).filename().string(), line));
}

Hdf5Session::Hdf5Session() : lock_(library_mutex()) {
  LT_HDF5(H5Eget_auto2(H5E_DEFAULT, &print_, &print_data_));
  LT_HDF5(H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr));
}

Hdf5Session::~Hdf5Session() { H5Eset_auto2(H5E_DEFAULT, print_, print_data_); }

Hdf5Properties file_access() {
  Hdf5Properties properties(LT_HDF5(H5Pcreate(H5P_FILE_ACCESS)));
  LT_HDF5(H5Pset_libver_bounds(properties, H5F_LIBVER_V110, H5F_LIBVER_V110));
  LT_HDF5(H5Pset_fclose_degree(properties, H5F_CLOSE_SEMI));
  LT_HDF5(H5Pset_alignment(properties, 4096, 4096));
  LT_HDF5(H5Pset_file_locking(properties, false, true));
  return properties;
}

}  // namespace lt::checkpoint
