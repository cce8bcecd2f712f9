// Writes one rank's file. Reported success is not trusted: once the file is on disk, it is opened again and the
// checksums of every payload are compared with the checksums of the values in memory.
#include "checkpoints/format/shard_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <functional>
#include <memory>
#include <span>
#include <unordered_map>
#include <unordered_set>

#include "checkpoints/format/files.h"
#include "checkpoints/format/hdf5_write_driver.h"
#include "checkpoints/format/layout.h"
#include "checkpoints/format/shard_checksums.h"
#include "checkpoints/format/transfer.h"
#include "device/fault.h"
#include "io/crc32c.h"
#include "kernels/elementwise.h"
#include "tensor/host_memory.h"

namespace lt::checkpoint {
namespace {

static_assert(std::endian::native == std::endian::little, "files hold little-endian values and are read as they are");

void write_attribute(hid_t object, const char* name, std::span<const Size> values, bool scalar) {
  const hsize_t count = values.size();
  const Hdf5Space space(LT_HDF5(scalar ? H5Screate(H5S_SCALAR) : H5Screate_simple(1, &count, nullptr)));
  Hdf5Attribute attribute(LT_HDF5(H5Acreate2(object, name, H5T_STD_I64LE, space, H5P_DEFAULT, H5P_DEFAULT)));
  const Size none = 0;
  LT_HDF5(H5Awrite(attribute, H5T_NATIVE_INT64, values.empty() ? &none : values.data()));
  attribute.close();
}

void write_attribute(hid_t object, const char* name, Size value) { write_attribute(object, name, {&value, 1}, true); }

// Creation properties without time stamps, so that the same state gives the same bytes.
Hdf5Properties creation(hid_t kind) {
  Hdf5Properties properties(LT_HDF5(H5Pcreate(kind)));
  LT_HDF5(H5Pset_obj_track_times(properties, false));
  return properties;
}

Hdf5Properties contiguous_layout() {
  Hdf5Properties properties = creation(H5P_DATASET_CREATE);
  LT_HDF5(H5Pset_layout(properties, H5D_CONTIGUOUS));
  LT_HDF5(H5Pset_alloc_time(properties, H5D_ALLOC_TIME_EARLY));
  LT_HDF5(H5Pset_fill_time(properties, H5D_FILL_TIME_NEVER));
  return properties;
}

// Offset of a contiguous dataset's payload in the file. Readers use it without HDF5.
Size payload_offset(hid_t dataset) {
  const haddr_t offset = H5Dget_offset(dataset);
  if (offset == HADDR_UNDEF) throw_hdf5("H5Dget_offset(dataset)", __FILE__, __LINE__);
  return static_cast<Size>(offset);
}

// Calls visit(values, count) with each block of the payload, in the file's dtype.
void for_each_payload_block(const Tensor& values, DType dtype, Transfer& transfer,
                            const std::function<void(const void*, Size)>& visit) {
  const Size size = dtype_bytes(values.dtype()), step = block_elements(dtype);
  const bool converts = values.dtype() != dtype;
  const std::shared_ptr<void> converted = converts ? tensor::host_memory(kCpu, kBlockBytes) : nullptr;
  transfer.for_each_block(values, [&](const void* block, Size bytes) {
    if (!converts) return visit(block, bytes / size);
    for (Size at = 0; at < bytes / size; at += step) {
      const Size count = std::min(step, bytes / size - at);
      kernels::convert(CpuStream{}, dtype, converted.get(), values.dtype(),
                       static_cast<const std::byte*>(block) + at * size, count, false);
      visit(converted.get(), count);
    }
  });
}

// Writes the payload block by block and returns the checksums of the values passed to HDF5.
std::vector<std::uint32_t> write_blocks(hid_t dataset, hid_t type, hid_t space, const Tensor& values, DType dtype,
                                        Transfer& transfer) {
  std::vector<std::uint32_t> checksums;
  hsize_t begin = 0;
  for_each_payload_block(values, dtype, transfer, [&](const void* block, Size elements) {
    const auto count = static_cast<hsize_t>(elements);
    const Hdf5Space memory(LT_HDF5(H5Screate_simple(1, &count, nullptr)));
    LT_HDF5(H5Sselect_hyperslab(space, H5S_SELECT_SET, &begin, nullptr, &count, nullptr));
    LT_HDF5(H5Dwrite(dataset, type, memory, space, H5P_DEFAULT, block));
    checksums.push_back(io::crc32c(0, block, static_cast<std::size_t>(elements * dtype_bytes(dtype))));
    begin += count;
  });
  return checksums;
}

// HDF5 has no 16-bit float type, so it is described by its bit fields. HDF5 converts it for its readers.
Hdf5Type type_of(DType dtype) {
  Hdf5Type type(LT_HDF5(H5Tcopy(H5T_IEEE_F32LE)));
  if (dtype == DType::f32) return type;
  const std::size_t fraction = dtype == DType::bf16 ? 7 : 10, exponent = 15 - fraction;
  LT_HDF5(H5Tset_fields(type, 15, fraction, exponent, 0, fraction));
  LT_HDF5(H5Tset_size(type, 2));
  LT_HDF5(H5Tset_ebias(type, (std::size_t{1} << (exponent - 1)) - 1));
  return type;
}

DatasetEntry write_dataset(hid_t file, const StateRange& range, const Shape& shape, std::string path, DType dtype,
                           Transfer& transfer) {
  DatasetEntry entry{range.parameter, range.kind, range.begin, range.end, std::move(path), 0, {}, dtype};
  const Hdf5Type type = type_of(dtype);
  const hsize_t count = static_cast<hsize_t>(range.end - range.begin);
  const Hdf5Space space(LT_HDF5(H5Screate_simple(1, &count, nullptr)));
  Hdf5Dataset dataset(
      LT_HDF5(H5Dcreate2(file, entry.path.c_str(), type, space, H5P_DEFAULT, contiguous_layout(), H5P_DEFAULT)));
  entry.blocks = write_blocks(dataset, type, space, range.values, dtype, transfer);
  write_attribute(dataset, "begin", range.begin);
  write_attribute(dataset, "end", range.end);
  write_attribute(dataset, "shape", std::span<const Size>(shape.begin(), shape.end()), false);
  entry.offset = payload_offset(dataset);
  dataset.close();
  return entry;
}

std::vector<DatasetEntry> write_groups(hid_t access, const std::filesystem::path& path, const ShardOwner& owner,
                                       const ShardMap& shards) {
  std::unordered_map<std::string, Shape> shapes;
  for (const auto& [name, shape] : shards.parameters) shapes.emplace(name, shape);
  Hdf5File file(LT_HDF5(H5Fcreate(path.c_str(), H5F_ACC_EXCL, creation(H5P_FILE_CREATE), access)));
  write_attribute(file, "version", 1);
  write_attribute(file, "step", owner.step);
  write_attribute(file, "rank", owner.rank);
  write_attribute(file, "world_size", owner.world_size);
  for (const StateKind& kind : shards.kinds) {
    Hdf5Group(LT_HDF5(H5Gcreate2(file, kind.name.c_str(), H5P_DEFAULT, creation(H5P_GROUP_CREATE), H5P_DEFAULT)))
        .close();
  }
  const auto path_of = [](const StateRange& range) { return fmt::format("/{}/{}", range.kind, range.parameter); };
  // The names of parameters are taken: a further range of x must not have that of a parameter x@64.
  std::unordered_set<std::string> taken, written;
  for (const StateRange& range : shards.owned) taken.insert(path_of(range));
  std::vector<DatasetEntry> datasets;
  Transfer transfer(device_of(shards.owned));
  for (const StateRange& range : shards.owned) {
    if (range.begin == range.end) continue;
    std::string link = path_of(range);
    const bool is_further = !written.insert(link).second;
    while (is_further && !taken.insert(link).second) link += fmt::format("@{}", range.begin);
    datasets.push_back(write_dataset(file, range, shapes.at(range.parameter), std::move(link),
                                     find_kind(shards.kinds, range.kind)->dtype, transfer));
  }
  LT_HDF5(H5Fflush(file, H5F_SCOPE_LOCAL));
  file.close();
  return datasets;
}

std::vector<DatasetEntry> write_hdf5(const std::filesystem::path& path, const ShardOwner& owner,
                                     const ShardMap& shards) {
  const Hdf5Session session;
  Hdf5WriteDriver driver;
  try {
    std::vector<DatasetEntry> datasets = write_groups(driver.access(), path, owner, shards);
    driver.check();
    return datasets;
  } catch (const DataError&) {
    driver.check();  // an error that HDF5 reports may follow from a failed write
    throw;
  }
}

}  // namespace

FileEntry write_shard(const std::filesystem::path& folder, const ShardOwner& owner, const ShardMap& shards) {
  FileEntry entry;
  entry.name = shard_name(owner.rank);
  const std::filesystem::path path = folder / entry.name;
  entry.datasets = in_file(entry.name, [&] { return write_hdf5(path, owner, shards); });
  in_file(entry.name, [] { device::fault_point("save-shard"); });
  sync_file(path);
  sync_folder(folder);
  entry.bytes = file_bytes(path);
  const FileChecksums found = checksums_of(path, entry.datasets);
  entry.crc = found.file;
  entry.crc_metadata = found.metadata;
  for (std::size_t d = 0; d < entry.datasets.size(); ++d) {
    const DatasetEntry& dataset = entry.datasets[d];
    for (std::size_t b = 0; b < dataset.blocks.size(); ++b) {
      if (found.blocks[d][b] == dataset.blocks[b]) continue;
      throw DataError("checkpoint",
                      fmt::format("{}: {}: crc32c: wrote {}, read back {}", entry.name, block_name(dataset, b),
                                  io::crc_text(dataset.blocks[b]), io::crc_text(found.blocks[d][b])));
    }
  }
  return entry;
}

}  // namespace lt::checkpoint
