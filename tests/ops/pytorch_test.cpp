// Compares the general operations in bf16 and f16 with PyTorch's results (pytorch.json, written by pytorch.py).
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "ops/gradient_check.h"
#include "test_main/worst_of.h"

using namespace lt;
using namespace lt_test;

namespace {

using Json = nlohmann::json;
using Inputs = std::vector<Tensor>;

const Tensor kIndex = Tensor::from(std::vector<std::int32_t>{2, 0, 2, 1, 1, 0}, {2, 3});
const Tensor kCondition = Tensor::from(std::vector<std::int32_t>{1, 0, 1, 0, 0, 1}, {2, 3});

const std::map<std::string, std::function<Tensor(const Inputs&)>> kOperations = {
    {"add", [](const Inputs& x) { return ops::add(x[0], x[1]); }},
    {"sub", [](const Inputs& x) { return x[0] - x[1]; }},
    {"mul", [](const Inputs& x) { return ops::mul(x[0], x[1]); }},
    {"x + 0.7", [](const Inputs& x) { return x[0] + 0.7; }},
    {"0.7 - x", [](const Inputs& x) { return 0.7 - x[0]; }},
    {"x / 0.7", [](const Inputs& x) { return x[0] / 0.7; }},
    {"0.7 / x", [](const Inputs& x) { return 0.7 / x[0]; }},
    {"pow 2.5", [](const Inputs& x) { return ops::pow(x[0], 2.5); }},
    {"pow 2", [](const Inputs& x) { return ops::pow(x[0], 2); }},
    {"stack",
     [](const Inputs& x) {
       return ops::stack({x[0], x[1]}, 1);
     }},
    {"div", [](const Inputs& x) { return ops::div(x[0], x[1]); }},
    {"maximum", [](const Inputs& x) { return ops::maximum(x[0], x[1]); }},
    {"where", [](const Inputs& x) { return ops::where(kCondition, x[0], x[1]); }},
    {"exp", [](const Inputs& x) { return ops::exp(x[0]); }},
    {"log", [](const Inputs& x) { return ops::log(x[0]); }},
    {"sqrt", [](const Inputs& x) { return ops::sqrt(x[0]); }},
    {"tanh", [](const Inputs& x) { return ops::tanh(x[0]); }},
    {"relu", [](const Inputs& x) { return ops::relu(x[0]); }},
    {"sigmoid", [](const Inputs& x) { return ops::sigmoid(x[0]); }},
    {"sum", [](const Inputs& x) { return ops::sum(x[0], 1); }},
    {"mean", [](const Inputs& x) { return ops::mean(x[0], 1); }},
    {"cumulative_sum", [](const Inputs& x) { return ops::cumulative_sum(x[0], 1); }},
    {"gather", [](const Inputs& x) { return ops::gather(x[0], 1, kIndex); }},
    {"concat",
     [](const Inputs& x) {
       return ops::concat({x[0], x[1]}, 1);
     }},
    {"matmul", [](const Inputs& x) { return ops::matmul(x[0], x[1]); }},
};

// All numbers are exact in `dtype`.
Tensor tensor_of(const Json& values, const Json& shape, DType dtype) {
  const auto sizes = shape.get<std::vector<Size>>();
  const Tensor exact = Tensor::from(values.get<std::vector<float>>(), Shape(std::span<const Size>(sizes)));
  const Tensor rounded = Tensor::empty(exact.shape(), dtype);
  copy(rounded, exact);
  return rounded;
}

// Both sides round once, or after each of a few steps of a gradient: to 8 bits or to 11.
void check_close(const Tensor& found, const Json& expected, DType dtype) {
  const double tolerance = dtype == DType::bf16 ? 0x1p-7 : 0x1p-10;
  const auto x = found.to_vector<double>(), y = expected.get<std::vector<double>>();
  REQUIRE(x.size() == y.size());
  double worst = 0;
  for (std::size_t i = 0; i < x.size(); ++i) worst = worst_of(worst, std::abs(x[i] - y[i]) / (0.25 + std::abs(y[i])));
  CHECK(worst <= tolerance);
}

}  // namespace

TEST_CASE("general operations in bf16 and f16 agree with PyTorch", "[ops]") {
  std::ifstream file(LT_OPS_TESTS "/pytorch.json");
  const Json cases = Json::parse(file);
  CHECK(cases.size() == 2 * kOperations.size());
  for (const Json& item : cases) {
    INFO(item.at("op").get<std::string>() << " " << item.at("dtype").get<std::string>());
    const DType dtype = item.at("dtype") == "bf16" ? DType::bf16 : DType::f16;
    Inputs inputs;
    for (const Json& input : item.at("inputs")) {
      inputs.push_back(tensor_of(input.at("values"), input.at("shape"), dtype));
      inputs.back().set_requires_grad();
    }
    Tape tape;
    const TapeScope recording(&tape);
    const Tensor y = kOperations.at(item.at("op").get<std::string>())(inputs);
    const Tensor dy = tensor_of(item.at("output_gradient"), item.at("output").at("shape"), dtype);
    check_close(y, item.at("output").at("values"), dtype);
    backward(tape, ops::sum(ops::mul(y, dy)));
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      INFO("gradient of input " << i);
      check_close(inputs[i].gradient(), item.at("inputs")[i].at("gradient"), dtype);
    }
  }
}
