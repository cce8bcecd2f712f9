// Packs documents into blocks of a length, best fit first (best-fit decreasing, Johnson 1974), within windows of a
// bounded number of tokens.
//
// A document that is longer than a block is cut: its first pieces fill blocks one after another, and the last one is
// packed as a short document is. Blocks are in the order of their first pieces, and pieces in that of the documents.
#pragma once

#include <functional>
#include <vector>

#include "libtrain/dtype.h"

namespace lt::data {

// A piece of a document.
struct DocumentPiece {
  Size begin = 0, tokens = 0;  // in the sequence of all documents
  bool continues = false;      // the piece before it ends where it begins
};

class Packer {
 public:
  using Block = std::vector<DocumentPiece>;

  // Calls emit(block, continues) for each block. `continues`: it goes on where the block before it ended.
  Packer(Size block_tokens, Size window_tokens, std::function<void(const Block&, bool)> emit);

  // Adds the next document, of at least one token.
  void add(Size tokens);
  // Packs what is left.
  void finish();

 private:
  void pack();

  Size block_tokens_, window_tokens_;
  std::function<void(const Block&, bool)> emit_;
  std::vector<DocumentPiece> pieces_;
  Size next_ = 0;          // token of the sequence
  Size window_begin_ = 0;  // its first token
  Size full_end_ = -1;     // where the piece that filled the last block ended
};

}  // namespace lt::data
