// Learning rate of optimizer step s = 1..N: linear warm-up (lr * s / warmup_steps), then constant; or a line or half a
// cosine (or several, each from lr) down to lr * min_lr_ratio at step N (Loshchilov & Hutter 2017); or, for wsd,
// stable_steps at lr, then one of the two to the same value (warmup-stable-decay: Hu et al. 2024, MiniCPM, arXiv
// 2404.06395).
#pragma once

#include "experiment/experiment.hpp"

namespace wmtp {

double learning_rate(const ScheduleConfig& schedule, double lr, int64_t step, int64_t num_steps);

}  // namespace wmtp
