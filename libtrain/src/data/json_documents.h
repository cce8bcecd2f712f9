// Documents and conversations of JSON lines.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "data/json_line.h"
#include "libtrain/tokenizer/chat.h"

namespace lt::data {

// The functions throw DataError that names file, line and field.

// The text in a field of the line's object.
std::string document_of(const std::string& path, const JsonLine& line, const std::string& field);

// How many messages or conversations have a value in a field that has no effect, by the field: "messages[].name".
using UnusedFields = std::map<std::string, Size>;
// Adds `count` to a field. Beyond a few dozen fields all others, and those whose names do not fit on a line, are
// one field, "...".
void count_unused(UnusedFields& fields, const std::string& field, Size count);

struct Conversation {
  std::vector<ChatMessage> messages;
  UnusedFields unused;
};
// The conversation in the field "messages". A message whose "weight" is 0 or whose "train" is false is not trained.
// Refuses values that belong to the text or to the choice of targets and are not supported, such as "tool_calls".
// Values that are null or empty do not count.
Conversation conversation_of(const std::string& path, const JsonLine& line);

}  // namespace lt::data
