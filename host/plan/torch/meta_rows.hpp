// The row kernels of a CUDA device for meta tensors: they allocate what those of host/cuda do.
#pragma once

#include "cuda/kernels/rows.hpp"
#include "model/torch/kernels/device_rows.hpp"

namespace wmtp {

class MetaRows final : public kernels::DeviceRowKernels {
  using Tensor = at::Tensor;

 public:
  bool takes_norm(const Tensor&) override { return true; }
  void rms_norm(const Tensor&, const Tensor&, double, Tensor&, Tensor&) override {}
  Tensor rms_norm_backward(const Tensor&, const Tensor& x, const Tensor&, const Tensor&, Tensor&,
                           bool wants_dw) override {
    if (!wants_dw) return {};
    const int64_t width = x.size(-1);
    return at::empty({cuda::norm_parts(x.numel() / width), width}, x.options().dtype(at::kFloat)).sum(0);
  }
  void swiglu(const Tensor&, const Tensor&, Tensor&) override {}
  void swiglu_backward(const Tensor&, const Tensor&, const Tensor&, Tensor&, Tensor&) override {}
  void rotate(const Tensor&, const Tensor&, float, Tensor&) override {}
  void cross_entropy(const Tensor&, const Tensor&, Tensor&, Tensor&, Tensor&, Tensor&) override {}
  void cross_entropy_backward(Tensor&, const Tensor&, const Tensor&, const Tensor&) override {}
  void sum_of_parts(const Tensor&, Tensor&) override {}
  void dropout_factors(uint64_t, int64_t, const Tensor&, int64_t, int64_t, double, Tensor&) override {}
};

}  // namespace wmtp
