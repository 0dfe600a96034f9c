// Whether the state of a plugin is equal on all ranks, as it must be: a checkpoint holds that of rank 0.
#pragma once

#include <ATen/ATen.h>

#include <map>
#include <string>

#include "comm/torch/channels.hpp"

namespace wmtp {

/// Error(plugin) on every rank, with the pipeline, the state and the ranks, if a state differs from rank 0's. [all
/// ranks, collective]
void check_equal_states(const std::string& pipeline, const std::map<std::string, at::Tensor>& pipeline_state,
                        Channels& channels);

}  // namespace wmtp
