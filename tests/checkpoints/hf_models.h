// Tiny models of every family for the export tests. The library's own parameter names are spelt out, not taken from the
// table under test.
#pragma once

#include <string>
#include <vector>

#include "checkpoints/fixture.h"

namespace lt_test {

struct HfCase {
  std::string name;   // "gpt2-tied"
  std::string model;  // RunState.model
  std::vector<lt::ParameterInfo> parameters;
};

std::vector<HfCase> hf_cases();

// Element `index` of a parameter. Values resemble trained ones; norm weights are around one.
float hf_value(const lt::ParameterInfo& parameter, lt::Size index);

// Saves the case's masters as step 12 under `directory`; returns the step's folder.
fs::path save_case(const HfCase& item, const fs::path& directory);

}  // namespace lt_test
