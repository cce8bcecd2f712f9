// The models that a program offers: user-defined rows, the built-in transformers, or both. They decide which keys
// [model] and [batches] have.
#pragma once

#include <concepts>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <string>
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

// A key of [model] or [batches]. Several rows may have a field of the same name if all its members are equal.
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
  // Makes this rank's training batches, of the values of `fields` and of `batch_fields`. Empty: training reads the
  // configured token files. Evaluation always reads the token files of data.val.
  std::function<std::unique_ptr<BatchSource>(const ModelValues&, const ModelValues&, const BatchShape&)> batches = {};
  std::vector<ModelField> batch_fields = {};  // keys of [batches], which a resumed run may change; only with `batches`
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

// The types of members that may be keys.
template <class T>
concept ModelMember =
    std::same_as<T, bool> || std::same_as<T, Size> || std::same_as<T, double> || std::same_as<T, std::string>;
template <class Base, class S>
concept BaseOf = std::derived_from<S, Base>;  // or S itself

// A field whose value goes to a member of S or of a base of S. The member's initial value in an S is the default of the
// key.
template <class S>
class MemberField {
 public:
  template <ModelMember T, BaseOf<S> Base>
  MemberField(std::string name, T Base::*member, std::string help,
              double low = -std::numeric_limits<double>::infinity(),
              double high = std::numeric_limits<double>::infinity())
      : field_{std::move(name), ModelValue(S().*member), std::move(help), low, high},
        fill_([member](S& made, const ModelValue& value) { made.*member = std::get<T>(value); }) {}
  template <BaseOf<S> Base>
  MemberField(std::string name, std::string Base::*member, std::string help, std::vector<std::string> choices)
      : MemberField(std::move(name), member, std::move(help)) {
    field_.choices = std::move(choices);
  }

  static std::vector<ModelField> keys_of(const std::vector<MemberField>& members) {
    std::vector<ModelField> keys;
    for (const MemberField& member : members) keys.push_back(member.field_);
    return keys;
  }
  static S filled(const std::vector<MemberField>& members, const ModelValues& values) {
    S made;
    for (const MemberField& member : members) member.fill_(made, values.at(member.field_.name));
    return made;
  }

 private:
  ModelField field_;
  std::function<void(S&, const ModelValue&)> fill_;
};

// Makes a row that passes its values to `make` and `batches` as an S.
template <class S>
ModelRow model_row(std::string name, const std::vector<MemberField<S>>& fields,
                   std::function<std::unique_ptr<nn::Model>(const S&)> make,
                   std::function<std::unique_ptr<BatchSource>(const S&, const BatchShape&)> batches = {}) {
  ModelRow row{std::move(name), MemberField<S>::keys_of(fields),
               [=](const ModelValues& values) { return make(MemberField<S>::filled(fields, values)); }};
  if (batches) {
    row.batches = [=](const ModelValues& values, const ModelValues&, const BatchShape& shape) {
      return batches(MemberField<S>::filled(fields, values), shape);
    };
  }
  return row;
}

// Like model_row() above, with keys of [batches], whose values go to `batches` as a D.
template <class S, class D>
ModelRow model_row(std::string name, const std::vector<MemberField<S>>& fields,
                   std::function<std::unique_ptr<nn::Model>(const S&)> make,
                   const std::vector<MemberField<D>>& batch_fields,
                   std::function<std::unique_ptr<BatchSource>(const S&, const D&, const BatchShape&)> batches) {
  ModelRow row = model_row<S>(std::move(name), fields, std::move(make));
  row.batch_fields = MemberField<D>::keys_of(batch_fields);
  row.batches = [=](const ModelValues& values, const ModelValues& data, const BatchShape& shape) {
    return batches(MemberField<S>::filled(fields, values), MemberField<D>::filled(batch_fields, data), shape);
  };
  return row;
}

}  // namespace lt
