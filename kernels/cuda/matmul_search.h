// A search of the algorithms of one device's matmuls, which sees their calls.
#pragma once

#include <cublasLt.h>

#include <functional>
#include <map>
#include <set>
#include <utility>

#include "kernels/cuda/cublas_matmuls.h"
#include "kernels/matmul_search.h"

namespace lt::kernels {

class MatmulSearch {
 public:
  using Launch = std::function<cublasStatus_t(const Algorithm&)>;
  using Run = std::function<void()>;

  MatmulSearch(Cublas& cublas, std::function<void(const SearchedMatmul&)> report)
      : cublas_(cublas), report_(std::move(report)) {}

  // Returns the device's table with the found algorithms.
  AlgorithmTable search(const Run& compute);

  // For Cublas: a call that can be repeated. Makes the algorithm that is fastest when sustained the matmul's choice, if
  // it is faster by 1 % than the present one.
  void see(Prepared& p, const Launch& launch);
  // For Cublas: a call whose epilogue can run as separate passes. Runs it.
  void see(Prepared& p, const Run& fused, const Run& passes);

 private:
  Cublas& cublas_;
  std::function<void(const SearchedMatmul&)> report_;
  bool counts_ = true;  // the matmuls; later it searches them
  std::set<Prepared*> counted_;
  std::map<Prepared*, Choice> present_;  // of the searched ones
};

}  // namespace lt::kernels
