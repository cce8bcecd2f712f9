// The fields of a transformer's description as a list. Configuration, JSON, reports and the export iterate over it: a
// new field is a member of TransformerSpec and a row.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "libtrain/dtype.h"
#include "libtrain/nn/transformer_spec.h"

namespace lt::nn {

// One field. `low` and `high` bound a value that is set.
struct SpecField {
  std::string_view name;
  std::variant<std::string TransformerSpec::*, Size TransformerSpec::*, float TransformerSpec::*,
               double TransformerSpec::*, std::optional<bool> TransformerSpec::*>
      member;
  double low, high;
  std::string_view help;
  // Left out of a checkpoint's JSON at its default, and may be missing there. Set it for every new field.
  bool optional = false;
  bool shapes_model = true;  // false: models that differ in it have the same preset
};
const std::vector<SpecField>& spec_fields();

bool is_set(const TransformerSpec& spec, const SpecField& field);
bool is_equal(const TransformerSpec& a, const TransformerSpec& b, const SpecField& field);
void copy_field(TransformerSpec& to, const TransformerSpec& from, const SpecField& field);
// Whether a complete description has what with_defaults() would fill in.
bool is_default(const TransformerSpec& spec, const SpecField& field);

}  // namespace lt::nn
