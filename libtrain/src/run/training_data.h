// The data that a configuration names: its loaders, its size, and the step at which it repeats.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "libtrain/config/resolved.h"
#include "libtrain/data/data.h"

namespace lt::run {

// Opens a loader. `options`: the options that do not follow from the configuration. Throws DataError, also for a file
// whose mask excludes all targets, and UsageError. Errors begin with `key`.
std::unique_ptr<TokenLoader> open_loader(const DataSpec& data, const std::string& key,
                                         const std::vector<DataSource>& sources, const BatchShape& shape,
                                         DataOptions options);

// Returns the token that ends a document, for data.documents=mask. `tokenizer` may be null. Throws UsageError if there
// is no such token.
std::uint32_t end_of_documents(const DataSpec& data, const Tokenizer* tokenizer);

// Throws UsageError, as a run would, if data.documents=mask and the tokenizer in the folder of the training files has
// no such token. Ignores missing files, because a plan needs none.
void require_end_of_documents(const DataSpec& data);

// Sets the number of steps from data.epochs, if that is given, for `ranks` ranks: the whole steps that fit in
// data.epochs passes over all samples, at least one. A continued run passes `steps_done` and `samples_done`, because
// its earlier steps may have had another batch size. Reads the headers of the training files. Throws DataError and
// UsageError.
void set_steps_of_epochs(Resolved& resolved, int ranks, Size steps_done = 0, Size samples_done = 0);

// Reads the headers of all files of [data], including data.val if it is not evaluated. Throws DataError.
void require_token_files(const DataSpec& data);

// Returns the warnings of a run that has done `steps_done` steps and `samples_done` samples: fewer than 10 samples in
// the data, sources whose samples repeat before the last step, and validation data that is never evaluated.
std::vector<std::string> data_warnings(const Resolved& resolved, const TokenLoader& data, Size samples_a_step,
                                       Size steps_done, Size samples_done);

}  // namespace lt::run
