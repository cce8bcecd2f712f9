// Reads documents and conversations from JSON lines.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "data/json_line.h"
#include "libtrain/tokenizer/chat.h"

namespace lt::data {

// The readers throw DataError that names file, line and field.

// Returns the text in a field of the line's object. Throws for an empty text.
std::string document_of(const std::string& path, const JsonLine& line, const std::string& field);

// How many messages or conversations have a value in a field that libtrain ignores, by field: "messages[].name".
using UnusedFields = std::map<std::string, Size>;
// Adds `count` to a field. Holds at most 32 fields; further fields, and fields whose names are long or have control
// characters, share the field "...".
void count_unused(UnusedFields& fields, const std::string& field, Size count);

struct Conversation {
  std::vector<ChatMessage> messages;
  UnusedFields unused;
};
// Returns the conversation in the field "messages". Messages with "weight" 0 or "train" false are not trained. Throws
// for unsupported values that would change the text or the targets, such as "tool_calls". Ignores null and empty
// values.
Conversation conversation_of(const std::string& path, const JsonLine& line);

}  // namespace lt::data
