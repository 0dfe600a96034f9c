#include "step/value_loss.hpp"

#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/autograd.h>

#include "plugins/torch/boundary.hpp"
#include "step/step_views.hpp"

namespace wmtp {

using at::Tensor;

std::vector<Tensor> ValueLoss::outputs(const Tensor& trunk, const ForwardContext& context) const {
  const Tensor normed = model_.normed(trunk).to(at::kFloat);
  std::vector<Tensor> outputs;
  for (const ValueHeadModule& head : model_.value_heads()) outputs.push_back(head.forward(normed, context));
  return outputs;
}

Tensor ValueLoss::loss(MicroBatchContext& step, const std::vector<Tensor>& leaves) {
  std::map<std::string, Tensor> by_name;
  for (size_t i = 0; i < leaves.size(); ++i) by_name[model_.value_heads()[i].name()] = leaves[i];
  step.set_values(std::move(by_name));
  step.enter({When::before, 0, step.micro_batch().targets});
  const char* call = pipeline_.objective ? "loss" : "value_loss";
  const Tensor loss = guarded(pipeline_.name, call, [&] {
    ValueView view(step);
    Tensor returned = pipeline_.objective ? pipeline_.objective->loss(view) : pipeline_.weighting->value_loss(view);
    step.leave();
    return returned;
  });
  const bool is_scalar =
      loss.defined() && loss.layout() == at::kStrided && loss.is_floating_point() && loss.numel() == 1;
  if (!is_scalar || (at::GradMode::is_enabled() && !loss.requires_grad()))
    throw Error(ExitStatus::plugin, "pipeline '" + pipeline_.name + "': " + call +
                                        "() must return a scalar that depends on one of its leaves");
  const at::Device device = step.batch().tokens.device();
  if (loss.device() != device)
    throw Error(ExitStatus::plugin, "pipeline '" + pipeline_.name + "': " + call + "() returned a scalar on " +
                                        loss.device().str() + ", wanted " + device.str() + ", the batch's device");
  return loss;
}

void ValueLoss::differentiate(MicroBatchContext& step, const Tensor& trunk, const ForwardContext& context,
                              Tensor& d_trunk) {
  const GatherScope heads(model_.unit("value_heads"));
  const Tensor input = trunk.detach().requires_grad_(true);
  const at::AutoGradMode grad(true);
  const std::vector<Tensor> values = outputs(input, context);
  std::vector<Tensor> leaves;
  for (const Tensor& value : values) leaves.push_back(model_.split().whole(value.detach()).requires_grad_(true));
  const Tensor total = loss(step, leaves);
  step.totals().add_once("loss", total);
  const auto d_leaves = guarded(pipeline_.name, "loss", [&] {  // backward through the plugin's operations
    return torch::autograd::grad({total}, leaves, {}, /*retain_graph=*/std::nullopt, /*create_graph=*/false,
                                 /*allow_unused=*/true);
  });
  std::vector<Tensor> used, d_used;
  for (size_t i = 0; i < leaves.size(); ++i)
    if (d_leaves[i].defined()) {
      used.push_back(values[i]);
      d_used.push_back(model_.split().part(d_leaves[i]) * factor_);
    }
  d_trunk.add_(torch::autograd::grad(used, {input}, d_used)[0]);
}

void ValueLoss::evaluate(MicroBatchContext& step, const Tensor& trunk, const ForwardContext& context) {
  const GatherScope heads(model_.unit("value_heads"));
  const at::AutoGradMode grad(false);
  std::vector<Tensor> values;
  for (const Tensor& value : outputs(trunk, context)) values.push_back(model_.split().whole(value));
  step.totals().add_once("loss", loss(step, values));
}

}  // namespace wmtp
