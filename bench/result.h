// Shared by all measurements: options, the JSON of a result, and functions that write it.
//
// {"schema": 1, "benchmark", "command", "machine", "warmup", "iterations", ..., "rows": [{..., "ms": {min, median, max,
// blocks}}]}. The kIdentity fields identify a row; `bench compare` matches rows by them.
#pragma once

#include <array>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "libtrain/comm/world.h"

namespace lt::bench {

using Json = nlohmann::ordered_json;

// Incremented when a field changes its meaning or is removed; new fields do not change it.
inline constexpr int kSchema = 1;

// Fields that identify a row within its benchmark. A row has only the fields that apply to it.
inline constexpr std::array<std::string_view, 8> kIdentity = {"name",  "implementation", "shape",     "dtype",
                                                              "ranks", "strategy",       "recompute", "options"};

struct Options {
  Size warmup = 0, iterations = 1;  // warm-up calls, timed calls
  std::string out;                  // JSON file; empty: standard output
  std::string command;              // quoted for a shell
};

double median(std::vector<double> values);  // `values` must not be empty
// {"min", "median", "max"}.
Json spread(const std::vector<double>& values);

// Timed calls are made in this many blocks, with other work between them if the measurement allows it. The effect of a
// busy machine, or of an array's place in memory, may last as long as one block.
inline constexpr Size kBlocks = 3;
// How many of `iterations` calls belong to block number `block`; 0 if there are too few.
Size block_size(Size iterations, Size block);
// Cuts consecutive calls into blocks.
std::vector<std::vector<double>> cut_into_blocks(const std::vector<double>& ms);
// spread() of all calls, and "blocks", the median of each non-empty block.
Json times(const std::vector<std::vector<double>>& blocks);

// Throws UsageError for several ranks.
void require_one_rank(std::string_view benchmark, const World& world);

// A result without its rows.
Json new_result(std::string_view benchmark, const World& world, const Options& options, Device device);

// Adds the rows to the result and writes it to the file `out`; does nothing if `out` is empty. Call it before all rows
// exist as well, so that an interrupted measurement leaves a result. Throws DataError if the file cannot be written.
void save_result(Json result, Json rows, const std::string& out);
// Writes the result to `out` and prints one line that says so, or prints the result if `out` is empty. Throws DataError
// if the file cannot be written.
void write_result(Json result, Json rows, const std::string& out);

}  // namespace lt::bench
