// A small model's state whose every element is a pure function of its name, kind and index, so that any range can be
// checked wherever it was read from.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "libtrain/checkpoints/checkpoint.h"
#include "test_main/temp_folder.h"

namespace lt_test {

namespace fs = std::filesystem;

inline constexpr const char* kRun = "20240501T165500Z-9f3c2a10b4d5e6f7";

// Odd sizes, a scalar, an empty tensor, a name with dots; 134 elements in all.
std::vector<lt::ParameterInfo> small_model();
// As small_model(), and one of 4.8 MB, which is more than one block of checksums.
std::vector<lt::ParameterInfo> larger_model();

// A number of bf16.
float value_of(const std::string& parameter, const std::string& kind, lt::Size index);

// What rank `rank` of `size` owns where the flat sequence of all parameters is cut into equal parts, the last one
// shorter and possibly empty. `owned` has the values of value_of(), `needed` has the same ranges filled with NaN.
// Masters and m are f32, v is bf16.
lt::ShardMap shards_of(const std::vector<lt::ParameterInfo>& parameters, int rank, int size,
                       lt::DType v_dtype = lt::DType::bf16);

// A state of the run kRun.
lt::checkpoint::RunState state_at(lt::Size step);

// What a load says of the checkpoint: the error's text, or "none".
std::string load_error(const fs::path& folder, const lt::ShardMap& shards);
// Elements of `needed`, of any dtype, that are not value_of().
lt::Size wrong_elements(const lt::ShardMap& shards);

// Saves step `step` of one rank under `directory` and returns the folder.
fs::path save_alone(const fs::path& directory, lt::Size step, const lt::ShardMap& shards, int keep = 100);
// The same by the run `run`, which may be empty: a checkpoint of version 1, without an id.
fs::path save_by(const std::string& run, const fs::path& directory, lt::Size step, int keep = 100);

std::string read_file(const fs::path& file);
void write_file(const fs::path& file, const std::string& bytes);
// Names in a folder, sorted.
std::vector<std::string> names_in(const fs::path& folder);

}  // namespace lt_test
