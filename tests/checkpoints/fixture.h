// The state of a small model. Every element is a pure function of parameter name, kind, index and step, so any range
// can be checked without its source, and a load of another step is noticed.
#pragma once

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "libtrain/checkpoints/checkpoint.h"
#include "test_main/temp_folder.h"

namespace lt_test {

namespace fs = std::filesystem;

inline constexpr const char* kRun = "20240501T165500Z-9f3c2a10b4d5e6f7";

// 134 elements in total. Has odd sizes, a scalar, an empty tensor and names with dots.
std::vector<lt::ParameterInfo> small_model();
// small_model() plus one parameter of 4.8 MB, which needs more than one checksum block.
std::vector<lt::ParameterInfo> larger_model();

// The element's value at `step`; representable in bf16.
float value_of(const std::string& parameter, const std::string& kind, lt::Size index, lt::Size step = 1);

// The ranges of rank `rank` of `size` when the flat sequence of all parameters is cut into equal parts; the last part
// is shorter and may be empty. `owned` holds the values of step 1; `needed` has the same ranges filled with NaN.
// Masters and m are f32, v has `v_dtype`.
lt::ShardMap shards_of(const std::vector<lt::ParameterInfo>& parameters, int rank, int size,
                       lt::DType v_dtype = lt::DType::bf16);
// Gives `owned` the values of `step` and fills `needed` with NaN.
void set_step(const lt::ShardMap& shards, lt::Size step);
// Fills `needed` with NaN, so that values of an earlier load do not pass for those of the next.
void forget(const lt::ShardMap& shards);

// The state of run kRun at `step`.
lt::checkpoint::RunState state_at(lt::Size step);

// Loads the checkpoint; returns the error, or "none".
std::string load_error(const fs::path& folder, const lt::ShardMap& shards);
// Counts the elements of `needed`, of any dtype, that differ from value_of() at `step`.
lt::Size wrong_elements(const lt::ShardMap& shards, lt::Size step = 1);

// Saves `step` as the only rank under `directory` and returns the checkpoint's folder.
fs::path save_alone(const fs::path& directory, lt::Size step, const lt::ShardMap& shards, int keep = 100);
// Like save_alone() for run `run`.
fs::path save_by(const std::string& run, const fs::path& directory, lt::Size step, int keep = 100);

// What a call reports through its OnProgress.
struct Reports {
  std::vector<lt::Size> done = {}, totals = {};

  lt::OnProgress receiver() {
    return [this](lt::Size now, lt::Size total) { done.push_back(now), totals.push_back(total); };
  }
  // True if they begin with 0, grow to `total`, and name it each time.
  bool grow_to(lt::Size total) const {
    return done.size() > 1 && done.front() == 0 && done.back() == total && std::ranges::is_sorted(done) &&
           std::ranges::all_of(totals, [&](lt::Size each) { return each == total; });
  }
};

// The sorted names in a folder.
std::vector<std::string> names_in(const fs::path& folder);

}  // namespace lt_test
