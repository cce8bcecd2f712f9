// The models that a program offers: user-defined rows, the built-in transformers, or both. They decide which keys
// [model] has.
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
using ModelValues = std::map<std::string, ModelValue>;  // by field name

// A key of [model]. Several rows may have a field of the same name if all its members are equal.
struct ModelField {
  std::string name = {};     // lower-case letters, digits and _
  ModelValue fallback = {};  // default; its type is the type of the key
  std::string help = {};
  // Inclusive bounds of a number. A Size must also lie in [0, 2^31 - 1].
  double low = -std::numeric_limits<double>::infinity(), high = std::numeric_limits<double>::infinity();
  std::vector<std::string> choices = {};  // allowed values of a text; empty: any text

  bool operator==(const ModelField&) const = default;
};

// A user-defined model. If `make` or `batches` returns null or throws an exception other than lt::Error, the caller
// gets a UsageError.
struct ModelRow {
  std::string name = {};  // the value of model.family that selects it; lower-case letters, digits and _
  std::vector<ModelField> fields = {};
  std::function<std::unique_ptr<nn::Model>(const ModelValues&)> make = {};
  // Makes this rank's training batches. Empty: training reads the configured token files. Evaluation always reads the
  // token files of data.val.
  std::function<std::unique_ptr<BatchSource>(const ModelValues&, const BatchShape&)> batches = {};
};

struct ModelTable {
  std::vector<ModelRow> rows = {};  // without transformers, the first row is the default
  bool transformers = false;        // adds the built-in families and presets
  std::string program = "ltrain";   // name in hints such as `ltrain train --help`; cli() sets it
};
using Models = std::shared_ptr<const ModelTable>;

// Returns the table of `ltrain`: the built-in families without rows.
inline const Models& transformer_models() {
  static const Models models = std::make_shared<const ModelTable>(ModelTable{.transformers = true});
  return models;
}

// A field whose value goes to a member of S: a bool, Size, double or std::string. The member's initial value is the
// default of the key.
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

// Makes a row that passes its values to `make` and `batches` as an S.
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
