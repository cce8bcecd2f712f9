// A small model's state. Every element is a pure function of its name, kind and index, so any range can be checked,
// wherever it was read from.
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
// Like small_model(), plus one parameter of 4.8 MB, which is more than one block of checksums.
std::vector<lt::ParameterInfo> larger_model();

// A number representable in bf16.
float value_of(const std::string& parameter, const std::string& kind, lt::Size index);

// The ranges of rank `rank` of `size` if the flat sequence of all parameters is cut into equal parts, the last one
// shorter and possibly empty. `owned` has the values of value_of(); `needed` has the same ranges filled with NaN.
// Masters and m are f32, v is bf16.
lt::ShardMap shards_of(const std::vector<lt::ParameterInfo>& parameters, int rank, int size,
                       lt::DType v_dtype = lt::DType::bf16);

// A state of the run kRun.
lt::checkpoint::RunState state_at(lt::Size step);

// The error of loading the checkpoint, or "none".
std::string load_error(const fs::path& folder, const lt::ShardMap& shards);
// The number of elements of `needed`, of any dtype, that differ from value_of().
lt::Size wrong_elements(const lt::ShardMap& shards);

// Saves step `step` of one rank under `directory` and returns the folder.
fs::path save_alone(const fs::path& directory, lt::Size step, const lt::ShardMap& shards, int keep = 100);
// The same for the run `run`. If it is empty, the checkpoint is of version 1, without an id.
fs::path save_by(const std::string& run, const fs::path& directory, lt::Size step, int keep = 100);

std::string read_file(const fs::path& file);
void write_file(const fs::path& file, const std::string& bytes);
// Names in a folder, sorted.
std::vector<std::string> names_in(const fs::path& folder);

}  // namespace lt_test
