// The list of fields of a transformer's description. Configuration, JSON, reports and the export iterate over it. To
// add a field, add a member to TransformerSpec and a row to the list.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "libtrain/dtype.h"
#include "libtrain/nn/transformer_spec.h"

namespace lt::nn {

// One field. `low` and `high` bound its value if it is set.
struct SpecField {
  std::string_view name;
  std::variant<std::string TransformerSpec::*, Size TransformerSpec::*, float TransformerSpec::*,
               double TransformerSpec::*, std::optional<bool> TransformerSpec::*, Lora TransformerSpec::*>
      member;
  double low, high;
  std::string_view help;
  // True: a checkpoint's JSON omits the field at its default, and older JSON may lack it. Must be true for new fields.
  bool optional = false;
  bool shapes_model = true;  // false: models that differ only in such fields have the same preset
};
const std::vector<SpecField>& spec_fields();

bool is_set(const TransformerSpec& spec, const SpecField& field);
bool is_equal(const TransformerSpec& a, const TransformerSpec& b, const SpecField& field);
void copy_field(TransformerSpec& to, const TransformerSpec& from, const SpecField& field);
// True if the field of a complete description has the value that with_defaults() would fill in.
bool is_default(const TransformerSpec& spec, const SpecField& field);

}  // namespace lt::nn
