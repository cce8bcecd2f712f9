// The byte tokenizer: ids 0 to 255 are the bytes.
#pragma once

#include <memory>

#include "libtrain/tokenizer/tokenizer.h"

namespace lt::tokenizer {

std::unique_ptr<Tokenizer> make_byte_tokenizer();

}  // namespace lt::tokenizer
