#include "memory/meta_device.hpp"

#include <ATen/ATen.h>
#include <c10/core/Allocator.h>
#include <sys/mman.h>
#include <torch/library.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <new>

#include "memory/allocator.hpp"
#include "memory/cached_segments.hpp"

namespace wmtp {
namespace {

c10::DeviceType stands_for = at::kMeta;
std::function<void(double)> counter;
double counted = 0;  // operations

/// Blocks are addresses of a range that cannot be accessed: nobody may read or write a meta tensor.
class MetaAllocator final : public c10::Allocator {
 public:
  MetaAllocator() {
    void* const range = mmap(nullptr, reserved, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (range == MAP_FAILED) throw std::bad_alloc();
    next_ = static_cast<char*>(range);
  }
  c10::DataPtr allocate(size_t size) override {
    if (size == 0) return {nullptr, c10::Device(at::kMeta)};
    void* const block = next_.fetch_add(64);
    if (is_counted(size)) device_block_allocated(block, int64_t(size));
    const bool on_device = stands_for == at::kCUDA && is_counted(std::max(size, smallest_block));
    if (on_device) meta_segments().allocate(block, int64_t(size));
    return {block, block, &device_block_freed_, c10::Device(at::kMeta)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &device_block_freed_; }
  void copy_data(void*, const void*, size_t) const override {}

 private:
  static constexpr size_t reserved = size_t{1} << 40;  // of addresses
  static constexpr size_t smallest_block = 512;        // of a device, also for one number, which is not counted
  static void device_block_freed_(void* block) {
    device_block_freed(block);
    meta_segments().free(block);
  }
  std::atomic<char*> next_;
};

using at::Tensor;

Tensor index_select(const Tensor& x, int64_t dim, const Tensor& index) {
  std::vector<int64_t> shape = x.sizes().vec();
  if (!shape.empty()) shape[size_t(at::maybe_wrap_dim(dim, x.dim()))] = index.numel();
  return at::empty(shape, x.options());
}
Tensor& index_select_out(const Tensor&, int64_t, const Tensor&, Tensor& out) { return out; }

/// Of an operator that writes into its arguments and returns nothing.
void write_nothing(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  torch::jit::drop(*stack, op.schema().arguments().size());
}

/// `value`, in which each meta tensor is a tensor of zeros on the CPU.
c10::IValue with_zeros(const c10::IValue& value) {
  const auto zeros = [](const Tensor& x) {
    return x.defined() && x.is_meta() ? at::zeros(x.sizes(), x.options().device(at::kCPU)) : x;
  };
  if (value.isTensor()) return zeros(value.toTensor());
  if (value.isTensorList()) {
    c10::List<Tensor> list;
    for (const Tensor& x : value.toTensorVector()) list.push_back(zeros(x));
    return list;
  }
  if (value.isList() && !value.isIntList() && !value.isDoubleList() && !value.isBoolList()) {
    c10::List<std::optional<Tensor>> list;
    for (const c10::IValue& one : value.toListRef())
      list.push_back(one.isTensor() ? std::optional(zeros(one.toTensor())) : std::nullopt);
    return list;
  }
  return value;
}

/// Runs an operator without a form for the meta device on zeros, for the shapes of its results. Such operators are
/// called on values of tokens, not on hidden states or logits.
void on_zeros(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const auto& schema = op.schema();
  const size_t count = schema.arguments().size();
  const torch::jit::Stack given(stack->end() - std::ptrdiff_t(count), stack->end());
  torch::jit::drop(*stack, count);
  torch::jit::Stack results;
  {
    const UncountedScope zeros;
    for (const c10::IValue& value : given) results.push_back(with_zeros(value));
    op.callBoxed(&results);
  }
  for (size_t i = 0; i < results.size(); ++i) {
    if (!results[i].isTensor()) {
      stack->push_back(results[i]);
      continue;
    }
    const Tensor& result = results[i].toTensor();
    const c10::AliasInfo* const written = schema.returns()[i].alias_info();
    const auto argument = std::ranges::find_if(schema.arguments(), [&](const c10::Argument& one) {
      return written && one.alias_info() && one.alias_info()->beforeSets() == written->beforeSets();
    });
    if (argument == schema.arguments().end()) {
      stack->push_back(at::empty_strided(result.sizes(), result.strides(), result.options().device(at::kMeta)));
      continue;
    }
    const Tensor& out = given[size_t(argument - schema.arguments().begin())].toTensor();
    if (out.sizes() != result.sizes()) out.resize_(result.sizes());
    stack->push_back(out);
  }
}

/// Gives every operator that the CPU has and the meta device lacks the form on_zeros.
void add_missing_operators() {
  static auto* const library =
      new torch::Library(torch::Library::IMPL, "aten", c10::DispatchKey::Meta, __FILE__, __LINE__);
  for (const c10::OperatorName& name : c10::Dispatcher::singleton().getAllOpNames()) {
    if (name.getNamespace() != "aten") continue;
    const auto op = c10::Dispatcher::singleton().findSchema(name);
    if (!op || !op->hasKernelForDispatchKey(c10::DispatchKey::CPU) ||
        op->hasKernelForDispatchKey(c10::DispatchKey::Meta))
      continue;
    const std::string full = name.name.substr(6) + (name.overload_name.empty() ? "" : "." + name.overload_name);
    library->impl(full.c_str(), torch::CppFunction::makeFromBoxedFunction<&on_zeros>());
  }
}

}  // namespace

// Operators of LibTorch that have no form of their own for the meta device outside Python.
TORCH_LIBRARY_IMPL(aten, Meta, library) {
  library.impl("index_select", index_select);
  library.impl("index_select.out", index_select_out);
  for (const char* name : {"_fused_adamw_", "_fused_sgd_"})
    library.impl(name, torch::CppFunction::makeFromBoxedFunction<&write_nothing>());
}

void install_meta_device(c10::DeviceType device) {
  static auto* const allocator = new MetaAllocator;  // outlives all tensors, even static ones
  stands_for = device;
  count_device_memory(device == at::kCUDA);
  c10::SetAllocator(at::kMeta, allocator, /*priority=*/100);
  static std::once_flag once;
  std::call_once(once, add_missing_operators);
}

c10::DeviceType meta_device_type() { return stands_for; }

OffloadedBytes& offloaded_bytes() {
  static OffloadedBytes bytes;
  return bytes;
}

Tensor host_zeros(int64_t size, at::ScalarType dtype, const at::Device& device) {
  const at::TensorOptions options = at::TensorOptions(dtype);
  if (!device.is_meta()) return at::zeros({size}, options.device(at::kCPU).pinned_memory(device.is_cuda()));
  const UncountedScope outside;
  Tensor zeros = at::zeros({size}, options.device(device));
  offloaded_bytes().held += int64_t(zeros.nbytes());
  return zeros;
}

Tensor copied_to_device(const Tensor& host, const at::TensorOptions& options) {
  if (!host.is_meta()) return host.to(options, /*non_blocking=*/true);
  Tensor copy = at::empty(host.sizes(), options);
  offloaded_bytes().to_device += int64_t(copy.nbytes());
  return copy;
}

Tensor copied_to_host(const Tensor& values) {
  if (!values.is_meta()) return values.to(at::kCPU);
  const UncountedScope outside;
  offloaded_bytes().to_host += int64_t(values.nbytes());
  return at::empty_like(values);
}

void set_operation_counter(std::function<void(double)> count) { counter = std::move(count); }
void count_operations(double operations) {
  counted += operations;
  if (counter) counter(operations);
}

void for_each_part(int64_t count, int64_t size, bool is_meta, const std::function<void(int64_t, int64_t)>& on_part) {
  constexpr int64_t most_run = 64;
  const int64_t parts = (count + size - 1) / size, skipped = is_meta ? std::max<int64_t>(parts - most_run, 0) : 0;
  for (int64_t part = 0; part < parts; ++part) {
    const double before = counted;
    on_part(part * size, std::min(size, count - part * size));
    if (part != 1 || skipped == 0) continue;
    count_operations(double(skipped) * (counted - before));
    part += skipped;
  }
}

}  // namespace wmtp
