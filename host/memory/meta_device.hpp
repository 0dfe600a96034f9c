// The meta device: its tensors have a shape and no values. A step on them runs the code of a real step, allocates the
// same bytes and computes nothing, which is how `plan` knows a step. They stand for tensors of another device.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>

namespace wmtp {

/// From now on tensors of the meta device stand for tensors of `device`, and their bytes are counted in place of those
/// of the host. [once, before the first tensor]
void install_meta_device(c10::DeviceType device);

/// The type of the device that meta tensors stand for; kMeta if install_meta_device was not called.
c10::DeviceType meta_device_type();

/// Called with the floating-point operations of each product and attention on meta tensors.
void set_operation_counter(std::function<void(double operations)> count);
void count_operations(double operations);
/// Calls on_part(begin, n) for parts of at most `size` of `count` elements. Of a step without values only a few: the
/// others would allocate the same, and their operations are counted.
void for_each_part(int64_t count, int64_t size, bool is_meta,
                   const std::function<void(int64_t begin, int64_t n)>& on_part);

/// Bytes of meta tensors that stand for tensors outside the device: in host memory, on the CPU in a file.
struct OffloadedBytes {
  int64_t held = 0;
  int64_t to_device = 0, to_host = 0;               ///< copied
  int64_t in_file = 0, from_file = 0, to_file = 0;  ///< the optimizer's state: held, read and written
};
OffloadedBytes& offloaded_bytes();
/// Zeros in host memory for training on `device`, pinned for a CUDA device.
at::Tensor host_zeros(int64_t size, at::ScalarType dtype, const at::Device& device);
/// Copies of tensors made by host_zeros or of the device on the other side.
at::Tensor copied_to_device(const at::Tensor& host, const at::TensorOptions& options);
at::Tensor copied_to_host(const at::Tensor& values);

/// Whether the tensor is on the CPU, or stands for one that is.
inline bool on_cpu(const at::Tensor& x) { return x.is_cpu() || (x.is_meta() && meta_device_type() == at::kCPU); }
inline bool on_cuda(const at::Tensor& x) { return x.is_cuda() || (x.is_meta() && meta_device_type() == at::kCUDA); }
inline bool is_cuda(const at::Device& device) {
  return device.is_cuda() || (device.is_meta() && meta_device_type() == at::kCUDA);
}

}  // namespace wmtp
