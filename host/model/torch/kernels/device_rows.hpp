// Row kernels of a CUDA device on tensors, implemented by libwmtp_cuda (host/cuda), which the engine does not link.
// They run on the current stream. Tensors are contiguous; those of the computation have one dtype: fp32, bf16 or fp16.
#pragma once

#include <ATen/ATen.h>

namespace wmtp::kernels {

class DeviceRowKernels {
 public:
  virtual ~DeviceRowKernels() = default;
  /// Whether the norm kernels support x's row width and alignment.
  virtual bool takes_norm(const at::Tensor& x) = 0;
  /// y has x's shape and dtype; scale [rows] is fp32.
  virtual void rms_norm(const at::Tensor& x, const at::Tensor& weight, double eps, at::Tensor& y,
                        at::Tensor& scale) = 0;
  /// Returns dw [width] fp32, or an undefined tensor unless `wants_dw`.
  virtual at::Tensor rms_norm_backward(const at::Tensor& dy, const at::Tensor& x, const at::Tensor& weight,
                                       const at::Tensor& scale, at::Tensor& dx, bool wants_dw) = 0;
  virtual void swiglu(const at::Tensor& gate, const at::Tensor& up, at::Tensor& y) = 0;
  virtual void swiglu_backward(const at::Tensor& dy, const at::Tensor& gate, const at::Tensor& up, at::Tensor& d_gate,
                               at::Tensor& d_up) = 0;
  /// x [B,S,heads,width]; table [S,width/2] complex64.
  virtual void rotate(const at::Tensor& x, const at::Tensor& table, float direction, at::Tensor& y) = 0;
  /// logits [n,V], targets [n] int64, the others [n] fp32; entropy and hit may be undefined.
  virtual void cross_entropy(const at::Tensor& logits, const at::Tensor& targets, at::Tensor& loss, at::Tensor& log_sum,
                             at::Tensor& entropy, at::Tensor& hit) = 0;
  virtual void cross_entropy_backward(at::Tensor& logits, const at::Tensor& targets, const at::Tensor& log_sum,
                                      const at::Tensor& coefficients) = 0;
  /// parts [n, sum.numel()], summed in their order to `sum` (fp32).
  virtual void sum_of_parts(const at::Tensor& parts, at::Tensor& sum) = 0;
  /// factors [B, ...]: 0 where an element's 32 random bits are below the threshold, else `kept`. `before`: elements of
  /// a whole sequence before these. The other arguments are those of DropoutKey (model/torch/dropout.hpp).
  virtual void dropout_factors(uint64_t layer, int64_t step, const at::Tensor& sequence, int64_t before,
                               int64_t threshold, double kept, at::Tensor& factors) = 0;
};

/// Called by libwmtp_cuda while it is loaded.
void set_device_rows(DeviceRowKernels* rows);
/// Null if these kernels do not support the tensor.
DeviceRowKernels* device_rows(const at::Tensor& x);

}  // namespace wmtp::kernels
