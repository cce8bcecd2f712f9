// Reads and writes safetensors files.
#include "checkpoints/hugging_face/safetensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "io/json_problem.h"
#include "kernels/elementwise.h"

namespace lt::checkpoint {
namespace {

using Header = nlohmann::json;  // not ordered_json, whose look-up is linear

constexpr const char* kIncomplete = "a download that was cut short, or a file of Git LFS that was not fetched?";
constexpr const char* kMetadata = "__metadata__";
constexpr std::uint64_t kMostPayload = std::uint64_t{1} << 60;
constexpr Size kMostHeaderBytes = Size{100} << 20;  // as in Hugging Face's own reader

struct Type {
  const char* name;
  Size bytes;
  std::optional<DType> dtype;
};
constexpr Type kTypes[] = {
    {"F32", 4, DType::f32}, {"BF16", 2, DType::bf16}, {"F16", 2, DType::f16}, {"F64", 8, DType::f64},
    {"I64", 8, {}},         {"I32", 4, {}},           {"I16", 2, {}},         {"I8", 1, {}},
    {"U64", 8, {}},         {"U32", 4, {}},           {"U16", 2, {}},         {"U8", 1, {}},
    {"BOOL", 1, {}},        {"F8_E4M3", 1, {}},       {"F8_E5M2", 1, {}}};

[[noreturn]] void broken(const std::string& tensor, const std::string& expected, const std::string& found) {
  throw DataError("checkpoint", fmt::format("header: {}: expected {}, found {}", tensor, expected, found));
}

Size size_of(const Header& value, const std::string& tensor, Size most) {
  if (!value.is_number_unsigned() || value.get<std::uint64_t>() > static_cast<std::uint64_t>(most)) {
    broken(tensor, fmt::format("an integer of 0 to {}", most),
           value.is_structured() ? value.type_name() : value.dump());
  }
  return value.get<Size>();
}

// The JSON of a header. `twice` receives a name that an object has twice, of which JSON keeps one.
Header parse_header(const std::string& text, std::optional<std::string>& twice) {
  if (io::json_depth(text) > io::kMaxJsonDepth) return {};
  std::set<std::string> tensors, fields;  // fields: of one tensor
  const auto note = [&](int depth, Header::parse_event_t event, const Header& parsed) {
    if (event == Header::parse_event_t::object_start && depth == 1) fields.clear();
    if (event == Header::parse_event_t::key && depth <= 2) {
      const auto [name, is_new] = (depth == 1 ? tensors : fields).insert(parsed.get<std::string>());
      if (!is_new) twice = *name;
    }
    return true;
  };
  return Header::parse(text, note, false);
}

// The bytes of all tensors together, as far as the header says.
Size payload_of(const Header& header) {
  Size bytes = 0;
  for (const auto& [name, value] : header.items()) {
    const auto offsets = value.is_object() ? value.find("data_offsets") : value.end();
    if (!value.is_object() || offsets == value.end() || !offsets->is_array() || offsets->size() != 2) continue;
    const Header& end = offsets->at(1);
    if (end.is_number_unsigned())
      bytes = std::max(bytes, static_cast<Size>(std::min(end.get<std::uint64_t>(), kMostPayload)));
  }
  return bytes;
}

// The payload begins at byte `begin` of the file and has `bytes` bytes.
SafetensorsEntry entry_of(const std::string& name, const Header& json, Size begin, Size bytes) {
  const auto field = [&](const char* key) -> const Header& {
    const auto found = json.is_object() ? json.find(key) : json.end();
    if (!json.is_object() || found == json.end()) broken(name, fmt::format("a field {}", key), "none");
    return *found;
  };
  SafetensorsEntry entry;
  entry.name = name;
  const Header &dtype = field("dtype"), &shape = field("shape"), &offsets = field("data_offsets");
  entry.dtype_name = dtype.is_string() ? dtype.get<std::string>() : dtype.type_name();
  const auto* const type = std::ranges::find_if(kTypes, [&](const Type& t) { return t.name == entry.dtype_name; });
  if (type == std::end(kTypes)) broken(name, "a known dtype", entry.dtype_name);
  entry.dtype = type->dtype;
  if (!shape.is_array() || !offsets.is_array() || offsets.size() != 2)
    broken(name, "arrays shape and data_offsets", "others");
  const Size first = size_of(offsets[0], name, bytes), last = size_of(offsets[1], name, bytes);
  if (first > last) broken(name, "data_offsets in order", fmt::format("{} and {}", first, last));
  entry.offset = begin + first, entry.bytes = last - first;
  std::vector<Size> sizes;
  Size elements = 1;
  for (const Header& size : shape) {
    sizes.push_back(size_of(size, name, bytes));
    // Zero sizes count as one, so that the product of the others stays bounded.
    if (elements > bytes / std::max<Size>(1, sizes.back())) broken(name, "a shape within the file", shape.dump());
    elements *= std::max<Size>(1, sizes.back());
  }
  if (std::ranges::count(sizes, 0) > 0) elements = 0;
  if (elements * type->bytes != entry.bytes) {
    broken(name, fmt::format("{} bytes for shape {} of {}", elements * type->bytes, shape.dump(), entry.dtype_name),
           fmt::format("{} bytes", entry.bytes));
  }
  if (sizes.size() <= static_cast<std::size_t>(Shape::kMaxDims)) {
    entry.shape = Shape(std::span<const Size>(sizes));
  } else {
    constexpr std::size_t kMostText = 80;
    entry.long_shape = shape.dump();
    if (entry.long_shape.size() > kMostText) entry.long_shape = entry.long_shape.substr(0, kMostText) + "...";
  }
  return entry;
}

void require_texts(const Header& metadata) {
  const bool is_map =
      metadata.is_object() && std::ranges::all_of(metadata, [](const Header& v) { return v.is_string(); });
  if (is_map) return;
  broken(kMetadata, "an object of texts", metadata.is_object() ? "an object with others" : metadata.type_name());
}

// Each byte of the payload belongs to one tensor.
void require_whole(const std::vector<SafetensorsEntry>& tensors, Size begin) {
  std::vector<const SafetensorsEntry*> by_offset;
  for (const SafetensorsEntry& tensor : tensors) by_offset.push_back(&tensor);
  std::ranges::sort(by_offset, {}, [](const SafetensorsEntry* t) { return std::pair(t->offset, t->bytes); });
  Size end = 0;
  for (const SafetensorsEntry* const tensor : by_offset) {
    const Size first = tensor->offset - begin;
    if (first != end) {
      broken(tensor->name, fmt::format("data_offsets from {} on, where the tensor before it ends", end),
             fmt::format("{} and {}", first, first + tensor->bytes));
    }
    end += tensor->bytes;
  }
}

}  // namespace

SafetensorsReader::SafetensorsReader(const std::filesystem::path& file)
    : name_(file.filename().string()), file_(open_regular(file)) {
  const Size size = file_.bytes(), prefix = 8;
  const auto refuse_size = [&](const std::string& expected) {
    throw DataError("checkpoint", fmt::format("{}: expected {}, found {} bytes", name_, expected, size), kIncomplete);
  };
  std::uint64_t length = 0;
  if (size < prefix) refuse_size(fmt::format("at least {} bytes", prefix));
  file_.read_at(&length, prefix, 0);
  if (length > static_cast<std::uint64_t>(kMostHeaderBytes)) {
    throw DataError(
        "checkpoint",
        fmt::format("{}: expected a header of at most {} bytes, found one of {}", name_, kMostHeaderBytes, length),
        kIncomplete);
  }
  if (static_cast<Size>(length) > size - prefix) {
    refuse_size(fmt::format("a header of {} bytes from byte {} on", length, prefix));
  }
  std::string text(static_cast<std::size_t>(length), ' ');
  file_.read_at(text.data(), static_cast<Size>(length), prefix);
  const Size begin = prefix + static_cast<Size>(length);
  std::optional<std::string> twice;
  const Header header = parse_header(text, twice);
  const Size whole = begin + (header.is_object() ? payload_of(header) : 0);
  const auto as_header_says = [&] { return fmt::format("{} bytes, as its header says", whole); };
  if (whole > size) refuse_size(as_header_says());
  in_file(name_, [&] {
    if (!header.is_object()) broken("text", "a JSON object", io::json_problem(text));
    if (twice) broken(*twice, "each name once", "it twice");
    for (const auto& [name, value] : header.items()) {
      if (name == kMetadata) {
        require_texts(value);
        continue;
      }
      index_.emplace(name, tensors_.size());
      tensors_.push_back(entry_of(name, value, begin, size - begin));
    }
    require_whole(tensors_, begin);
    if (whole < size) {
      throw DataError("checkpoint", fmt::format("expected {}, found {} bytes", as_header_says(), size));
    }
  });
}

const SafetensorsEntry* SafetensorsReader::find(const std::string& name) const {
  const auto found = index_.find(name);
  return found == index_.end() ? nullptr : &tensors_[found->second];
}

void SafetensorsReader::read(const SafetensorsEntry& tensor, Size begin, Size count, DType dtype, void* out) const {
  const DType stored = tensor.dtype.value();
  const Size size = dtype_bytes(stored);
  if (begin < 0 || count < 0 || (begin + count) * size > tensor.bytes) {
    throw InternalError("checkpoint",
                        fmt::format("{}: {}: no elements [{}, {})", name_, tensor.name, begin, begin + count));
  }
  const Size at = tensor.offset + begin * size;
  if (stored == dtype) return file_.read_at(out, count * size, at);
  std::vector<std::byte> raw(static_cast<std::size_t>(count * size));
  file_.read_at(raw.data(), count * size, at);
  kernels::convert(CpuStream{}, dtype, out, stored, raw.data(), count, false);
}

SafetensorsWriter::SafetensorsWriter(const std::filesystem::path& file, const std::vector<ParameterInfo>& tensors,
                                     DType dtype)
    : file_(create_file(file)), tensors_(tensors), dtype_(dtype) {
  const char* const name_of_dtype = std::ranges::find(kTypes, std::optional(dtype), &Type::dtype)->name;
  nlohmann::ordered_json header;
  header["__metadata__"] = {{"format", "pt"}};
  Size offset = 0;
  for (const auto& [name, shape] : tensors_) {
    const Size end = offset + shape.elements() * dtype_bytes(dtype);
    header[name] = {{"dtype", name_of_dtype},
                    {"shape", std::vector<Size>(shape.begin(), shape.end())},
                    {"data_offsets", {offset, end}}};
    offset = end;
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  const std::uint64_t length = text.size();
  file_.write(&length, sizeof length);
  file_.write(text.data(), text.size());
}

void SafetensorsWriter::write(std::span<const float> values) {
  if (next_ == tensors_.size() || static_cast<Size>(values.size()) != tensors_[next_].shape.elements()) {
    throw InternalError("checkpoint", fmt::format("safetensors: tensor {} has {} values", next_, values.size()));
  }
  if (dtype_ == DType::f32) {
    file_.write(values.data(), values.size_bytes());
  } else {
    std::vector<std::byte> rounded(values.size() * static_cast<std::size_t>(dtype_bytes(dtype_)));
    kernels::convert(CpuStream{}, dtype_, rounded.data(), DType::f32, values.data(), static_cast<Size>(values.size()),
                     false);
    file_.write(rounded.data(), rounded.size());
  }
  ++next_;
}

void SafetensorsWriter::finish() {
  if (next_ != tensors_.size()) {
    throw InternalError("checkpoint", fmt::format("safetensors: {} of {} tensors written", next_, tensors_.size()));
  }
  file_.sync();
  file_.close();
}

}  // namespace lt::checkpoint
