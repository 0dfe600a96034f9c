// The row kernels on tensors: the supported tensors, and dispatch by dtype.
#pragma once

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include "memory/meta_device.hpp"
#include "model/torch/kernels/rows.hpp"

#ifndef INTRA_OP_PARALLEL
#error "compiled without OpenMP, at::parallel_for gives all rows to one thread"
#endif

namespace wmtp::kernels {

/// fp32 or bf16 on the CPU; everything else uses ATen.
inline bool takes(const at::Tensor& x) {
  return on_cpu(x) && (x.scalar_type() == at::kFloat || x.scalar_type() == at::kBFloat16);
}

/// Kernels read and write elements one after another, without strides: every pointer that one is given is from in or
/// out.
inline void check_contiguous(const at::Tensor& x) {
  TORCH_CHECK(x.is_contiguous(), "a kernel needs a contiguous tensor, found sizes ", x.sizes(), " with strides ",
              x.strides());
}
template <class T>
const T* in(const at::Tensor& x) {
  check_contiguous(x);
  return static_cast<const T*>(x.const_data_ptr());
}
template <class T>
T* out(const at::Tensor& x) {
  check_contiguous(x);
  return static_cast<T*>(x.mutable_data_ptr());
}

/// Calls call.template operator()<T>() with the element type T of `x`; not for a meta tensor, which has nothing to
/// compute.
template <class Call>
void by_type(const at::Tensor& x, Call call) {
  if (x.is_meta()) return;
  if (x.scalar_type() == at::kFloat)
    call.template operator()<float>();
  else
    call.template operator()<Bf16>();
}

}  // namespace wmtp::kernels
