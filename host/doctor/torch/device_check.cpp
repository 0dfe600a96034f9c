#include "doctor/torch/device_check.hpp"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/_fused_sdp_choice.h>
#include <c10/util/Exception.h>
#include <torch/csrc/autograd/autograd.h>

#include <cmath>
#include <functional>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include "base/text.hpp"
#include "comm/torch/cuda_backend.hpp"
#include "model/torch/attention.hpp"
#include "model/torch/dropout.hpp"
#include "model/torch/matrix_product.hpp"
#include "model/torch/ops.hpp"
#include "model/torch/row_ops.hpp"

namespace wmtp {
namespace {

using at::Tensor;
using Tensors = std::vector<Tensor>;

constexpr int64_t rows = 256, width = 512, elements = rows * width;

/// Of a matrix of about `elements`.
int64_t rows_at(int64_t of_width) { return elements / of_width; }

/// Produces the same numbers on every device, drawn on the CPU.
class Numbers {
 public:
  Numbers(at::Device device, at::ScalarType dtype) : device_(device), dtype_(dtype) {}

  Tensor operator()(at::IntArrayRef shape, double scale = 1) {
    const Tensor drawn = at::randn(shape, generator_, at::TensorOptions(at::kFloat)).mul_(scale);
    return drawn.to(dtype_).to(device_);
  }
  Tensor indices(int64_t count, int64_t below) { return at::randint(below, {count}, generator_).to(device_); }
  at::Device device() const { return device_; }

 private:
  at::Device device_;
  at::ScalarType dtype_;
  at::Generator generator_ = at::make_generator<at::CPUGeneratorImpl>(1);
};

/// Computed at each of the widths, which select all variants of our kernels: with and without whole packs, with 1, 2
/// and 4 packs per thread, and widths that do not occupy whole warps.
struct Operation {
  const char* name;
  std::function<Tensors(Numbers&, int64_t width)> compute;
  std::vector<int64_t> widths = {width};
};

/// The first width has so many rows that blocks of the backward kernel compute several; at 333, ATen computes.
Tensors norm(Numbers& numbers, int64_t width) {
  const int64_t rows = rows_at(width);
  const Tensor x = numbers({rows, width}), weight = numbers({width}), dy = numbers({rows, width});
  const Normed normed = normed_rows(x, weight, 1e-5);
  const auto [dx, dw] = normed_rows_backward(dy, x, weight, normed.scale, /*wants_dw=*/true);
  const Tensor dx_only = normed_rows_backward(dy, x, weight, normed.scale, /*wants_dw=*/false).first;
  return {normed.y, normed.scale, dx, dx_only, dw / double(rows)};
}

Tensors swiglu_both_ways(Numbers& numbers, int64_t width) {
  const int64_t rows = rows_at(width);
  const Tensor gate = numbers({rows, width}), up = numbers({rows, width}), dy = numbers({rows, width});
  const auto [d_gate, d_up] = swiglu_rows_backward(dy, gate, up);
  return {swiglu_rows(gate, up), d_gate, d_up};
}

Tensors rotation(Numbers& numbers, int64_t width) {
  const Tensor x = numbers({2, 128, 4, width}), table = rotary_table(128, width, 1e4, numbers.device());
  return {rotated(x, table, 1), rotated(x, table, -1)};
}

Tensors cross_entropies(Numbers& numbers, int64_t vocabulary) {
  const int64_t rows = rows_at(vocabulary);
  const Tensor logits = numbers({rows, vocabulary}, 3), targets = numbers.indices(rows, vocabulary);
  const ScoredLogits scored = cross_entropy(logits, targets, {.entropies = true, .hits = true});
  const Tensor coefficients = at::ones({rows}, logits.options().dtype(at::kFloat));
  return {scored.scores.losses, scored.scores.entropies, scored.scores.hits,
          cross_entropy_gradient(logits.clone(), targets, scored.log_sum, coefficients)};
}

Tensors products(Numbers& numbers, int64_t) {
  const Tensor x = numbers({rows, width}), weight = numbers({width, width}, 0.05), dy = numbers({rows, width}, 0.05);
  Tensor gradient = at::ones({width, width}, x.options().dtype(at::kFloat));
  const Tensor dw = product(dy.t().to(at::kFloat), x.to(at::kFloat));
  if (x.is_cuda())
    product_into(gradient, dy.t(), x, /*add=*/true);
  else
    gradient.add_(dw);
  return {product_with_rows(x, weight), gradient};
}

/// Within a window, if it is not 0.
Tensors attention(Numbers& numbers, int64_t window, const Documents& documents) {
  const auto leaf = [&](int64_t heads) { return numbers({2, 128, heads, 64}).requires_grad_(true); };
  const Tensor query = leaf(4), key = leaf(2), value = leaf(2), d_out = numbers({2, 128, 256});
  const at::AutoGradMode grad(true);
  const Tensor out = causal_attention(query, key, value, window, documents);
  Tensors all = torch::autograd::grad({out}, {query, key, value}, {d_out});
  all.push_back(out.detach());
  return all;
}

Tensors attention_of_sequences(Numbers& numbers, int64_t window) { return attention(numbers, window, {}); }

/// Of 70 and 58 positions and of a whole row.
Tensors attention_of_documents(Numbers& numbers, int64_t window) {
  const at::TensorOptions ints = at::TensorOptions(at::kInt).device(numbers.device());
  const Tensor begins = at::zeros({2, 128}, ints);
  begins[0].narrow(0, 70, 58).fill_(70);
  return attention(numbers, window, {begins, at::tensor({0, 70, 128, 256}, at::kInt).to(numbers.device())});
}

/// The second draw begins within a block of four elements.
Tensors dropout(Numbers& numbers, int64_t width) {
  const Tensor sequences = numbers.indices(rows, rows), x = numbers({rows, width});
  return {dropout_factors(x, 0.3, {/*layer=*/7, /*step=*/5, sequences}),
          dropout_factors(x, 0.3, {/*layer=*/7, /*step=*/5, sequences, /*first_position=*/3})};
}

/// Many rows of a few ids: an atomic sum would show.
Tensors embedding_gradient(Numbers& numbers, int64_t) {
  const Tensor ids = numbers.indices(16 * rows, 7), values = numbers({16 * rows, 64}).to(at::kFloat);
  return {at::zeros({7, 64}, values.options()).index_add_(0, ids, values) / double(rows)};
}

Tensors adamw(Numbers& numbers, int64_t) {
  const Tensor master = numbers({rows, width}).to(at::kFloat), gradient = numbers({rows, width}).to(at::kFloat);
  const Tensor mean = at::zeros_like(master), square = at::zeros_like(master), steps = at::ones({}, master.options());
  at::_fused_adamw_({master}, {gradient}, {mean}, {square}, {}, {steps}, 1e-3, 0.9, 0.95, 0.1, 1e-8,
                    /*amsgrad=*/false, /*maximize=*/false);
  return {master, mean, square, at::stack(at::_foreach_norm({gradient, master}, 2, at::kDouble)) / double(width)};
}

/// The gradients that ranks send each other.
Tensors sum_of_ranks(Numbers& numbers, int64_t width) {
  const int64_t count = rows_at(width) * width;
  const Tensor parts = numbers({5, count});
  Tensor sum = at::empty({count}, parts.options().dtype(at::kFloat));
  sum_of_parts(parts, sum);
  return {sum};
}

// 131 rows of 999 are an odd number of elements.
const std::vector<Operation> operations{{"norm", norm, {200, 333, 1000, 2000, 3000, 5000}},
                                        {"SwiGLU", swiglu_both_ways, {512, 999}},
                                        {"rotation", rotation, {64, 34}},
                                        {"cross entropy", cross_entropies, {1000, 6000, 5003}},
                                        {"products", products},
                                        {"attention", attention_of_sequences, {0, 48}},
                                        {"documents", attention_of_documents, {0, 48}},
                                        {"dropout", dropout, {512, 511}},
                                        {"embedding gradient", embedding_gradient},
                                        {"AdamW", adamw},
                                        {"sum of parts", sum_of_ranks, {512, 999}}};

/// The largest difference, relative for numbers above 1; NaN if one is.
double difference(const Tensors& found, const Tensors& wanted) {
  double largest = 0;
  for (size_t i = 0; i < found.size(); ++i) {
    const Tensor a = found[i].cpu().to(at::kDouble), b = wanted[i].to(at::kDouble);
    const double off = ((a - b).abs() / b.abs().clamp_min(1)).max().item<double>();
    if (std::isnan(off)) return off;
    largest = std::max(largest, off);
  }
  return largest;
}

bool same_bits(const Tensors& a, const Tensors& b) {
  for (size_t i = 0; i < a.size(); ++i)
    if (!a[i].equal(b[i])) return false;
  return true;
}

/// One unit in the last place of the dtype, plus a few roundings in sums before it.
double tolerance(at::ScalarType dtype) { return dtype == at::kFloat ? 1e-4 : dtype == at::kHalf ? 4e-3 : 3e-2; }

/// Each dtype's difference from the CPU, and whether repeating gives the same bits:
/// "fp32 2e-07, bf16 8e-03, fp16 1e-03 from the CPU; bitwise identical when repeated".
DeviceCheck check_operation(const Operation& operation, const at::Device& device) {
  DeviceCheck check{operation.name, true, ""};
  const auto computed = [&](const at::Device& on, at::ScalarType dtype) {
    Numbers numbers(on, dtype);
    Tensors all;
    for (const int64_t width : operation.widths)
      for (Tensor& one : operation.compute(numbers, width)) all.push_back(std::move(one));
    return all;
  };
  bool repeats = true;
  for (const auto& [name, dtype] : {std::pair{"fp32", at::kFloat}, {"bf16", at::kBFloat16}, {"fp16", at::kHalf}}) {
    const Tensors found = computed(device, dtype);
    const double off = difference(found, computed(at::kCPU, dtype));
    repeats = repeats && same_bits(found, computed(device, dtype));
    check.good = check.good && off <= tolerance(dtype);
    check.text += (check.text.empty() ? "" : ", ") + std::string(name) + printed(" %.0e", off);
  }
  check.good = check.good && repeats;
  check.text +=
      std::string(" from the CPU; ") + (repeats ? "bitwise identical when repeated" : "different bits when repeated");
  return check;
}

DeviceCheck describe_device() {
  const CudaDevice device = cuda_backend().current_device();
  return {"device", true,
          device.name + ", compute capability " + std::to_string(device.major) + "." + std::to_string(device.minor) +
              ", " + human_bytes(device.free_bytes) + " of " + human_bytes(device.total_bytes) + " free"};
}

/// As in training: bf16 with heads of 128 features.
DeviceCheck check_attention(const at::Device& device) {
  const Tensor x = at::zeros({1, 8, 256, 128}, at::TensorOptions(at::kBFloat16).device(device));
  static const std::vector<std::string> names{"plain operations", "flash attention", "memory-efficient attention",
                                              "cuDNN"};
  const int64_t choice = at::_fused_sdp_choice(x, x, x, {}, 0.0, /*is_causal=*/true);
  return {"attention by", true,
          choice >= 0 && choice < int64_t(names.size()) ? names[size_t(choice)] : "another kernel"};
}

DeviceCheck check_full_device(const at::Device& device) {
  const int64_t too_much = 2 * cuda_backend().current_device().total_bytes;
  try {
    at::empty({too_much}, at::TensorOptions(at::kByte).device(device));
    return {"full device", false, "allocating twice its memory succeeded"};
  } catch (const c10::OutOfMemoryError&) {
    at::ones({1 << 20}, at::TensorOptions(at::kByte).device(device)).select(0, 0).item();  // waits for the device
    return {"full device", true, "over-allocation fails cleanly and smaller allocations then succeed"};
  }
}

DeviceCheck check_nccl(const at::Device& device) {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  const auto backend = cuda_backend().nccl(store, /*rank=*/0, /*size=*/1, std::chrono::seconds(60));
  Tensor in = at::arange(1 << 16, at::TensorOptions(at::kFloat).device(device)), out = at::zeros_like(in);
  backend->_allgather_base(out, in)->wait();
  const bool good = out.equal(in);
  backend->abort();
  return {"NCCL", good, good ? "all-gather with one rank works" : "all-gather with one rank returns wrong numbers"};
}

/// A failure becomes a finding, so that the other checks still run.
void add(std::vector<DeviceCheck>& checks, const std::string& what, const std::function<DeviceCheck()>& check) {
  try {
    checks.push_back(check());
  } catch (const c10::Error& error) {
    checks.push_back({what, false, first_line(error.what_without_backtrace())});
  } catch (const std::exception& error) {
    checks.push_back({what, false, error.what()});
  }
}

}  // namespace

std::vector<DeviceCheck> check_device() {
  const at::Device device = first_cuda_device();
  std::vector<DeviceCheck> checks;
  add(checks, "device", describe_device);
  for (const Operation& operation : operations)
    add(checks, operation.name, [&] { return check_operation(operation, device); });
  add(checks, "attention by", [&] { return check_attention(device); });
  for (const DeviceRate& rate : device_rates())
    add(checks, rate.what, [&] { return DeviceCheck{rate.what, true, rate.text(device)}; });
  add(checks, "full device", [&] { return check_full_device(device); });
  add(checks, "NCCL", [&] { return check_nccl(device); });
  return checks;
}

}  // namespace wmtp
