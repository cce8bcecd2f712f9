// Reading one rank's file. HDF5 says where a dataset lies; the payload is read directly and checked block by block, so
// a part of a dataset can be read without reading the whole, and no byte is handed out unchecked.
#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "core/crc32c.h"
#include "layout.h"
#include "shard_file.h"

namespace lt::checkpoint {
namespace {

template <class T, class U>
void require(bool holds, const DatasetEntry& dataset, const char* what, const T& expected, const U& found) {
  if (!holds) {
    throw DataError("checkpoint", fmt::format("{}: {}: expected {}, found {}", dataset.path, what, expected, found));
  }
}

// The name of a file of the size and with the metadata that the manifest states.
const std::string& checked(const std::filesystem::path& folder, const FileEntry& file) {
  const Size bytes = file_bytes(folder / file.name);
  if (bytes != file.bytes) {
    throw DataError("checkpoint", fmt::format("{}: expected {} bytes, found {}", file.name, file.bytes, bytes));
  }
  const std::uint32_t crc = metadata_checksum_of(folder / file.name, file.datasets);
  if (crc != file.crc_metadata) {
    throw DataError("checkpoint", fmt::format("{}: metadata: crc32c: expected {}, found {}", file.name,
                                              crc_text(file.crc_metadata), crc_text(crc)));
  }
  return file.name;
}

// Every component of the path is a hard link, so HDF5 opens no other file.
void check_links(hid_t file, const DatasetEntry& dataset) {
  for (std::size_t end = 1; end != dataset.path.npos;) {
    end = dataset.path.find('/', end + 1);
    const std::string prefix = dataset.path.substr(0, end);
    H5L_info_t info;
    LT_HDF5(H5Lget_info(file, prefix.c_str(), &info, H5P_DEFAULT));
    require(info.type == H5L_TYPE_HARD, dataset, "link type", static_cast<int>(H5L_TYPE_HARD),
            static_cast<int>(info.type));
  }
}

}  // namespace

ShardReader::ShardReader(const std::filesystem::path& folder, const std::string& name)
    : name_(name),
      descriptor_(folder / name, O_RDONLY),
      bytes_(descriptor_.bytes()),
      file_(in_file(name, [&] { return LT_HDF5(H5Fopen((folder / name).c_str(), H5F_ACC_RDONLY, file_access())); })) {}

ShardReader::ShardReader(const std::filesystem::path& folder, const FileEntry& file)
    : ShardReader(folder, checked(folder, file)) {}

Size ShardReader::locate(const DatasetEntry& entry) const {
  return in_file(name_, [&] {
    check_links(file_, entry);
    const Hdf5Dataset dataset(LT_HDF5(H5Dopen2(file_, entry.path.c_str(), H5P_DEFAULT)));
    const Hdf5Type type(LT_HDF5(H5Dget_type(dataset)));
    require(LT_HDF5(H5Tequal(type, H5T_IEEE_F32LE)) > 0, entry, "type", "little-endian f32", "another");
    const Hdf5Properties properties(LT_HDF5(H5Dget_create_plist(dataset)));
    require(LT_HDF5(H5Pget_layout(properties)) == H5D_CONTIGUOUS, entry, "layout", "contiguous", "another");
    require(LT_HDF5(H5Pget_nfilters(properties)) == 0, entry, "filters", "none", "some");
    require(LT_HDF5(H5Pget_external_count(properties)) == 0, entry, "external files", "none", "some");
    const Hdf5Space space(LT_HDF5(H5Dget_space(dataset)));
    const int dims = LT_HDF5(H5Sget_simple_extent_ndims(space));
    require(dims == 1, entry, "dimensions", 1, dims);
    hsize_t count = 0;
    LT_HDF5(H5Sget_simple_extent_dims(space, &count, nullptr));
    require(static_cast<Size>(count) == entry.end - entry.begin, entry, "elements", entry.end - entry.begin,
            static_cast<Size>(count));
    const Size stored = static_cast<Size>(H5Dget_storage_size(dataset));
    require(stored == entry.bytes(), entry, "bytes", entry.bytes(), stored);
    const haddr_t offset = H5Dget_offset(dataset);
    require(offset != HADDR_UNDEF, entry, "offset", "a place in the file", "none");
    return static_cast<Size>(offset);
  });
}

void ShardReader::check_location(const DatasetEntry& dataset) const {
  const Size found = locate(dataset);
  in_file(name_, [&] { require(found == dataset.offset, dataset, "offset", dataset.offset, found); });
}

void ShardReader::read(const DatasetEntry& dataset, Size begin, Size end, float* out) {
  constexpr Size kElements = kBlockBytes / Size{sizeof(float)};
  check_location(dataset);
  for (Size b = (begin - dataset.begin) / kElements; dataset.begin + b * kElements < end; ++b) {
    const Size block_begin = dataset.begin + b * kElements;
    const Size block_end = std::min(block_begin + kElements, dataset.end);
    const bool whole = begin <= block_begin && block_end <= end;
    block_.resize(static_cast<std::size_t>(whole ? 0 : kElements));
    float* const values = whole ? out + (block_begin - begin) : block_.data();
    const Size bytes = (block_end - block_begin) * Size{sizeof(float)};
    descriptor_.read_at(values, bytes, dataset.offset + b * kBlockBytes);
    const auto index = static_cast<std::size_t>(b);
    const std::uint32_t found = crc32c(0, values, static_cast<std::size_t>(bytes));
    if (found != dataset.blocks.at(index)) {
      throw DataError("checkpoint",
                      fmt::format("{}: {}: crc32c: expected {}, found {}", name_, block_name(dataset, index),
                                  crc_text(dataset.blocks[index]), crc_text(found)));
    }
    if (whole) continue;
    const Size from = std::max(begin, block_begin), to = std::min(end, block_end);
    std::memcpy(out + (from - begin), values + (from - block_begin),
                static_cast<std::size_t>(to - from) * sizeof(float));
  }
}

}  // namespace lt::checkpoint
