// The models that a program offers: rows of its own, the built-in transformers, or both. The keys of [model] follow.
#pragma once

#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "libtrain/api.h"
#include "libtrain/data/batch_source.h"
#include "libtrain/dtype.h"
#include "libtrain/nn/module.h"

namespace LT_API lt {

using ModelValue = std::variant<bool, Size, double, std::string>;
using ModelValues = std::map<std::string, ModelValue>;  // by the names of fields

// A key of [model]. Rows may share it if all its members are equal.
struct ModelField {
  std::string name;
  ModelValue fallback;
  std::string help;
  // Bounds of a number, both included. A Size is also within 0 and 2^31 - 1.
  double low = -std::numeric_limits<double>::infinity(), high = std::numeric_limits<double>::infinity();
  std::vector<std::string> choices = {};  // the only values of a text; empty: any

  bool operator==(const ModelField&) const = default;
};

// A model of the program's own. An exception of `make` or `batches` that is no lt::Error becomes a UsageError.
struct ModelRow {
  std::string name;  // the value of model.family that chooses it
  std::vector<ModelField> fields;
  std::function<std::unique_ptr<nn::Model>(const ModelValues&)> make;
  // This rank's training batches; empty: those of data.train. Evaluation reads the token files of data.val in either
  // case.
  std::function<std::unique_ptr<BatchSource>(const ModelValues&, const BatchShape&)> batches = {};
};

struct ModelTable {
  std::vector<ModelRow> rows = {};  // without transformers, the first is the default
  bool transformers = false;        // the built-in families and presets too
  std::string program = "ltrain";   // whose help lists the keys, for hints; cli() sets it
};
using Models = std::shared_ptr<const ModelTable>;

// The built-in families alone, as in `ltrain`.
inline const Models& transformer_models() {
  static const Models models = std::make_shared<const ModelTable>(ModelTable{.transformers = true});
  return models;
}

// A field that is a member of S: a bool, Size, double or std::string. Its initial value is the key's default.
template <class S>
class MemberField {
 public:
  template <class T>
  requires std::is_same_v<T, bool> || std::is_same_v<T, Size> || std::is_same_v<T, double> ||
      std::is_same_v<T, std::string>
      MemberField(std::string name, T S::*member, std::string help,
                  double low = -std::numeric_limits<double>::infinity(),
                  double high = std::numeric_limits<double>::infinity())
      : field_{std::move(name), ModelValue(S().*member), std::move(help), low, high},
        fill_([member](S& made, const ModelValue& value) { made.*member = std::get<T>(value); }) {}
  MemberField(std::string name, std::string S::*member, std::string help, std::vector<std::string> choices)
      : MemberField(std::move(name), member, std::move(help)) {
    field_.choices = std::move(choices);
  }

  const ModelField& field() const { return field_; }
  void fill(S& made, const ModelValues& values) const { fill_(made, values.at(field_.name)); }

 private:
  ModelField field_;
  std::function<void(S&, const ModelValue&)> fill_;
};

// A row whose values fill an S.
template <class S>
ModelRow model_row(std::string name, const std::vector<MemberField<S>>& fields,
                   std::function<std::unique_ptr<nn::Model>(const S&)> make,
                   std::function<std::unique_ptr<BatchSource>(const S&, const BatchShape&)> batches = {}) {
  const auto filled = [fields](const ModelValues& values) {
    S made;
    for (const MemberField<S>& field : fields) field.fill(made, values);
    return made;
  };
  ModelRow row;
  row.name = std::move(name);
  for (const MemberField<S>& field : fields) row.fields.push_back(field.field());
  row.make = [=](const ModelValues& values) { return make(filled(values)); };
  if (batches) {
    row.batches = [=](const ModelValues& values, const BatchShape& shape) { return batches(filled(values), shape); };
  }
  return row;
}

}  // namespace lt
