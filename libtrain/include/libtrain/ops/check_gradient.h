// Checks the gradients of an operation against central differences.
#pragma once

#include <functional>
#include <vector>

#include "libtrain/api.h"
#include "libtrain/tensor/tensor.h"

namespace LT_API lt {

// `operation` has one result of any shape. Differentiates the sum of r * operation(inputs), where r has fixed random
// elements, by every element of every floating input: once by backward(), once by central differences of step 1e-5.
// Both run in f64 on the CPU. Returns the largest difference between the two, divided by the largest derivative by the
// same input (or by 1e-3, if that is larger). `inputs` are on the CPU; floating ones may have any dtype, and
// `operation` receives them in f64. Throws UsageError, which names input, element and both derivatives, for a
// difference above `tolerance`, and if a floating input has no gradient.
double check_gradient(const std::function<Tensor(const std::vector<Tensor>& inputs)>& operation,
                      const std::vector<Tensor>& inputs, double tolerance = 1e-6);

}  // namespace lt
