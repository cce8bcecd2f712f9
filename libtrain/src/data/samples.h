// The samples of a run: which block of which file each one is, and its tokens. Nothing changes after the files are
// open, so several threads may read at once.
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
  // The first sample that a source gives for a second time.
  Size first_repeat(Size source) const { return mixture_.sample_of(source, per_epoch(source)); }
  bool has_ignored_targets() const;
  // Every token is below it. Ids are i32 in memory, which is the limit if no vocabulary is given.
  Size token_limit() const { return options_.vocab > 0 ? options_.vocab : Size{1} << 31; }

  // Sample `index` of the run: seq tokens and the one after. Throws DataError for a token that is not below the limit.
  void read(Size index, std::int32_t* tokens) const;
  // The same as a row of a batch. `tokens` has room for seq + 1 and is overwritten.
  void read_row(Size index, std::int32_t* inputs, std::int32_t* targets, std::int32_t* tokens) const;
  bool separates_documents() const { return options_.document_end.has_value(); }
  // For each token of a row, the position where its document begins, if documents are separate.
  void find_documents(const std::int32_t* inputs, std::int32_t* starts) const;

 private:
  struct Source {
    Size first_file;
    std::vector<Size> first_block;  // per file, then the total
  };
  struct Place {
    const TokenFile* file;
    Size begin;  // the first token
  };
  Place place_of(Size index) const;
  void read_at(const Place& place, Size index, std::int32_t* tokens) const;
  bool is_end(std::int32_t token) const;

  Size seq_;
  DataOptions options_;
  Mixture mixture_;
  std::vector<TokenFile> files_;
  std::vector<Source> sources_;
};

}  // namespace lt::data
