#include "base/error.hpp"
#include "base/weight_fingerprint.hpp"
#include "checkpoint/base_model.hpp"
#include "checkpoint/saved_state.hpp"
#include "checkpoint/torch/model_files.hpp"
#include "checkpoint/verify.hpp"
#include "comm/torch/single_rank.hpp"
#include "huggingface/initial_weights.hpp"
#include "inference/model_requests.hpp"
#include "memory/caught_error.hpp"
#include "model/torch/precision_dtype.hpp"
#include "plugins/torch/loader.hpp"

namespace wmtp {
namespace {

/// As the run's policy: parts that it does not train are held in its precision.
ShardedModelRequest request_for(const BaseModel& base, const ModelConfig& config, const Adapter& adapter) {
  ShardedModelRequest request;
  request.spec.model = &config;
  request.spec.heads = base.token_heads ? Heads::all : Heads::none;
  request.spec.adapter = &adapter;
  request.spec.trained_parts = {base.last_blocks, base.names};
  request.options.strategy = Strategy::no_shard;
  request.options.param_dtype = precision_dtype(from_name<Precision>(base.precision).value_or(Precision::fp32));
  request.sequence_length = 1;  // only the weights are used
  return request;
}

}  // namespace

void complete_checkpoint(const CompleteRequest& request) try {
  const std::string folder = request.checkpoint.string();
  const Manifest manifest = verify_checkpoint(request.checkpoint);
  const BaseModel base = read_base_model(request.checkpoint);
  const std::unique_ptr<Adapter> adapter = create_adapter(request.plugin.description, request.plugin.options);
  ModelConfig config = read_model_config(request.checkpoint, ModelConfig{});
  config.new_heads = base.new_heads;
  ShardedModelRequest wanted = request_for(base, config, *adapter);
  wanted.spec.value_heads = read_saved_value_heads(request.checkpoint);
  SingleRank rank;
  ShardedModel model(wanted, rank.channels);
  model.initialize(base.seed);
  if (!base.weights.empty()) load_model(base.weights, model);
  const std::string known = saved_state(manifest, folder).base_fingerprint;
  const std::string found = model.adapter_unit() ? fingerprint_text(model.base_fingerprint()) : "";
  if (known != found)
    throw Error(ExitStatus::data, folder + ": it was trained on a model with the fingerprint " + known + ", " +
                                      (base.weights.empty() ? "the seed's" : base.weights + "'s") + " is " + found +
                                      "; its initial weights have changed");
  load_trained(request.checkpoint, model);
  ModelTokenizer tokenizer = read_model_tokenizer(request.checkpoint);
  tokenizer.generation_config_from = request.checkpoint;
  save_model(request.target, manifest.step, manifest.config_hash, model, adapter.get(), tokenizer);
} catch (...) {
  rethrow_from("while a checkpoint was joined with its base model",
               "it takes the whole model in fp32: close other programs that use memory");
}

}  // namespace wmtp
