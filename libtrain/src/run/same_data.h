// Decides by hashes of the bytes, not by file names, whether two starts of a run have the same training data.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "libtrain/checkpoints/checkpoint.h"
#include "libtrain/comm/group.h"
#include "libtrain/comm/world.h"
#include "libtrain/data/data.h"

namespace lt::run {

// Returns the loader's files with their digests. `key`: the configuration key of the files, for errors. The ranks of a
// host share the reading. All ranks must call it. Throws DataError, also if the hosts' files differ, such as an old
// copy on a local disk.
std::vector<checkpoint::DataFile> identify_files(const std::string& key, const TokenLoader& data,
                                                 const LaunchInfo& info, const Group& group);

// Returns a hash of all files' sizes and digests, 16 hexadecimal digits; empty if there are no files.
std::string digest_of(const std::vector<checkpoint::DataFile>& files);

// An earlier start's description of its data. Old checkpoints lack `files`, and old run.json files lack `digest`.
struct EarlierData {
  std::vector<checkpoint::DataFile> files;
  std::string digest;
};

// True if the data of the earlier start is known and equal.
bool is_same_data(const std::vector<checkpoint::DataFile>& now, const EarlierData& earlier);
struct DataDifference {
  std::string expected, found;
};
// Returns the first difference; nullopt if the data are equal or the earlier data is unknown.
std::optional<DataDifference> difference_of(const std::vector<checkpoint::DataFile>& now, const EarlierData& earlier);

}  // namespace lt::run
