// Replaces each of LibTorch's CUDA kernels by its CPU kernel on the shadow of the device's memory (memory.hpp), and
// reports its reads and writes (order.hpp). Loaded when the process first selects a device, because libtorch_cuda has
// registered its kernels by then.
//
// Not covered: rounding, atomics and the launch of the real kernels.
#include <ATen/ATen.h>
#include <ATen/Context.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>
#include <c10/cuda/CUDAStream.h>

#include <cstring>
#include <functional>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "activity.hpp"
#include "memory.hpp"
#include "order.hpp"

namespace null_cuda {
namespace {

using at::Tensor;
using c10::IValue;

/// Bytes from a tensor's first element to its last one, inclusive.
size_t span(const Tensor& tensor) {
  if (tensor.numel() == 0) return 0;
  int64_t last = 0;
  for (int64_t d = 0; d < tensor.dim(); ++d) last += (tensor.size(d) - 1) * tensor.stride(d);
  return size_t(last + 1) * tensor.element_size();
}

/// A name that is never freed.
const char* kept(const std::string& name) {
  static std::mutex mutex;
  static auto* const names = new std::set<std::string>;
  const std::lock_guard lock(mutex);
  return names->insert(name).first->c_str();
}

/// `value` with each of its tensors replaced by change(tensor), also in lists.
void for_each_tensor(IValue& value, const std::function<Tensor(const Tensor&)>& change) {
  if (value.isTensor()) {
    value = change(value.toTensor());
  } else if (value.isTensorList()) {
    std::vector<Tensor> all;
    for (const Tensor& tensor : value.toTensorVector()) all.push_back(change(tensor));
    value = all;
  } else if (value.isOptionalTensorList()) {
    c10::List<std::optional<Tensor>> all;
    for (const std::optional<Tensor>& tensor : value.toOptionalTensorVector())
      all.push_back(tensor ? std::optional(change(*tensor)) : std::nullopt);
    value = all;
  }
}

/// One call of a kernel: arguments become views of the shadow, results become tensors of the device.
class Call {
 public:
  Call(const c10::OperatorHandle& op, torch::jit::Stack& stack)
      : op_(op), stack_(stack), name_(kept(op.schema().operator_name().name)) {}

  void run() {
    const auto& arguments = op_.schema().arguments();
    const size_t first = stack_.size() - arguments.size();
    const bool waits = waits_for_device(first);
    for (size_t i = 0; i < arguments.size(); ++i) {
      const auto* alias = arguments[i].alias_info();
      take(stack_[first + i], alias && alias->isWrite());
    }
    if (has_device_ && has_host_ && !mixes_devices())
      TORCH_CHECK(false, "Expected all tensors to be on the same device, in ", name_);
    if (op_.schema().operator_name() == c10::OperatorName("aten::addmm", "dtype_out"))
      add_widened_product();
    else if (op_.schema().operator_name().name == "aten::_fused_rms_norm_backward")
      differentiate_norm();
    else
      op_.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), &stack_);
    if (waits) {
      host_waits_for_stream(stream());
      wait_for_device();
    }
    for (const Argument& argument : arguments_) copy_resized(argument);
    for (size_t i = stack_.size() - op_.schema().returns().size(); i < stack_.size(); ++i)
      if (has_device_) for_each_tensor(stack_[i], [&](const Tensor& result) { return on_device_again(result); });
  }

 private:
  struct Argument {
    Tensor device, view;
  };

  /// addmm.dtype_out(self, mat1, mat2, out_dtype, beta, alpha, out), which has no kernel for the CPU.
  void add_widened_product() {
    const auto argument = [&](size_t from_end) { return stack_[stack_.size() - from_end]; };
    const at::ScalarType dtype = argument(4).toScalarType();
    const Tensor product = at::mm(argument(6).toTensor().to(dtype), argument(5).toTensor().to(dtype));
    Tensor out = argument(1).toTensor();
    const at::Scalar beta = argument(3).toScalar(), alpha = argument(2).toScalar();
    if (beta.toDouble() == 0)
      out.copy_(product.mul_(alpha));
    else
      out.copy_(argument(7).toTensor().mul(beta).add_(product, alpha));
    torch::jit::drop(stack_, 7);
    stack_.emplace_back(out);
  }

  /// _fused_rms_norm_backward(dy, x, shape, scale, weight, mask), which has no kernel for the CPU. PyTorch's peer calls
  /// it.
  void differentiate_norm() {
    const auto argument = [&](size_t from_end) { return stack_[stack_.size() - from_end]; };
    const Tensor dy = argument(6).toTensor(), x = argument(5).toTensor(), weight = argument(2).toTensor();
    const Tensor normed = x.to(at::kFloat) * argument(3).toTensor(), scaled = dy.to(at::kFloat) * weight;
    const Tensor dx = (scaled - normed * (scaled * normed).mean(-1, /*keepdim=*/true)) * argument(3).toTensor();
    const Tensor dw = (dy.to(at::kFloat) * normed).flatten(0, -2).sum(0);
    torch::jit::drop(stack_, 6);
    stack_.emplace_back(dx.to(x.scalar_type()));
    stack_.emplace_back(dw.to(weight.scalar_type()));
  }

  /// Copies; and AdamW, whose step count may be on the host.
  bool mixes_devices() const {
    const std::string_view name = name_;
    return name == "aten::copy_" || name == "aten::_fused_adamw_";
  }
  /// Operations whose result is on the host or whose shape depends on values, and copies between host and device except
  /// non-blocking ones. `first`: the position of the first argument.
  bool waits_for_device(size_t first) const {
    static const std::set<std::string_view> all{"aten::_local_scalar_dense", "aten::nonzero",  "aten::equal",
                                                "aten::masked_select",       "aten::_unique2", "aten::unique_dim"};
    if (std::string_view(name_) != "aten::copy_") return all.count(name_) > 0;
    const Tensor &to = stack_[first].toTensor(), &from = stack_[first + 1].toTensor();
    if (to.is_cpu() == from.is_cpu()) return false;
    const Tensor& host = to.is_cpu() ? to : from;
    return !stack_[first + 2].toBool() || !is_pinned(host.data_ptr());
  }

  static Stream stream() { return c10::cuda::getCurrentCUDAStream().stream(); }

  void take(IValue& value, bool writes) {
    if (value.isDevice() && value.toDevice().is_cuda()) {
      device_ = value.toDevice();
      has_device_ = true;
      value = c10::Device(at::kCPU);
      return;
    }
    for_each_tensor(value, [&](const Tensor& tensor) { return view(tensor, writes); });
  }

  Tensor view(const Tensor& tensor, bool writes) {
    if (!tensor.defined()) return tensor;
    if (!tensor.is_cuda()) {
      has_host_ = has_host_ || tensor.dim() > 0;
      return tensor;
    }
    has_device_ = true;
    device_ = tensor.device();
    const auto options = tensor.options().device(at::kCPU);
    const Tensor view = tensor.numel() == 0
                            ? at::empty_strided(tensor.sizes(), tensor.strides(), options)
                            : at::from_blob(shadow(tensor.data_ptr()), tensor.sizes(), tensor.strides(), options);
    if (tensor.is_conj()) view._set_conj(true);
    if (tensor.numel() > 0) access(stream(), tensor.data_ptr(), span(tensor), writes, name_);
    arguments_.push_back({tensor, view});
    return view;
  }

  /// An output that the kernel has resized.
  void copy_resized(const Argument& argument) {
    if (argument.view.sizes() == argument.device.sizes()) return;
    argument.device.resize_(argument.view.sizes());
    fill(argument.device, argument.view.contiguous());
  }

  Tensor on_device_again(const Tensor& result) {
    if (!result.defined() || !result.is_cpu() || returns_to_host()) return result;
    for (const Argument& argument : arguments_)
      if (argument.view.is_same(result)) return argument.device;
    const auto options = result.options().device(device_).pinned_memory(false);
    const Tensor made = at::empty_strided(result.sizes(), result.strides(), options);
    fill(made, result);
    return made;
  }
  /// copy_ to a tensor in host memory.
  bool returns_to_host() const { return std::string_view(name_) == "aten::copy_" && stack_.back().toTensor().is_cpu(); }

  void fill(const Tensor& device, const Tensor& values) const {
    if (values.numel() == 0) return;
    std::memcpy(shadow(device.data_ptr()), values.data_ptr(), span(values));
    access(stream(), device.data_ptr(), span(device), true, name_);
  }

  const c10::OperatorHandle& op_;
  torch::jit::Stack& stack_;
  const char* const name_;
  std::vector<Argument> arguments_;
  c10::Device device_{at::kCUDA, 0};
  bool has_device_ = false, has_host_ = false;
};

void run_on_cpu(const c10::OperatorHandle& op, c10::DispatchKeySet, torch::jit::Stack* stack) {
  Call(op, *stack).run();
}

/// Operations on a tensor's storage and shape, which the CUDA build implements itself.
bool is_metadata(const std::string& name) {
  static const std::set<std::string> all{"as_strided",      "as_strided_", "view",           "view_as_real",
                                         "view_as_complex", "unfold",      "_reshape_alias", "set_",
                                         "resize_",         "empty",       "is_pinned",      "empty_strided",
                                         "_pin_memory",     "is_set_to",   "record_stream"};
  return all.count(name) > 0;
}

std::vector<c10::RegistrationHandleRAII> replace_kernels() {
  // Attention by plain operations, each of which has a CPU kernel.
  at::globalContext().setSDPUseFlash(false);
  at::globalContext().setSDPUseMemEfficient(false);
  at::globalContext().setSDPUseCuDNN(false);
  constexpr std::string_view prefix = "aten::";
  std::vector<c10::RegistrationHandleRAII> all;
  auto& dispatcher = c10::Dispatcher::singleton();
  const auto replace = [&](const c10::OperatorName& name) {
    all.push_back(dispatcher.registerImpl(name, c10::DispatchKey::CUDA,
                                          c10::KernelFunction::makeFromBoxedFunction<&run_on_cpu>(), std::nullopt,
                                          nullptr, "null_cuda"));
  };
  for (const c10::OperatorName& name : dispatcher.getRegistrationsForDispatchKey(c10::DispatchKey::CUDA))
    if (name.name.starts_with(prefix) && !is_metadata(name.name.substr(prefix.size()))) replace(name);
  replace({"aten::copy_", ""});
  return all;
}

auto* const replaced = new std::vector<c10::RegistrationHandleRAII>(replace_kernels());

}  // namespace
}  // namespace null_cuda
