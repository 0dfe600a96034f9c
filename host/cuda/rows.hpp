// DeviceRowKernels implemented with the kernels of cuda/kernels.
#pragma once

#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>

#include "cuda/kernels/rows.hpp"
#include "model/torch/kernels/device_rows.hpp"
#include "model/torch/kernels/tensors.hpp"

namespace wmtp {

class CudaRows final : public kernels::DeviceRowKernels {
  using Tensor = at::Tensor;

 public:
  bool takes_norm(const Tensor& x) override {
    return cuda::supports_norm(kernel_type(x), x.size(-1)) && reinterpret_cast<uintptr_t>(x.const_data_ptr()) % 16 == 0;
  }
  void rms_norm(const Tensor& x, const Tensor& weight, double eps, Tensor& y, Tensor& scale) override {
    run(cuda::rms_norm, x, kernels::in<void>(x), kernels::in<void>(weight), float(eps), kernels::out<void>(y),
        floats(scale), rows_of(x), x.size(-1));
  }
  Tensor rms_norm_backward(const Tensor& dy, const Tensor& x, const Tensor& weight, const Tensor& scale, Tensor& dx,
                           bool wants_dw) override {
    const int64_t rows = rows_of(x), width = x.size(-1);
    Tensor parts;
    if (wants_dw) parts = at::empty({cuda::norm_parts(rows), width}, x.options().dtype(at::kFloat));
    run(cuda::rms_norm_backward, x, kernels::in<void>(dy), kernels::in<void>(x), kernels::in<void>(weight),
        kernels::in<float>(scale), kernels::out<void>(dx), floats(parts), rows, width);
    return wants_dw ? parts.sum(0) : Tensor();
  }
  void swiglu(const Tensor& gate, const Tensor& up, Tensor& y) override {
    run(cuda::swiglu, gate, kernels::in<void>(gate), kernels::in<void>(up), kernels::out<void>(y), gate.numel());
  }
  void swiglu_backward(const Tensor& dy, const Tensor& gate, const Tensor& up, Tensor& d_gate, Tensor& d_up) override {
    run(cuda::swiglu_backward, gate, kernels::in<void>(dy), kernels::in<void>(gate), kernels::in<void>(up),
        kernels::out<void>(d_gate), kernels::out<void>(d_up), gate.numel());
  }
  void rotate(const Tensor& x, const Tensor& table, float direction, Tensor& y) override {
    run(cuda::rotate, x, kernels::in<void>(x), kernels::in<float>(table), direction, kernels::out<void>(y),
        x.size(0) * x.size(1), x.size(2), x.size(3), x.size(1));
  }
  void cross_entropy(const Tensor& logits, const Tensor& targets, Tensor& loss, Tensor& log_sum, Tensor& entropy,
                     Tensor& hit) override {
    run(cuda::cross_entropy, logits, kernels::in<void>(logits), kernels::in<int64_t>(targets), floats(loss),
        floats(log_sum), floats(entropy), floats(hit), rows_of(logits), logits.size(-1));
  }
  void cross_entropy_backward(Tensor& logits, const Tensor& targets, const Tensor& log_sum,
                              const Tensor& coefficients) override {
    run(cuda::cross_entropy_backward, logits, kernels::out<void>(logits), kernels::in<int64_t>(targets),
        kernels::in<float>(log_sum), kernels::in<float>(coefficients), rows_of(logits), logits.size(-1));
  }
  void sum_of_parts(const Tensor& parts, Tensor& sum) override {
    run(cuda::sum_of_parts, parts, kernels::in<void>(parts), int(parts.size(0)), floats(sum), sum.numel());
  }
  void dropout_factors(uint64_t layer, int64_t step, const Tensor& sequence, int64_t before, int64_t threshold,
                       double kept, Tensor& factors) override {
    run(cuda::dropout_factors, factors, layer, uint64_t(step), kernels::in<int64_t>(sequence), factors.size(0), before,
        factors.numel() / factors.size(0), threshold, float(kept), kernels::out<void>(factors));
  }

 private:
  static cuda::Type kernel_type(const Tensor& x) {
    return x.scalar_type() == at::kFloat      ? cuda::Type::fp32
           : x.scalar_type() == at::kBFloat16 ? cuda::Type::bf16
                                              : cuda::Type::fp16;
  }
  /// For values of the type of `x`.
  template <class... Wanted, class... Given>
  static void run(void (*launch)(cuda::Launch, Wanted...), const Tensor& x, const Given&... arguments) {
    launch({kernel_type(x), c10::cuda::getCurrentCUDAStream().stream()}, arguments...);
    C10_CUDA_CHECK(cudaGetLastError());
  }
  static float* floats(const Tensor& x) { return x.defined() ? kernels::out<float>(x) : nullptr; }
  static int64_t rows_of(const Tensor& x) { return x.numel() / x.size(-1); }
};

}  // namespace wmtp
