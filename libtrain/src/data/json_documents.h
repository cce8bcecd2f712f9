// Documents and conversations of JSON lines.
#pragma once

#include <string>
#include <vector>

#include "data/json_line.h"
#include "libtrain/tokenizer/chat.h"

namespace lt {

// The functions throw DataError that names file, line and field.

// The text in a field of the line's object.
std::string document_of(const std::string& path, const JsonLine& line, const std::string& field);
// The conversation in the field "messages".
std::vector<ChatMessage> conversation_of(const std::string& path, const JsonLine& line);

}  // namespace lt
