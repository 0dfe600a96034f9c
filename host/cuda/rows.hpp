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
    cuda::rms_norm(launch(x), kernels::in<void>(x), kernels::in<void>(weight), float(eps), kernels::out<void>(y),
                   floats(scale), rows_of(x), x.size(-1));
    C10_CUDA_CHECK(cudaGetLastError());
  }
  Tensor rms_norm_backward(const Tensor& dy, const Tensor& x, const Tensor& weight, const Tensor& scale, Tensor& dx,
                           bool wants_dw) override {
    const int64_t rows = rows_of(x), width = x.size(-1);
    Tensor parts;
    if (wants_dw) parts = at::empty({cuda::norm_parts(rows), width}, x.options().dtype(at::kFloat));
    cuda::rms_norm_backward(launch(x), kernels::in<void>(dy), kernels::in<void>(x), kernels::in<void>(weight),
                            kernels::in<float>(scale), kernels::out<void>(dx), floats(parts), rows, width);
    C10_CUDA_CHECK(cudaGetLastError());
    return wants_dw ? parts.sum(0) : Tensor();
  }
  void swiglu(const Tensor& gate, const Tensor& up, Tensor& y) override {
    cuda::swiglu(launch(gate), kernels::in<void>(gate), kernels::in<void>(up), kernels::out<void>(y), gate.numel());
    C10_CUDA_CHECK(cudaGetLastError());
  }
  void swiglu_backward(const Tensor& dy, const Tensor& gate, const Tensor& up, Tensor& d_gate, Tensor& d_up) override {
    cuda::swiglu_backward(launch(gate), kernels::in<void>(dy), kernels::in<void>(gate), kernels::in<void>(up),
                          kernels::out<void>(d_gate), kernels::out<void>(d_up), gate.numel());
    C10_CUDA_CHECK(cudaGetLastError());
  }
  void rotate(const Tensor& x, const Tensor& table, float direction, Tensor& y) override {
    cuda::rotate(launch(x), kernels::in<void>(x), kernels::in<float>(table), direction, kernels::out<void>(y),
                 x.size(0) * x.size(1), x.size(2), x.size(3), x.size(1));
    C10_CUDA_CHECK(cudaGetLastError());
  }
  void cross_entropy(const Tensor& logits, const Tensor& targets, Tensor& loss, Tensor& log_sum, Tensor& entropy,
                     Tensor& hit) override {
    cuda::cross_entropy(launch(logits), kernels::in<void>(logits), kernels::in<int64_t>(targets), floats(loss),
                        floats(log_sum), floats(entropy), floats(hit), rows_of(logits), logits.size(-1));
    C10_CUDA_CHECK(cudaGetLastError());
  }
  void cross_entropy_backward(Tensor& logits, const Tensor& targets, const Tensor& log_sum,
                              const Tensor& coefficients) override {
    cuda::cross_entropy_backward(launch(logits), kernels::out<void>(logits), kernels::in<int64_t>(targets),
                                 kernels::in<float>(log_sum), kernels::in<float>(coefficients), rows_of(logits),
                                 logits.size(-1));
    C10_CUDA_CHECK(cudaGetLastError());
  }
  void sum_of_parts(const Tensor& parts, Tensor& sum) override {
    cuda::sum_of_parts(launch(parts), kernels::in<void>(parts), int(parts.size(0)), floats(sum), sum.numel());
    C10_CUDA_CHECK(cudaGetLastError());
  }
  void dropout_factors(uint64_t layer, int64_t step, const Tensor& sequence, int64_t before, int64_t threshold,
                       double kept, Tensor& factors) override {
    cuda::dropout_factors(launch(factors), layer, uint64_t(step), kernels::in<int64_t>(sequence), factors.size(0),
                          before, factors.numel() / factors.size(0), threshold, float(kept),
                          kernels::out<void>(factors));
    C10_CUDA_CHECK(cudaGetLastError());
  }

 private:
  static cuda::Type kernel_type(const Tensor& x) {
    return x.scalar_type() == at::kFloat      ? cuda::Type::fp32
           : x.scalar_type() == at::kBFloat16 ? cuda::Type::bf16
                                              : cuda::Type::fp16;
  }
  static cuda::Launch launch(const Tensor& x) { return {kernel_type(x), c10::cuda::getCurrentCUDAStream().stream()}; }
  static float* floats(const Tensor& x) { return x.defined() ? kernels::out<float>(x) : nullptr; }
  static int64_t rows_of(const Tensor& x) { return x.numel() / x.size(-1); }
};

}  // namespace wmtp
