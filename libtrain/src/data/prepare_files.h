// The last step of `prepare`: writes the spool's tokens to token files and masks.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "data/spool.h"
#include "libtrain/data/prepare.h"

namespace lt::data {

// Returns the alphabetically first token file or mask in `folder` that write_prepared_files() would overwrite or
// remove; empty if there is none.
std::string token_file_in(const std::string& folder);

// Writes token files, masks and `tokenizer_files` (bytes by path in the folder), and removes token files and masks of
// earlier calls that it does not overwrite. `end_of_text` fills packed blocks.
void write_prepared_files(const PrepareOptions& options, const Spool& spool, std::optional<std::uint32_t> end_of_text,
                          const std::map<std::string, std::string>& tokenizer_files, PrepareResult& result);

}  // namespace lt::data
