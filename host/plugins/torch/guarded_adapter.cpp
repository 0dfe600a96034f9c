#include "plugins/torch/guarded_adapter.hpp"

#include <c10/util/StringUtil.h>

#include <cmath>

#include "base/error.hpp"
#include "model/torch/block.hpp"
#include "plugins/torch/boundary.hpp"

namespace wmtp {
namespace {

/// Reads no values, so that the check does not wait for a device.
void check_tensor(const std::string& plugin, const char* call, const Linear& layer, const Tensor& found,
                  at::IntArrayRef shape, const at::TensorOptions& like) {
  const auto refuse = [&](const std::string& what, const auto& is, const auto& wanted) {
    throw Error(ExitStatus::plugin, c10::str("plugin ", plugin, ": ", call, "() of ", layer.name, ": returned ", what,
                                             is, ", wanted ", wanted));
  };
  if (!found.defined()) refuse("an undefined tensor", "", c10::str("one of shape ", shape));
  if (found.layout() != at::kStrided) refuse("a tensor of layout ", found.layout(), "a dense one");
  if (found.sizes() != shape) refuse("a tensor of shape ", found.sizes(), shape);
  const at::ScalarType wanted = c10::typeMetaToScalarType(like.dtype());
  if (found.scalar_type() != wanted) refuse("a tensor of type ", found.scalar_type(), wanted);
  if (found.device() != like.device()) refuse("a tensor on ", found.device(), like.device());
}

/// LibTorch counts the writes into a tensor and its views.
void check_unchanged(const std::string& plugin, const char* call, const Linear& layer, const Tensor& given,
                     int64_t writes_before) {
  if (int64_t(given._version()) != writes_before)
    throw Error(ExitStatus::plugin,
                "plugin " + plugin + ": " + call + "() of " + layer.name +
                    ": it wrote into its argument, which the host goes on using; change a clone() of it");
}

void check_param(const std::string& plugin, const Linear& layer, const Param& param) {
  const auto refuse = [&](const std::string& why) {
    throw Error(ExitStatus::plugin,
                "plugin " + plugin + ": declare() of " + layer.name + ": parameter '" + param.name + "' must " + why);
  };
  if (param.shape.size() != 2 || param.shape[0] < 1 || param.shape[1] < 1) refuse("have two dimensions of at least 1");
  if (param.init == Param::Init::row_norms && param.shape != std::vector<int64_t>{1, layer.out})
    refuse("have the shape [1," + std::to_string(layer.out) + "] to hold the norms of the weight's rows");
  const auto check_cut = [&](Cut cut, int64_t size, const char* dimension) {
    const int64_t wanted = cut == Cut::in ? layer.in : layer.out;
    if (cut != Cut::none && size != wanted)
      refuse(std::string("have ") + std::to_string(wanted) + " " + dimension +
             ", because it is sharded like the layer's " + (cut == Cut::in ? "in" : "out") + ", but has " +
             std::to_string(size));
  };
  check_cut(param.rows, param.shape[0], "rows");
  check_cut(param.columns, param.shape[1], "columns");
  if (!(param.lr_scale > 0) || !std::isfinite(param.lr_scale)) refuse("have a finite lr_scale above 0");
}

}  // namespace

GuardedAdapter::GuardedAdapter(std::string plugin, std::unique_ptr<Adapter> adapter)
    : plugin_(std::move(plugin)),
      adapter_(std::move(adapter)),
      linear_(dynamic_cast<const LinearAdapter*>(adapter_.get())) {}

bool GuardedAdapter::trains(const std::string& parameter) const {
  return guarded(plugin_, "trains", [&] { return adapter_->trains(parameter); });
}

void GuardedAdapter::check(const std::vector<Linear>& layers) const try {
  if (linear_) guarded(plugin_, "check", [&] { linear_->check(layers); });
} catch (const OptionError& error) {
  throw Error(ExitStatus::usage, "[adapter] " + error.option() + ": " + error.message());
}

std::vector<Param> GuardedAdapter::declare(const Linear& layer) const {
  if (!linear_) return {};
  std::vector<Param> params = guarded(plugin_, "declare", [&] { return linear_->declare(layer); });
  for (const Param& param : params) check_param(plugin_, layer, param);
  return params;
}

Tensor GuardedAdapter::forward(const Linear& layer, const Tensor& x, LinearCall& call) const {
  const auto writes = int64_t(x._version());
  Tensor y = guarded(plugin_, "forward", [&] { return linear_->forward(layer, x, call); });
  check_unchanged(plugin_, "forward", layer, x, writes);
  std::vector<int64_t> shape = x.sizes().vec();
  shape.back() = layer.out;
  if (const auto* const placed = dynamic_cast<const PlacedCall*>(&call); placed && shape.size() > 2)
    shape[1] = placed->output_positions(shape[1]);
  check_tensor(plugin_, "forward", layer, y, shape, x.options());
  return y;
}

Tensor GuardedAdapter::merged(const Linear& layer, const Tensor& weight, const std::vector<Tensor>& params) const {
  const auto writes = int64_t(weight._version());
  Tensor whole = guarded(plugin_, "merged", [&] { return linear_->merged(layer, weight, params); });
  check_unchanged(plugin_, "merged", layer, weight, writes);
  check_tensor(plugin_, "merged", layer, whole, weight.sizes(), weight.options());
  return whole;
}

}  // namespace wmtp
