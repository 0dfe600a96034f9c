#include "optimizer/torch/update_rules.hpp"

#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/_fused_sgd.h>

#include <vector>

namespace wmtp {
namespace {

using at::Tensor;

/// Loshchilov & Hutter 2019, by LibTorch's fused kernel.
void adamw(const Update& u, const OptimizerConfig& config) {
  at::_fused_adamw_({u.master}, {u.gradient}, {u.exp_avg}, {u.exp_avg_sq}, {}, {u.steps}, u.lr, config.beta1,
                    config.beta2, u.weight_decay, config.eps, /*amsgrad=*/false, /*maximize=*/false);
}

/// Momentum m <- momentum m + gradient (Sutskever et al. 2013, without dampening), by LibTorch's fused kernel.
void sgd(const Update& u, const OptimizerConfig& config) {
  Tensor master = u.master;
  if (u.weight_decay != 0) master.mul_(1 - u.lr * u.weight_decay);
  const std::vector<Tensor> momentum(config.momentum > 0 ? 1 : 0, u.exp_avg);
  at::_fused_sgd_({master}, {u.gradient}, momentum, /*weight_decay=*/0, config.momentum, u.lr, /*dampening=*/0,
                  /*nesterov=*/false, /*maximize=*/false, /*is_first_step=*/false);
}

}  // namespace

UpdateRule update_rule(OptimizerKind kind) {
  switch (kind) {
    case OptimizerKind::adamw:
    case OptimizerKind::muon:
      return adamw;
    case OptimizerKind::sgd:
      return sgd;
  }
  return nullptr;
}

}  // namespace wmtp
