// Ids of runs. They are parts of file names, so their letters are few.
#pragma once

#include <string>
#include <string_view>

namespace lt::checkpoint {

// Letters, digits and dashes, 1 to 64 of them.
bool is_run_id(std::string_view text);

// What the temporary files and folders of one save by the run carry: its id and 32 random bits.
std::string attempt_of(const std::string& run);

}  // namespace lt::checkpoint
