// Decides by their keys whether two configurations describe the same run.
#pragma once

#include <string>
#include <vector>

#include "libtrain/config/config.h"

namespace lt::run {

// Throws UsageError that names the deciding keys whose values differ. `earlier`: the configuration of the run in
// `where`, as TOML. With `same_files`, the names of the training files may differ, because their bytes are the same.
void require_same_run(const Config& complete, const std::string& earlier, const std::string& where,
                      bool same_files = false);

// Lists the settings, besides files and train.seq, that affect sample order and have changed, one per line, for the
// announcement.
std::vector<std::string> order_changes(const Config& earlier, const Config& now);

// Lists the keys that affect the bits of a step of an elastic run and have changed, one per line. Both configurations
// must have dtype, device and global batch. Ignores the data and train.steps.
std::vector<std::string> bit_changes(const Config& earlier, const Config& now);

// Hashes the keys that decide which run this is: model, data, optimizer, sample length and the source of the initial
// weights. Returns 16 hex digits.
std::string config_hash(const Config& complete);

}  // namespace lt::run
