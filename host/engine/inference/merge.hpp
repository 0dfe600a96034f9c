// Merging an adapter into its base model.
#pragma once

#include "core/job/engine_requests.hpp"

namespace wmtp {

/// Writes the request's target, a folder like a run's model/, with the base's tokenizer. Holds the whole model in fp32.
/// Error(data) when either folder is damaged, or the adapter is of another base, plugin or shape; Error(storage).
void merge_adapter(const MergeRequest& request);

}  // namespace wmtp
