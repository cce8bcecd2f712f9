// The last step of `prepare`: from the spool to the files that it is asked for.
#pragma once

#include <optional>
#include <string>

#include "data/spool.h"
#include "libtrain/data/prepare.h"

namespace lt {

// Writes token files, masks and tokenizer.json, and removes those that earlier calls left and this one does not write.
// `end_of_text` fills packed blocks.
void write_prepared_files(const PrepareOptions& options, const Spool& spool, std::optional<std::uint32_t> end_of_text,
                          const std::string& tokenizer_json, PrepareResult& result);

}  // namespace lt
