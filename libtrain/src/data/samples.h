// The samples of a run: maps each sample to a block of a file and reads its tokens. Immutable after construction, so
// several threads may read at once.
#pragma once

#include <cstdint>
#include <vector>

#include "data/mixture.h"
#include "libtrain/data/data.h"

namespace lt::data {

class Samples {
 public:
  // Opens all files. Throws DataError and UsageError.
  Samples(const std::vector<DataSource>& sources, Size seq, const DataOptions& options);

  const std::vector<TokenFile>& files() const { return files_; }  // of all sources, in order
  Size sources() const { return static_cast<Size>(sources_.size()); }
  Size source_of(Size file) const;
  Size per_epoch(Size source) const { return sources_[static_cast<std::size_t>(source)].first_block.back(); }
  Size per_epoch() const;  // of all sources
  // The index of the first sample that repeats a block of the source.
  Size first_repeat(Size source) const { return mixture_.sample_of(source, per_epoch(source)); }
  bool has_ignored_targets() const;
  // Every token is below this limit: the vocabulary or, if none is given, 2^31, because ids are i32 in memory.
  Size token_limit() const { return options_.vocab > 0 ? options_.vocab : Size{1} << 31; }

  // Reads sample `index` of the run: seq tokens and the next one. Throws DataError for a token that is not below the
  // limit.
  void read(Size index, std::int32_t* tokens) const;
  // Like read(), but as a row of a batch: seq inputs and seq targets. `tokens` holds seq + 1 numbers and is
  // overwritten.
  void read_row(Size index, std::int32_t* inputs, std::int32_t* targets, std::int32_t* tokens) const;
  bool separates_documents() const { return options_.document_end.has_value(); }
  // Sets starts[i] to the position at which the document of token i begins. For separates_documents().
  void find_documents(const std::int32_t* inputs, std::int32_t* starts) const;

 private:
  struct Source {
    Size first_file;
    std::vector<Size> first_block;  // of each file, counted over the source; last element: the source's blocks
  };
  struct SampleLocation {
    const TokenFile* file;
    Size begin;  // the first token
  };
  SampleLocation locate(Size index) const;
  void read_at(const SampleLocation& at, Size index, std::int32_t* tokens) const;
  bool is_end(std::int32_t token) const;

  Size seq_;
  DataOptions options_;
  Mixture mixture_;
  std::vector<TokenFile> files_;
  std::vector<Source> sources_;
};

}  // namespace lt::data
