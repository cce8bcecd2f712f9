// Reads the inputs of `prepare` piece by piece, and encodes them. Invariant: the tokens do not depend on the pieces,
// and a later reader can continue from the position after any piece.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "data/input_stream.h"
#include "data/json_documents.h"
#include "libtrain/data/prepare.h"
#include "libtrain/tokenizer/chat.h"
#include "libtrain/tokenizer/tokenizer.h"

namespace lt::data {

struct InputPosition {
  Size input = 0;   // index of the current input
  Size offset = 0;  // encoded bytes of its content
  Size line = 0;    // encoded lines of its content
  Size tokens = 0;  // tokens of its document so far, if the whole file is one document
};

struct EncodedPiece {
  Tokenizer::Ids ids;
  std::vector<std::uint8_t> targets;  // of each token: 1 if it is a target, else 0; empty: all are targets
  std::vector<Size> documents;        // with options.pack: tokens of each document that ends in this piece
  Size bytes = 0;                     // of text
  Size conversations = 0;             // with options.chat
  Size untrained = 0;                 // conversations without a target
  UnusedFields unused{};              // of conversations and their messages
};

class DocumentReader {
 public:
  // `paths` has no patterns. All arguments must outlive the reader. Throws UsageError if documents need an end-of-text
  // token and the tokenizer has none.
  DocumentReader(const PrepareOptions& options, const std::vector<std::string>& paths, const Tokenizer& tokenizer,
                 const ChatTemplate* chat, const InputPosition& position);

  // Reads and encodes about options.batch_bytes. Returns false at the end of the last input. Throws DataError.
  bool next(EncodedPiece& piece);
  // Opens the current input unless it is open or all inputs are read.
  void open_current();
  const InputPosition& position() const { return position_; }
  // How many bytes of the current file have been read.
  Size stored_offset() const { return stream_ == nullptr ? 0 : stream_->stored_offset(); }

 private:
  enum class Kind { text, separated, json_lines };

  void fill(std::size_t bytes);
  // Encode the complete documents or lines in the buffer and drop them. Return the bytes dropped.
  std::size_t encode_text(EncodedPiece& piece);
  std::size_t encode_separated(EncodedPiece& piece);
  std::size_t encode_lines(EncodedPiece& piece);
  std::size_t drop(std::size_t bytes);  // from the front of the buffer; returns `bytes`
  void append_documents(const std::vector<std::string_view>& texts, EncodedPiece& piece) const;
  void append_long(std::string_view text, Tokenizer::Ids& ids) const;
  void append_conversations(const std::vector<Conversation>& conversations, EncodedPiece& piece) const;
  // Appends the token that ends a document. The document's other tokens are the last `tokens` ones, in this piece and
  // earlier pieces.
  void end_document(Size tokens, EncodedPiece& piece) const;

  const PrepareOptions& options_;
  const std::vector<std::string>& paths_;
  const Tokenizer& tokenizer_;
  const ChatTemplate* chat_;
  InputPosition position_;
  std::unique_ptr<InputStream> stream_;
  Kind kind_ = Kind::text;
  std::string buffer_;
  bool at_end_ = false;  // of the current input
};

}  // namespace lt::data
