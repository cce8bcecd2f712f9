// Ids of runs. They occur in file names, so few characters are allowed.
#pragma once

#include <string>
#include <string_view>

namespace lt::checkpoint {

// True for 1 to 64 letters, digits and dashes.
bool is_run_id(std::string_view text);

// Returns a new mark for the temporary files and folders of one save by the run: the run's id and 32 random bits.
std::string attempt_of(const std::string& run);

}  // namespace lt::checkpoint
