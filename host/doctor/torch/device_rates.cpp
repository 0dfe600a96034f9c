// device_rates() (device_check.hpp). Operands are random: a device multiplies constants faster, because they cost it
// less power.
#include "base/best_rate.hpp"
#include "base/text.hpp"
#include "comm/torch/cuda_backend.hpp"
#include "doctor/torch/device_check.hpp"
#include "job/device_peak.hpp"
#include "model/torch/dropout.hpp"
#include "model/torch/ops.hpp"
#include "model/torch/row_ops.hpp"

namespace wmtp {
namespace {

using at::Tensor;
using at::TensorOptions;
using Tensors = std::vector<Tensor>;

/// Waits for the device.
void wait_for(const Tensor& x) { x.flatten().select(0, 0).item(); }

/// "3.14", "3140"
std::string digits(double number) { return printed(number < 100 ? "%.3g" : "%.0f", number); }

/// Operations per second of the largest measured product; sizes double until one takes a millisecond.
double product_rate(const at::Device& device, at::ScalarType dtype) {
  for (int64_t size = 1024;; size *= 2) {
    const Tensor x = at::randn({size, size}, TensorOptions(dtype).device(device));
    Tensor last;
    const double operations_of_one = 2.0 * double(size) * double(size) * double(size);
    const double rate = best_rate(
        operations_of_one, [&] { last = at::mm(x, x); }, [&] { wait_for(last); });
    if (size == 16384 || operations_of_one / rate > 1e-3) return rate;
  }
}

std::string product_rates(const at::Device& device) {
  std::string text;
  for (const auto& [precision, dtype] : {std::pair{Precision::bf16, at::kBFloat16}, {Precision::fp32, at::kFloat}}) {
    const double rate = product_rate(device, dtype),
                 peak = stated_peak(cuda_backend().current_device().name, precision);
    text += (text.empty() ? "" : ", ") + std::string(to_string(precision)) + " products " + digits(rate / 1e12) +
            " TFLOP/s";
    if (peak > 0) text += printed(" (%.0f%% of the specified peak)", 100 * rate / peak);
  }
  return text;
}

/// Bytes per second of copies; sizes double until one takes a millisecond.
double copy_rate(const Tensor& to, const Tensor& from, const Tensor& on_device) {
  for (int64_t bytes = int64_t{16} << 20;; bytes *= 2) {
    const double rate = best_rate(
        double(bytes), [&] { to.narrow(0, 0, bytes).copy_(from.narrow(0, 0, bytes), /*non_blocking=*/true); },
        [&] { wait_for(on_device); });
    if (2 * bytes > to.numel() || double(bytes) / rate > 1e-3) return rate;
  }
}

std::string copy_rates(const at::Device& device) {
  constexpr int64_t bytes = int64_t{256} << 20;
  const TensorOptions options(at::kByte);
  const Tensor host = at::zeros({bytes}, options.pinned_memory(true)),
               there = at::zeros({bytes}, options.device(device));
  const Tensor other = at::empty_like(there);
  const auto text = [&](const Tensor& to, const Tensor& from) {
    return digits(copy_rate(to, from, there) / 1e9) + " GB/s";
  };
  return "host to device " + text(there, host) + ", device to host " + text(host, there) + ", on device " +
         text(other, there);
}

/// A launch of a kernel with inputs that are already there.
struct Work {
  Tensors inputs;
  std::function<Tensors()> launch;  ///< returns the outputs
};
/// One of a kernel's directions.
struct Direction {
  const char* name;
  Work (*work)(int64_t rows, const TensorOptions& options);
  int64_t width;  ///< of a row of the largest tensor
};

// Widths of a model with a billion parameters.
constexpr int64_t width = 2048, ffn_width = 5632, vocabulary = 32000;
constexpr int64_t heads = 16, head_width = 128, positions = 2048, parts = 8;

/// Reads x, writes a copy: what a kernel that does nothing else can reach.
Work copy(int64_t rows, const TensorOptions& options) {
  const Tensor x = at::randn({rows, width}, options);
  return {{x}, [=] { return Tensors{x.clone()}; }};
}

/// Reads x and the weight, writes y and the scale of each row.
Work norm(int64_t rows, const TensorOptions& options) {
  const Tensor x = at::randn({rows, width}, options), weight = at::randn({width}, options);
  return {{x, weight}, [=] {
            const Normed normed = normed_rows(x, weight, 1e-5);
            return Tensors{normed.y, normed.scale};
          }};
}

/// Reads dy, x, the weight and the scales, writes dx and dw; the sums of which dw consists come on top.
Work norm_backward(int64_t rows, const TensorOptions& options) {
  const Tensor x = at::randn({rows, width}, options), weight = at::randn({width}, options);
  const Tensor dy = at::randn({rows, width}, options), scale = normed_rows(x, weight, 1e-5).scale;
  return {{dy, x, weight, scale}, [=] {
            const auto [dx, dw] = normed_rows_backward(dy, x, weight, scale, /*wants_dw=*/true);
            return Tensors{dx, dw};
          }};
}

/// Reads gate and up, writes y.
Work swiglu(int64_t rows, const TensorOptions& options) {
  const Tensor gate = at::randn({rows, ffn_width}, options), up = at::randn({rows, ffn_width}, options);
  return {{gate, up}, [=] { return Tensors{swiglu_rows(gate, up)}; }};
}

/// Reads dy, gate and up, writes their two gradients.
Work swiglu_backward(int64_t rows, const TensorOptions& options) {
  const Tensor gate = at::randn({rows, ffn_width}, options), up = at::randn({rows, ffn_width}, options);
  const Tensor dy = at::randn({rows, ffn_width}, options);
  return {{dy, gate, up}, [=] {
            const auto [d_gate, d_up] = swiglu_rows_backward(dy, gate, up);
            return Tensors{d_gate, d_up};
          }};
}

/// Reads x and the angles of each position, writes y.
Work rotation(int64_t rows, const TensorOptions& options) {
  const int64_t length = std::min(rows, positions);
  const Tensor x = at::randn({rows / length, length, heads, head_width}, options);
  const Tensor table = rotary_table(length, head_width, 1e4, options.device());
  return {{x, table}, [=] { return Tensors{rotated(x, table, 1)}; }};
}

/// Reads logits and targets, writes the loss of each row and the logarithm of its sum.
Work cross_entropies(int64_t rows, const TensorOptions& options) {
  const Tensor logits = at::randn({rows, vocabulary}, options);
  const Tensor targets = at::randint(vocabulary, {rows}, options.dtype(at::kLong));
  return {{logits, targets}, [=] {
            const ScoredLogits scored = cross_entropy(logits, targets, {});
            return Tensors{scored.scores.losses, scored.log_sum};
          }};
}

/// Reads logits, targets and two numbers of each row, writes the gradient over the logits. The next launch reads that
/// gradient, so after a few launches the elements of a row are equal; copying the logits back would cost as much as the
/// kernel.
Work cross_entropies_backward(int64_t rows, const TensorOptions& options) {
  const Tensor logits = at::randn({rows, vocabulary}, options);
  const Tensor targets = at::randint(vocabulary, {rows}, options.dtype(at::kLong));
  const Tensor log_sum = cross_entropy(logits, targets, {}).log_sum, coefficients = at::rand_like(log_sum);
  return {{logits, targets, log_sum, coefficients},
          [=] { return Tensors{cross_entropy_gradient(logits, targets, log_sum, coefficients)}; }};
}

/// Reads the parts, writes their sum in fp32.
Work sum(int64_t rows, const TensorOptions& options) {
  const Tensor all = at::randn({parts, rows * width}, options);
  return {{all}, [=] {
            Tensor total = at::empty({rows * width}, options.dtype(at::kFloat));
            sum_of_parts(all, total);
            return Tensors{total};
          }};
}

/// Writes the factors.
Work dropout(int64_t rows, const TensorOptions& options) {
  const Tensor like = at::empty({1, rows, width}, options);
  const DropoutKey key{/*layer=*/7, /*step=*/5, at::zeros({1}, options.dtype(at::kLong))};
  return {{key.sequence}, [=] { return Tensors{dropout_factors(like, 0.1, key)}; }};
}

double tensor_bytes(const Tensors& tensors) {
  double bytes = 0;
  for (const Tensor& tensor : tensors) bytes += double(tensor.nbytes());
  return bytes;
}

/// Bytes per second. Rows double until a launch takes a millisecond, in which every GPU moves many times the size of
/// its L2 cache: no launch finds there what the one before left. A tensor takes up to an eighth of the free memory.
double moved_bytes_per_second(const Direction& direction, const at::Device& device) {
  const TensorOptions options = TensorOptions(at::kBFloat16).device(device);
  const int64_t most_rows = cuda_backend().current_device().free_bytes / 8 / (2 * direction.width);
  for (int64_t rows = std::max<int64_t>(1, (int64_t{1} << 19) / direction.width);; rows *= 2) {
    const Work work = direction.work(rows, options);
    Tensors outputs = work.launch();
    const double bytes = tensor_bytes(work.inputs) + tensor_bytes(outputs);
    const double rate = best_rate(
        bytes, [&] { outputs = work.launch(); }, [&] { wait_for(outputs[0]); });
    if (2 * rows > most_rows || bytes / rate > 1e-3) return rate;
  }
}

std::string kernel_rates(const std::vector<Direction>& directions, const at::Device& device) {
  static const double of_copy = moved_bytes_per_second({"", copy, width}, device);
  std::string rates, shares;
  for (const Direction& direction : directions) {
    const double rate = moved_bytes_per_second(direction, device);
    const std::string comma = rates.empty() ? "" : ", ";
    rates += comma + direction.name + digits(rate / 1e9) + " GB/s";
    shares += comma + printed("%.0f%%", 100 * rate / of_copy);
  }
  return rates + " (" + shares + " of a copy on the device)";
}

DeviceRate of_kernel(const std::string& name, const std::vector<Direction>& directions) {
  return {name + " speed", [directions](const at::Device& device) { return kernel_rates(directions, device); }};
}

}  // namespace

const std::vector<DeviceRate>& device_rates() {
  static const std::vector<DeviceRate> all{
      {"speed", product_rates},
      {"copies", copy_rates},
      of_kernel("norm", {{"forward ", norm, width}, {"backward ", norm_backward, width}}),
      of_kernel("SwiGLU", {{"forward ", swiglu, ffn_width}, {"backward ", swiglu_backward, ffn_width}}),
      of_kernel("rotation", {{"", rotation, heads * head_width}}),
      of_kernel("cross entropy",
                {{"forward ", cross_entropies, vocabulary}, {"backward ", cross_entropies_backward, vocabulary}}),
      of_kernel("dropout", {{"", dropout, width}}),
      of_kernel("sum of parts", {{"", sum, parts * width}})};
  return all;
}

}  // namespace wmtp
