// Packs documents into blocks of equal length by best-fit decreasing (Johnson 1974), within windows of a bounded number
// of tokens.
//
// A document longer than a block is cut: each piece but the last fills a block, and the last one is packed like a short
// document. Blocks are in the order of their first pieces. Pieces of a block are in the order of the documents.
#pragma once

#include <functional>
#include <vector>

#include "libtrain/dtype.h"

namespace lt::data {

// A piece of a document.
struct DocumentPiece {
  Size begin = 0, tokens = 0;  // in the sequence of all documents
  bool continues = false;      // true: not the first piece of its document
};

class Packer {
 public:
  using Block = std::vector<DocumentPiece>;

  // Calls emit(block, continues) for each block. `continues` is true if the block's first piece follows the piece that
  // filled the previous block.
  Packer(Size block_tokens, Size window_tokens, std::function<void(const Block&, bool)> emit);

  // Adds the next document, of at least one token.
  void add(Size tokens);
  // Packs the remaining documents.
  void finish();

 private:
  void pack();

  Size block_tokens_, window_tokens_;
  std::function<void(const Block&, bool)> emit_;
  std::vector<DocumentPiece> pieces_;
  Size next_ = 0;          // tokens of all documents so far
  Size window_begin_ = 0;  // first token of the window
  Size full_end_ = -1;     // end of the piece that filled the last block; -1 if no single piece did
};

}  // namespace lt::data
