// What all measurements share: their options, the JSON of a result, and where it is written.
//
// {"schema": 1, "benchmark", "command", "machine", "warmup", "iterations", ..., "rows": [{..., "ms": {min, median,
// max, blocks}}]}. A row is known by its kIdentity fields; `bench compare` reads rows and nothing else.
#pragma once

#include <array>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "libtrain/comm/world.h"

namespace lt::bench {

using Json = nlohmann::ordered_json;

// Grows when a field changes its meaning or goes; new fields leave it as it is.
inline constexpr int kSchema = 1;

// Fields that name a row within its benchmark. A row has those that apply.
inline constexpr std::array<std::string_view, 7> kIdentity = {"name",  "implementation", "shape",    "dtype",
                                                              "ranks", "strategy",       "recompute"};

struct Options {
  Size warmup = 0, iterations = 1;  // calls that are not counted, and that are
  std::string out;                  // JSON file; empty: standard output alone
  std::string command;              // as a shell would read it
};

double median(std::vector<double> values);  // at least one
// {"min", "median", "max"}.
Json spread(const std::vector<double>& values);

// Counted calls are made in blocks with other work between them, as far as the measurement allows: what a machine, or
// the place of an array in memory, does to a time may last as long as the calls of one block.
inline constexpr Size kBlocks = 3;
// Of `iterations` calls, those of block number `block`; 0 where there are too few.
Size block_size(Size iterations, Size block);
// Calls one after another, cut into blocks.
std::vector<std::vector<double>> cut_into_blocks(const std::vector<double>& ms);
// spread() of all calls, and "blocks", the median of each block that is not empty.
Json times(const std::vector<std::vector<double>>& blocks);

// A result without its rows.
Json new_result(std::string_view benchmark, const World& world, const Options& options);

// Puts the rows at the end of the result and writes it to `out`, where that is not empty: also before all rows are
// there, for one that is cut off. Throws DataError.
void save_result(Json result, Json rows, const std::string& out);
// Prints it on standard output first.
void write_result(Json result, Json rows, const std::string& out);

}  // namespace lt::bench
