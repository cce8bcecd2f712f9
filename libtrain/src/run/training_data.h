// The data that a configuration names: its loaders, its size, and where it repeats.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "libtrain/config/resolved.h"
#include "libtrain/data/data.h"

namespace lt::run {

// Opens a loader; `options` has what does not follow from the configuration. Errors begin with `key`. Throws DataError,
// also for a file whose mask excludes all targets, and UsageError.
std::unique_ptr<TokenLoader> open_loader(const DataSpec& data, const std::string& key,
                                         const std::vector<DataSource>& sources, const BatchShape& shape,
                                         DataOptions options);

// The token that ends a document, for data.documents=mask. `tokenizer` may be null. Throws UsageError if there is none.
std::uint32_t end_of_documents(const DataSpec& data, const Tokenizer* tokenizer);

// Throws UsageError, as a run would, if data.documents=mask and the tokenizer beside the training files has no such
// token. Files that are not there are not looked at, because a plan needs none.
void require_end_of_documents(const DataSpec& data);

// Sets the number of steps from data.epochs, if that is given, for this number of ranks: as many whole steps as fit in
// so many passes over all samples, at least one. Reads the headers of the training files. Throws DataError and
// UsageError. `steps_done` and `samples_done` belong to a run that goes on: its earlier steps may have had another
// batch.
void set_steps_of_epochs(Resolved& resolved, int ranks, Size steps_done = 0, Size samples_done = 0);

// Reads the headers of all files of [data], also of a data.val that is not evaluated. Throws DataError.
void require_token_files(const DataSpec& data);

// Warnings of a run that has done `steps_done` steps and `samples_done` samples: so few blocks that it soon knows them
// by heart, sources whose samples come again before its last step, and validation data that it never evaluates.
std::vector<std::string> data_warnings(const Resolved& resolved, const TokenLoader& data, Size samples_a_step,
                                       Size steps_done, Size samples_done);

}  // namespace lt::run
