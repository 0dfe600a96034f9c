// The rate at which an operation runs, measured in a few rounds.
#pragma once

#include <functional>

namespace wmtp {

/// Operations per second: the best of a few rounds, in 6 ms or more. `launch` starts `operations` and may return before
/// they are done; `wait` returns when all are. A round launches so often that it lasts much longer than a wait, so that
/// the device is measured and not the launch latency.
double best_rate(double operations, const std::function<void()>& launch, const std::function<void()>& wait);

}  // namespace wmtp
