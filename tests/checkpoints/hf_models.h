// Tiny models of the families for the tests of the export. Parameters have this library's own names, spelt out here
// instead of taken from the table under test.
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

// Element `index` of a parameter, similar to trained values, with norms around one.
float hf_value(const lt::ParameterInfo& parameter, lt::Size index);

// Saves the case as step 12 (only masters) under `directory`; returns the step's folder.
fs::path save_case(const HfCase& item, const fs::path& directory);

}  // namespace lt_test
