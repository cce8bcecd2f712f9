// Token files, the order of samples, and the loader that gives each rank its share of every batch.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "libtrain/api.h"
#include "libtrain/data/batch_source.h"
#include "libtrain/data/data_source.h"
#include "libtrain/tensor/batch.h"
#include "libtrain/tokenizer/tokenizer.h"

namespace lt::data {
class ReadAhead;
class Samples;
}  // namespace lt::data

namespace LT_API lt {

enum class TokenFormat {
  automatic,  // by magic number: 20240520 (uint16) or 20240801 (uint32)
  raw16,      // headerless uint16
};

// A token file NAME.bin, read by ranges, and the mask of its targets, NAME.mask, if there is one. docs/data.md
// describes the formats. Several threads may read at once.
class TokenFile {
 public:
  // Throws DataError naming file, offset, expected and actual for anything that is not a whole token file, or a mask of
  // another number of tokens.
  TokenFile(const std::string& path, TokenFormat format);

  const std::string& path() const;
  Size tokens() const;
  Size bytes() const;
  // Hashes the size, head, tail and samples of the file, and of its mask, to 16 hexadecimal digits. Files with equal
  // bytes have equal digests wherever they are.
  std::string digest() const;
  // The functions that take a range throw InternalError for one that is not within the tokens, and DataError if the
  // file or its mask cannot be read any more.

  // out[0..count) = tokens [begin, begin + count); a token of 2^31 or more is negative there.
  void read(Size begin, Size count, std::int32_t* out) const;
  bool has_mask() const;
  // targets[i] = kIgnoredTarget where the mask says that token begin + i is no target, for i in [0, count). Others, and
  // all without a mask, stay as they are.
  void ignore_masked(Size begin, Size count, std::int32_t* targets) const;
  // Whether one of the tokens [begin, end) is a target by the mask; without one all are. Reads up to the first one.
  bool has_targets(Size begin, Size end) const;
  // Throws DataError for the first token of [begin, end) that is not below `vocab`: file, byte offset, expected,
  // actual.
  void require_below(std::int64_t vocab, Size begin, Size end) const;

 private:
  struct Content;
  std::shared_ptr<const Content> content_;
};

// Writes a token file in the format of llm.c: 256 little-endian int32 (magic, version, count), then uint16, or uint32
// if a token needs it. Written under another name and renamed, so a reader sees the whole file or none. Throws
// DataError for 2^31 tokens or more, and if the file cannot be written.
void write_token_file(const std::string& path, const std::vector<std::uint32_t>& tokens);

// Element i of a keyed permutation of [0, n): a pure function of (key, i, n). A Feistel network of Philox words with
// cycle walking (Black & Rogaway 2002). Throws InternalError unless 0 <= i < n.
Size permuted(std::uint64_t key, Size i, Size n);

struct DataOptions {
  std::uint64_t seed = 1337;
  bool shuffle = true;  // false: blocks in file order
  TokenFormat format = TokenFormat::automatic;
  // Tokens must be below it; otherwise DataError, when a file is opened and, if it is overwritten later, when it is
  // read. 0: only the range of i32 is checked. A model on a CPU refuses a token outside its vocabulary; on a GPU its
  // behaviour is then undefined.
  Size vocab = 0;
  // The token that ends a document. With it batches say where documents begin, and a target whose input is this token
  // is ignored: the first token of the next document is no target.
  std::optional<std::uint32_t> document_end = {};
};

// Samples of `seq` tokens in all files, which are an epoch. Reads headers only. Throws UsageError for less than one
// token or no files, and DataError for a file that cannot be read or is too short for one sample.
Size count_samples(const std::vector<DataSource>& sources, Size seq, TokenFormat format);

// Hands out batches. Step n (from 1) of B = ranks * accum * micro_batch samples consumes samples [(n-1)B, nB) of the
// continuous sequence of epochs, and rank r takes the r-th contiguous share. Sample i of an epoch starts at token
// perm(i) * seq of its file. A file of n tokens has floor((n-1)/seq) blocks; blocks do not span files. Targets are the
// next tokens, or kIgnoredTarget where the file's mask says so. From the first next() on, threads read the coming
// steps.
class TokenLoader : public BatchSource {
 public:
  // `files` are paths or glob patterns, taken in order. Each rank scans its share of every file for tokens outside the
  // vocabulary. Throws DataError.
  TokenLoader(const std::vector<std::string>& files, const BatchShape& shape, const DataOptions& options = {});
  // Several sources by weight. Of the first n samples each source has its share of n, less or more by less than one
  // sample. Each has epochs of its own. Throws UsageError for weights that docs/data.md does not allow.
  static TokenLoader mix(const std::vector<DataSource>& sources, const BatchShape& shape,
                         const DataOptions& options = {});

  ~TokenLoader() override;
  TokenLoader(TokenLoader&&) noexcept;
  TokenLoader& operator=(TokenLoader&&) noexcept;

  // This rank's rows of the next step, on the CPU. The next call overwrites them. Throws DataError if a file cannot be
  // read any more.
  Batch next() override;
  // Samples of the run consumed before next(), which makes a resume with another batch size exact.
  Size position() const { return position_; }
  void seek(Size samples) override { position_ = samples; }
  Size samples_per_epoch() const;  // blocks in all files
  Size tokens() const override;    // in all files
  Size sources() const;
  // The source, from 0, that files()[file] belongs to.
  Size source_of(Size file) const;
  // The first sample of the run that a source, from 0, gives for a second time.
  Size first_repeat(Size source) const;
  // Whether any target of a batch may be kIgnoredTarget.
  bool has_ignored_targets() const override;
  // The batch's rows with samples [first, end), on the CPU, or the first batch_rows() of them. Rows beyond them are
  // filling: tokens 0, whose targets are all ignored. The next call, or next(), overwrites them. Throws as next() does.
  Batch rows(Size first, Size end);
  Size batch_rows() const { return shape_.samples(); }
  // Reads sample `index` of the run, at least 0, into `tokens`, i32[seq + 1]: seq input tokens and the one after.
  // Throws DataError if a file cannot be read any more, or was overwritten with a token outside the vocabulary.
  void read_sample(Size index, std::int32_t* tokens) const;
  const std::vector<TokenFile>& files() const;

 private:
  TokenLoader(const BatchShape& shape, std::shared_ptr<const data::Samples> samples);

  void find_documents();  // of the batch

  std::shared_ptr<const data::Samples> samples_;
  BatchShape shape_;
  Size position_ = 0;
  Batch batch_;
  std::unique_ptr<data::ReadAhead> ahead_;  // null before the first next()
};

}  // namespace lt
