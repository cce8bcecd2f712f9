// The last step of `prepare`: from the spool to the files that it is asked for.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "data/spool.h"
#include "libtrain/data/prepare.h"

namespace lt::data {

// The name of a token file or mask in `folder` which write_prepared_files() would write over or remove, the first in
// alphabetical order; empty if there is none.
std::string token_file_in(const std::string& folder);

// Writes token files, masks and `tokenizer_files` (bytes by path in the folder), and removes the token files and masks
// that earlier calls left and this one does not write. `end_of_text` fills packed blocks.
void write_prepared_files(const PrepareOptions& options, const Spool& spool, std::optional<std::uint32_t> end_of_text,
                          const std::map<std::string, std::string>& tokenizer_files, PrepareResult& result);

}  // namespace lt::data
