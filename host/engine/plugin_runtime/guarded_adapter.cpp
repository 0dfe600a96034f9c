#include "engine/plugin_runtime/guarded_adapter.hpp"

#include <c10/util/StringUtil.h>

#include <cmath>

#include "base/error.hpp"
#include "engine/plugin_runtime/boundary.hpp"

namespace wmtp {
namespace {

/// Reads no value, so that the check costs nothing on a device.
void check_tensor(const std::string& plugin, const char* call, const Slot& slot, const Tensor& found,
                  at::IntArrayRef shape, const at::TensorOptions& like) {
  const auto refuse = [&](const std::string& what, const auto& is, const auto& wanted) {
    throw Error(ExitStatus::plugin, c10::str("plugin ", plugin, ": ", call, "() of ", slot.name, ": returned ", what,
                                             is, ", wanted ", wanted));
  };
  if (!found.defined()) refuse("an undefined tensor", "", c10::str("one of shape ", shape));
  if (found.layout() != at::kStrided) refuse("a tensor of layout ", found.layout(), "a dense one");
  if (found.sizes() != shape) refuse("a tensor of shape ", found.sizes(), shape);
  const at::ScalarType wanted = c10::typeMetaToScalarType(like.dtype());
  if (found.scalar_type() != wanted) refuse("a tensor of type ", found.scalar_type(), wanted);
  if (found.device() != like.device()) refuse("a tensor on ", found.device(), like.device());
}

void check_param(const std::string& plugin, const Slot& slot, const Param& param) {
  const auto refuse = [&](const std::string& why) {
    throw Error(ExitStatus::plugin,
                "plugin " + plugin + ": declare() of " + slot.name + ": parameter '" + param.name + "' must " + why);
  };
  if (param.shape.size() != 2 || param.shape[0] < 1 || param.shape[1] < 1) refuse("have two dimensions of at least 1");
  if (param.init == Param::Init::row_norms && param.shape != std::vector<int64_t>{1, slot.out})
    refuse("have the shape [1," + std::to_string(slot.out) + "] to hold the norms of the weight's rows");
  if (!(param.lr_scale > 0) || !std::isfinite(param.lr_scale)) refuse("have a finite lr_scale above 0");
}

}  // namespace

GuardedAdapter::GuardedAdapter(std::string plugin, std::unique_ptr<Adapter> adapter)
    : plugin_(std::move(plugin)), adapter_(std::move(adapter)) {}

bool GuardedAdapter::trains(const std::string& parameter) const {
  return guarded(plugin_, "trains", [&] { return adapter_->trains(parameter); });
}

std::vector<Param> GuardedAdapter::declare(const Slot& slot) const {
  std::vector<Param> params = guarded(plugin_, "declare", [&] { return adapter_->declare(slot); });
  for (const Param& param : params) check_param(plugin_, slot, param);
  return params;
}

Tensor GuardedAdapter::forward(const Slot& slot, const Tensor& x, Call& call) const {
  Tensor y = guarded(plugin_, "forward", [&] { return adapter_->forward(slot, x, call); });
  std::vector<int64_t> shape = x.sizes().vec();
  shape.back() = slot.out;
  check_tensor(plugin_, "forward", slot, y, shape, x.options());
  return y;
}

Tensor GuardedAdapter::merged(const Slot& slot, const Tensor& weight, const std::vector<Tensor>& params) const {
  Tensor whole = guarded(plugin_, "merged", [&] { return adapter_->merged(slot, weight, params); });
  check_tensor(plugin_, "merged", slot, whole, weight.sizes(), weight.options());
  return whole;
}

}  // namespace wmtp
