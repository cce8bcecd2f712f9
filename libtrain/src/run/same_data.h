// Decides by their bytes whether two starts of a run have the same training data, however its files are spelled.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "libtrain/checkpoints/checkpoint.h"
#include "libtrain/comm/group.h"
#include "libtrain/comm/world.h"
#include "libtrain/data/data.h"

namespace lt::run {

// The loader's files, which `key` names. The ranks of a host divide the reading. All ranks must call it. Throws
// DataError, also where hosts have files of other bytes, such as an old copy on a local disk.
std::vector<checkpoint::DataFile> identify_files(const std::string& key, const TokenLoader& data,
                                                 const LaunchInfo& info, const Group& group);

// 16 hexadecimal digits that stand for the bytes of all files; empty if there are none.
std::string digest_of(const std::vector<checkpoint::DataFile>& files);

// What an earlier start knew of its data. Checkpoints from before `files` and run.json from before `digest` lack them.
struct EarlierData {
  std::vector<checkpoint::DataFile> files;
  std::string digest;
};

// Whether the files are known to be those of the earlier start.
bool is_same_data(const std::vector<checkpoint::DataFile>& now, const EarlierData& earlier);
struct DataDifference {
  std::string expected, found;
};
// The first difference; nullopt if none is known.
std::optional<DataDifference> difference_of(const std::vector<checkpoint::DataFile>& now, const EarlierData& earlier);

}  // namespace lt::run
